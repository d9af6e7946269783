"""Keeps integer arithmetic exact: ExecuTorch's Arm passes convert int64 to int32 and divide in int8.

Integer divisions stay on the CPU. Indices stay int64 for operators that require it.
Constants beyond 32 bits are refused.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import value_of
from deuteron.frontend.upstream import access, private_apis
from deuteron.frontend.upstream.access import replaced

aten = torch.ops.aten

KEPT = "integers are divided on the CPU: the NPU has no exact division"

NARROW = "keep integers within 32 bits, in which an Ethos-U computes, or build for a target without one"

_SCALARS = ("number", "Optional[number]", "Tensor")
"""Types of arguments that numbers are computed with."""

_NEW = frozenset({"full", "full_like", "scalar_tensor", "arange"})

_DIVISIONS = frozenset({"div", "floor_divide", "remainder", "fmod"})

_INDICES: dict[Any, tuple[int, ...]] = {
    aten.take.default: (1,),
    aten.take_along_dim.default: (1,),
    aten.put.default: (1,),
    aten.gather.default: (2,),
    aten.scatter.src: (2,),
    aten.scatter.value: (2,),
    aten.scatter.reduce: (2,),
    aten.scatter.value_reduce: (2,),
    aten.scatter_add.default: (2,),
    aten.scatter_reduce.two: (2,),
    aten.index_fill.int_Scalar: (2,),
    aten.index_fill.int_Tensor: (2,),
    aten.index_copy.default: (2,),
    aten.cross_entropy_loss.default: (1,),
    aten.nll_loss.default: (1,),
    aten.nll_loss2d.default: (1,),
    aten.nll_loss_nd.default: (1,),
}
"""Operators that require int64 indices, with the positions of these arguments."""


def check(model: fx.GraphModule) -> None:
    """Check that the integer constants of an exported model fit into 32 bits.

    Raises:
        UnsupportedError: for the first that does not.
    """
    for node in model.graph.nodes:
        if node.op == "get_attr" and node.users:
            wide = [int(x) for x in value_of(model, node).aminmax()] if _is_int64(node) else []
            first = next(iter(node.users))
            named = node if first.op == "output" else first
        else:
            wide, named = _numbers(node), node
        if beyond := [x for x in wide if not -(2**31) <= x < 2**31]:
            raise refusal(named, f"has the integer {beyond[0]}, of more than 32 bits", NARROW)


def _is_int64(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.int64 and value.numel() > 0


def _numbers(node: fx.Node) -> list[int]:
    """The numbers that an operator of integers computes with; sizes and positions are not among them."""
    schema: Any = getattr(node.target, "_schema", None)
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    if schema is None or any(isinstance(value, Tensor) and value.is_floating_point() for value in values):
        return []
    given = {**dict(zip((argument.name for argument in schema.arguments), node.args, strict=False)), **node.kwargs}
    numbers = [given.get(argument.name) for argument in schema.arguments if str(argument.type) in _SCALARS]
    return [number for number in numbers if isinstance(number, int)]


def is_division(node: fx.Node) -> bool:
    """True for an integer division with an integer result."""
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return called(node) in _DIVISIONS and all(
        isinstance(value, Tensor) and not value.is_floating_point() for value in values
    )


def stays_on_cpu(node: fx.Node) -> bool:
    """True for an integer division, and for new tensors of integers, which Arm's passes make of numbers."""
    value: object = node.meta.get("val")
    is_new = called(node) in _NEW and isinstance(value, Tensor) and not value.is_floating_point()
    return is_new or is_division(node)


@contextmanager
def exact() -> Generator[None]:
    """Annotate no integer divisions, and cast indices back to int64, in this context."""
    positions: dict[Any, tuple[int, ...]] = access.value_of(private_apis.ARM_INT64)

    def marking(original: Any) -> object:
        def mark(node: fx.Node, inputs: Any, output: Any, is_quantized: bool) -> None:
            if is_division(node):
                inputs, output, is_quantized = {}, None, False
            original(node, inputs, output, is_quantized)

        return mark

    added = {target: places for target, places in _INDICES.items() if target not in positions}
    positions.update(added)
    try:
        with replaced(private_apis.ARM_MARK, marking):
            yield
    finally:
        for target in added:
            del positions[target]
