"""Elementwise functions of one tensor, which become tables of 256 values on the CPU.

The tables are exact: the quantized PyTorch model computes each of the 256 values.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.node import map_arg

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed

_UNTAGGED = "hardswish.default log_sigmoid.default floor_divide.default"
"""Pointwise functions without PyTorch's tag for these."""

_UNARY = (
    "abs.default neg.default exp.default expm1.default log.default log2.default log10.default log1p.default "
    "sqrt.default rsqrt.default reciprocal.default sin.default cos.default erf.default floor.default ceil.default "
    "round.default sign.default relu.default relu6.default hardtanh.default clamp.default leaky_relu.default "
    "elu.default gelu.default sigmoid.default tanh.default silu.default hardswish.default hardsigmoid.default "
    "softplus.default mish.default pow.Tensor_Scalar add.Scalar sub.Scalar mul.Scalar div.Scalar"
)
"""Functions of one tensor from which the NPU's tables are made; the CPU supports all of them."""

_BINARY = "add.Tensor sub.Tensor mul.Tensor div.Tensor minimum.default maximum.default"


def operators(names: str) -> frozenset[object]:
    """Return the operators of these names, and their in-place variants if there are any."""
    operators: set[object] = set()
    for name in names.split():
        packet, overload = name.split(".")
        operators |= {
            getattr(getattr(aten, spelt), overload)
            for spelt in (packet, f"{packet}_")
            if hasattr(aten, spelt) and overload in getattr(aten, spelt).overloads()
        }
    return frozenset(operators)


UNARY = operators(_UNARY)
BINARY = operators(_BINARY)

LIMITS = operators("relu.default relu6.default hardtanh.default clamp.default")
"""Operators that clamp values and do not change others."""

_KNOWN = operators(_UNTAGGED)
_OTHERS = operators("clone.default rrelu.default")
"""Operators with PyTorch's pointwise tag that copy, or draw random numbers."""

_FILLS = operators("full.default scalar_tensor.default")
"""Operators that make a tensor of a number."""


def aten_operator(target: object) -> object:
    """Return the ATen operator of an edge operator; other targets unchanged."""
    return cast(object, target if isinstance(target, OpOverload) else getattr(target, "_op", target))


def _is_pointwise(operator: object) -> bool:
    """True for an operator that computes each element from the elements at the same position."""
    if not isinstance(operator, OpOverload) or operator in _OTHERS:
        return False
    name, _, overload = operator.name().partition(".")
    plain = operators(f"{name.removeprefix('aten::').removesuffix('_')}.{overload or 'default'}")
    is_tagged = torch.Tag.pointwise in operator.tags
    return is_tagged or any(one in _KNOWN or torch.Tag.pointwise in cast(OpOverload, one).tags for one in plain)


def is_elementwise(node: fx.Node) -> bool:
    """True for arithmetic of two tensors and functions of one, in ATen or the edge dialect."""
    return aten_operator(node.target) in BINARY or operand(node) is not None


def operand(node: fx.Node) -> fx.Node | None:
    """Return the one activation of which a node is an elementwise function; None for other nodes."""
    if node.op != "call_function" or not _is_float(node) or not _is_pointwise(aten_operator(node.target)):
        return None
    inputs = [arg for arg in node.all_input_nodes if not is_number(arg)]
    return inputs[0] if len(inputs) == 1 and _is_float(inputs[0]) else None


def is_function(node: fx.Node) -> bool:
    """True for a function of one activation other than a clamp."""
    return aten_operator(node.target) not in LIMITS and operand(node) is not None


def is_number(node: fx.Node) -> bool:
    """True for a constant of one element."""
    value: object = node.meta.get("val")
    return node.op == "get_attr" and isinstance(value, Tensor) and value.numel() == 1


def _is_float(node: fx.Node) -> bool:
    """True unless the node is known to be a tensor of integers or bools."""
    value: object = node.meta.get("val")
    return not isinstance(value, Tensor) or value.is_floating_point()


