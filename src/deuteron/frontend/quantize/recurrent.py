"""Decomposes recurrent layers and cells into the operators of each step, which are quantized one by one.

One linear layer computes the inputs of all steps, and one per step computes the states. Initial states of zeros are
left out of the first step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import fx

from deuteron.frontend.quantize.decompositions import Decomposition, call, constant, constant_value, value_of

aten = torch.ops.aten


def is_zero(model: fx.GraphModule, state: fx.Node) -> bool:
    """True for an initial state of zeros that no training changes."""
    value = constant_value(model, state)
    is_trained = state.op == "get_attr" and value_of(model, state).requires_grad
    return value is not None and not is_trained and not value.any()


def cells_of(node: fx.Node) -> list[list[fx.Node]]:
    """The weights of each layer and direction of a network; the last is that of a projection if their number is odd."""
    _, _, weights, _, layers, _, _, both, _ = node.args
    listed, count = cast("list[fx.Node]", weights), cast(int, layers) * (2 if both else 1)
    each = len(listed) // count
    return [listed[i * each : (i + 1) * each] for i in range(count)]


def is_projected(node: fx.Node) -> bool:
    """True for an LSTM with projections of its hidden states (`proj_size`)."""
    return len(cells_of(node)[0]) % 2 == 1


def lstm(model: fx.GraphModule, node: fx.Node) -> list[fx.Node | None]:
    """The outputs of all steps and the final states of an LSTM."""
    layers = _Layers(model, node, gates=4)
    hidden, cells = cast("list[fx.Node]", node.args[1])
    outputs, lasts = layers.run(partial(_lstm_step, node), (hidden, cells))
    return [outputs, *(_stacked(node, 1 + i, states, 0) for i, states in enumerate(zip(*lasts, strict=True)))]


def gru(model: fx.GraphModule, node: fx.Node) -> list[fx.Node | None]:
    """The outputs of all steps and the final states of a GRU."""
    layers = _Layers(model, node, gates=3)
    outputs, lasts = layers.run(partial(_gru_step, node), (cast(fx.Node, node.args[1]),))
    return [outputs, _stacked(node, 1, [last for (last,) in lasts], 0)]


def rnn(activation: object) -> Decomposition:
    """Return the decomposition of a plain recurrent layer into the outputs of all steps and the final states."""

    def step(node: fx.Node, own: fx.Node, theirs: fx.Node | None, _: tuple[fx.Node | None, ...]) -> tuple[fx.Node]:
        total = own if theirs is None else call(node, aten.add.Tensor, own, theirs)
        return (call(node, activation, total),)

    def decompose(model: fx.GraphModule, node: fx.Node) -> list[fx.Node | None]:
        layers = _Layers(model, node, gates=1)
        outputs, lasts = layers.run(partial(step, node), (cast(fx.Node, node.args[1]),))
        return [outputs, _stacked(node, 1, [last for (last,) in lasts], 0)]

    return decompose


def lstm_cell(_: fx.GraphModule, node: fx.Node) -> list[fx.Node | None]:
    """The next hidden state and cell of one step of an LSTM."""
    states = tuple(cast("Sequence[fx.Node]", node.args[1]))
    return [*_lstm_step(node, *_linear(node, states[0]), states)]


def gru_cell(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The next state of one step of a GRU."""
    state = cast(fx.Node, node.args[1])
    return _gru_step(node, *_linear(node, state), (state,))[0]


def rnn_cell(activation: object) -> Decomposition:
    """Return the decomposition of one step of a plain recurrent layer."""

    def decompose(_: fx.GraphModule, node: fx.Node) -> fx.Node:
        gates = _linear(node, cast(fx.Node, node.args[1]))
        return call(node, activation, call(node, aten.add.Tensor, *gates))

    return decompose


