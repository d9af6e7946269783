"""Functions of one number that are applied to each element of a tensor: on the CPU they become tables of 256 values.

Exactness comes for free: the table is what the quantised PyTorch model itself computes for each of the 256 values.
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
"""Pointwise functions that PyTorch does not tag as such."""

_UNARY = (
    "abs.default neg.default exp.default expm1.default log.default log2.default log10.default log1p.default "
    "sqrt.default rsqrt.default reciprocal.default sin.default cos.default erf.default floor.default ceil.default "
    "round.default sign.default relu.default relu6.default hardtanh.default clamp.default leaky_relu.default "
    "elu.default gelu.default sigmoid.default tanh.default silu.default hardswish.default hardsigmoid.default "
    "softplus.default mish.default pow.Tensor_Scalar add.Scalar sub.Scalar mul.Scalar div.Scalar"
)
"""Functions of one tensor of which the NPU's tables are made; the CPU has every one."""

_BINARY = "add.Tensor sub.Tensor mul.Tensor div.Tensor minimum.default maximum.default"


def operators(names: str) -> frozenset[object]:
    """The operators of these names, with the form that changes its input in place where there is one."""
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
"""Operators that cut off values and change no other."""

_KNOWN = operators(_UNTAGGED)
_OTHERS = operators("clone.default rrelu.default")
"""What PyTorch tags as pointwise, and which copies, or draws numbers."""

_FILLS = operators("full.default scalar_tensor.default")
"""What makes a tensor of a number."""


def aten_operator(target: object) -> object:
    """The operator of PyTorch's registry that an operator of the edge dialect stands for; any other as it is."""
    return cast(object, target if isinstance(target, OpOverload) else getattr(target, "_op", target))


def _is_pointwise(operator: object) -> bool:
    """True for an operator of PyTorch's registry that computes each element from those at the same place."""
    if not isinstance(operator, OpOverload) or operator in _OTHERS:
        return False
    name, _, overload = operator.name().partition(".")
    plain = operators(f"{name.removeprefix('aten::').removesuffix('_')}.{overload or 'default'}")
    return any(one in _KNOWN or torch.Tag.pointwise in cast(OpOverload, one).tags for one in plain)


def is_elementwise(node: fx.Node) -> bool:
    """True for arithmetic of two tensors, and for functions of one, ATen's or the edge dialect's."""
    return aten_operator(node.target) in BINARY or operand(node) is not None


def operand(node: fx.Node) -> fx.Node | None:
    """The one activation that a node is an elementwise function of, beside numbers; None for any other node."""
    if node.op != "call_function" or not _is_float(node) or not _is_pointwise(aten_operator(node.target)):
        return None
    inputs = [arg for arg in node.all_input_nodes if not is_number(arg)]
    return inputs[0] if len(inputs) == 1 and _is_float(inputs[0]) else None


def is_function(node: fx.Node) -> bool:
    """True for a function of one activation that does more than cut off values."""
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
    """Replaces, in an edge program, what lies between a dequantise and a quantise operator by a table.

    A chain or a graph of elementwise operators that all come from one quantised tensor is one table; so is a
    dequantise operator that a quantise operator with other parameters follows.
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

    def found(self) -> Iterable[tuple[fx.Node, fx.Node, Tensor]]:
        """Each quantise node that can be replaced, the quantised node that its result depends on, and its values.

        These are what it quantises, one for each number of the dtype, the least first.
        """
        for node in list(self._program.graph.nodes):
            if _is(node, quantized.quantize_per_tensor.default) and node.args[5] == self._dtype:
                sources: set[fx.Node] = set()
                if self._follow(node.args[0], sources, {}) and len({source.args for source in sources}) == 1:
                    yield node, cast(fx.Node, next(iter(sources)).args[0]), self._values(node, sources)

    def limits(self) -> Iterable[tuple[fx.Node, fx.Node]]:
        """Each activation that cuts off values which its result's scale has, and the quantise node behind it.

        An operator that is no table and whose result the activation takes cannot cut them off by its own range.
        """
        for node in list(self._program.graph.nodes):
            if _is(node, quantized.quantize_per_tensor.default) and node.args[5] == self._dtype:
                activation = cast(fx.Node, node.args[0])
                if aten_operator(activation.target) in LIMITS and not self._follow(activation, set(), {}):
                    every = _every(self._dtype)
                    values = quantized.dequantize_per_tensor.default(every, *node.args[1:])
                    before = cast(fx.Node, activation.args[0])
                    limited = call_on(node, {activation: call_on(activation, {before: values})})
                    if not torch.equal(limited, every):
                        yield activation, node

    def _follow(self, node: object, sources: set[fx.Node], seen: dict[fx.Node, bool]) -> bool:
        """True when a node is an elementwise function of quantised tensors, which are added to `sources`."""
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
        """True for one number that depends on no input."""
        if node.name in self._constants:
            return True
        inputs, value = node.all_input_nodes, node.meta.get("val")
        is_number = isinstance(value, Tensor) and value.numel() == 1 and node.op == "call_function"
        return is_number and (all(map(self._is_constant, inputs)) if inputs else aten_operator(node.target) in _FILLS)

    def _values(self, quantize: fx.Node, sources: Iterable[fx.Node]) -> Tensor:
        """What the quantise node quantises for each value of the quantised tensor, the least first."""
        every = _every(self._dtype)
        values = {source: call_on(source, {cast(fx.Node, source.args[0]): every}) for source in sources}

        def value(node: fx.Node) -> Tensor:
            if node.name in self._constants:
                return self._constants[node.name]
            if node not in values:
                values[node] = call_on(node, {arg: value(arg) for arg in node.all_input_nodes})
            return values[node]

        return value(cast(fx.Node, quantize.args[0])).reshape(-1)


def _every(dtype: torch.dtype) -> Tensor:
    """All numbers of a dtype."""
    limits = torch.iinfo(dtype)
    return torch.arange(limits.min, limits.max + 1, dtype=dtype)


def _is(node: fx.Node, operator: object) -> bool:
    return node.op == "call_function" and aten_operator(node.target) is operator


def call_on(node: fx.Node, values: Mapping[fx.Node, Tensor]) -> Tensor:
    """What a node gives for these values of its inputs."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda arg: values[arg])
    operator = cast(Any, aten_operator(node.target))
    return operator(*args, **kwargs)
