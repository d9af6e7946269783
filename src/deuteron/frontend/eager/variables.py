"""Turns what a module keeps in its attributes from run to run into inputs and outputs of one step."""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from deuteron.builds.manifest import Source
from deuteron.errors import DeuteronError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.export_mode import literal
from deuteron.frontend.eager.outputs import equal, tensors
from deuteron.frontend.eager.state import Place, Snapshot
from deuteron.frontend.inputs import First, Inputs, copies
from deuteron.frontend.quantize import inplace
from deuteron.frontend.quantize.decompositions import constant_value


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of which runs change tensors.

    Attributes:
        place: the attribute.
        value: its value before the first run: a tensor, or a structure of tensors.
        source: the line that changes it, if it is known.
        is_start_assumed: whether `value` has tensors in place of None, numbers or missing entries of dictionaries.
        memories: the memory of each of its tensors before the first run, and after some runs.
    """

    place: Place
    value: object
    source: Source | None = None
    is_start_assumed: bool = False
    memories: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def tensors(self) -> list[Tensor]:
        """Return its tensors in the order of PyTorch's structures."""
        return pytree.tree_leaves(self.value)

    @property
    def names(self) -> list[str]:
        """Return a name for each of its tensors."""
        path = self.place.path.split("`")[1]
        return [path] if isinstance(self.value, Tensor) else [f"{path}.{i}" for i in range(len(self.tensors))]


@dataclass(frozen=True, slots=True)
class Variable:
    """A tensor that lives from one run to the next.

    Attributes:
        name: the path of the attribute, with the position in a structure of tensors.
        initial: the value before the first run.
        source: the line that changes it, if it is known.
    """

    name: str
    initial: Tensor
    source: Source | None = None


def attribute_of(
    place: Place, before: Snapshot, after: Snapshot, source: Source | None, starts: Sequence[object] = ()
) -> Attribute | None:
    """Return the attribute at a place if a run leaves tensors of the same structure, shapes and dtypes there.

    None becomes the value of `starts`, which first runs assign before any other, if it is the same in all of them, or
    else zeros. An entry that a dictionary lacks becomes zeros too; a number becomes a tensor of it. Most modules that
    start so compute the same with tensors, which the comparison of the exported graph with the module decides, from
    the start on every sample. Tensors become separate ones if they share memory before the first run and not later.
    """
    first, later = before.find(place), after.find(place)
    if first is None or later is None or not place.path.startswith("attribute"):
        return None
    value, new = first.holder.get(place.name), later.holder.get(place.name)
    if not _holds_tensors(new):
        return None
    start = _start(value, new)
    if value is None and starts and all(_form(one) == _form(new) and _equal(one, starts[0]) for one in starts):
        start = starts[0]
    if _form(start) != _form(new):
        return None
    memories = _memories_of(start), _memories_of(new)
    if _sharing(memories[0]) != _sharing(memories[1]):
        start = pytree.tree_map(torch.clone, start)
    return Attribute(place, start, source, _form(value) != _form(start), memories)


def becomes_tensor(place: Place, before: Snapshot, after: Snapshot) -> bool:
    """Return True for an attribute that holds a number before the first run, and a tensor later."""
    first, later = before.find(place), after.find(place)
    if first is None or later is None or not isinstance(later.holder.get(place.name), Tensor):
        return False
    return isinstance(first.holder.get(place.name), bool | int | float)


def _start(value: Any, new: Any) -> Any:
    """Return a value with tensors where a later one has them, and it has None, numbers or no entries."""
    if value is None:
        return pytree.tree_map(torch.zeros_like, new)
    if isinstance(new, Tensor) and isinstance(value, bool | int | float):
        start = torch.full_like(new, value, dtype=torch.float64).to(new.dtype)
        return start if bool((start == value).all()) else value
    if type(value) is not type(new):
        return value
    if isinstance(new, dict):
        held, entries = cast("dict[Any, Any]", value), cast("dict[Any, Any]", new)
        return {**held, **{key: _start(held.get(key), one) for key, one in entries.items()}}
    if isinstance(new, list | tuple) and len(cast("list[Any]", new)) == len(value):
        return pytree.tree_map(_start, value, new, is_leaf=lambda one: one is not value)
    return value


def _equal(one: object, other: object) -> bool:
    return equal(pytree.tree_leaves(one), pytree.tree_leaves(other))


def _memories_of(value: object) -> tuple[int, ...]:
    return tuple(one.untyped_storage().data_ptr() for one in pytree.tree_leaves(value))