def _linear(node: fx.Node, state: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The contributions of the input and of the state to the gates of a cell."""
    x, _, own, theirs, *biases = node.args
    first, second = biases or (None, None)
    return call(node, aten.linear.default, x, own, first), call(node, aten.linear.default, state, theirs, second)


@dataclass(frozen=True, slots=True)
class _CellWeights:
    """The weights of one layer in one direction.

    Attributes:
        inputs: weights and bias of the linear layer for inputs; the bias includes the part of the states' bias that is
            only added.
        states: weights and bias of the linear layer for states; the bias may be None.
        rest: the contribution of a zero state to the new values of a GRU; None if there is none.
        projection: the weights of a linear layer for new hidden states, or None.
    """

    inputs: tuple[fx.Node, fx.Node | None]
    states: tuple[fx.Node, fx.Node | None]
    rest: fx.Node | None
    projection: fx.Node | None = None


class _Layers:
    """The layers and directions of a recurrent network, with their weights."""

    def __init__(self, model: fx.GraphModule, node: fx.Node, *, gates: int) -> None:
        self._model, self._node, self._gates = model, node, gates
        self._x, self._batch_first = node.args[0], node.args[8]
        self._directions = 2 if node.args[7] else 1
        self._cells = cells_of(node)

    def run(
        self, step: "partial[tuple[fx.Node, ...]]", begin: Sequence[fx.Node]
    ) -> tuple[fx.Node, list[tuple[fx.Node, ...]]]:
        """Return the outputs of all steps of the last layer, and the final states of each layer and direction."""
        node, x = self._node, cast(fx.Node, self._x)
        if not self._batch_first:
            x = call(node, aten.transpose.int, x, 0, 1)
        lasts: list[tuple[fx.Node, ...]] = []
        for first in range(0, len(self._cells), self._directions):
            directions: list[list[fx.Node]] = []
            for index in range(first, first + self._directions):
                states = tuple(_state(self._model, node, one, index) for one in begin)
                every = list(self._steps(step, x, index, states))
                lasts.append(every[-1])
                outputs = [states[0] for states in every]
                directions.append(outputs if index == first else outputs[::-1])
            steps = [
                parts[0] if len(parts) == 1 else call(node, aten.cat.default, list(parts), 1)
                for parts in zip(*directions, strict=True)
            ]
            x = call(node, aten.stack.default, steps, 1)
        return (x if self._batch_first else call(node, aten.transpose.int, x, 0, 1)), lasts

    def _steps(
        self, step: "partial[tuple[fx.Node, ...]]", x: fx.Node, index: int, states: tuple[fx.Node | None, ...]
    ) -> Iterator[tuple[fx.Node, ...]]:
        """Yield the states after each step of one layer in one direction."""
        node, cell = self._node, self._cell(index)
        inputs = call(node, aten.linear.default, x, *cell.inputs)
        count = cast(int, x.meta["val"].shape[1])
        is_reverse = index % self._directions == 1
        for time in reversed(range(count)) if is_reverse else range(count):
            own = call(node, aten.select.int, inputs, 1, time)
            before = states[0]
            theirs = cell.rest if before is None else call(node, aten.linear.default, before, *cell.states)
            states = step(own, theirs, states)
            if cell.projection is not None:
                states = (call(node, aten.linear.default, states[0], cell.projection), *states[1:])
            yield states

    def _cell(self, index: int) -> _CellWeights:
        own, theirs, *biases = self._cells[index]
        projection = biases.pop() if is_projected(self._node) else None
        if not biases:
            return _CellWeights((own, None), (theirs, None), None, projection)
        first, second = (value_of(self._model, bias) for bias in biases)
        name = f"{self._node.name}_{index}"
        if self._gates != 3:
            both = constant(self._model, self._node, f"{name}_bias", (first + second).detach(), like=first)
            return _CellWeights((own, both), (theirs, None), None, projection)
        # The third gate of a GRU multiplies the contribution of the states, including their bias.
        size = len(second) // 3
        keep = torch.cat([torch.zeros(2 * size), torch.ones(size)])
        added = constant(self._model, self._node, f"{name}_bias", (first + second * (1 - keep)).detach(), like=first)
        bias = constant(self._model, self._node, f"{name}_states", (second * keep).detach(), like=second)
        rest = constant(self._model, self._node, f"{name}_rest", second[None, 2 * size :].detach(), like=second)
        return _CellWeights((own, added), (theirs, bias), rest)


def _lstm_step(
    node: fx.Node, own: fx.Node, theirs: fx.Node | None, states: tuple[fx.Node | None, ...]
) -> tuple[fx.Node, fx.Node]:
    """The next hidden state and cell; the gates are input, forget, cell and output gate."""
    gates = own if theirs is None else call(node, aten.add.Tensor, own, theirs)
    enter, forget, new, leave = _parts(node, gates, 4)
    cell = call(node, aten.mul.Tensor, call(node, aten.sigmoid.default, enter), call(node, aten.tanh.default, new))
    if (before := states[1]) is not None:
        kept = call(node, aten.mul.Tensor, call(node, aten.sigmoid.default, forget), before)
        cell = call(node, aten.add.Tensor, kept, cell)
    shown = call(node, aten.tanh.default, cell)
    return call(node, aten.mul.Tensor, call(node, aten.sigmoid.default, leave), shown), cell


def _gru_step(
    node: fx.Node, own: fx.Node, theirs: fx.Node | None, states: tuple[fx.Node | None, ...]
) -> tuple[fx.Node]:
    """The next state, new + update * (state - new); the gates are reset, update and new gate."""
    reset, update, new = _parts(node, own, 3)
    if (before := states[0]) is not None and theirs is not None:
        more = _parts(node, theirs, 3)
        reset, update = (call(node, aten.add.Tensor, a, b) for a, b in zip((reset, update), more, strict=False))
        theirs = more[2]
    if theirs is not None:
        new = call(
            node, aten.add.Tensor, new, call(node, aten.mul.Tensor, call(node, aten.sigmoid.default, reset), theirs)
        )
    new, update = call(node, aten.tanh.default, new), call(node, aten.sigmoid.default, update)
    if before is None:
        return (call(node, aten.sub.Tensor, new, call(node, aten.mul.Tensor, update, new)),)
    kept = call(node, aten.mul.Tensor, update, call(node, aten.sub.Tensor, before, new))
    return (call(node, aten.add.Tensor, new, kept),)


def _parts(node: fx.Node, gates: fx.Node, count: int) -> list[fx.Node]:
    size = gates.meta["val"].shape[1] // count
    return [call(node, aten.slice.Tensor, gates, 1, i * size, (i + 1) * size) for i in range(count)]


def _state(model: fx.GraphModule, node: fx.Node, begin: fx.Node, index: int) -> fx.Node | None:
    """The initial state of a layer; None for zeros."""
    return None if is_zero(model, begin) else call(node, aten.select.int, begin, 0, index)


def _stacked(node: fx.Node, index: int, states: Sequence[fx.Node], dim: int) -> fx.Node | None:
    """The states of all layers as one result of the node; None if it is not used."""
    if not any(user.args[1] == index and user.users for user in node.users):
        return None
    return call(node, aten.stack.default, list(states), dim)


LAYERS: Mapping[object, Decomposition] = {
    aten.lstm.input: lstm,
    aten.gru.input: gru,
    aten.rnn_tanh.input: rnn(aten.tanh.default),
    aten.rnn_relu.input: rnn(aten.relu.default),
}
"""The decompositions of layers."""

CELLS: Mapping[object, Decomposition] = {
    aten.lstm_cell.default: lstm_cell,
    aten.gru_cell.default: gru_cell,
    aten.rnn_tanh_cell.default: rnn_cell(aten.tanh.default),
    aten.rnn_relu_cell.default: rnn_cell(aten.relu.default),
}
"""The decompositions of single steps, for all targets."""
