"""Writes operators that change tensors in place as ones that return new tensors, for every target alike.

A change of a view changes all that shares its memory. What quantisers put between operators are copies, which no longer
do: here every reader gets the value that stands there when it reads. Which elements of a tensor a view holds is taken
from where both lie in memory, so that no list says which operators give views.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.errors import UnsupportedError
from deuteron.frontend.operators import operator_name
from deuteron.frontend.quantise.decompositions import call, constant, constant_value
from deuteron.frontend.quantise.tensor_blocks import Block, block_of
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten

INSTEAD = "compute a new tensor from the old one, such as with `torch.where` or `torch.cat`"

LATER = "take the view after the change"

_FILLS = frozenset({aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default})
_OTHER_MEMORY = frozenset({"aten::set_", "aten::resize_", "aten::resize_as_"})

_Place = tuple[torch.dtype, int, tuple[int, ...], tuple[int, ...]]
"""The dtype of a tensor, and its offset, sizes and strides in its memory."""


def write(model: fx.GraphModule) -> None:
    """Let no operator change what others read. Inputs of the model stay as the caller gives them.

    Buffers are left alone: what a run overwrites and reads is a copy by now (`eager/blocks.py`), and in sessions of
    ExecuTorch's `export.check_repeatable` has refused models that change those that they read.

    Raises:
        UnsupportedError: where an operator has no form that returns a new tensor, or what it changes is no block.
    """
    _drop_nothing(model)
    nodes = list(model.graph.nodes)
    memories = _memories(nodes)
    order = {node: index for index, node in enumerate(nodes)}
    changes = list[fx.Node]()
    for node in nodes:
        memory = memories.get(node)
        written = [arg for arg in _written(node) if arg in memories]

        def now(read: fx.Node, reader: fx.Node = node) -> fx.Node:
            return memories[read].value(read, reader) if read in memories else read

        node.args, node.kwargs = map_arg(node.args, now), map_arg(node.kwargs, now)
        if written and not _only_views(node):
            if memory is None or len(written) > 1:
                raise _refused(node, "writes into what it reads, and has more than that for a result", INSTEAD)
            memory.change(model, node, written[0], order[node])
            changes.append(node)
        elif memory is not None:
            if written:
                node.target = _new(node)
            is_part = node.target is operator.getitem  # of what was cut when the node that it reads was made
            memory.note(node, order[cast(fx.Node, node.args[0] if is_part else node)])
    for node in reversed(changes):
        model.graph.erase_node(node)
    if memories:
        model.graph.eliminate_dead_code()
        model.graph.lint()
        model.recompile()


def _drop_nothing(model: fx.GraphModule) -> None:
    """Takes out what drops nothing: it returns what it reads, though tracing gives its result memory of its own."""
    moved = set[fx.Node]()

    def value(node: fx.Node) -> Any:
        own: object = node.meta["val"]
        return own.detach() if isinstance(own, Tensor) else own  # its shape may be changed in place

    for node in list(model.graph.nodes):
        if node.op == "call_function" and "dropout" in operator_name(node.target):
            x = cast(fx.Node, node.args[0])
            node.replace_all_uses_with(x)
            model.graph.erase_node(node)
            moved.add(x)
        elif node.op == "call_function" and not moved.isdisjoint(node.all_input_nodes):
            node.meta["val"] = node.target(*map_arg(node.args, value), **map_arg(node.kwargs, value))
            moved.add(node)


@dataclass(slots=True)
class _Memory:
    """Memory that operators write into.

    Attributes:
        root: the node in whose result it was first.
        parents: of each other node that shares it, the one that it is a view of.
        values: what stands at each place now, where it is known; at the root's it always is.
        changed: when it was changed last.
    """

    root: fx.Node
    parents: dict[fx.Node, fx.Node] = field(default_factory=dict[fx.Node, fx.Node])
    values: dict[_Place, fx.Node] = field(default_factory=dict[_Place, fx.Node])
    changed: int = -1

    def note(self, node: fx.Node, time: int) -> None:
        """A node holds what stood at its place at a time."""
        if time > self.changed:
            self.values.setdefault(_place(node), node)

    def value(self, node: fx.Node, reader: fx.Node) -> fx.Node:
        """What stands now at the place of a node, put before its reader where that must be read again."""
        place = _place(node)
        if place not in self.values:
            view = self._view(node)
            if view is None and _is_empty(node):
                return _nothing(reader, self.value(self.root, reader), node)
            if view is None:
                what = "is read after a change in place of what it is a view of, and is no block of that"
                raise _refused(node, what, LATER)
            base, block = view
            self.values[place] = block.taken(reader, self.value(base, reader))
        return self.values[place]

    def change(self, model: fx.GraphModule, node: fx.Node, written: fx.Node, time: int) -> None:
        """A node changes what stands at the place of another."""
        values = {_place(written): _result(model, node, written.meta["val"])}
        if _is_empty(written):  # and nothing else changes
            self.values |= values
            return
        while _place(written) != _place(self.root):
            view = self._view(written)
            if view is None:
                raise _refused(node, "changes elements in place that are no block of rows and columns", INSTEAD)
            base, block = view
            values[_place(base)] = block.replaced(node, self.value(base, node), values[_place(written)])
            written = base
        self.values, self.changed = values, time

    def _view(self, node: fx.Node) -> tuple[fx.Node, Block] | None:
        """What a node is a block of, and which: of the root, or of what it is a view of."""
        value = cast(Tensor, node.meta["val"])
        for base in dict.fromkeys((self.root, self.parents.get(node, self.root))):
            whole = cast(Tensor, base.meta["val"])
            block = block_of(_seen(_elements(whole), value), whole.shape) if whole.dtype == value.dtype else None
            if block is not None:
                return base, block
        return None


def _is_empty(node: fx.Node) -> bool:
    return not cast(Tensor, node.meta["val"]).numel()


def _nothing(reader: fx.Node, root: fx.Node, view: fx.Node) -> fx.Node:
    """A view without elements, taken again before a reader."""
    none = call(reader, aten.slice.Tensor, call(reader, aten.reshape.default, root, [-1]), 0, 0, 0)
    return call(reader, aten.reshape.default, none, list(view.meta["val"].shape))


def _memories(nodes: list[fx.Node]) -> Mapping[fx.Node, _Memory]:
    """The memory of each node that shares what others write into; buffers are none."""
    members = dict[int, list[fx.Node]]()
    for node in nodes:
        if isinstance(node.meta.get("val"), Tensor):
            storage = _storage(node)
            if node.target is aten.lift_fresh_copy.default:
                members.pop(storage, None)  # tracing takes the constant for the copy
            members.setdefault(storage, []).append(node)
    memories = dict[fx.Node, _Memory]()
    for storage in {_storage(arg) for node in nodes for arg in _written(node)}:
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
    """The nodes of the parameters and buffers that operators write into, directly or through views."""
    nodes = [node for node in model.graph.nodes if isinstance(node.meta.get("val"), Tensor)]
    written = {_storage(arg) for node in model.graph.nodes for arg in _written(node)}
    return [node for node in nodes if node.op == "get_attr" and _storage(node) in written]


def storage_of(value: Any) -> int:
    """Return the identity of a tensor's memory."""
    return value.untyped_storage()._cdata  # noqa: SLF001 - as PyTorch compares storages


