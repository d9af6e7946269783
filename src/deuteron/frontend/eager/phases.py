"""Turns a module of which Python values decide what a run computes into one graph that selects by a state.

Examples are `if self.h is None: self.h = x`, a flag, a deque that fills, and an integer index of a ring buffer. The
Python values differ before the first and the second run, and repeat sooner or later. Until then, the values before each
run are a phase, and each phase is exported. The graph of all phases computes each of them, shares their common
operators, and selects the results of the current phase by a number in the state.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle, islice, pairwise
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree

from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.observe import Observed, copied, environment
from deuteron.frontend.eager.outputs import tensors
from deuteron.frontend.eager.state import Place, Snapshot, is_constant
from deuteron.frontend.eager.user_code import is_only_written, written_at
from deuteron.frontend.eager.variables import Variable, argument_names, renamed
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.quantize import inplace, operator_aliases

MOST = 8
"""The largest number of phases: a program computes all of them in each run."""

aten = torch.ops.aten

Slot = tuple[str, str]
"""A tensor of the state: the path of an attribute, and the position in its structure."""

Export = Callable[[nn.Module, Inputs, Sequence[object]], fx.GraphModule]
"""Returns the flat graph of a step; the last argument has the values of the attributes that it writes."""


class Phase(nn.Module):
    """One run of a module as a function, from one content of its Python values on.

    Inputs are those of the module and the tensors of its state; results are its outputs and the tensors of the state of
    the next phase.
    """

    def __init__(self, module: nn.Module, places: Sequence[Place]) -> None:
        super().__init__()
        self.module = module
        self._holders = (tuple(_holder(module, place) for place in places),)
        self._paths = [place.path for place in places]
        self._originals = (self._held(),)  # in tuples, into which no export looks
        self.slots = [*self.tensors]

    def _held(self) -> list[object]:
        return [holder.get(name, _MISSING) for holder, name in self._holders[0]]

    @property
    def held(self) -> list[object]:
        """Return the values of the attributes before the run."""
        return self._originals[0]

    @property
    def tensors(self) -> dict[Slot, Tensor]:
        """Return the tensors of the attributes as they are."""
        found: dict[Slot, Tensor] = {}
        for path, value in zip(self._paths, self._held(), strict=True):
            for key, leaf in pytree.tree_flatten_with_path(value)[0]:
                if isinstance(leaf, Tensor):
                    found[path, pytree.keystr(key)] = leaf
                elif leaf is not _MISSING and not is_constant(leaf):
                    raise NotImplementedError(path)
        return found

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Run the module once, and give the attributes their values again."""
        count = len(values) - len(self.slots)
        before = iter([value.clone() for value in values[count:]])
        for (holder, name), value in zip(self._holders[0], self._originals[0], strict=True):
            if value is not _MISSING:
                holder[name] = pytree.tree_map_only(Tensor, lambda _: next(before), value)
        try:
            outputs = tensors(self.module(*values[:count]))
            after = self.tensors.values()
        finally:
            for (holder, name), value in zip(self._holders[0], self._originals[0], strict=True):
                if value is _MISSING:
                    holder.pop(name, None)
                else:
                    holder[name] = value
        return (*outputs, *(one.clone() for one in after))


_MISSING = object()


def _holder(module: nn.Module, place: Place) -> tuple[Any, str]:
    """Return the mapping that has the attribute at a place, or will have it, in another copy of the module."""
    found = Snapshot(module).find(place)
    if found is not None:
        return found.holder, found.name
    owner = place.path.split("`")[1].rpartition(".")[0]
    return vars(module.get_submodule(owner)), place.name


@dataclass(frozen=True, slots=True)
class Phases:
    """The graph of all phases.

    Attributes:
        graph: its last inputs and outputs are the variables, the last of which is the number of the phase.
        variables: the tensors of the state, and the number of the phase.
        count: the number of phases.
    """

    graph: fx.GraphModule
    variables: tuple[Variable, ...]
    count: int


