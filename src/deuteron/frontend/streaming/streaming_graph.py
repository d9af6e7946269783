"""Writes the graph of a hop: new frames and states to outputs and new states."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.variables import Variable
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.operators import arguments_of, called, depends_on
from deuteron.frontend.source_lines import source_of
from deuteron.frontend.streaming.frame_alignment import Frames, Step
from deuteron.frontend.streaming.frame_propagation import Plan
from deuteron.frontend.streaming.rules import END

aten = torch.ops.aten

_Key = tuple[fx.Node, fx.Node | None]
"""A state: earlier frames of a tensor, or an operator and its operand that is a state."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A graph whose last inputs and outputs are the variables."""

    graph: fx.GraphModule
    variables: tuple[Variable, ...]


def write(model: fx.GraphModule, plan: Plan, inputs: Inputs) -> Streamed:
    """Return the graph of a hop; `inputs` are of a window."""
    return _Writer(model, plan, inputs).run()


class _Values(fx.Interpreter):
    """Runs the graph of a window and keeps the values of some nodes."""

    def __init__(self, model: fx.GraphModule, wanted: set[fx.Node]) -> None:
        super().__init__(model)
        self.wanted = wanted
        self.values = dict[fx.Node, Tensor]()

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n in self.wanted:
            self.values[n] = cast(Tensor, value).detach().clone()
        return value


