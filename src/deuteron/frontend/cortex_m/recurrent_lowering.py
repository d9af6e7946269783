"""Annotates recurrent layers for quantization, and replaces them by the operators `lstm`, `gru` and `rnn`.

The replacement precedes the edge program: a layer rounds its states after each step, so the quantized model, too, has
to compute in integers.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.errors import InternalError
from deuteron.frontend.cortex_m.custom_ops import library
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Affine
from deuteron.frontend.nodes import CPU_ONLY
from deuteron.frontend.operators import is_dequantize, is_quantize
from deuteron.frontend.quantize.decompositions import constant, value_of
from deuteron.frontend.quantize.recurrent_layers import layer_operator
from deuteron.operators.kernel_params import Dims3, Dims4, KernelParams
from deuteron.operators.recurrent import GruParams, LstmParams, RnnParams
from deuteron.tflite.cortex_m.fixed_point import Factor, factor

aten = torch.ops.aten
F64 = npt.NDArray[np.float64]

_GATE_STEPS = 4096
"""Steps per unit before the functions of gates."""

_RELU_STEPS = 16
"""Steps before relu in one step of the hidden state: they represent 16 times its range."""

_LARGEST_START = 1 << 28
"""Largest bias in its steps, which are those of the products: a gate with small weights gets larger steps for it."""

_MOVES = frozenset({aten.cat.default, aten.slice.Tensor, aten.select.int, aten.stack.default, aten.reshape.default})
"""Operators between states of 16 bits and the variables, inputs and outputs of a model."""

_MOVED = "the CPU moves states of 16 bits"


def annotate(model: fx.GraphModule, activations: Any) -> None:
    """Annotate the layers: int8 sequences and hidden states, int16 cell states and states of GRUs."""
    from executorch.backends.arm.quantizer.arm_quantizer_utils import mark_node_as_annotated
    from torchao.quantization.pt2e.quantizer.quantizer import (
        Q_ANNOTATION_KEY,
        FixedQParamsQuantizationSpec,
        QuantizationAnnotation,
        SharedQuantizationSpec,
    )

    for node in model.graph.find_nodes(op="call_function", target=layer_operator()):
        x, hidden, cell, _, kind, _, _, bits, low, high, starts_beyond = node.args
        fixed = FixedQParamsQuantizationSpec(
            torch.int16, 2.0 ** (bits - 15), 0, -32768, 32767, torch.per_tensor_symmetric
        )
        is_read = any(item.args[1] == 0 for item in node.users)
        # The observer of a GRU's int8 sequence does not see the initial state, which is int16.
        is_observed = is_read and not (kind == "gru" and starts_beyond)
        of_sequence = activations if is_observed else _fixed(_affine(low, high))
        of_hidden = fixed if kind == "gru" else of_sequence
        wanted: dict[fx.Node, Any] = {x: activations}
        wanted |= {one: spec for one, spec in ((hidden, of_hidden), (cell, fixed)) if one is not None}
        node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(wanted)

        of_steps = of_sequence
        if kind != "gru" and hidden is not None:
            of_steps = SharedQuantizationSpec((cast(fx.Node, hidden), node))
        for item in node.users:
            item.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation({}, fixed if item.args[1] else of_steps)
        for move in _moves(node):
            move.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(dict.fromkeys(move.all_input_nodes, fixed), fixed)
            if move.op == "call_function":
                mark_node_as_annotated(move)
                move.meta["custom"] = {**move.meta.get("custom", {}), CPU_ONLY: _MOVED}


def _affine(low: float, high: float) -> Affine:
    """The int8 quantization of numbers in a range that includes 0."""
    scale = float(np.float32(max(high - low, 1e-6) / 255))  # as PyTorch stores it
    return Affine(scale, round(-128 - low / scale))


def _fixed(affine: Affine) -> Any:
    """The specification of an int8 quantization."""
    from torchao.quantization.pt2e.quantizer.quantizer import FixedQParamsQuantizationSpec

    return FixedQParamsQuantizationSpec(torch.int8, affine.scale, affine.zero_point, -128, 127, torch.per_tensor_affine)


def state_moves(model: fx.GraphModule) -> frozenset[str]:
    """The names of the operators that move 16-bit states, which only the CPU supports."""
    layers = model.graph.find_nodes(op="call_function", target=layer_operator())
    return frozenset(move.name for node in layers for move in _moves(node) if move.op == "call_function")


def _moves(node: fx.Node) -> Iterator[fx.Node]:
    """The input of a 16-bit state, and the operators that move this input or the state after a layer."""
    _, hidden, cell, _, kind, *_ = cast("tuple[Any, ...]", node.args)
    if kind not in ("gru", "lstm"):
        return
    before: fx.Node | None = hidden if kind == "gru" else cell
    moved = [item for item in node.users if item.args[1] == 1]
    while before is not None and (before.op == "placeholder" or before.target in _MOVES):
        yield before
        moved.append(before)
        before = next(iter(before.all_input_nodes), None)
    while moved:
        moves = [user for user in moved.pop().users if user.target in _MOVES]
        yield from moves
        moved += moves


def lower(model: fx.GraphModule) -> None:
    """Replace the layers of a quantized model, between quantize and dequantize operators."""
    library.load()
    for node in model.graph.find_nodes(op="call_function", target=layer_operator()):
        _Layer(model, node).lower()
    model.graph.eliminate_dead_code()
    model.graph.lint()
    model.recompile()


@dataclass(frozen=True, slots=True)
class _Gates:
    """Quantized weights and starts of the sums of all gates, and their factors."""

    weights: Tensor
    starts: Tensor
    factors: tuple[Sequence[Factor], Sequence[Factor]]

    def words(self) -> tuple[Any, Any, Any, Any]:
        """Multipliers and shifts of the sums over inputs, and of those over hidden states."""
        of_x, of_h = (tuple(zip(*one, strict=True)) for one in self.factors)
        return of_x[0], of_x[1], of_h[0], of_h[1]


class _Layer:
    """A layer between quantize and dequantize operators."""

    def __init__(self, model: fx.GraphModule, node: fx.Node) -> None:
        self._model, self._node = model, node
        x, hidden, cell, weights, self._kind, batch_first, self._reverse, self._bits, *self._range, _ = cast(
            "tuple[Any, ...]", node.args
        )
        self._x, self._of_x = self._stored(x)
        self._hidden, self._cell = hidden, cell
        self._weights = [value_of(model, one).detach().double().numpy() for one in weights]
        *order, self._units = node.meta["val"][0].shape
        steps, batches = order[::-1] if batch_first else order
        self._shape = (batches, steps, self._weights[0].shape[1], self._units, int(not batch_first))
        self._items = {item.args[1]: item for item in node.users}

    def lower(self) -> None:
        """Insert the operator and replace the layer's results."""
        scale = self._scale_of_hidden()
        if self._kind == "lstm":
            inputs, params = self._lstm(scale)
        elif self._kind == "gru":
            inputs, params = self._gru(scale)
        else:
            inputs, params = self._rnn(scale)
        name = {"lstm": "lstm", "gru": "gru"}.get(self._kind, "rnn")
        graph, node = self._model.graph, self._node
        shape = [*node.meta["val"][0].shape]
        with graph.inserting_before(node):
            target = getattr(torch.ops.deuteron, name).default
            made = graph.call_function(target, (*inputs, shape, [*params.words()]))
            results = {
                index: graph.call_function(operator.getitem, (made, at))
                for index, at in ((0, 1 if name == "rnn" else 2), (1, 1))
                if index in self._items
            }
        with node.meta["val"][0].fake_mode:  # only the record and the shape of the output count
            values = target(*(torch.empty(0, dtype=torch.int8) for _ in inputs), shape, [*params.words()])
        for one in (made, *results.values()):
            one.meta = {**node.meta, "val": values if one is made else values[one.args[1]]}
        for index, result in results.items():
            for user in list(self._items[index].users):
                if not is_quantize(user):
                    raise InternalError(f"`{user.name}` reads the recurrent layer `{node.name}` as float")
                user.replace_all_uses_with(result)

    def _stored(self, node: fx.Node) -> tuple[fx.Node, Affine]:
        """The stored values of a quantized operand, and their quantization."""
        if not is_dequantize(node):
            raise InternalError(f"`{node.name}` is an operand of a recurrent layer and not quantized")
        stored, scale, zero_point, *_ = node.args
        return cast(fx.Node, stored), Affine(float(cast(float, scale)), int(cast(int, zero_point)))

    def _scale_of_hidden(self) -> Affine:
        """Return the quantization of the sequence, or of its range if nothing reads it."""
        item = self._items.get(0)
        if item is None:
            return _affine(*self._range)
        quantize = next(iter(item.users))
        return Affine(float(cast(float, quantize.args[1])), int(cast(int, quantize.args[2])))

    def _lstm(self, scale: Affine) -> tuple[Sequence[fx.Node], KernelParams]:
        own, theirs = self._biases()
        gates = self._gates(scale, (own + theirs, np.zeros_like(own)), _GATE_STEPS)
        of_x, shift_x, of_h, shift_h = cast("tuple[Dims4, Dims4, Dims4, Dims4]", gates.words())
        out = factor(2.0**-30 / scale.scale)
        params = LstmParams(
            *self._shape, scale.zero_point, of_x, shift_x, of_h, shift_h, self._bits, 0, *out, int(self._reverse)
        )
        states = self._state(self._hidden, torch.int8, scale), self._state(self._cell, torch.int16, self._of_state)
        return (*self._operands(gates), *states), params

    def _gru(self, scale: Affine) -> tuple[Sequence[fx.Node], KernelParams]:
        own, theirs = self._biases()
        keep = np.repeat([0.0, 0.0, 1.0], self._units)  # the reset gate multiplies this part
        gates = self._gates(scale, (own + theirs * (1 - keep), theirs * keep), _GATE_STEPS)
        factors = cast("tuple[Dims3, Dims3, Dims3, Dims3]", gates.words())
        out = factor(self._of_state.scale / scale.scale)
        params = GruParams(*self._shape, int(self._reverse), scale.zero_point, *factors, self._bits, *out)
        return (*self._operands(gates), self._state(self._hidden, torch.int16, self._of_state)), params

    def _rnn(self, scale: Affine) -> tuple[Sequence[fx.Node], KernelParams]:
        own, theirs = self._biases()
        relu = self._kind == "rnn_relu"
        steps = _RELU_STEPS / scale.scale if relu else _GATE_STEPS
        gates = self._gates(scale, (own + theirs, np.zeros_like(own)), steps)
        (of_x,), (of_h,) = gates.factors
        out = factor(1 / _RELU_STEPS if relu else 2.0**-15 / scale.scale)
        params = RnnParams(*self._shape, int(self._reverse), scale.zero_point, *of_x, *of_h, int(relu), *out)
        return (*self._operands(gates), self._state(self._hidden, torch.int8, scale)), params

    @property
    def _of_state(self) -> Affine:
        return Affine(2.0 ** (self._bits - 15), 0)

    def _biases(self) -> tuple[F64, F64]:
        none = np.zeros(len(self._weights[0]))
        own, theirs = self._weights[2:] or (none, none)
        return own, theirs

    def _gates(self, hidden: Affine, biases: tuple[F64, F64], steps: float) -> _Gates:
        """The gates; their numbers have `steps` steps per unit before their functions."""
        weights: list[npt.NDArray[np.int8]] = []
        starts: list[npt.NDArray[np.int64]] = []
        factors: list[list[Factor]] = []
        for rows, bias, affine in zip(self._weights[:2], biases, (self._of_x, hidden), strict=True):
            gates = rows.reshape(-1, self._units, rows.shape[1])
            added = bias.reshape(-1, self._units) / affine.scale
            least = np.maximum(np.abs(added).max(axis=1) / _LARGEST_START, 1e-11)
            scales = np.maximum(np.abs(gates).max(axis=(1, 2)) / 127, least)
            stored = np.rint(gates / scales[:, None, None]).astype(np.int64)
            start = np.rint(added / scales[:, None])
            starts.append(start.astype(np.int64) - affine.zero_point * stored.sum(axis=2))
            weights.append(stored.astype(np.int8).ravel())
            factors.append([factor(float(scale) * affine.scale * steps) for scale in scales])
        limits = np.iinfo(np.int32)
        sums = np.stack(starts).clip(limits.min // 2, limits.max // 2).astype(np.int32)
        return _Gates(_tensor(np.concatenate(weights)), _tensor(sums), (factors[0], factors[1]))

    def _operands(self, gates: _Gates) -> tuple[fx.Node, fx.Node, fx.Node]:
        return self._x, self._constant("weights", gates.weights), self._constant("starts", gates.starts)

    def _state(self, state: fx.Node | None, dtype: torch.dtype, wanted: Affine) -> fx.Node:
        """The stored initial state, which has the quantization of the states."""
        if state is None:
            shape = (1, self._shape[0], self._units)
            return self._constant("initial", torch.full(shape, wanted.zero_point, dtype=dtype))
        stored, actual = self._stored(state)
        if actual != wanted:
            raise InternalError(f"an initial state of `{self._node.name}` has the scale {actual}, not {wanted}")
        return stored

    def _constant(self, name: str, value: Tensor) -> fx.Node:
        return constant(self._model, self._node, f"{self._node.name}_{name}", value)


def _tensor(values: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(values)  # pyright: ignore[reportUnknownMemberType]
