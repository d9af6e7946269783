"""Flattens an exported graph to a list of operators: no nested blocks, no assertions, no changed buffers."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.fx.node import map_arg

from deuteron.builds.manifest import Source
from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager import raising_checks
from deuteron.frontend.export import BRANCHES, KEEPS, StateError
from deuteron.frontend.operators import called, changes_operand, operator_name
from deuteron.frontend.quantize.boolean_indices import PARTIAL
from deuteron.frontend.quantize.decompositions import call
from deuteron.frontend.quantize.inplace import storage_of, written_buffers
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten

_BODIES = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}
"""Blocks that compute the same as their body, with the index of the body among their arguments."""

_CHOICE = "cond"
"""A block that computes one of two bodies."""

_RISKY = PARTIAL | {"embedding", "gather", "index", "index_put", "index_select", "item", "take"}
"""Functions that are not defined for all operands."""

_FIXED = "write it as a Python loop with a fixed number of steps: PyTorch exports these one by one"

_HINTS = {
    "while_loop": _FIXED,
    "scan": _FIXED,
    "associative_scan": _FIXED,
    "map_impl": _FIXED,
}

_ASSERTIONS = frozenset({"_assert_async", "_assert_scalar"})
_OVERWRITES = frozenset({aten.copy_.default, aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default})

_FRESH = frozenset({aten.lift_fresh_copy.default, aten.lift_fresh.default})
"""Tensors that code makes from numbers in each run, as `torch.tensor` does: a run may write into them."""

TRANSFORMS = (
    "functions of `torch.func`, such as `grad` and `vmap`, leave no operators in the graph",
    "write a derivative as a formula, and in place of `vmap` the function for a batch, which operators accept",
)
"""Text and hint of the error about a function of `torch.func`."""

_NUMBERS = frozenset({aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor})
"""Operators that accept a tensor of one element instead of a number."""


def write(model: fx.GraphModule) -> None:
    """Flatten the graph in place.

    Raises:
        UnsupportedError: for control flow that depends on values, and for tensors that are converted to numbers.
    """
    while blocks := [node for node in model.graph.nodes if operator_name(node.target) in (*_BODIES, _CHOICE)]:
        for node in blocks:
            if operator_name(node.target) == _CHOICE:
                _choose(model, node)
            else:
                _inline(model, node)
    for node in reversed(model.graph.nodes):
        if node.op == "call_function" and "_assert" in operator_name(node.target) and not node.users:
            if called(node) in _ASSERTIONS and raising_checks.may_be_handled_at(node.meta.get("stack_trace") or ""):
                raise _refused(node, "a handled error depends on values", BRANCHES)
            model.graph.erase_node(node)
        elif (
            node.target is aten.detach_.default
        ):  # of a tensor that code makes of numbers, such as `torch.tensor([1.0])`
            node.replace_all_uses_with(node.all_input_nodes[0])
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    for node in list(model.graph.nodes):
        if isinstance(node.target, HigherOrderOperator):
            name = operator_name(node.target)
            raise _refused(node, f"`{name}` selects code by values", _HINTS.get(name, "write it with operators"))
        if str(getattr(node.target, "__module__", "")).startswith("torch._functorch"):
            raise _refused(node, *TRANSFORMS)
        if node.target is aten.item.default:
            _keep_tensor(node)
    for buffer in written_buffers(model):
        if any(user.target not in _FRESH for user in buffer.users):
            _need_overwritten(model, buffer)
        with model.graph.inserting_after(buffer):
            own = model.graph.call_function(aten.clone.default, (buffer,))
        own.meta = dict(buffer.meta)  # views of the buffer become views of the copy
        buffer.meta["val"] = buffer.meta["val"].clone()
        buffer.replace_all_uses_with(own, lambda user, own=own: user is not own)
    model.graph.lint()
    model.recompile()


def _need_overwritten(model: fx.GraphModule, buffer: fx.Node) -> None:
    """Check that a run overwrites a buffer completely before it reads it.

    Raises:
        StateError: a run reads the value that an earlier run left in the buffer.
    """
    storage = storage_of(buffer.meta["val"])
    shared = {node for node in model.graph.nodes if storage in map(storage_of, _tensors(node))}
    users = [node for node in model.graph.nodes if any(arg in shared for arg in node.all_input_nodes)]
    writers = [node for node in users if changes_operand(node)]
    readers = [node for node in users if node not in writers and node not in shared]
    reads = readers or any(len([arg for arg in node.all_input_nodes if arg in shared]) > 1 for node in writers)
    first = users[0]
    if all(node.target is aten.embedding_renorm_.default for node in writers):
        return  # it shortens rows, and shortened rows stay the same
    if reads and not (first.target in _OVERWRITES and first.args[0] is buffer):
        source = source_of(writers[0])
        raise StateError(
            f"a run of the model changes the attribute `{buffer.target}`, and later runs read it"
            f"{f', at `{source.code}`' if source else ''}",
            where=str(source) if source else None,
            hint=KEEPS,
        )


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    value: object = node.meta.get("val")
    return [one for one in flat(value) if isinstance(one, torch.Tensor)]


def _inline(model: fx.GraphModule, node: fx.Node) -> None:
    """Replace a block by its body."""
    if operator_name(node.target) == "wrap_with_autocast" and node.args[0] == "cpu" and node.args[2]:
        nodes = _body(model, node, _BODIES["wrap_with_autocast"]).graph.nodes
        inner = next(one for one in nodes if one.op == "call_function")
        raise _refused(
            inner,
            f"`torch.autocast` computes in {str(node.args[1]).removeprefix('torch.')}, not in float32",
            "leave the autocast block out of the model, or give it `enabled=False`",
        )
    place = _BODIES[operator_name(node.target)]
    _replace(model, node, _inlined(model, node, place, node.args[place + 1 :]))


def _choose(model: fx.GraphModule, node: fx.Node) -> None:
    """Replace a choice between two bodies, which change nothing, by both and a selection of the results."""
    is_first, operands = cast(fx.Node, node.args[0]), cast("Sequence[Any]", node.args[3])
    for inner in (one for place in (1, 2) for one in _body(model, node, place).graph.nodes):
        if called(inner) in _RISKY:
            text = (
                f"`cond` computes both branches in a program, and `{operator_name(inner.target)}` need not be defined"
            )
            raise _refused(inner, text, "select its operands with `torch.where`, and compute it of these")
    is_first = call(node, aten.reshape.default, is_first, [])
    both = zip(*(_inlined(model, node, place, operands) for place in (1, 2)), strict=True)
    results = [call(node, aten.where.self, is_first, one, other) for one, other in both]
    for result in results:
        result.meta = {**node.meta, "val": result.meta["val"]}
    _replace(model, node, results)


def _inlined(model: fx.GraphModule, node: fx.Node, place: int, operands: Sequence[Any]) -> Sequence[Any]:
    """Insert the body at a place among a block's arguments before the block; return its results."""
    name, body = str(cast(fx.Node, node.args[place]).target), _body(model, node, place)
    values = dict[fx.Node, Any](
        zip((one for one in body.graph.nodes if one.op == "placeholder"), operands, strict=True)
    )
    with model.graph.inserting_before(node):
        for inner in body.graph.nodes:
            if inner.op not in ("placeholder", "output"):
                values[inner] = copy = model.graph.node_copy(inner, values.__getitem__)
                if inner.op in ("get_attr", "call_module"):
                    copy.target = f"{name}.{inner.target}"
    return cast("Sequence[Any]", map_arg(body.graph.output_node().args[0], values.__getitem__))


