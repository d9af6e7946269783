"""Recurrent layers that stay whole, for processors with operators that loop over time.

A network of several layers or directions becomes one float operator per layer and direction.
"""

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.quantize.decompositions import Decomposition, call
from deuteron.frontend.quantize.recurrent import cells_of, is_projected, is_zero, lstm
from deuteron.frontend.source_lines import source_of

aten: Any = torch.ops.aten

MOST_BITS = 6
"""Most whole bits of a state of 16 bits."""

_NETWORK = "deuteron_recurrent"
"""Key of a layer's metadata: the node of its network, whose layers have the same whole bits."""

_KINDS: Mapping[object, str] = {
    aten.lstm.input: "lstm",
    aten.gru.input: "gru",
    aten.rnn_tanh.input: "rnn_tanh",
    aten.rnn_relu.input: "rnn_relu",
}


@cache
def layer_operator() -> Any:
    """Register and return the float operator.

    `hidden` and `cell` are the initial states [1, batches, units], None for zeros. The results are the states of all
    steps, and the last cell state of an LSTM or the last hidden state. A state of 16 bits has `bits` whole bits.
    `low` and `high` are the range of the hidden state on calibration data; `starts_beyond`: only initial states reach
    it. None of these changes the results.
    """
    registry: Any = torch.library
    library = registry.Library("deuteron", "FRAGMENT")
    library.define(
        "recurrent(Tensor x, Tensor? hidden, Tensor? cell, Tensor[] weights, str kind, bool batch_first, bool reverse, "
        "int bits, float low, float high, bool starts_beyond) -> (Tensor, Tensor)"
    )
    library.impl("recurrent", _run, "CompositeExplicitAutograd")
    registry.register_fake("deuteron::recurrent", _shaped, lib=library)
    registry.register_autograd("deuteron::recurrent", _backward, setup_context=_save, lib=library)
    _LIBRARIES.append(library)
    return torch.ops.deuteron.recurrent.default


_LIBRARIES: list[Any] = []


def _run(
    x: Tensor,
    hidden: Tensor | None,
    cell: Tensor | None,
    weights: Sequence[Tensor],
    kind: str,
    batch_first: bool,
    reverse: bool,
    *_: object,
) -> tuple[Tensor, Tensor]:
    time = 1 if batch_first else 0
    zeros = x.new_zeros(1, x.shape[1 - time], weights[1].shape[1])
    first: Any = zeros if hidden is None else hidden
    states = (first, zeros if cell is None else cell) if kind == "lstm" else first
    layer = getattr(aten, kind).input
    steps, *last = layer(
        x.flip(time) if reverse else x, states, list(weights), len(weights) > 2, 1, 0.0, False, False, batch_first
    )
    return (steps.flip(time) if reverse else steps).contiguous(), last[-1].clone()


def _shaped(x: Tensor, hidden: object, cell: object, weights: Sequence[Tensor], *others: Any) -> tuple[Tensor, Tensor]:
    del hidden, cell
    units = weights[1].shape[1]
    return x.new_empty(*x.shape[:2], units), x.new_empty(1, x.shape[0 if others[1] else 1], units)


