"""The graph under construction and the dice: what the makers of single operators share."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import shapes
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Clamp, Op
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.tflite.attributes import ACTIVATIONS
from deuteron.tflite.quantization import Quant

T = TypeVar("T")
Shape = tuple[int, ...]

AWKWARD = (1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17)
MAX_ELEMENTS = 2048
MAX_RANK = 5
MADE = ("/output", "/untransposed", "/table", "/workspace", "/permuted", "/spread", "/requant", ".value", "#1")
"""Ends of names that the compiler gives to what it adds."""


class Builder:
    """The graph so far.

    Attributes:
        stock: make only what a TFLite file can say with one operator each.
        wide: let scales be of any size, so that the NPU refuses some of the graphs.
    """

    def __init__(self, rng: np.random.Generator, *, stock: bool, wide: bool = False) -> None:
        self.rng = rng
        self.stock = stock
        self.wide = wide
        self.ops: list[Op] = []
        self.values: list[str] = []
        self._tensors: dict[str, Tensor] = {}
        self._inputs: list[str] = []

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.rng.random() < probability)

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def factor(self, low: float, high: float) -> float:
        """A number between the two."""
        return float(self.rng.uniform(low, high))

    def quant(self, scale: float | None = None) -> Quant:
        """A per-tensor quantization, by default of any sensible scale."""
        if self.wide and self.chance(0.3):
            scale = 2.0 ** self.factor(-60, 40)
        value = np.float32(scale if scale is not None else 2.0 ** self.factor(-9, -3))
        zero = self.pick((-128, 0, 127, self.between(-128, 127)))
        return Quant((float(value),), (zero,))

    def map_shape(self) -> Shape:
        """An NHWC shape."""
        while True:
            shape = (self.pick((1, 1, 1, 2)), *(self.pick(AWKWARD) for _ in range(3)))
            if prod(shape) <= MAX_ELEMENTS // 2:
                return shape

    def source(self) -> Tensor:
        """A value to go on from: often the newest, sometimes a constant."""
        if self.chance(0.06):
            return self.constant(self.map_shape(), self.quant())
        name = self.values[-1] if self.chance(0.6) else self.pick(self.values)
        return self.tensor(name)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name."""
        return self._tensors[name]

    def input(self, shape: Shape) -> None:
        """One more graph input."""
        tensor = self._add(Tensor(f"in{len(self._inputs)}", TensorType(shape, DType.INT8, self.quant())))
        self._inputs.append(tensor.name)
        self.values.append(tensor.name)

    def constant(self, shape: Shape, quant: Quant, values: npt.NDArray[np.int64] | None = None) -> Tensor:
        """An int8 constant, random unless given."""
        if values is None:
            values = self.rng.integers(-128, 128, shape)
        data = values.astype(np.int8).tobytes()
        return self._add(Tensor(f"c{len(self._tensors)}", TensorType(shape, DType.INT8, quant), data))

    def bias(self, channels: int, x: Quant, weights: Quant) -> Tensor:
        """An int32 constant of one value per channel."""
        values = self.rng.integers(-5000, 5001, channels).astype("<i4")
        scales = tuple(float(np.float32(x.scale * scale)) for scale in weights.scales)
        quant = Quant(scales, (0,) * len(scales), None if weights.axis is None else 0)
        kind = TensorType((channels,), DType.INT32, quant if self.stock or self.chance(0.5) else None)
        return self._add(Tensor(f"c{len(self._tensors)}", kind, values.tobytes()))

    def clamp(self, quant: Quant) -> Clamp:
        """Mostly the whole range."""
        if self.chance(0.7):
            return Clamp()
        if self.stock:
            return ACTIVATIONS[self.pick(("RELU", "RELU6"))](quant)
        low = self.between(-128, 100)
        return Clamp(low, self.between(low, 127))

    def emit(self, op: Op, quant: Quant, shape: Shape = ()) -> Tensor:
        """Appends the op, whose result has this quantization and, where it has a choice, this shape."""
        sources = tuple(self.tensor(name).type.shape for name in op.inputs)
        kind = TensorType(shapes.output_shape(op, sources, shape), DType.INT8, quant)
        self.ops.append(op)
        self.values.append(op.outputs[0])
        return self._add(Tensor(op.outputs[0], kind))

    def fields(self) -> tuple[tuple[str], tuple[int]]:
        """Output name and origin of the next op."""
        return (f"t{len(self.ops)}",), (len(self.ops),)

    def finish(self, name: str) -> Graph:
        """The graph, whose outputs are all values that nothing reads, and sometimes one more, be it computed or not."""
        read = {source for op in self.ops for source in op.inputs}
        outputs = [op.outputs[0] for op in self.ops if op.outputs[0] not in read]
        rest = [value for value in self.values if value not in outputs]
        if self.chance(0.2):
            constants = [t for t in self._tensors.values() if t.is_const and t.type.dtype is DType.INT8]
            rest = [t.name for t in constants if t.type.q.axis is None]
        if rest and self.chance(0.25):
            outputs.append(self.pick(rest))
        used = {*self._inputs, *outputs, *read}
        tensors = tuple(tensor for tensor in self._tensors.values() if tensor.name in used)
        graph = Graph(name, tensors, tuple(self._inputs), tuple(outputs), tuple(self.ops))
        return self.renamed(graph) if self.chance(0.25) else graph

    def renamed(self, graph: Graph) -> Graph:
        """The graph with names for some of its tensors that the compiler would make for others."""
        names: dict[str, str] = {}
        for tensor in graph.tensors:
            wanted = f"{self.pick([*names.values()])}{self.pick(MADE)}" if names and self.chance(0.3) else tensor.name
            names[tensor.name] = tensor.name if wanted in names.values() else wanted

        def new(olds: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names[old] for old in olds)

        tensors = tuple(replace(tensor, name=names[tensor.name]) for tensor in graph.tensors)
        ops = tuple(replace(op, inputs=new(op.inputs), outputs=new(op.outputs)) for op in graph.ops)
        return Graph(graph.name, tensors, new(graph.inputs), new(graph.outputs), ops)

    def _add(self, tensor: Tensor) -> Tensor:
        self._tensors[tensor.name] = tensor
        return tensor


Maker = Callable[[Builder, Tensor], None]
"""Appends operators to the builder if the source suits them, else does nothing."""
