"""Replaces operators that change tensors in place by operators that return new tensors, for all targets.

A change of a view changes all tensors that share its memory. Quantizers insert copies between operators, which share
nothing. So each reader gets the value of its operand at the time of reading. The strides of the traced tensors show
which elements a view has.
"""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.errors import UnsupportedError
from deuteron.frontend.operators import called, operator_name
from deuteron.frontend.quantize.decompositions import call, constant, constant_value
from deuteron.frontend.quantize.tensor_blocks import Block, block_of
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten

INSTEAD = "compute a new tensor from the old one, such as with `torch.where` or `torch.cat`"

COPY_FIRST = "copy what it reads before the change: `x[:, 1:] = x[:, :-1].clone()`"

LATER = "take the view after the change"

_FILLS = frozenset({aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default})
_EMPTY = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
_OTHER_MEMORY = frozenset({"aten::set_", "aten::resize_", "aten::resize_as_"})

_Place = tuple[torch.dtype, int, tuple[int, ...], tuple[int, ...]]
"""The dtype of a tensor, and its offset, sizes and strides in its memory."""


def write(model: fx.GraphModule) -> None:
    """Replace operators that change the operands of others; inputs of the model do not change.

    Buffers are not handled here: `eager/blocks.py` has copied those that a run overwrites and reads, and
    `export.check_repeatable` has refused models that change the buffers that they read.

    Raises:
        UnsupportedError: an operator has no variant that returns a new tensor, or changes elements that are no block.
    """
    _remove_dropouts(model)
    _fill_empty(model)
    nodes = list(model.graph.nodes)
    memories = _memories(nodes)
    order = {node: index for index, node in enumerate(nodes)}
    changes = list[fx.Node]()
    for node in nodes:
        memory = memories.get(node)
        written = [arg for arg in operands_written(node) if arg in memories]

        def current(read: fx.Node, reader: fx.Node = node) -> fx.Node:
            return memories[read].value(read, reader) if read in memories else read

        node.args, node.kwargs = map_arg(node.args, current), map_arg(node.kwargs, current)
        if written and not _only_changes_view(node):
            if memory is None or len(written) > 1:
                raise refused(node, "writes into its operand and has other results too", INSTEAD)
            memory.change(model, node, written[0], order[node])
            changes.append(node)
        elif memory is not None:
            if written:
                node.target = _functional(node)
            is_part = node.target is operator.getitem  # it has the value of the time when its operand was computed
            memory.record(node, order[cast(fx.Node, node.args[0] if is_part else node)])
    for node in reversed(changes):
        model.graph.erase_node(node)
    if memories:
        model.graph.eliminate_dead_code()
        model.graph.lint()
        model.recompile()


def _remove_dropouts(model: fx.GraphModule) -> None:
    """Remove dropouts, which return their operand in evaluation mode although tracing gives them other memory."""
    moved = set[fx.Node]()

    def value(node: fx.Node) -> Any:
        own: object = node.meta["val"]
        return own.detach() if isinstance(own, Tensor) else own  # an in-place operator may change its shape

    for node in list(model.graph.nodes):
        if node.op == "call_function" and "dropout" in operator_name(node.target):
            x = cast(fx.Node, node.args[0])
            node.replace_all_uses_with(x)
            model.graph.erase_node(node)
            moved.add(x)
        elif node.op == "call_function" and not moved.isdisjoint(node.all_input_nodes):
            node.meta["val"] = node.target(*map_arg(node.args, value), **map_arg(node.kwargs, value))
            moved.add(node)


def _fill_empty(model: fx.GraphModule) -> None:
    """Let tensors of unknown elements, which the model writes into, start with zeros."""
    for node in model.graph.nodes:
        if called(node) in _EMPTY and (value := cast(Tensor, node.meta["val"])).is_contiguous():
            node.target, node.args, node.kwargs = aten.zeros.default, ([*value.shape],), {"dtype": value.dtype}