def _save(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    del output
    ctx.args = inputs


def _backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
    """Compute the layer again with PyTorch's own operators, which have gradients."""
    x, hidden, cell, weights, *others = ctx.args
    wanted = [one for one in (x, hidden, cell, *weights) if one is not None]
    with torch.enable_grad():
        copied = [one.detach().requires_grad_() for one in wanted]
        given = iter(copied)
        operands = [None if one is None else next(given) for one in (x, hidden, cell)]
        results = _run(*cast(Any, operands), list(given), *others)
        found = iter(torch.autograd.grad(results, copied, gradients, allow_unused=True))
    made = [None if one is None else next(found) for one in (x, hidden, cell)]
    return (*made, list(found), *(None for _ in others))


def lines(model: fx.GraphModule) -> frozenset[str]:
    """Return the source lines of recurrent layers in an exported graph."""
    found = (source_of(node) for node in model.graph.nodes if node.target in _KINDS)
    return frozenset(str(source) for source in found if source)


def _decomposed(model: fx.GraphModule, node: fx.Node) -> list[fx.Node | None]:
    """One operator per layer and direction; the operators of each step for an LSTM with projections."""
    if is_projected(node):
        return lstm(model, node)
    kind, cells = _KINDS[node.target], cells_of(node)
    x, begin, *_, both, batch_first = cast("tuple[Any, ...]", node.args)
    states = cast("list[fx.Node]", begin if kind == "lstm" else [begin])
    count, directions = len(cells), 2 if both else 1
    hidden: list[fx.Node] = []
    last: list[fx.Node] = []
    time = 1 if batch_first else 0
    for first in range(0, count, directions):
        outputs: list[fx.Node] = []
        for index in range(first, first + directions):
            given = [_initial(model, node, one, index, count) for one in states]
            reverse = index % directions == 1
            args = (given[0], given[1] if kind == "lstm" else None, cells[index], kind, batch_first, reverse)
            layer = call(node, layer_operator(), x, *args, 0, 0.0, 0.0, False)  # `measure` sets these
            layer.meta[_NETWORK] = node
            outputs.append(call(node, operator.getitem, layer, 0))
            last.append(call(node, operator.getitem, layer, 1))
            hidden.append(_final(node, outputs[-1], time, reverse=reverse))
        x = outputs[0] if directions == 1 else call(node, aten.cat.default, outputs, 2)
    if kind == "gru":
        return [x, _together(node, last)]
    return [x, _together(node, hidden), *([_together(node, last)] if kind == "lstm" else [])]


def _final(node: fx.Node, steps: fx.Node, time: int, *, reverse: bool) -> fx.Node:
    """The hidden state after the last step, [1, batches, units]."""
    shape = steps.meta["val"].shape
    end = 0 if reverse else shape[time] - 1
    last = steps if shape[time] == 1 else call(node, aten.slice.Tensor, steps, time, end, end + 1)
    return call(node, aten.reshape.default, last, [1, shape[1 - time], shape[2]]) if time else last


def _initial(model: fx.GraphModule, node: fx.Node, states: fx.Node, index: int, count: int) -> fx.Node | None:
    """The initial state of a layer; None for zeros."""
    if is_zero(model, states):
        return None
    return states if count == 1 else call(node, aten.slice.Tensor, states, 0, index, index + 1)


def _together(node: fx.Node, states: Sequence[fx.Node]) -> fx.Node:
    return states[0] if len(states) == 1 else call(node, aten.cat.default, list(states), 0)


LAYERS: Mapping[object, Decomposition] = dict.fromkeys(_KINDS, _decomposed)
"""The decompositions of layers into the float operator."""


def measure(model: fx.GraphModule, batches: Callable[[], Iterable[Inputs]]) -> None:
    """Set the whole bits of 16-bit states, and the range of the hidden state, from the values on calibration batches.

    Raises:
        UnsupportedError: a state is larger than 16 bits represent well.
    """
    layers = model.graph.find_nodes(op="call_function", target=layer_operator())
    if not layers:
        return
    run = _Ranges(model)
    for batch in batches():
        with torch.no_grad():
            run.run(*copies(batch))
    networks: dict[fx.Node, int] = {}
    for node in layers:
        bits = _whole_bits(node, run.largest[node])
        networks[node.meta[_NETWORK]] = max(bits, networks.get(node.meta[_NETWORK], 0))
    for node in layers:
        begin, steps = run.hidden[node]
        low, high = min(begin[0], steps[0]), max(begin[1], steps[1])
        node.args = (*node.args[:7], networks[node.meta[_NETWORK]], low, high, (low, high) != steps)


def _whole_bits(node: fx.Node, largest: float) -> int:
    """The whole bits for states up to this magnitude; cell states of other data may be twice as large."""
    whole = next((bits for bits in range(MOST_BITS + 1) if largest <= 1 << bits), None)
    if whole is None:
        raise refusal(
            node,
            f"has states up to {largest:.3g}; at most {1 << MOST_BITS} are allowed",
            "scale the layer's inputs, or build with `--activations int16`",
        )
    return min(whole + 1, MOST_BITS) if node.args[4] == "lstm" else whole


class _Ranges(fx.Interpreter):
    """Runs a model, and keeps the largest magnitudes of 16-bit states and the ranges of hidden states of each layer."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.largest: dict[fx.Node, float] = {}
        self.hidden: dict[fx.Node, list[tuple[float, float]]] = {}
        """The ranges of the initial states and of those of all steps; both include 0."""

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.target is layer_operator():
            args, _ = self.fetch_args_kwargs_from_env(n)
            before = self.hidden.get(n, [(0.0, 0.0)] * 2)
            self.hidden[n] = [_widened(*pair) for pair in zip(before, (args[1], value[0]), strict=True)]
            state = _largest_cell(*args) if args[4] == "lstm" else max(map(abs, itertools.chain(*self.hidden[n])))
            self.largest[n] = max(self.largest.get(n, 0.0), state)
        return value


def _widened(limits: tuple[float, float], values: Tensor | None) -> tuple[float, float]:
    """A range with these values."""
    if values is None:
        return limits
    return min(limits[0], float(values.min())), max(limits[1], float(values.max()))


def _largest_cell(
    x: Tensor,
    hidden: Tensor | None,
    cell: Tensor | None,
    weights: Sequence[Tensor],
    _: object,
    batch_first: bool,
    reverse: bool,
    *__: object,
) -> float:
    steps = (x.transpose(0, 1) if batch_first else x).unbind(0)
    zeros = x.new_zeros(steps[0].shape[0], weights[1].shape[1])
    h, c = (zeros if one is None else one[0] for one in (hidden, cell))
    largest = float(c.abs().max())
    for step in reversed(steps) if reverse else steps:
        h, c = aten.lstm_cell(step, [h, c], *weights)
        largest = max(largest, float(c.abs().max()))
    return largest
