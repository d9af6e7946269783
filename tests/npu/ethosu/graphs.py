"""Random PyTorch graphs of operators that Arm's quantizer takes, by seed; several side by side make one module."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as f

from deuteron import api
from deuteron.views.compare.pytorch import compare

MOST_ELEMENTS = 4096
SMALL = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33)
"""Sizes of axes: ones, primes, and what stands at the edges of bricks and blocks."""

Step = Callable[[list[Tensor]], Tensor]

POINTWISE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "relu6": f.relu6,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "hardswish": f.hardswish,
    "hardsigmoid": f.hardsigmoid,
    "silu": f.silu,
    "gelu": f.gelu,
    "elu": f.elu,
    "leaky_relu": lambda x: f.leaky_relu(x, 0.1),
    "abs": torch.abs,
    "neg": torch.neg,
    "exp": torch.exp,
    "clamp": lambda x: torch.clamp(x, -0.7, 0.9),
    "rsqrt": lambda x: torch.rsqrt(torch.abs(x) + 0.5),
    "scaled": lambda x: x * 0.3,
    "shifted": lambda x: x + 0.7,
}
PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
}


@dataclass(frozen=True, slots=True)
class Made:
    """An operator: its name, and what it makes of the values so far."""

    name: str
    step: Step


class RandomGraph(nn.Module):
    """A graph of some operators; each reads a recent value, so that most are needed by the last.

    A wide one has three to five axes and up to three samples, and flips, views and products of matrices besides.

    Attributes:
        names: of the operators.
    """

    def __init__(self, seed: int, *, wide: bool = False) -> None:
        super().__init__()
        self._rng, self._is_wide = np.random.default_rng(seed), wide
        torch.manual_seed(seed)
        self.layers = nn.ModuleList()
        self.names: list[str] = []
        self._steps: list[Step] = []
        self.example = torch.randn(self._shape())
        values = [self.example]
        with torch.no_grad():
            for _ in range(int(self._rng.integers(2, 7))):
                made = self._operator(values)
                result = made.step(values)
                if 0 < result.numel() <= MOST_ELEMENTS and result.dim() > 0:
                    self.names.append(made.name)
                    self._steps.append(made.step)
                    values.append(result)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for step in self._steps:
            values.append(step(values))
        return values[-1]

    def _shape(self) -> tuple[int, ...]:
        while True:
            rank = int(self._rng.choice((3, 4, 5, 5, 5) if self._is_wide else (2, 3, 4, 4, 4, 4)))
            samples = int(self._rng.choice((1, 1, 2, 3))) if self._is_wide else 1
            shape = (samples, *(int(self._rng.choice(SMALL)) for _ in range(rank - 1)))
            if np.prod(shape) <= MOST_ELEMENTS // 2:
                return shape

    def _layer(self, layer: nn.Module) -> int:
        self.layers.append(layer.eval())
        return len(self.layers) - 1

    def _operator(self, values: Sequence[Tensor]) -> Made:
        """An operator that takes the last value, or one shortly before it."""
        rng = self._rng
        at = len(values) - 1 - int(rng.integers(0, 2)) if len(values) > 1 and rng.random() < 0.25 else len(values) - 1
        x = values[at]
        kinds = ["pointwise", "pointwise", "pair", "pair", "reduce", "turned", "softmax", "linear"]
        kinds += ["conv", "conv", "conv", "pool", "pool", "upsample", "transposed"] * (x.dim() == 4)
        kinds += ["flipped", "product", "turned", "viewed", "viewed"] * self._is_wide
        kind = str(rng.choice(kinds))
        return getattr(self, f"_{kind}")(at, x, values)

    def _pointwise(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        name = str(self._rng.choice([*POINTWISE]))
        function = POINTWISE[name]
        return Made(name, lambda v: function(v[at]))

    def _pair(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        name = str(self._rng.choice([*PAIRS]))
        function = PAIRS[name]
        others = [i for i, value in enumerate(values) if value.shape == x.shape and i != at]
        if others and self._rng.random() < 0.7:
            other = int(self._rng.choice(others))
            return Made(name, lambda v: function(v[at], v[other]))
        shape = [n if self._rng.random() < 0.6 else 1 for n in x.shape]
        number = self._layer(Constant(torch.randn(shape)))
        return Made(f"{name} constant", lambda v: function(v[at], self.layers[number]()))

    def _reduce(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        name, axis = str(self._rng.choice(["mean", "sum", "amax", "amin"])), int(self._rng.integers(1, x.dim()))
        keep = bool(self._rng.random() < 0.7) or x.dim() == 2
        axes = [2, 3] if x.dim() == 4 and self._rng.random() < 0.5 else [axis]
        return Made(name, lambda v: getattr(torch, name)(v[at], axes, keepdim=keep))

    def _turned(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        name = str(self._rng.choice(["permute", "flatten", "slice", "cat", "pad"]))
        axis = int(self._rng.integers(1, x.dim()))
        size = x.shape[axis]
        start = int(self._rng.integers(0, size))
        stop = int(self._rng.integers(start + 1, size + 1))
        order = (0, *(1 + int(i) for i in self._rng.permutation(x.dim() - 1)))
        pads = [int(n) for n in self._rng.integers(0, 3, 4 if x.dim() == 4 else 2)]
        others = [i for i, value in enumerate(values) if value.shape[:axis] == x.shape[:axis]
                  and value.shape[axis + 1 :] == x.shape[axis + 1 :]]  # fmt: skip
        other = int(self._rng.choice(others))
        steps: dict[str, Step] = {
            "permute": lambda v: v[at].permute(order),
            "flatten": lambda v: v[at].flatten(1),
            "slice": lambda v: v[at].narrow(axis, start, stop - start),
            "cat": lambda v: torch.cat([v[at], v[other]], axis),
            "pad": lambda v: f.pad(v[at], pads),
        }
        return Made(name, steps[name])

    def _flipped(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        axis = int(self._rng.integers(1, x.dim()))
        return Made("flip", lambda v: v[at].flip(axis))

    def _viewed(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        """An index of one axis, also of samples; two axes as one; one axis as two; a new axis."""
        axis, last = int(self._rng.integers(0, x.dim())), x.dim() - 1
        index, pair = int(self._rng.integers(0, x.shape[axis])), min(axis, max(last - 1, 0))
        least = next((n for n in (2, 3, 5) if x.shape[axis] % n == 0), 1)
        steps: dict[str, Step] = {
            "select": lambda v: v[at].select(axis, index) if last > 1 else v[at],
            "merge": lambda v: v[at].flatten(pair, pair + 1) if last > 1 else v[at],
            "split": lambda v: v[at].unflatten(axis, (least, -1)) if last < 4 else v[at],
            "unsqueeze": lambda v: v[at].unsqueeze(axis) if last < 4 else v[at],
        }
        name = str(self._rng.choice([*steps]))
        return Made(name, steps[name])

    def _product(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        if x.dim() < 3:
            return self._linear(at, x, values)
        return Made("matmul", lambda v: v[at] / x.shape[-1] @ v[at].transpose(-1, -2))

    def _softmax(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        axis = int(self._rng.integers(1, x.dim()))
        return Made("softmax", lambda v: torch.softmax(v[at], axis))

    def _linear(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        outputs = int(self._rng.choice(SMALL))
        number = self._layer(nn.Linear(x.shape[-1], outputs, bias=bool(self._rng.random() < 0.8)))
        return Made("linear", lambda v: self.layers[number](v[at]))

    def _conv(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        rng = self._rng
        channels = x.shape[1]
        kernel = tuple(int(k) for k in rng.integers(1, 6, 2))
        stride = tuple(int(k) for k in rng.integers(1, 5, 2))
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
        dilation = tuple(int(rng.integers(1, 5)) for _ in kernel)
        spans = [(k - 1) * d + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
        if any(span > size for span, size in zip(spans, x.shape[2:], strict=True)):
            kernel, padding, dilation = (1, 1), (0, 0), (1, 1)
        name = str(rng.choice(["conv", "depthwise", "grouped"]))
        groups = {"conv": 1, "depthwise": channels, "grouped": 2 - channels % 2}[name]
        outputs = groups * int(rng.integers(1, 3)) if name != "conv" else int(rng.choice(SMALL))
        bias = bool(rng.random() < 0.8)
        number = self._layer(nn.Conv2d(channels, outputs, kernel, stride, padding, dilation, groups, bias))
        return Made(name, lambda v: self.layers[number](v[at]))

    def _transposed(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        kernel, stride = int(self._rng.integers(1, 4)), int(self._rng.integers(1, 3))
        outputs = int(self._rng.choice(SMALL[:8]))
        number = self._layer(nn.ConvTranspose2d(x.shape[1], outputs, max(kernel, stride), stride))
        return Made("transposed conv", lambda v: self.layers[number](v[at]))

    def _pool(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        name = str(self._rng.choice(["max_pool2d", "avg_pool2d"]))
        kernel = [min(int(k), size) for k, size in zip(self._rng.integers(1, 5, 2), x.shape[2:], strict=True)]
        stride = [int(k) for k in self._rng.integers(1, 4, 2)]
        padding = [int(self._rng.integers(0, k // 2 + 1)) for k in kernel]
        function = f.max_pool2d if name == "max_pool2d" else f.avg_pool2d
        return Made(name, lambda v: function(v[at], kernel, stride, padding))

    def _upsample(self, at: int, x: Tensor, values: Sequence[Tensor]) -> Made:
        mode = str(self._rng.choice(["nearest", "bilinear"]))
        return Made(f"upsample {mode}", lambda v: f.interpolate(v[at], scale_factor=2, mode=mode))


class Constant(nn.Module):
    """A tensor that is known when the graph is built."""

    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value)

    def forward(self) -> Tensor:
        return self.value


class SideBySide(nn.Module):
    """Graphs that have nothing to do with each other: an input and an output of each."""

    def __init__(self, graphs: Sequence[RandomGraph]) -> None:
        super().__init__()
        self.graphs = nn.ModuleList(graphs)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(graph(x) for graph, x in zip(self.graphs, inputs, strict=True))


@dataclass(frozen=True, slots=True)
class GraphCounts:
    """Counts of compared values and of differences.

    Attributes:
        graphs: how many.
        operators: how many PyTorch operators these have, by name.
        partitions: how many the NPU runs.
        results: values that partitions give.
        values: intermediate values in memory.
        failures: the texts of the differences.
    """

    graphs: int = 0
    operators: Mapping[str, int] = field(default_factory=dict[str, int])
    partitions: int = 0
    results: int = 0
    values: int = 0
    failures: tuple[str, ...] = ()


def check(seeds: Sequence[int], accelerator: str, *, wide: bool = False) -> GraphCounts:
    """The graphs of some seeds, built together for an accelerator, against TOSA's reference model on two samples."""
    graphs = [RandomGraph(seed, wide=wide) for seed in seeds]
    inputs = tuple(graph.example for graph in graphs)
    other = tuple(-0.8 * x.flip(0).roll(1, -1) for x in inputs)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "build"
        module = SideBySide(graphs).eval()
        api.build(module, inputs, target=accelerator, output=directory, calibration=[inputs, other])
        found = compare(directory, [[x.numpy() for x in sample] for sample in (inputs, other)])
    failures = [failure for failure in found.failures() if failure.startswith("partition")]
    return GraphCounts(
        len(graphs),
        dict(Counter(name for graph in graphs for name in graph.names)),
        len(found.partitions),
        sum(partition.elements for partition in found.partitions),
        sum(tensor.elements for tensor in found.tensors),
        tuple(failures),
    )