def _sharing(memories: Sequence[int]) -> list[int]:
    """Return for each memory the position of the first equal one."""
    return [memories.index(one) for one in memories]


def change_sharing(attributes: Sequence[Attribute]) -> bool:
    """Return True if runs change which tensors of the attributes share memory."""
    before, after = ([one for each in attributes for one in each.memories[i]] for i in range(2))
    return _sharing(before) != _sharing(after)


def are_written_in_place(graph: fx.GraphModule, count: int) -> bool:
    """Return True if a graph changes the memory of its last `count` inputs, the variables."""
    inputs = graph.graph.find_nodes(op="placeholder")[-count:]
    own = {memory for node in inputs for user in node.users for memory in _memories(user)}  # `Step` clones them
    written = [one for node in graph.graph.nodes for one in inplace.operands_written(node)]
    return any(not own.isdisjoint(_memories(node)) for node in written)


def _holds_tensors(value: object) -> bool:
    found = pytree.tree_leaves(value)
    return bool(found) and all(isinstance(one, Tensor) and one.numel() for one in found)


def _form(value: object) -> object:
    found, structure = pytree.tree_flatten(value)
    return structure, [(one.shape, one.dtype) if isinstance(one, Tensor) else one for one in found]


class Binding:
    """The attributes of one copy of a module.

    Attributes:
        variables: one per tensor with separate memory; views of another variable are none.
    """

    def __init__(self, module: nn.Module, attributes: Sequence[Attribute]) -> None:
        snapshot = Snapshot(module)
        self._attributes = attributes
        self._holders = [cast(Place, snapshot.find(one.place)) for one in attributes]
        tensors = [tensor for one in attributes for tensor in one.tensors]
        names = [name for one in attributes for name in one.names]
        sources = [one.source for one in attributes for _ in one.tensors]
        self._views = [_view(tensors, index) for index in range(len(tensors))]
        self._own = [index for index, (base, _) in enumerate(self._views) if base == index]
        self.variables = tuple(Variable(names[i], tensors[i].detach().clone(), sources[i]) for i in self._own)

    def attributes_of(self, are_live: Sequence[bool]) -> tuple[Attribute, ...]:
        """Return the attributes that share memory with a live variable."""
        own = {index for index, is_live in zip(self._own, are_live, strict=True) if is_live}
        bases = iter([base in own for base, _ in self._views])
        return tuple(one for one in self._attributes if sum(next(bases) for _ in one.tensors))

    def read(self) -> list[Tensor]:
        """Return the current value of each variable.

        Raises:
            ValueError: an attribute has another structure than before.
        """
        values: list[Tensor] = []
        for attribute, place in zip(self._attributes, self._holders, strict=True):
            value = place.holder.get(place.name)
            if _form(value) != _form(attribute.value):
                raise ValueError(place.path)
            values += pytree.tree_leaves(value)
        return [values[index] for index in self._own]

    def write(self, values: Sequence[Tensor]) -> None:
        """Put tensors in the places of the variables; views of a variable become views of its tensor."""
        own = dict(zip(self._own, values, strict=True))
        tensors = iter([view(own[base]) for base, view in self._views])
        for attribute, place in zip(self._attributes, self._holders, strict=True):
            structure = pytree.tree_structure(attribute.value)
            place.holder[place.name] = pytree.tree_unflatten([next(tensors) for _ in attribute.tensors], structure)

    def restore(self, values: Sequence[object]) -> None:
        """Give the attributes the values of `values`, which `held` returned."""
        for place, value in zip(self._holders, values, strict=True):
            place.holder[place.name] = value

    def held(self) -> list[object]:
        """Return the values of the attributes as they are."""
        return [place.holder.get(place.name) for place in self._holders]


def _view(tensors: Sequence[Tensor], index: int) -> tuple[int, Callable[[Tensor], Tensor]]:
    """Return the tensor whose memory holds this one, and the function that makes this one of it."""
    own = tensors[index]
    for base, other in enumerate(tensors):
        memory = other.untyped_storage()
        if memory.data_ptr() != own.untyped_storage().data_ptr() or own.dtype != other.dtype:
            continue
        if not other.is_contiguous() or other.numel() * other.element_size() != memory.nbytes():
            continue
        if (own.shape, own.stride()) == (other.shape, other.stride()):
            return base, _same
        if own.dim() == other.dim() and own.stride() == other.stride():
            starts = _starts(int(own.storage_offset()), other.stride())
            return base, partial(_block, starts=starts, shape=own.shape)
    return index, _same


def _same(value: Tensor) -> Tensor:
    return value