def _replace(model: fx.GraphModule, node: fx.Node, results: Sequence[Any]) -> None:
    for user in list(node.users):
        user.replace_all_uses_with(results[cast(int, user.args[1])])
        model.graph.erase_node(user)
    model.graph.erase_node(node)


def _body(model: fx.GraphModule, node: fx.Node, place: int) -> fx.GraphModule:
    return cast(fx.GraphModule, model.get_submodule(str(cast(fx.Node, node.args[place]).target)))


def _keep_tensor(node: fx.Node) -> None:
    """Replace a number that was read from a tensor by the tensor of one element."""
    tensor = cast(fx.Node, node.args[0])
    other = next((user for user in node.users if user.target not in _NUMBERS), None)
    if other is not None:
        raise _refused(
            node,
            f"`{operator_name(other.target)}` needs a number that depends on values",
            "leave out `.item()`, `float()` and `int()`: operators take tensors of one element as they are",
        )
    for user in list(node.users):
        user.replace_input_with(node, tensor)
    node.graph.erase_node(node)


def _refused(node: fx.Node, what: str, hint: str) -> UnsupportedError:
    return refused(source_of(node), what, hint)


def refused(source: Source | None, what: str, hint: str) -> UnsupportedError:
    """Return the error about a line of the model."""
    return UnsupportedError(
        f"{what}{f', at `{source.code}`' if source else ''}", where=str(source) if source else None, hint=hint
    )
