"""Random TFLite graphs: the random models of one operator each, joined by operators that move and convert values.

An input of a model reads an earlier tensor of another shape or type by way of QUANTIZE, DEQUANTIZE or CAST, and of
RESHAPE, TILE and SLICE. So every operator meets every other, and tensors have several readers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.tflite.cortex_m import models, more_models, movement_models, plain_models
from tests.tflite.cortex_m.models import Make, Rng, constant

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor

STORED = ("INT8", "UINT8", "INT16")

ALL: Mapping[str, Make] = {**models.MODELS, **movement_models.MODELS, **more_models.MODELS, **plain_models.MODELS}
"""A generator of every operator and type."""

_OTHER_KERNELS = ("sum", "elu", "ceil", "round")
"""LiteRT has no reference kernel that can be used for these, and runs all of such a graph by its other kernels."""

_UNBOUNDED = ("DIV", "LOG", "SQRT", "RSQRT", "EXP", "SQUARE", "SQUARED_DIFFERENCE", "CAST")
"""Their float32 results may be infinite or no number, or beyond what a cast holds: no other operator reads these."""

JOINED: Mapping[str, Make] = {name: make for name, make in ALL.items() if name.partition("-")[0] not in _OTHER_KERNELS}
"""The generators of graphs' operators."""


class _Graph:
    """A graph being made."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.tensors: list[FlatTensor] = []
        self.operators: list[FlatOperator] = []
        self.inputs: list[int] = []
        self.sources: list[int] = []
        """Tensors that others may read."""

    def tensor(self, tensor: FlatTensor) -> int:
        self.tensors.append(replace(tensor, name=f"t{len(self.tensors)}"))
        return len(self.tensors) - 1

    def operator(self, name: str, inputs: Sequence[int], like: FlatTensor, kind: str = "", **options: float) -> int:
        """An operator with one result, whose index it gives."""
        result = self.tensor(replace(like, data=None))
        self.operators.append(FlatOperator(name, tuple(inputs), (result,), kind, options))
        return result

    def add(self, part: FlatModel) -> None:
        """Add a small model, whose inputs read what is there or are inputs of the graph."""
        places = {-1: -1}
        for index, tensor in enumerate(part.tensors):
            if index in part.inputs and self.sources and tensor.shape and self.rng.integers(4):
                source = int(self.rng.choice(self.sources[-6:]))
                places[index] = self.converted(source, tensor)
            else:
                places[index] = self.tensor(tensor)
                if index in part.inputs:
                    self.inputs.append(places[index])
        for op in part.operators:
            inputs, outputs = (tuple(places[i] for i in ends) for ends in (op.inputs, op.outputs))
            self.operators.append(replace(op, inputs=inputs, outputs=outputs))
        last = part.operators[-1].name
        for index in part.outputs:
            tensor = part.tensors[index]
            bounded = tensor.dtype != "FLOAT32" or last not in _UNBOUNDED
            is_plain = tensor.dtype in STORED or tensor.quant is None
            if bounded and is_plain and tensor.shape and 0 not in tensor.shape:
                self.sources.append(places[index])

    def converted(self, source: int, wanted: FlatTensor) -> int:
        """A tensor with the type, the quantization and the shape of another."""
        return self.shaped(self.typed(source, wanted), wanted)

    def typed(self, source: int, wanted: FlatTensor) -> int:
        given = self.tensors[source]
        if (given.dtype, given.quant) == (wanted.dtype, wanted.quant) and given.dtype != "FLOAT32":
            return source
        like = replace(wanted, shape=given.shape)
        real = replace(like, dtype="FLOAT32", quant=None)
        given_stored, wanted_stored = (t.dtype in STORED and t.quant is not None for t in (given, wanted))
        if given_stored and wanted_stored:
            if "UINT8" in (given.dtype, wanted.dtype) and {given.dtype, wanted.dtype} != {"INT8", "UINT8"}:
                source = self.operator("DEQUANTIZE", (source,), real)
            return self.operator("QUANTIZE", (source,), like)
        if given_stored:
            source = self.operator("DEQUANTIZE", (source,), real)
        elif given.dtype != "FLOAT32" and (wanted_stored or wanted.dtype == "FLOAT32"):
            source = self.operator("CAST", (source,), real, "CastOptions")
        is_small = given_stored and given.quant is not None and given.quant.scales[0] < 1
        if self.tensors[source].dtype == "FLOAT32" and not is_small:
            # Beyond 2^31 steps a host's conversion to whole numbers gives the least one.
            source = self.operator("RELU6", (source,), real)
        if wanted.dtype == self.tensors[source].dtype:
            return source
        if wanted_stored:
            return self.operator("QUANTIZE", (source,), like)
        return self.operator("CAST", (source,), like, "CastOptions")

    def shaped(self, source: int, wanted: FlatTensor) -> int:
        given = self.tensors[source]
        count, size = math.prod(given.shape), math.prod(wanted.shape)
        if given.shape == wanted.shape:
            return source
        if count != size and len(given.shape) > 1:
            source, given = self.reshaped(source, (count,)), replace(given, shape=(count,))
        if count < size:
            times = -(-size // count)
            count, given = count * times, replace(given, shape=(count * times,))
            source = self.operator("TILE", (source, self.tensor(constant("", [times]))), given)
        if count > size:
            begin = int(self.rng.integers(count - size + 1))
            operands = (source, self.tensor(constant("", [begin])), self.tensor(constant("", [size])))
            given = replace(given, shape=(size,))
            source = self.operator("SLICE", operands, given)
        return source if given.shape == wanted.shape else self.reshaped(source, wanted.shape)

    def reshaped(self, source: int, shape: tuple[int, ...]) -> int:
        operands = (source, self.tensor(constant("", shape)))
        return self.operator("RESHAPE", operands, replace(self.tensors[source], shape=shape))

    def model(self) -> FlatModel:
        """All of it; outputs are what nothing reads, and some other results."""
        read = {index for op in self.operators for index in op.inputs}
        made = [index for op in self.operators for index in op.outputs]
        outputs = [i for i in made if i not in read or self.rng.integers(6) == 0]
        return FlatModel("graph", tuple(self.tensors), tuple(self.inputs), tuple(outputs), tuple(self.operators))


def random_graph(rng: Rng, makers: Mapping[str, Make] = JOINED, most: int = 7) -> FlatModel:
    """A graph of some operators, and of those that join them."""
    graph, names = _Graph(rng), list(makers)
    for _ in range(int(rng.integers(2, most + 1))):
        graph.add(makers[str(rng.choice(names))](rng))
    return graph.model()