def _starts(offset: int, strides: Sequence[int]) -> list[int]:
    """Return the index in each dimension of the element at an offset."""
    starts: list[int] = []
    for stride in strides:
        starts.append(offset // stride)
        offset -= starts[-1] * stride
    return starts


def _block(value: Tensor, starts: Sequence[int], shape: Sequence[int]) -> Tensor:
    for dim, (start, size) in enumerate(zip(starts, shape, strict=True)):
        if size != value.shape[dim]:
            value = value.narrow(dim, start, size)
    return value


class Step(nn.Module):
    """One run of a module as a function: the inputs and the variables to the outputs and the new variables.

    Variables that are `assumed` to be constants have their initial values, whatever is given for them.
    """

    def __init__(self, module: nn.Module, attributes: Sequence[Attribute], assumed: Sequence[bool] = ()) -> None:
        super().__init__()
        self.module = module
        self._assumed = tuple(assumed)
        self._binding = (Binding(module, attributes),)  # no submodule, and nothing that an export looks into

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Run the module once."""
        (binding,) = self._binding
        count = len(values) - len(binding.variables)
        held = binding.held()
        before = [value.clone() for value in values[count:]]
        for index, is_assumed in enumerate(self._assumed):
            before[index] = literal(binding.variables[index].initial) if is_assumed else before[index]
        try:
            binding.write(before)
            outputs = self.module(*values[:count])
            kept = binding.read()
        finally:
            binding.restore(held)
        separate = [one.clone() if any(one is other for other in kept[:i]) else one for i, one in enumerate(kept)]
        return (*tensors(outputs), *separate)


def argument_names(module: nn.Module, count: int) -> list[str]:
    """Return the names of the first arguments of `forward`; those of `*args` are `args_0`, `args_1` and so on."""
    names: list[str] = []
    for name, parameter in inspect.signature(module.forward).parameters.items():
        is_rest = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}_{i}" for i in range(count - len(names))] if is_rest else [name]
    return names[:count]


def renamed(step: fx.GraphModule, names: Sequence[str]) -> fx.GraphModule:
    """Return the graph of a `Step` with these names of inputs, and with the module's own names of its weights."""
    prefix, inputs = "module.", iter(names)
    graph, values, weights = fx.Graph(), dict[fx.Node, fx.Node](), dict[str, Any]()
    for node in step.graph.nodes:
        target, name = node.target, node.name
        if node.op == "get_attr":
            target = str(target).removeprefix(prefix)
            weights[target] = fx.Interpreter(step).fetch_attr(str(node.target))
            name = target.replace(".", "_")
        elif node.op == "placeholder":
            target = name = next(inputs)
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = made = graph.create_node(node.op, target, args, kwargs, name, node.type)
        made.meta = dict(node.meta)
    return fx.GraphModule(weights, graph)


def stepped(graph: fx.GraphModule, batches: Iterable[Inputs], variables: Sequence[Variable]) -> Iterator[Inputs]:
    """Yield the batches with the values that the variables have when the graph runs on them one after the other."""
    run = stepping(graph, variables)
    for batch in batches:
        is_first = isinstance(batch, First)
        if is_first:
            run = stepping(graph, variables)
        yield First((*batch, *run.values)) if is_first else (*batch, *run.values)
        if variables:
            run(*batch)


@dataclass(slots=True)
class Stepping:
    """Runs a graph on copies of its inputs, and keeps the variables between calls.

    Attributes:
        graph: its last inputs and outputs are the variables.
        initial: the initial values of the variables.
        values: their current values.
    """

    graph: fx.GraphModule
    initial: Sequence[Tensor]
    values: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Give the variables their initial values."""
        self.values = list(self.initial)

    def __call__(self, *inputs: Tensor) -> object:
        """Return the outputs of one run."""
        count = len(self.values)
        with torch.no_grad():
            results = self.graph(*copies((*inputs, *self.values)))
        if not count:
            return results
        outputs = cast("list[Tensor]", flat(results))
        self.values = [value.clone() for value in outputs[-count:]]
        return outputs[0] if len(outputs) == count + 1 else tuple(outputs[:-count])


def stepping(graph: fx.GraphModule, variables: Sequence[Variable]) -> Stepping:
    """Return the graph with the initial values of its variables."""
    return Stepping(graph, [one.initial for one in variables])


def settled(graph: fx.GraphModule, are_equal: Sequence[bool]) -> list[bool]:
    """Tell for each of the last inputs and outputs, the variables, whether they are constants.

    A run computes the new value from values that are constants themselves, which the first two runs have left equal
    (`are_equal`), and nothing else reads the old value. No variable is one in a graph whose changes of memory cannot be
    removed.
    """
    count = len(are_equal)
    functional, values = _functional(graph)
    if values is not _value:
        return [False] * count
    nodes = list(functional.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    outputs = cast("list[fx.Node]", flat(functional.graph.output_node().args[0]))
    variables = list(zip(inputs[-count:], outputs[-count:], strict=True))
    found = [*are_equal]
    while True:
        changed = {
            *inputs[:-count],
            *(before for (before, _), is_one in zip(variables, found, strict=True) if not is_one),
        }
        for node in nodes:
            if node.op == "call_function" and not changed.isdisjoint(node.all_input_nodes):
                changed.add(node)
        kept = [is_one and after not in changed for (_, after), is_one in zip(variables, found, strict=True)]
        new = {after for (_, after), is_one in zip(variables, kept, strict=True) if is_one}
        read = {*outputs[:-count], *(after for (_, after), is_one in zip(variables, kept, strict=True) if not is_one)}
        for node in reversed(nodes):
            if node in read and node not in new:
                read.update(node.all_input_nodes)
        kept = [
            is_one and (before not in read or before is after)
            for (before, after), is_one in zip(variables, kept, strict=True)
        ]
        if kept == found:
            return found
        found = kept


def are_kept(graph: fx.GraphModule, variables: Sequence[Variable], assumed: Sequence[bool]) -> bool:
    """Return True if a graph gives each `assumed` variable its initial value, whatever its inputs are."""
    functional, _ = _functional(graph)
    outputs = cast("list[fx.Node]", flat(functional.graph.output_node().args[0]))[-len(variables) :]
    pairs = [pair for pair, is_assumed in zip(zip(outputs, variables, strict=True), assumed, strict=True) if is_assumed]
    values = [constant_value(functional, node) for node, _ in pairs]
    return all(
        value is not None and equal([value], [one.initial]) for value, (_, one) in zip(values, pairs, strict=True)
    )


def with_constants(graph: fx.GraphModule, values: Sequence[Tensor | None]) -> fx.GraphModule:
    """Return a copy of a graph in which the variables, its last inputs and outputs, have these values, if not None."""
    made = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    inputs, output = made.graph.find_nodes(op="placeholder")[-len(values) :], made.graph.output_node()
    outputs = cast("list[fx.Node]", flat(output.args[0]))
    kept = outputs[: -len(values)]
    for node, after, value in zip(inputs, outputs[-len(values) :], values, strict=True):
        if value is None:
            kept.append(after)
            continue
        made.register_parameter(f"{node.name}_value", nn.Parameter(value.clone(), requires_grad=False))
        with made.graph.inserting_before(node):
            constant = made.graph.get_attr(f"{node.name}_value")
        constant.meta = dict(node.meta)
        node.replace_all_uses_with(constant)
        made.graph.erase_node(node)
    output.args = (kept[0] if len(kept) == 1 else tuple(kept),)
    made.graph.eliminate_dead_code()
    made.recompile()
    return made


def _functional(graph: fx.GraphModule) -> tuple[fx.GraphModule, Callable[[fx.Node], Iterable[object]]]:
    """Return a graph without changes of memory, or the same one, and a function for what a node depends on in it."""
    functional = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    try:
        inplace.write(functional)
    except DeuteronError:
        return graph, _memories
    return functional, _value


def live(graph: fx.GraphModule, count: int) -> list[bool]:
    """Tell for each of the last `count` inputs and outputs, the variables, whether an output ever depends on it.

    In a graph whose changes of memory cannot be removed, dependencies are those between memories.
    """
    functional, values = _functional(graph)
    nodes = list(functional.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    outputs = cast("list[fx.Node]", flat(functional.graph.output_node().args[0]))
    variables = list(zip(inputs[-count:], outputs[-count:], strict=True))
    reached = {value for node in outputs[:-count] for value in values(node)}
    found, size = [False] * count, -1
    while size != len(reached):
        size = len(reached)
        for node in reversed(nodes):
            if node.op == "call_function" and not reached.isdisjoint(values(node)):
                reached.update(value for arg in node.all_input_nodes for value in values(arg))
        for index, (before, after) in enumerate(variables):
            if not reached.isdisjoint(values(before)):
                found[index] = True
                reached.update(values(after))
    return found


def _value(node: fx.Node) -> Iterable[object]:
    return (node,)


def _memories(node: fx.Node) -> Iterable[object]:
    """Return the memories of a node's results, and the node itself."""
    value: Any = node.meta.get("val")
    return [node, *(inplace.storage_of(one) for one in flat(value) if isinstance(one, Tensor))]