@dataclass(slots=True)
class _Memory:
    """Memory that operators write into.

    Attributes:
        root: the node whose result it first was.
        parents: for each other node that shares it, the node that it is a view of.
        values: the current value of each place, if known; the root's value is always known.
        changed: the time of the last change.
    """

    root: fx.Node
    parents: dict[fx.Node, fx.Node] = field(default_factory=dict[fx.Node, fx.Node])
    values: dict[_Place, fx.Node] = field(default_factory=dict[_Place, fx.Node])
    changed: int = -1

    def record(self, node: fx.Node, time: int) -> None:
        """Record that a node has the value of its place at a time."""
        if time > self.changed:
            self.values.setdefault(_place(node), node)

    def value(self, node: fx.Node, reader: fx.Node) -> fx.Node:
        """Return the current value at the place of a node; insert operators before the reader if necessary."""
        place = _place(node)
        if place not in self.values:
            view = self._view(node)
            if view is None and _is_empty(node):
                return _empty_view(reader, self.value(self.root, reader), node)
            if view is None:
                what = "is read after an in-place change of the tensor that it is a view of, and is no block of that"
                raise refused(node, what, LATER)
            base, block = view
            self.values[place] = block.extract(reader, self.value(base, reader))
        return self.values[place]

    def change(self, model: fx.GraphModule, node: fx.Node, written: fx.Node, time: int) -> None:
        """Replace the value at the place of `written` by the result of an in-place operator."""
        values = {_place(written): _result(model, node, written.meta["val"])}
        if _is_empty(written):  # and no element changes
            self.values |= values
            return
        while _place(written) != _place(self.root):
            view = self._view(written)
            if view is None:
                raise refused(node, "changes elements in place that are no block of rows and columns", INSTEAD)
            base, block = view
            values[_place(base)] = block.replace(node, self.value(base, node), values[_place(written)])
            written = base
        self.values, self.changed = values, time

    def _view(self, node: fx.Node) -> tuple[fx.Node, Block] | None:
        """The node that another is a block of, the root or the viewed node, and the block; None if there is none."""
        value = cast(Tensor, node.meta["val"])
        for base in dict.fromkeys((self.root, self.parents.get(node, self.root))):
            whole = cast(Tensor, base.meta["val"])
            block = block_of(_seen(_elements(whole), value), whole.shape) if whole.dtype == value.dtype else None
            if block is not None:
                return base, block
        return None


def _is_empty(node: fx.Node) -> bool:
    return not cast(Tensor, node.meta["val"]).numel()


def _empty_view(reader: fx.Node, root: fx.Node, view: fx.Node) -> fx.Node:
    """Insert a view without elements before a reader."""
    none = call(reader, aten.slice.Tensor, call(reader, aten.reshape.default, root, [-1]), 0, 0, 0)
    return call(reader, aten.reshape.default, none, list(view.meta["val"].shape))


def _memories(nodes: list[fx.Node]) -> Mapping[fx.Node, _Memory]:
    """The memory of each node that shares memory with the operand of an in-place operator; buffers are excluded."""
    members = dict[int, list[fx.Node]]()
    for node in nodes:
        if isinstance(node.meta.get("val"), Tensor):
            storage = _storage(node)
            if node.target is aten.lift_fresh_copy.default:
                members.pop(storage, None)  # tracing gives the constant the memory of the copy
            members.setdefault(storage, []).append(node)
    memories = dict[fx.Node, _Memory]()
    for storage in {_storage(arg) for node in nodes for arg in operands_written(node)}:
        root, *others = members[storage]
        if root.op == "get_attr":
            continue
        memories[root] = memory = _Memory(root)
        for node in others:
            source = cast(fx.Node, node.args[0]) if node.target is operator.getitem else node
            memory.parents[node] = next((arg for arg in source.all_input_nodes if memories.get(arg) is memory), root)
            memories[node] = memory
    return memories


def written_buffers(model: fx.GraphModule) -> list[fx.Node]:
    """The parameters and buffers that operators write into, directly or through views."""
    nodes = [node for node in model.graph.nodes if isinstance(node.meta.get("val"), Tensor)]
    written = {_storage(arg) for node in model.graph.nodes for arg in operands_written(node)}
    return [node for node in nodes if node.op == "get_attr" and _storage(node) in written]


def writes_into(nodes: Iterable[fx.Node], memory: fx.Node) -> bool:
    """True if one of the nodes writes into the memory of a tensor, directly or through a view."""
    return any(_storage(arg) == _storage(memory) for node in nodes for arg in operands_written(node))


def last_writes(model: fx.GraphModule) -> dict[int, int]:
    """Return, for each memory that operators write into, the position of the last such node in the graph."""
    return {_storage(arg): index for index, node in enumerate(model.graph.nodes) for arg in operands_written(node)}


def storage_of(value: Any) -> int:
    """Return the identity of a tensor's memory."""
    return value.untyped_storage()._cdata  # noqa: SLF001 - as PyTorch compares storages


def _storage(node: fx.Node) -> int:
    return storage_of(node.meta["val"])