def combined(observed: Observed, export: Export) -> Phases | None:
    """Return the graph of a module whose Python values repeat; None for another module.

    Whatever an export of a phase raises passes.
    """
    found = _observed_phases(observed)
    if found is None:
        return None
    modules, places, first = found
    with environment(observed.module):
        *phases, after_last = (Phase(module, places) for module in modules)
    likes: dict[Slot, Tensor] = {}
    for phase in (*phases, after_last):
        own = phase.tensors
        memories = [one.untyped_storage().data_ptr() for one in own.values()]
        if len(set(memories)) < len(memories):
            return None  # a change of one would be one of the other
        for slot, value in own.items():
            like = likes.setdefault(slot, value)
            if not value.numel() or (like.shape, like.dtype) != (value.shape, value.dtype):
                return None
    inputs, initial = observed.samples[0], phases[0].tensors
    names = _names(likes)
    sources = {place.path: written_at(observed.codes, place.name) for place in places}
    variables = [
        Variable(names[slot], initial.get(slot, torch.zeros_like(like)).detach().clone(), sources[slot[0]])
        for slot, like in likes.items()
    ]
    number = Variable(_free("phase", names.values()), torch.zeros((), dtype=torch.int64), sources[places[0].path])
    merged = _Merged([*argument_names(observed.module, len(inputs)), *names.values(), number.name])
    results: list[list[fx.Node]] = []
    for phase in phases:
        own = phase.tensors
        graph = export(phase, (*inputs, *own.values()), phase.held)
        own_names = [*argument_names(observed.module, len(inputs)), *(names[slot] for slot in own)]
        plain = [name.replace(".", "_") for name in own_names]
        results.append(merged.add(renamed(graph, plain), own_names))
    following = [*phases[1:], phases[first]]
    count = len(observed.outputs[0])
    rows: list[list[fx.Node]] = []
    for phase, values in zip(following, results, strict=True):
        after = dict(zip(phase.slots, values[count:], strict=True))
        rows.append([*values[:count], *(after.get(slot, merged.inputs[names[slot]]) for slot in likes)])
    variables.append(number)
    values = (*inputs, *(one.initial for one in variables))
    return Phases(merged.finish(rows, number.name, first, values), tuple(variables), len(phases))


def _observed_phases(observed: Observed) -> tuple[list[nn.Module], list[Place], int] | None:
    """Return copies of the module, the places that runs change, and the number of the phase after the last one.

    A copy is the module before a phase; one more is it after the last phase.
    """
    with environment(observed.module):
        twin = copied(observed.module)
        modules, states = [copied(twin)], [Snapshot(twin)]
        contents = [_content(states[0], observed)]
        for sample in islice(cycle(observed.samples), MOST):
            with torch.no_grad():
                twin(*(value.clone() for value in sample))
            states.append(Snapshot(twin))
            contents.append(_content(states[-1], observed))
            if contents[-1] in contents[:-1]:
                first, last = contents.index(contents[-1]), len(modules) - 1
                changes = chain.from_iterable(before.changed(after) for before, after in pairwise(states))
                places = {place.path: place for place in changes if not is_only_written(observed.codes, place.name)}
                is_attribute = all(path.startswith("attribute") for path in places)
                is_known = 0 < last and first in (0, last) and is_attribute and bool(places)
                return ([*modules, copied(twin)], [*places.values()], first) if is_known else None
            modules.append(copied(twin))
    return None


def _content(state: Snapshot, observed: Observed) -> dict[str, object]:
    """Return all that a snapshot has but the numbers in tensors, and attributes that nothing reads."""
    return {
        key: content
        for key, (place, content) in state.structure().items()
        if not is_only_written(observed.codes, place.name)
    }


def _names(slots: Iterable[Slot]) -> dict[Slot, str]:
    """Return a name for each tensor of the state."""
    paths = [path for path, _ in slots]
    numbers: dict[str, int] = {}
    found: dict[Slot, str] = {}
    for path, key in slots:
        name, number = path.split("`")[1], numbers.setdefault(path, 0)
        found[path, key] = name if paths.count(path) == 1 and not key else f"{name}.{number}"
        numbers[path] += 1
    return found


