"""A bundle with hand-made microcode that fetches weights: two layers, once one by one, once overlapped, once serial."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from tests.board import programs

from deuteron.board.bundle import Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.npu.neutron.kernels.catalogue import FULLY_CONNECTED
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators.kernel_params import FullyConnectedParams
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.regions import Region
from deuteron.operators.transfers import Fetch, Transfer, Wait

ROWS = 64
FEATURES = 64
TENSOR_BYTES = ROWS * FEATURES

FETCHED_BYTES = FEATURES * FEATURES + 4 * FEATURES + 8 * FEATURES
"""Weights, bias and requantization rows of the second layer: what is fetched."""

FETCHES = 4
"""Number of fetches, one per channel: two halves of the weights, bias, rows."""


@dataclass(frozen=True, slots=True)
class Place:
    region: Region
    index: int
    offset: int


@dataclass(frozen=True, slots=True)
class Planned:
    placements: Mapping[str, Place]
    weights: bytes
    scratch_bytes: int = 0
    prefetch_bytes: int = 0
    transfers: Mapping[int, tuple[Transfer, ...]] = field(default_factory=dict[int, tuple[Transfer, ...]])
    resident_bytes: int = 0
    ends: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Layer:
    """A fully connected layer of FEATURES by FEATURES."""

    weights: bytes
    bias: bytes
    requant: bytes

    @classmethod
    def random(cls, rng: np.random.Generator) -> "Layer":
        weights = rng.integers(-128, 128, (FEATURES, FEATURES), np.int8)
        bias = rng.integers(-1000, 1000, FEATURES, np.int32)
        rows = np.stack((rng.integers(1 << 20, 1 << 22, FEATURES), np.full(FEATURES, 31)), 1).astype("<u4")
        return cls(weights.tobytes(), bias.tobytes(), rows.tobytes())

    @property
    def image(self) -> bytes:
        return self.weights + self.bias + self.requant

    def buffers(self, name: str) -> tuple[Buffer, ...]:
        parts = {"weights": self.weights, "bias": self.bias, "requant": self.requant}
        return tuple(Buffer(f"{name}.{part}", len(data), data) for part, data in parts.items())

    def places(self, name: str, region: Region, start: int) -> dict[str, Place]:
        offsets = (0, len(self.weights), len(self.weights) + len(self.bias))
        parts = ("weights", "bias", "requant")
        return {f"{name}.{part}": Place(region, 0, start + at) for part, at in zip(parts, offsets, strict=True)}


def _call(layer: str, source: str, target: str) -> KernelCall:
    sizes = {"weights": FEATURES * FEATURES, "bias": 4 * FEATURES, "requant": 8 * FEATURES}
    constants = tuple(Ref(f"{layer}.{part}", 0, size) for part, size in sizes.items())
    operands = (Ref(source, 0, TENSOR_BYTES), *constants, Ref(target, 0, TENSOR_BYTES))
    params = FullyConnectedParams(ROWS, FEATURES, FEATURES, FEATURES, 3, -5, -128, 127)
    return KernelCall(FULLY_CONNECTED, operands, params, ())


def single(layer: Layer) -> Container:
    """One layer, its weights in the weights block."""
    buffers = (Buffer("x", TENSOR_BYTES), Buffer("y", TENSOR_BYTES), *layer.buffers("a"))
    program = Program(buffers, ("x",), ("y",), (_call("a", "x", "y"),))
    ends = {"x": Place(Region.INPUT, 0, 0), "y": Place(Region.OUTPUT, 0, 0)}
    return encode(program, Planned(ends | layer.places("a", Region.WEIGHTS, 0), layer.image))


def double(
    first: Layer, second: Layer, *, overlapped: bool, prefetch_bytes: int = FETCHED_BYTES, to_scratch: bool = False
) -> Container:
    """Two layers; the second one's weights are fetched before the first, and waited for after it or at once.

    They go to the prefetch area, or behind the tensors in scratch.
    """
    names = [Buffer(name, TENSOR_BYTES) for name in ("x", "h", "y")]
    program = Program(
        (*names, *first.buffers("a"), *second.buffers("b")),
        ("x",),
        ("y",),
        (_call("a", "x", "h"), _call("b", "h", "y")),
    )
    ends = {"x": Place(Region.INPUT, 0, 0), "h": Place(Region.SCRATCH, 0, 0), "y": Place(Region.OUTPUT, 0, 0)}
    region, at = (Region.SCRATCH, TENSOR_BYTES) if to_scratch else (Region.PREFETCH, 0)
    prefetch_bytes = 0 if to_scratch else prefetch_bytes
    places = ends | first.places("a", Region.WEIGHTS, 0) | second.places("b", region, at)
    half, whole = FEATURES * FEATURES // 2, FEATURES * FEATURES
    parts = ((0, half), (half, half), (whole, 4 * FEATURES), (whole + 4 * FEATURES, 8 * FEATURES))
    start = len(first.image)
    fetches = tuple(
        Fetch(channel, start + part, at + part, size, region=region) for channel, (part, size) in enumerate(parts)
    )
    waits = tuple(Wait(channel) for channel in range(FETCHES))
    transfers = {0: fetches, 1: waits} if overlapped else {0: (*fetches, *waits)}
    scratch_bytes = TENSOR_BYTES + (FETCHED_BYTES if to_scratch else 0)
    container = encode(program, Planned(places, first.image + second.image, scratch_bytes, prefetch_bytes, transfers))
    assert decode(container).header.prefetch_bytes == prefetch_bytes
    return container


def bundle(rng: np.random.Generator) -> Bundle:
    """The program: x through each layer; x through both, overlapped in scratch; x through both, serial. Outputs: 3."""
    first, second = Layer.random(rng), Layer.random(rng)
    containers = (
        single(first),
        single(second),
        double(first, second, overlapped=True, to_scratch=True),
        double(first, second, overlapped=False),
    )
    tensors = ("x", "h", "one by one", "overlapped", "serial")
    shape, order = (ROWS, FEATURES), (0, 1)
    values = tuple(
        Value(0, at * TENSOR_BYTES, TENSOR_BYTES, ElementType.S8, shape, order, note) for at, note in enumerate(tensors)
    )
    ends = ((0, 1), (1, 2), (0, 3), (0, 4))
    steps = tuple(
        Step(StepKind.DELEGATE, at, (source,), (target,), (), "layers", "", at)
        for at, (source, target) in enumerate(ends)
    )
    contexts, pointers = 128 * len(containers), 32
    working = contexts + pointers + TENSOR_BYTES + FETCHED_BYTES
    memories = (Memory(len(tensors) * TENSOR_BYTES, "tensors"), Memory(working, "working memory"))
    delegates = tuple(programs.delegate(container) for container in containers)
    return Bundle("fetching", values, steps, (0,), (2, 3, 4), memories, (), (), delegates)


def without_fetches(rng: np.random.Generator) -> Bundle:
    """The first layer alone: x through it."""
    whole = bundle(rng)
    return replace(whole, name="plain", steps=whole.steps[:1], outputs=(1,), delegates=whole.delegates[:1])


def expected(program: Bundle, x: bytes) -> bytes:
    """Return the value of every output, by the exact definition of the layers."""
    values = np.frombuffer(x, np.int8).reshape(ROWS, FEATURES).astype(np.int64)
    for delegate in program.delegates[:2]:
        image = programs.container_of(delegate.partition).weights
        weights = np.frombuffer(image[: FEATURES * FEATURES], np.int8).reshape(FEATURES, FEATURES)
        bias = np.frombuffer(image[FEATURES * FEATURES : FEATURES * (FEATURES + 4)], "<i4")
        rows = np.frombuffer(image[FEATURES * (FEATURES + 4) :], "<u4").reshape(FEATURES, 2).astype(np.int64)
        sums = (values - 3) @ weights.T.astype(np.int64) + bias
        # float64 holds these products exactly, and rint rounds ties to even as the kernels do.
        scaled = np.rint(sums * rows[:, 0] / 2.0 ** rows[:, 1]).astype(np.int64)
        values = np.clip(scaled - 5, -128, 127)
    return values.astype(np.int8).tobytes()