def _storage(node: fx.Node) -> int:
    return storage_of(node.meta["val"])


def _elements(value: Tensor) -> Tensor:
    """For each element of a tensor's memory, which one of the tensor's it is; -1 where it is none."""
    elements = torch.full((value.untyped_storage().nbytes() // value.element_size(),), -1)
    _seen(elements, value).copy_(torch.arange(value.numel()).reshape(value.shape))
    return elements


def _seen(elements: Tensor, value: Tensor) -> Tensor:
    """Those of the elements of a memory that a tensor there has, in its shape."""
    return elements.as_strided(value.shape, value.stride(), cast(int, value.storage_offset()))


def _place(node: fx.Node) -> _Place:
    value = cast(Tensor, node.meta["val"])
    sizes = tuple(value.shape)
    strides = tuple(stride if size > 1 else 0 for size, stride in zip(sizes, value.stride(), strict=True))
    return value.dtype, cast(int, value.storage_offset()), sizes, strides


def _written(node: fx.Node) -> list[fx.Node]:
    """What an operator writes into."""
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


def _only_views(node: fx.Node) -> bool:
    """True for an operator that changes in place how a tensor is seen, such as `unsqueeze_`, but no element."""
    target: Any = node.target
    return torch.Tag.inplace_view in target.tags and operator_name(target) not in _OTHER_MEMORY


def _new(node: fx.Node) -> Any:
    """The operator that returns what another writes."""
    target: Any = node.target
    schema = target._schema  # noqa: SLF001 - the one way to the schema
    space, _, name = schema.name.partition("::")
    name = f"__{name[3:]}" if name.startswith("__i") else name.removesuffix("_")
    wanted = _signature(schema)
    packet = getattr(getattr(torch.ops, space), name, None) if schema.name not in _OTHER_MEMORY else None
    for overload in packet.overloads() if packet is not None else ():
        other = getattr(packet, overload)
        if _signature(other._schema) == wanted and not other._schema.is_mutable:  # noqa: SLF001
            return other
    raise _refused(node, "writes into what it reads, and has no form that returns a new tensor", INSTEAD)


def _signature(schema: Any) -> list[tuple[str, str]]:
    """The names and types of what an operator takes, but the first one's name: that is `self`, or another."""
    arguments = [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]
    return [("", kind) if index == 0 else (name, kind) for index, (name, kind) in enumerate(arguments)]


def _result(model: fx.GraphModule, node: fx.Node, like: Tensor) -> fx.Node:
    """What a node writes, as a value of its own of a tensor's shape and dtype."""
    filled = _filled(model, node, like)
    if filled is not None:
        return filled
    if node.target is aten.copy_.default:
        value = cast(fx.Node, node.args[1])
    elif _chooses(node):
        x, (mask,), new = cast(Any, node.args[:3])
        value = call(node, aten.where.self, mask, new, x)
    else:
        target = _new(node)
        names = {argument.name for argument in target._schema.arguments}  # noqa: SLF001
        value = call(node, target, *node.args, **{key: arg for key, arg in node.kwargs.items() if key in names})
    if value.meta["val"].dtype != like.dtype:
        value = call(node, aten.to.dtype, value, like.dtype)
    return value if value.meta["val"].shape == like.shape else call(node, aten.expand.default, value, list(like.shape))


def _filled(model: fx.GraphModule, node: fx.Node, like: Tensor) -> fx.Node | None:
    """A constant in place of what fills a tensor with one number; None for what does not, or with what is computed."""
    if node.target not in _FILLS:
        return None
    number: object = node.args[1] if len(node.args) > 1 else 0
    if isinstance(number, fx.Node):
        value = constant_value(model, number)
        if value is None:
            return call(node, aten.expand.default, call(node, aten.to.dtype, number, like.dtype), list(like.shape))
        number = value.item()
    return constant(model, node, node.name, torch.full(like.shape, cast(float, number), dtype=like.dtype))


def _chooses(node: fx.Node) -> bool:
    """True where a number is put wherever a mask of the tensor's shape says so."""
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


def _refused(node: fx.Node, what: str, hint: str) -> UnsupportedError:
    source = source_of(node)
    return UnsupportedError(
        f"`{operator_name(node.target)}` {what}{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint=hint,
    )
