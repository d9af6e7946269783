"""Random TOSA graphs by seed, as ExecuTorch's Arm flow writes them: values of int8, and of int32 between rescales.

They need no PyTorch, so that one takes milliseconds, and have what the flow seldom makes: shapes of ones and primes,
strides, pads and dilations of all kinds, zero points and scales at their limits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import tosa_serializer as ts

from deuteron.errors import UnsupportedError
from deuteron.frontend.log_suppression import captured_output
from deuteron.npu.ethosu import blob
from deuteron.runtime.ethosu import Partition

MOST_ELEMENTS = 4096
SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33)
"""Sizes of axes: ones, primes, and what stands at the edges of bricks and blocks."""


@dataclass(frozen=True, slots=True)
class TosaGraph:
    """A graph: its bytes, the shape of its only input, which is of int8, and its operators but for constants."""

    data: bytes
    shape: tuple[int, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: its name and shape."""

    name: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class Writer:
    """A graph in the making, with the names of its operators."""

    rng: np.random.Generator
    graph: Any = field(
        default_factory=lambda: ts.TosaSerializer("", targetMajor=1, targetMinor=0, targetPatch=0, targetDraft=False)
    )
    names: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def const(self, dtype: Any, values: npt.ArrayLike, shape: Sequence[int] | None = None) -> str:
        """The name of a constant."""
        array = np.asarray(values)
        shape = array.shape if shape is None else shape
        return self.graph.addConst([*shape], dtype, array.ravel().tolist(), name=self.name()).name

    def sizes(self, values: Sequence[int]) -> str:
        """The name of a constant shape."""
        return self.const(ts.DType.SHAPE, values, [len(values)])

    def op(
        self, kind: str, inputs: Sequence[str], shape: Sequence[int], *attribute: object, dtype: Any = ts.DType.INT8
    ) -> Value:
        """The result of an operator, whose attribute is the name of its kind there and its values."""
        made = ts.TosaSerializerAttribute()
        name, *values = attribute
        getattr(made, f"{name}Attribute")(*values)
        result = self.graph.addIntermediate([*shape], dtype)
        self.graph.addOperator(getattr(ts.Op, kind), [*inputs], [result.name], made)
        self.names.append(kind)
        return Value(result.name, tuple(shape))

    def give(self, value: Value) -> None:
        """Make a value an output of the region."""
        self.graph.addOutputTensor(self.graph.currRegion.currBasicBlock.tensors[value.name])

    def integer(self, low: int, high: int) -> int:
        """A number from low to high."""
        return int(self.rng.integers(low, high + 1))

    def zero_point(self) -> int:
        return int(self.rng.choice((-128, 0, 127, self.integer(-128, 127))))

    def rescale(self, x: Value, scale: float, *, is_wide: bool, to_wide: bool, channels: int = 1) -> Value:
        """The value times a scale that is drawn about this one, for each channel where there are several."""
        scales = scale * np.exp(self.rng.uniform(-0.7, 0.7, channels))
        zero_points = (0 if is_wide else self.zero_point()), (0 if to_wide else self.zero_point())
        return self._rescale(x, scales, zero_points, (is_wide, to_wide))

    def cast(self, x: Value, *, is_wide: bool) -> Value:
        """The same numbers, in int8 if they are wide, otherwise in int32."""
        return self._rescale(x, [1.0], (0, 0), (is_wide, not is_wide))

    def _rescale(
        self, x: Value, scales: Sequence[float], zero_points: tuple[int, int], wide: tuple[bool, bool]
    ) -> Value:
        shifts = [int(30 - np.floor(np.log2(s))) for s in scales]
        multipliers = [int(s * 2.0**shift) for s, shift in zip(scales, shifts, strict=True)]
        from_, to = (ts.DType.INT32 if is_wide else ts.DType.INT8 for is_wide in wide)
        inputs = (
            self.const(ts.DType.INT32, multipliers), self.const(ts.DType.INT8, shifts),
            self.const(from_, [zero_points[0]]), self.const(to, [zero_points[1]]),
        )  # fmt: skip
        single = ts.RoundingMode.SINGLE_ROUND
        return self.op(
            "RESCALE", (x.name, *inputs), x.shape, "Rescale", True, single, len(scales) > 1, False, False, dtype=to
        )

    def narrow(self, x: Value, scale: float, channels: int = 1) -> Value:
        return self.rescale(x, scale, is_wide=True, to_wide=False, channels=channels)

    def widen(self, x: Value) -> Value:
        return self.rescale(x, 2.0 ** self.integer(6, 18), is_wide=False, to_wide=True)


def random_graph(seed: int) -> TosaGraph:
    """A graph of 1 to 5 steps, each of which may be several operators."""
    writer = Writer(np.random.default_rng(seed))
    while True:
        shape = (1, *(int(writer.rng.choice(SMALL)) for _ in range(3)))
        if np.prod(shape) <= MOST_ELEMENTS:
            break
    writer.graph.addInputTensor(ts.TosaSerializerTensor("x", [*shape], ts.DType.INT8, data=None))
    values = [Value("x", shape)]
    for _ in range(writer.integer(1, 5)):
        step = _STEPS[writer.integer(0, len(_STEPS) - 1)]
        made = step(writer, values[-1] if writer.rng.random() < 0.8 else values[writer.integer(0, len(values) - 1)])
        if made is not None:
            values.append(made)
    if len(values) == 1:
        values.append(_table(writer, values[0]))
    writer.give(values[-1])
    return TosaGraph(bytes(writer.graph.serialize()), shape, tuple(writer.names))


