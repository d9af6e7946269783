"""Makes PyTorch's type promotion explicit: casts operands to the dtype in which PyTorch computes.

PyTorch computes `mask * 3` of bools in int64, and `index * 2.5` in float32. ExecuTorch's passes use the dtype of the
first operand instead: `mask * 3` would stay bool.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import call

aten = torch.ops.aten

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_JOINS = frozenset({"cat", "stack", "concat", "hstack", "vstack"})
_SUMS = frozenset({"sum", "prod", "cumsum", "cumprod"})
_MASKS = frozenset({"condition", "mask"})
"""Operands that select elements."""


def write(model: fx.GraphModule) -> None:
    """Cast the operands of all operators that PyTorch would promote, in place."""
    for node in list(model.graph.nodes):
        dtype = _computed_in(node)
        if dtype is None:
            continue
        for arg in [arg for arg in _operands(node) if _dtype(arg) != dtype]:
            promoted = call(node, aten.to.dtype, arg, dtype)
            masks = [name for name, one in _named(node) if one is arg and name in _MASKS]
            node.replace_input_with(arg, promoted)
            for name in masks:
                node.update_arg(_position(node, name), arg)
    model.graph.lint()
    model.recompile()


def _computed_in(node: fx.Node) -> torch.dtype | None:
    """The dtype in which an operator computes; None if it does not promote its operands."""
    value: object = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, Tensor):
        return None
    name, target = called(node), cast(Any, node.target)
    if name in _COMPARISONS:
        values = [v.meta["val"] if isinstance(v, fx.Node) else v for v in (*node.args, *node.kwargs.values())]
        return _promoted(values)
    is_pointwise = torch.Tag.pointwise in getattr(target, "tags", ())
    if not (is_pointwise or name in _JOINS or name in _SUMS or name == "where"):
        return None
    operands = {_dtype(arg) for arg in _operands(node)}
    is_predicate = value.dtype == torch.bool and operands != {torch.bool}  # such as `isnan` and `logical_and`
    return None if is_predicate or any(dtype.is_complex for dtype in operands) else value.dtype


def _promoted(values: list[Any]) -> torch.dtype:
    """The dtype in which values are compared."""
    dtypes = [torch.result_type(a, b) for a in values[:1] for b in values[1:]]
    return reduce(torch.promote_types, dtypes)


def _operands(node: fx.Node) -> Iterator[fx.Node]:
    """The tensors that an operator computes with."""
    for name, arg in _named(node):
        if name not in _MASKS and isinstance(arg.meta.get("val"), Tensor):
            yield arg


def _named(node: fx.Node) -> Iterator[tuple[str, fx.Node]]:
    """The nodes among the arguments of an operator, with the names of the arguments."""
    schema: Any = cast(Any, node.target)._schema  # noqa: SLF001 - it has no public name
    names = [argument.name for argument in schema.arguments]
    for name, value in (*zip(names, node.args, strict=False), *node.kwargs.items()):
        found = list[fx.Node]()
        map_arg(cast(Any, value), found.append)
        yield from ((name, one) for one in found)


def _position(node: fx.Node, name: str) -> int:
    schema: Any = cast(Any, node.target)._schema  # noqa: SLF001 - it has no public name
    return [argument.name for argument in schema.arguments].index(name)


def _dtype(node: fx.Node) -> torch.dtype:
    return cast(Tensor, node.meta["val"]).dtype