class _Writer:
    def __init__(self, model: fx.GraphModule, plan: Plan, inputs: Inputs) -> None:
        self._model, self._plan, self._graph = model, plan, fx.Graph()
        self._earlier = plan.earlier()
        self._states = [(node, one) for node, step in plan.steps.items() for one in step.states]
        values = _Values(model, {*self._earlier, *(one for _, one in self._states)})
        with torch.no_grad():
            values.run(*inputs)
        self._values: Mapping[fx.Node, Tensor] = values.values
        self._new = dict[fx.Node, fx.Node]()
        self._held = dict[_Key, fx.Node]()
        self._next = dict[_Key, fx.Node]()
        self._extended = dict[fx.Node, fx.Node]()
        self._variables = list[Variable]()

    def run(self) -> Streamed:
        nodes, values = list(self._model.graph.nodes), fx.Interpreter(self._model)
        inputs = [node for node in nodes if node.op == "placeholder"]
        for node in inputs:
            self._new[node] = self._described(self._graph.placeholder(node.name), node, self._example(node))
        for node in self._earlier:
            self._hold((node, None), self._first_frames(node), f"{node.name}_frames")
        for node, state in self._states:
            self._hold((node, state), self._values[state], f"{node.name}_{state.name}_state")
        for node in inputs:
            self._keep(node)
        for node in nodes:
            if node.op == "get_attr":
                self._new[node] = self._described(self._graph.get_attr(str(node.target)), node, node.meta.get("val"))
            elif node.op == "call_function":
                step = self._plan.steps.get(node)
                self._new[node] = self._whole_window(node) if step is None else self._stepped(node, step)
                self._keep(node)
        output = self._model.graph.output_node()
        outputs = [self._new[cast(fx.Node, node)] for node in flat(output.args[0])]
        made = self._graph.output((*outputs, *(self._next[key] for key in self._held)))
        made.meta = dict(output.meta)
        weights = {str(node.target): values.fetch_attr(str(node.target)) for node in nodes if node.op == "get_attr"}
        graph = fx.GraphModule(weights, self._graph)
        graph.graph.eliminate_dead_code()
        graph.graph.lint()
        graph.recompile()
        return Streamed(graph, tuple(self._variables))

    def _example(self, node: fx.Node) -> Tensor:
        """Return the example of an input of a hop."""
        account, value = self._plan.accounts[node], node.meta["val"]
        if not isinstance(account, Frames):
            return value
        shape = list(value.shape)
        shape[account.axis] = self._plan.hop
        return value.new_empty(shape)

    def _described(self, node: fx.Node, like: fx.Node, value: object) -> fx.Node:
        node.meta = {key: one for key, one in like.meta.items() if key != "tensor_meta"}
        node.meta["val"] = value
        return node

    def _call(self, like: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self._graph.call_function(target, args, kwargs)
        given, named = map_arg(cast(Any, (args, kwargs)), lambda one: one.meta["val"])
        return self._described(node, like, target(*given, **named))

    def _hold(self, key: _Key, initial: Tensor, name: str) -> None:
        """Add a state with its initial value."""
        value = cast(Tensor, (key[1] or key[0]).meta["val"])
        made = self._graph.placeholder(name)
        self._held[key] = self._described(made, key[0], value.new_empty(initial.shape))
        self._variables.append(Variable(made.name, initial.clone(), source_of(key[0])))

    def _first_frames(self, node: fx.Node) -> Tensor:
        """Return the frames before those of the first hop: zeros, and those of the window that no input changes."""
        frames, value = cast(Frames, self._plan.accounts[node]), self._values[node]
        count = self._earlier[node]
        known = min(count, max(0, -frames.lag))
        if known and depends_on(node, self._is_whole_input):
            source = source_of(node)
            raise UnsupportedError(
                f"`--stream`: the first frames of `{node.name}` depend on an input without frames, which may change"
                f"{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else None,
                hint="add that input behind the layers that pad, or make it a constant of the model",
            )
        zeros = torch.zeros_like(value.narrow(frames.axis, 0, 1))
        own = value.narrow(frames.axis, max(0, -frames.lag) - known, known)
        return torch.cat([*[zeros] * (count - known), own], frames.axis)

    def _is_whole_input(self, node: fx.Node) -> bool:
        """Tell whether each run gets this input as a whole."""
        return node.op == "placeholder" and not self._is_framed(node)

    def _keep(self, node: fx.Node) -> None:
        """Write the next values of an operator's states."""
        if (node, None) in self._held:
            frames, held = cast(Frames, self._plan.accounts[node]), self._held[node, None]
            extended = self._call(node, aten.cat.default, [held, self._new[node]], frames.axis)
            self._extended[node] = extended
            self._next[node, None] = self._call(
                node, aten.slice.Tensor, extended, frames.axis, self._plan.count(frames), END
            )
        for state, index in self._plan.steps[node].states.items() if node in self._plan.steps else ():
            self._next[node, state] = self._call(state, operator.getitem, self._new[node], index)

    def _read(self, node: fx.Node, before: int, count: int) -> fx.Node:
        """Return frames of a tensor from the one that is `before` those of this hop; all of them if fewer follow."""
        frames = self._plan.accounts[node]
        value, start = self._new[node], -before
        if not isinstance(frames, Frames) or not isinstance(value.meta["val"], Tensor):
            return value
        if before > 0:
            value, start = self._extended[node], self._earlier[node] - before
        if start == 0 and count >= value.meta["val"].shape[frames.axis]:
            return value
        return self._call(node, aten.slice.Tensor, value, frames.axis, start, min(start + count, END))

    def _whole_window(self, node: fx.Node) -> fx.Node:
        """Write an operator that reads whole windows, or constants alone."""

        def operand(one: fx.Node) -> fx.Node:
            frames = self._plan.wholes.get((node, one))
            return self._new[one] if frames is None else self._read(one, self._plan.before(frames), frames.length)

        args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), operand)
        if called(node) == "select" and any(reader is node for reader, _ in self._plan.wholes):
            args = (*args[:2], 0)  # the operand is that frame alone
        return self._call(node, node.target, *args, **kwargs)

    def _stepped(self, node: fx.Node, step: Step) -> fx.Node:
        """Write an operator that computes new frames."""
        count = self._plan.count(step.frames)

        def operand(one: fx.Node) -> fx.Node:
            if one in step.states:
                return self._held[node, one]
            return self._read(one, step.before.get(one, 0), count if step.is_delay else END)

        if step.is_identity:
            return self._new[next(one for one in node.all_input_nodes if one in step.before or self._is_framed(one))]
        target: Any = step.target or node.target
        changed = step.arguments(count)
        if not changed and step.target is None:
            args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), operand)
            return self._call(node, target, *args, **kwargs)
        given = map_arg({**arguments_of(node), **changed}, operand)
        schema = target._schema.arguments  # noqa: SLF001 - the only place of these names
        args = [given.get(one.name, one.default_value) for one in schema if not one.kwarg_only]
        kwargs = {one.name: given[one.name] for one in schema if one.kwarg_only and one.name in given}
        return self._call(node, target, *args, **kwargs)

    def _is_framed(self, node: fx.Node) -> bool:
        return isinstance(self._plan.accounts.get(node), Frames)