def _free(name: str, taken: Iterable[str]) -> str:
    names = {*taken}
    while name in names:
        name += "_"
    return name


@dataclass
class _Merged:
    """Graphs in one, in which equal operators on equal operands are one."""

    names: Sequence[str]
    graph: fx.Graph = field(default_factory=fx.Graph)
    inputs: dict[str, fx.Node] = field(default_factory=dict[str, fx.Node])
    _weights: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    _known: dict[object, fx.Node] = field(default_factory=dict[object, fx.Node])

    def __post_init__(self) -> None:
        for name in self.names:
            self.inputs[name] = self.graph.placeholder(name.replace(".", "_"))

    def add(self, model: fx.GraphModule, names: Sequence[str]) -> list[fx.Node]:
        """Add a graph whose inputs have these names; return its results."""
        operator_aliases.write(model)
        inplace.write(model)
        values, given = dict[fx.Node, fx.Node](), iter(names)
        for node in model.graph.nodes:
            if node.op == "placeholder":
                values[node] = self.inputs[next(given)]
                values[node].meta = {**node.meta, **values[node].meta}
            elif node.op == "get_attr":
                values[node] = self._weight(model, node)
            elif node.op != "output":
                args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
                key = node.target, str(args), str(kwargs)
                if key not in self._known:
                    self._known[key] = made = self.graph.create_node(node.op, node.target, args, kwargs, node.name)
                    made.meta = dict(node.meta)
                values[node] = self._known[key]
        return [values[node] for node in cast("list[fx.Node]", flat(model.graph.output_node().args[0]))]

    def _weight(self, model: fx.GraphModule, node: fx.Node) -> fx.Node:
        value: Tensor = fx.Interpreter(model).fetch_attr(str(node.target))
        name = str(node.target)
        while name in self._weights and not _are_equal(self._weights[name], value):
            name += "_"
        self._weights.setdefault(name, value)
        if name not in self._known:
            self._known[name] = self.graph.create_node("get_attr", name)
            self._known[name].meta = dict(node.meta)
        return self._known[name]

    def finish(self, rows: Sequence[Sequence[fx.Node]], number: str, first: int, inputs: Inputs) -> fx.GraphModule:
        """Return the model that selects a row of results by the number of the phase; `first` follows the last one."""
        phase, origin = self.inputs[number], {key: one for key, one in rows[0][-1].meta.items() if key != "val"}

        def made(target: Any, *args: Any) -> fx.Node:
            node = self.graph.call_function(target, args)
            node.meta = dict(origin)
            return node

        are_now = [made(aten.eq.Scalar, phase, index) for index in range(len(rows) - 1)]
        results: list[fx.Node] = []
        for options in zip(*rows, strict=True):
            value = options[-1]
            for is_now, option in zip(reversed(are_now), reversed(options[:-1]), strict=True):
                value = value if option is value else made(aten.where.self, is_now, option, value)
            results.append(value)
        following = made(aten.add.Tensor, phase, 1)
        if first:
            following = made(aten.clamp.default, following, None, len(rows) - 1)
        else:
            following = made(aten.remainder.Scalar, following, len(rows))
        self.graph.output((*results, following))
        weights: Mapping[str, Any] = self._weights
        model = fx.GraphModule(dict(weights), self.graph)
        model.graph.eliminate_dead_code()
        model.graph.lint()
        model.recompile()
        FakeTensorProp(model, FakeTensorMode(allow_non_fake_inputs=True)).propagate(
            *inputs
        )  # the exports of the phases have different fake modes
        return model


def _are_equal(one: Tensor, other: Tensor) -> bool:
    return one is other or (
        (one.shape, one.dtype) == (other.shape, other.dtype) and torch.equal(one.detach(), other.detach())
    )