def _spans(w: Writer, x: Value, *, most: int) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """A kernel, strides, dilations, pads and the output's sizes, which must be whole: pads below and right fill up."""
    kernel, stride, dilation, pads, sizes = [], [], [], [], []
    for size in x.shape[1:3]:
        k, s, d = w.integer(1, most), w.integer(1, 3), w.integer(1, 2)
        reach = (k - 1) * d + 1
        before = w.integer(0, k - 1)
        after = max(0, reach - size - before)
        after += -(size + before + after - reach) % s
        kernel.append(k), stride.append(s), dilation.append(d), pads.extend((before, after))
        sizes.append((size + before + after - reach) // s + 1)
    return kernel, stride, dilation, pads, sizes


def _convolution(w: Writer, x: Value) -> Value:
    kernel, stride, dilation, pads, sizes = _spans(w, x, most=4)
    depth, channels = x.shape[3], int(w.rng.choice((1, 3, 8, 16, 17, 24)))
    weights = w.rng.integers(-127, 128, (channels, *kernel, depth))
    bias = w.rng.integers(-5000, 5001, channels)
    inputs = (
        x.name, w.const(ts.DType.INT8, weights), w.const(ts.DType.INT32, bias),
        w.const(ts.DType.INT8, [w.zero_point()]), w.const(ts.DType.INT8, [0]),
    )  # fmt: skip
    attribute = "Conv2d", pads, stride, dilation, False, ts.DType.INT32
    sums = w.op("CONV2D", inputs, (1, *sizes, channels), *attribute, dtype=ts.DType.INT32)
    return w.narrow(sums, 1 / (60 * np.sqrt(depth * kernel[0] * kernel[1])), int(w.rng.choice((1, channels))))


def _depthwise(w: Writer, x: Value) -> Value | None:
    kernel, stride, dilation, pads, sizes = _spans(w, x, most=4)
    depth, times = x.shape[3], int(w.rng.choice((1, 1, 1, 2)))
    if depth * times * sizes[0] * sizes[1] > MOST_ELEMENTS:
        return None
    weights = w.rng.integers(-127, 128, (*kernel, depth, times))
    bias = w.rng.integers(-5000, 5001, depth * times)
    inputs = (
        x.name, w.const(ts.DType.INT8, weights), w.const(ts.DType.INT32, bias),
        w.const(ts.DType.INT8, [w.zero_point()]), w.const(ts.DType.INT8, [0]),
    )  # fmt: skip
    attribute = "DepthwiseConv2d", pads, stride, dilation, False, ts.DType.INT32
    sums = w.op("DEPTHWISE_CONV2D", inputs, (1, *sizes, depth * times), *attribute, dtype=ts.DType.INT32)
    return w.narrow(sums, 1 / (60 * np.sqrt(kernel[0] * kernel[1])), int(w.rng.choice((1, depth * times))))


def _pool(w: Writer, x: Value) -> Value | None:
    kernel, stride, dilation, pads, sizes = _spans(w, x, most=3)
    # Pools have no dilation, and pads below their kernel.
    if dilation != [1, 1] or pads[1] >= kernel[0] or pads[3] >= kernel[1]:
        return None
    shape = (1, *sizes, x.shape[3])
    if w.rng.random() < 0.5:
        propagate = ts.NanPropagationMode.PROPAGATE
        return w.op("MAX_POOL2D", (x.name,), shape, "MaxPool2d", kernel, stride, pads, propagate)
    zero = w.zero_point()
    inputs = x.name, w.const(ts.DType.INT8, [zero]), w.const(ts.DType.INT8, [zero])
    return w.op("AVG_POOL2D", inputs, shape, "AvgPool2d", kernel, stride, pads, ts.DType.INT32)


def _table(w: Writer, x: Value) -> Value:
    table = w.const(ts.DType.INT8, w.rng.integers(-128, 128, 256))
    return w.op("TABLE", (x.name, table), x.shape, "Table")


def _pair(w: Writer, x: Value) -> Value:
    """Two operands of int32, one of which may be spread, or a product of what is rescaled."""
    kind, name = [("ADD", "Add"), ("SUB", "Sub"), ("MAXIMUM", "Maximum"), ("MINIMUM", "Minimum"), ("MUL", "Mul")][
        w.integer(0, 4)
    ]
    other_shape = [size if w.rng.random() < 0.7 else 1 for size in x.shape]
    other = Value(w.const(ts.DType.INT8, w.rng.integers(-128, 128, other_shape)), tuple(other_shape))
    other = x if w.rng.random() < 0.4 else other
    if kind == "MUL":
        a, b = (w.rescale(v, 1.0, is_wide=False, to_wide=True) for v in (x, other))
        shift = w.const(ts.DType.INT8, [0])
        return w.narrow(w.op(kind, (a.name, b.name, shift), x.shape, name, dtype=ts.DType.INT32), 1 / 90)
    attribute = (name, ts.NanPropagationMode.PROPAGATE) if kind.endswith("IMUM") else (name,)
    a, b = w.widen(x), w.widen(other)
    return w.narrow(w.op(kind, (a.name, b.name), x.shape, *attribute, dtype=ts.DType.INT32), 2.0**-12)


def _clamp(w: Writer, x: Value) -> Value:
    low = w.integer(-128, 100)
    ends = np.array([low, w.integer(low, 127)], np.int8)
    first, last = (end.tobytes() for end in ends)
    return w.op("CLAMP", (x.name,), x.shape, "Clamp", [*first], [*last], ts.NanPropagationMode.PROPAGATE)


def _transpose(w: Writer, x: Value) -> Value:
    order = [0, *(int(i) + 1 for i in w.rng.permutation(3))]
    return w.op("TRANSPOSE", (x.name,), [x.shape[i] for i in order], "Transpose", order)


def _reshape(w: Writer, x: Value) -> Value:
    sizes = [1, *(x.shape[int(i) + 1] for i in w.rng.permutation(3))]
    if w.rng.random() < 0.5:
        sizes = [1, 1, sizes[1] * sizes[2], sizes[3]]
    return w.op("RESHAPE", (x.name, w.sizes(sizes)), sizes, "Reshape")


def _slice(w: Writer, x: Value) -> Value:
    starts = [w.integer(0, size - 1) for size in x.shape]
    sizes = [w.integer(1, size - start) for size, start in zip(x.shape, starts, strict=True)]
    return w.op("SLICE", (x.name, w.sizes(starts), w.sizes(sizes)), sizes, "Slice")


def _pad(w: Writer, x: Value) -> Value:
    pads = [0, 0, *(w.integer(0, 2) for _ in range(6))]
    sizes = [size + pads[2 * i] + pads[2 * i + 1] for i, size in enumerate(x.shape)]
    return w.op("PAD", (x.name, w.sizes(pads), w.const(ts.DType.INT8, [w.zero_point()])), sizes, "Pad")


def _concat(w: Writer, x: Value) -> Value | None:
    axis = w.integer(1, 3)
    sizes = [*x.shape]
    sizes[axis] *= 2
    if np.prod(sizes) > 2 * MOST_ELEMENTS:
        return None
    return w.op("CONCAT", (x.name, _table(w, x).name), sizes, "Concat", axis)


def _sum(w: Writer, x: Value) -> Value:
    axis = w.integer(1, 3)
    sizes = [1 if i == axis else size for i, size in enumerate(x.shape)]
    wide = w.rescale(x, 1.0, is_wide=False, to_wide=True)
    return w.narrow(w.op("REDUCE_SUM", (wide.name,), sizes, "ReduceSum", axis, dtype=ts.DType.INT32), 0.2)


_STEPS: tuple[Callable[[Writer, Value], Value | None], ...] = (
    _convolution, _convolution, _depthwise, _depthwise, _pool, _pool, _table, _pair, _pair, _pair, _clamp, _transpose,
    _reshape, _slice, _pad, _concat, _sum,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a graph.

    Attributes:
        operators: its operators.
        results: how many results were compared.
        different: how many of them differ from TOSA's reference model.
        refused: the error of Vela or the simulator if it does not take the graph.
    """

    operators: tuple[str, ...]
    results: int = 0
    different: int = 0
    refused: str = ""


def compiled(graph: bytes, accelerator: str) -> bytes:
    """The payload of the partition that Vela makes of a graph, in this process as ExecuTorch's Arm flow has it."""
    from executorch.backends.arm.arm_vela import vela_compile
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    return vela_compile(graph, [*EthosUCompileSpec(accelerator).compiler_flags]).processed_bytes


def outcome(seed: int, accelerator: str) -> Outcome:
    """The graph of a seed, compiled by Vela, compared with TOSA's reference model."""
    import tosa_reference_model

    graph = random_graph(seed)
    values = np.random.default_rng(seed).integers(-128, 128, graph.shape, np.int8)
    with captured_output():
        (expected,), status = tosa_reference_model.run(graph.data, [values], verbosity="LOW")
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        raise ValueError(f"seed {seed}: TOSA's reference model failed with {status.name}")
    try:
        with captured_output() as said:
            payload = compiled(graph.data, accelerator)
    except FileNotFoundError:  # Vela says what is wrong, and writes nothing
        return Outcome(graph.operators, refused=f"Vela: {said[0].strip().splitlines()[0]}")
    try:
        partition = Partition(blob.parse(payload, accelerator), accelerator)
    except UnsupportedError as error:
        return Outcome(graph.operators, refused=error.message)
    (result,) = partition.run([values.tobytes()])
    ours = np.frombuffer(result, np.int8)
    return Outcome(graph.operators, ours.size, int(np.sum(ours != expected.ravel())))
