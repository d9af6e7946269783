"""Gives operators with several names in PyTorch, such as `multiply` and `mul`, the name that backends know."""

from typing import Any

import torch
from torch import fx

from deuteron.frontend.operators import called

aten = torch.ops.aten

_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "row_stack": "vstack",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_exp2": "exp2",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_log1p": "log1p",
    "special_logit": "logit",
    "special_logsumexp": "logsumexp",
    "subtract": "sub",
    "true_divide": "div",
}
"""Names of the same operator with the same overloads and arguments."""

_OVERLOADS: dict[Any, Any] = {
    aten.special_log_softmax.default: aten.log_softmax.int,
    aten.special_softmax.default: aten.softmax.int,
    aten.swapaxes.default: aten.transpose.int,
    aten.swapaxes_.default: aten.transpose_.default,
    aten.swapdims.default: aten.transpose.int,
    aten.swapdims_.default: aten.transpose_.default,
    **{getattr(aten, name).Scalar: getattr(aten, name).Tensor for name in ("add", "div", "mul", "sub")},
}
"""Operators whose overloads have other names."""

_OPERANDS = {aten.add.Tensor: 2, aten.sub.Tensor: 2}
"""Most arguments by position, where the other name has more."""


def write(model: fx.GraphModule) -> None:
    """Rename the operators in place, also those that write into an operand."""
    for node in model.graph.nodes:
        if node.op != "call_function":
            continue
        target: Any = _OVERLOADS.get(node.target)
        if target is None and (name := _NAMES.get(called(node))) is not None:
            old: Any = node.target
            writes = "_" if old._schema.name.endswith("_") else ""  # noqa: SLF001
            target = getattr(getattr(aten, name + writes), old._overloadname)  # noqa: SLF001
        if target is not None and len(node.args) <= _OPERANDS.get(target, len(node.args)):
            node.target = target
        if node.target is aten.constant_pad_nd.default:
            node.target, node.args = aten.pad.default, (*node.args[:2], "constant", *node.args[2:])
    model.recompile()