class Tables:
    """Finds the parts of an edge program that table lookups can replace.

    A graph of elementwise operators between a quantize operator and one quantized tensor becomes one table. A
    dequantize operator followed by a quantize operator with other parameters becomes one as well.
    """

    def __init__(
        self,
        program: ExportedProgram | fx.GraphModule,
        constants: Mapping[str, Tensor],
        dtype: torch.dtype = torch.int8,
    ) -> None:
        self._program = program
        self._constants = constants
        self._dtype = dtype

    def functions(self) -> Iterable[tuple[fx.Node, fx.Node, Tensor]]:
        """Yield each quantize node that a table can replace, the quantized node that it depends on, and its operands.

        The operands are the values that it quantizes, for each stored value from the least to the largest.
        """
        for node in list(self._program.graph.nodes):
            is_quantize = _is(node, quantized.quantize_per_tensor.default) and node.args[5] == self._dtype
            if is_quantize and (sources := self._sources(node.args[0])):
                yield node, cast(fx.Node, next(iter(sources)).args[0]), self._values(node, sources)

    def clamps(self) -> Iterable[tuple[fx.Node, fx.Node]]:
        """Yield each clamp that changes values within its output range, and the quantize node after it.

        The operator before such a clamp cannot apply it by its own output range, and no table replaces that operator.
        """
        for node in list(self._program.graph.nodes):
            if _is(node, quantized.quantize_per_tensor.default) and node.args[5] == self._dtype:
                activation = cast(fx.Node, node.args[0])
                if aten_operator(activation.target) in LIMITS and not self._sources(activation):
                    every = _every(self._dtype)
                    values = quantized.dequantize_per_tensor.default(every, *node.args[1:])
                    before = cast(fx.Node, activation.args[0])
                    limited = evaluate(node, {activation: evaluate(activation, {before: values})})
                    if not torch.equal(limited, every):
                        yield activation, node

    def _sources(self, node: object) -> set[fx.Node]:
        """The dequantize nodes of the one quantized tensor that an elementwise function reads; none without a table."""
        sources: set[fx.Node] = set()
        is_table = self._follow(node, sources, {}) and len({source.args for source in sources}) == 1
        return sources if is_table else set()

    def _follow(self, node: object, sources: set[fx.Node], seen: dict[fx.Node, bool]) -> bool:
        """True if a node is an elementwise function of quantized tensors, which are added to `sources`."""
        if not isinstance(node, fx.Node) or self._is_constant(node):
            return True
        if node not in seen:
            if _is(node, quantized.dequantize_per_tensor.default) and node.args[5] == self._dtype:
                sources.add(node)
                seen[node] = True
            else:
                known = node.op == "call_function" and _is_pointwise(aten_operator(node.target))
                seen[node] = known and all(self._follow(arg, sources, seen) for arg in node.all_input_nodes)
        return seen[node]

    def _is_constant(self, node: fx.Node) -> bool:
        """True for a tensor of one element that does not depend on inputs."""
        if node.name in self._constants:
            return True
        inputs, value = node.all_input_nodes, node.meta.get("val")
        is_number = isinstance(value, Tensor) and value.numel() == 1 and node.op == "call_function"
        return is_number and (all(map(self._is_constant, inputs)) if inputs else aten_operator(node.target) in _FILLS)

    def _values(self, quantize: fx.Node, sources: Iterable[fx.Node]) -> Tensor:
        """The values that the quantize node quantizes, for each stored value from the least to the largest."""
        every = _every(self._dtype)
        values = {source: evaluate(source, {cast(fx.Node, source.args[0]): every}) for source in sources}

        def value(node: fx.Node) -> Tensor:
            if node.name in self._constants:
                return self._constants[node.name]
            if node not in values:
                values[node] = evaluate(node, {arg: value(arg) for arg in node.all_input_nodes})
            return values[node]

        return value(cast(fx.Node, quantize.args[0])).reshape(-1)


def _every(dtype: torch.dtype) -> Tensor:
    """All values of a dtype in order."""
    limits = torch.iinfo(dtype)
    return torch.arange(limits.min, limits.max + 1, dtype=dtype)


def _is(node: fx.Node, operator: object) -> bool:
    return node.op == "call_function" and aten_operator(node.target) is operator


def evaluate(node: fx.Node, values: Mapping[fx.Node, Tensor]) -> Tensor:
    """Compute a node for these values of its inputs."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda arg: values[arg])
    operator = cast(Any, aten_operator(node.target))
    return operator(*args, **kwargs)