def _elements(value: Tensor) -> Tensor:
    """For each element of a tensor's memory, its index in the tensor; -1 if it is not in the tensor."""
    elements = torch.full((value.untyped_storage().nbytes() // value.element_size(),), -1)
    _seen(elements, value).copy_(torch.arange(value.numel()).reshape(value.shape))
    return elements


def _seen(elements: Tensor, value: Tensor) -> Tensor:
    """View the elements of a memory with a tensor's shape and strides."""
    return elements.as_strided(value.shape, value.stride(), cast(int, value.storage_offset()))


def _place(node: fx.Node) -> _Place:
    value = cast(Tensor, node.meta["val"])
    sizes = tuple(value.shape)
    strides = tuple(stride if size > 1 else 0 for size, stride in zip(sizes, value.stride(), strict=True))
    return value.dtype, cast(int, value.storage_offset()), sizes, strides


def operands_written(node: fx.Node) -> list[fx.Node]:
    """Return the operands that an operator writes into."""
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    names = [argument.name for argument in schema.arguments]
    values = dict(zip(names, node.args, strict=False)) | node.kwargs
    written = list[fx.Node]()
    for argument in schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            map_arg(cast(Any, values.get(argument.name)), written.append)
    return written


def _only_changes_view(node: fx.Node) -> bool:
    """True for an in-place operator that changes the view of a tensor, such as `unsqueeze_`, but no element."""
    target: Any = node.target
    return torch.Tag.inplace_view in target.tags and operator_name(target) not in _OTHER_MEMORY


def _functional(node: fx.Node) -> Any:
    """The variant of an in-place operator that returns a new tensor."""
    target: Any = node.target
    schema = target._schema  # noqa: SLF001 - it has no public name
    space, _, name = schema.name.partition("::")
    name = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")
    wanted = _signature(schema)
    packet = getattr(getattr(torch.ops, space), name, None) if schema.name not in _OTHER_MEMORY else None
    for overload in packet.overloads() if packet is not None else ():
        other = getattr(packet, overload)
        if _signature(other._schema) == wanted and not other._schema.is_mutable:  # noqa: SLF001
            return other
    raise refused(node, "writes into its operand, and has no variant that returns a new tensor", INSTEAD)


def _signature(schema: Any) -> list[tuple[str, str]]:
    """The names and types of an operator's arguments, without the name of the first one, which varies."""
    arguments = [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]
    return [("", kind) if index == 0 else (name, kind) for index, (name, kind) in enumerate(arguments)]


def _result(model: fx.GraphModule, node: fx.Node, like: Tensor) -> fx.Node:
    """Insert the result of an in-place operator as a new tensor of a given shape and dtype."""
    filled = _filled(model, node, like)
    if filled is not None:
        return filled
    if node.target is aten.copy_.default:
        value = cast(fx.Node, node.args[1])
    elif node.target is aten.fill_diagonal_.default:
        x, number, *wraps = cast(Any, node.args)
        mask = torch.zeros(like.shape, dtype=torch.bool).fill_diagonal_(True, *wraps)
        value = call(node, aten.masked_fill.Scalar, x, constant(model, node, f"{node.name}_mask", mask), number)
    elif _is_masked_fill(node):
        x, (mask,), new = cast(Any, node.args[:3])
        value = call(node, aten.where.self, mask, new, x)
    else:
        target = _functional(node)
        names = {argument.name for argument in target._schema.arguments}  # noqa: SLF001
        value = call(node, target, *node.args, **{key: arg for key, arg in node.kwargs.items() if key in names})
    if value.meta["val"].dtype != like.dtype:
        value = call(node, aten.to.dtype, value, like.dtype)
    return value if value.meta["val"].shape == like.shape else call(node, aten.expand.default, value, list(like.shape))


def _filled(model: fx.GraphModule, node: fx.Node, like: Tensor) -> fx.Node | None:
    """The constant or expanded result of an operator that fills a tensor with one number; None for others."""
    if node.target not in _FILLS:
        return None
    number: object = node.args[1] if len(node.args) > 1 else 0
    if isinstance(number, fx.Node):
        value = constant_value(model, number)
        if value is None:
            return call(node, aten.expand.default, call(node, aten.to.dtype, number, like.dtype), list(like.shape))
        number = value.item()
    return constant(model, node, node.name, torch.full(like.shape, cast(float, number), dtype=like.dtype))


def _is_masked_fill(node: fx.Node) -> bool:
    """True for an `index_put_` of a number at the positions of a mask of the tensor's shape."""
    if node.target is not aten.index_put_.default or len(node.args) != 3:
        return False
    x, masks, new = cast("tuple[fx.Node, list[fx.Node | None], fx.Node]", node.args)
    mask = masks[0].meta["val"] if len(masks) == 1 and masks[0] is not None else None
    return (
        mask is not None
        and mask.dtype == torch.bool
        and mask.shape == x.meta["val"].shape
        and not new.meta["val"].dim()
    )


def refused(node: fx.Node, what: str, hint: str) -> UnsupportedError:
    """Return the error for an in-place operator, with its line."""
    source = source_of(node)
    return UnsupportedError(
        f"`{operator_name(node.target)}` {what}{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint=hint,
    )
