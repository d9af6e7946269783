"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM, which keep a state in variable tensors that they read and write."""

import math
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

import numpy as np

from deuteron.operators.kernel_params import Dims4
from deuteron.operators.recurrent import LstmParams, LstmS16Params
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, SvdfParams
from deuteron.operators.tflite_unquantized import SvdfF32Params
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor
from deuteron.tflite.cortex_m.convolution import MOST_PRODUCTS
from deuteron.tflite.cortex_m.fixed_point import bits_of, factor
from deuteron.tflite.cortex_m.lookup_s16 import sigmoid_table
from deuteron.tflite.cortex_m.lowering import Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import NONE, RELU, Array, Site
from deuteron.tflite.flat_model import FlatTensor

_INPUT_WEIGHTS, _HIDDEN_WEIGHTS, _BIASES = 1, 5, 12
"""First of four operands of the gates, in the order input, forget, cell and output."""
_HIDDEN_STATE, _CELL_STATE = 18, 19
_LEFT_OUT = {
    "peephole weights": range(9, 12),
    "a projection": range(16, 18),
    "layer normalisation": range(20, 24),
}
"""Operands of the parts of an LSTM that are not supported."""
_HIDDEN_RESULT = 4
"""Position of the intermediate tensor that has the scale of the hidden state."""
_TANH = 4
_GATE_STEPS = 4096
"""Per unit, before a gate's activation function."""
_MOST_CELL_BITS = 6
_MOST_WIDE_SHIFT = 14

_HINT_STANDARD = "use a standard LSTM, as Keras has it"
_HINT_STATE = "make the file again; its converter has a defect"


def _state(site: Site, position: int, dtype: str, shape: tuple[int, ...]) -> FlatTensor:
    """A variable tensor of these bytes."""
    tensor = site.input(position)
    site.require(tensor, dtype)
    if not tensor.is_variable:
        raise site.unsupported(
            f"tensor `{tensor.name}` is no variable; the operator keeps its state in it", _HINT_STATE
        )
    if math.prod(tensor.shape) != math.prod(shape):
        raise site.unsupported(
            f"the state `{tensor.name}` has the shape {list(tensor.shape)}; {list(shape)} is needed", _HINT_STATE
        )
    return tensor


def _written(site: Site, position: int) -> FileTensor:
    return FileTensor(site.op.inputs[position])


def svdf(site: Site) -> tuple[CpuCall, ...]:
    """Lower SVDF. A RELU clamps nothing but to the type, as in the reference kernel."""
    x, features, times, out = site.input(0), site.input(1), site.input(2), site.output()
    site.require(features, "INT8")
    site.require(out, "INT8")
    dtype = site.require(times, "INT8", "INT16")
    filters, in_features = site.constant(1).shape
    steps, rank, batches = site.constant(2).shape[1], site.option("Rank", 1), x.shape[0]
    if in_features > MOST_PRODUCTS:
        raise site.unsupported(f"each value is a sum of {in_features} products; at most {MOST_PRODUCTS} are allowed")
    if rank < 1 or filters % rank:
        raise site.unsupported(f"{filters} filters have the rank {rank}, which does not divide them", _HINT_STATE)
    if site.option("FusedActivationFunction") not in (NONE, RELU):
        raise site.unsupported(
            "its fused activation function is not RELU or NONE", "write the activation as an operator of its own"
        )
    state = _state(site, 4, dtype, (batches, filters * steps))
    to_state = factor(float(site.scale(x) * site.scale(features) / site.scale(state)))
    to_out = factor(float(site.scale(state) * site.scale(times) / site.scale(out)))
    params = SvdfParams(
        batches=batches,
        in_features=in_features,
        units=filters // rank,
        rank=rank,
        steps=steps,
        in_zp=site.zero_point(x),
        state_zp=site.zero_point(state),
        state_multiplier=to_state[0],
        state_shift=to_state[1],
        out_zp=site.zero_point(out),
        out_multiplier=to_out[0],
        out_shift=to_out[1],
        has_bias=int(site.has_input(3)),
    )
    bias = (site.values(3, site.constant(3)),) if site.has_input(3) else ()
    inputs = (site.ref(0), site.ref(1), site.ref(2), *bias)
    return (CpuCall(BY_TFLITE_OPERATOR["svdf"], inputs, (_written(site, 4), site.out()), params),)


def svdf_f32(site: Site) -> tuple[CpuCall, ...]:
    """Lower SVDF of float32."""
    for position in range(4):
        if site.has_input(position):
            site.require(site.input(position), "FLOAT32")
    filters, in_features = site.constant(1).shape
    steps, rank, batches = site.constant(2).shape[1], site.option("Rank", 1), site.input().shape[0]
    if rank < 1 or filters % rank:
        raise site.unsupported(f"{filters} filters have the rank {rank}, which does not divide them", _HINT_STATE)
    _state(site, 4, "FLOAT32", (batches, filters * steps))
    low, high = site.activation()
    limits = bits_of(-math.inf if low is None else low), bits_of(math.inf if high is None else high)
    has_bias = int(site.has_input(3))
    params = SvdfF32Params(batches, in_features, filters // rank, rank, steps, *limits, has_bias)
    inputs = tuple(site.ref(position) for position in range(3 + has_bias))
    return (CpuCall(BY_TFLITE_OPERATOR["svdf_f32"], inputs, (_written(site, 4), site.out()), params),)


def lstm(site: Site) -> tuple[CpuCall, ...]:
    """Lower UNIDIRECTIONAL_SEQUENCE_LSTM of int8 without peepholes, projection and layer normalisation."""
    if len(site.op.intermediates) <= _HIDDEN_RESULT or site.op.intermediates[_HIDDEN_RESULT] < 0:
        _check_form(site)
        raise site.unsupported("the scale of its hidden state is missing among its intermediate tensors", _HINT_STATE)
    result = site.model.tensors[site.op.intermediates[_HIDDEN_RESULT]]
    params, weights = _layer(site, float(np.float32(2.0**-15) / site.scale(result)) * 2.0**-15)
    zero_points = (site.zero_point(site.input()), params.hidden_zp)
    sums = [w.sum(axis=2, dtype=np.int64) * zero for w, zero in zip(weights, zero_points, strict=True)]
    starts = np.stack([_biases(site).reshape(4, params.units) - sums[0], -sums[1]]).astype(np.int32)
    inputs = (site.ref(), *map(Constant, weights), Constant(starts))
    outputs = (_written(site, _HIDDEN_STATE), _written(site, _CELL_STATE), site.out())
    return (CpuCall(BY_TFLITE_OPERATOR["lstm"], inputs, outputs, params),)


def lstm_s16(site: Site) -> tuple[CpuCall, ...]:
    """Lower UNIDIRECTIONAL_SEQUENCE_LSTM of int16, which TFLite Micro has."""
    hidden = site.input(_HIDDEN_STATE)
    params, weights = _layer(site, 2.0**-30 / float(site.scale(hidden)))
    site.zero_point(site.input())
    shifts = (*params.input_shifts, *params.hidden_shifts)
    if max(shifts) > _MOST_WIDE_SHIFT:
        raise site.unsupported(
            f"the scales of its weights are up to 2^{max(shifts)} times those of its gates; 2^{_MOST_WIDE_SHIFT} is "
            "allowed",
            _HINT_STATE,
        )
    inputs = (
        site.ref(),
        Constant(np.concatenate([weight.ravel() for weight in weights])),
        Constant(_biases(site).astype(np.int64)),
        Constant(sigmoid_table()),
    )
    outputs = (_written(site, _HIDDEN_STATE), _written(site, _CELL_STATE), site.out())
    words = (getattr(params, field.name) for field in fields(params))
    return (CpuCall(BY_TFLITE_OPERATOR["lstm_s16"], inputs, outputs, LstmS16Params(*words)),)


def _layer(site: Site, to_hidden: float) -> tuple[LstmParams, list[Array]]:
    """The record of an LSTM, and its weights; `to_hidden` brings products in steps of 2^-30 to the hidden state."""
    _check_form(site)
    x, weights = site.input(), [_gates(site, first) for first in (_INPUT_WEIGHTS, _HIDDEN_WEIGHTS)]
    time_major, units = site.option("TimeMajor"), weights[0].shape[1]
    steps, batches = x.shape[:2] if time_major else x.shape[1::-1]
    if (most := max(weight.shape[2] for weight in weights)) > MOST_PRODUCTS:
        raise site.unsupported(f"each gate is a sum of {most} products; at most {MOST_PRODUCTS} are allowed")
    hidden = _state(site, _HIDDEN_STATE, x.dtype, (batches, units))
    cell = _state(site, _CELL_STATE, "INT16", (batches, units))
    site.require(site.output(), x.dtype)
    input_multipliers, input_shifts = _factors(site, x, _INPUT_WEIGHTS)
    hidden_multipliers, hidden_shifts = _factors(site, hidden, _HIDDEN_WEIGHTS)
    multiplier, shift = factor(to_hidden)
    params = LstmParams(
        batches=batches,
        steps=steps,
        in_features=x.shape[2],
        units=units,
        time_major=time_major,
        hidden_zp=site.zero_point(hidden),
        input_multipliers=input_multipliers,
        input_shifts=input_shifts,
        hidden_multipliers=hidden_multipliers,
        hidden_shifts=hidden_shifts,
        cell_bits=_cell_bits(site, cell),
        cell_clip=_cell_clip(site, cell),
        out_multiplier=multiplier,
        out_shift=shift,
    )
    return params, weights


def _biases(site: Site) -> Array:
    return np.concatenate([site.constant(_BIASES + gate).ravel() for gate in range(4)])


def _check_form(site: Site) -> None:
    """Refuse the forms of an LSTM that no network of a microcontroller has."""
    for name, positions in _LEFT_OUT.items():
        if any(site.has_input(position) for position in positions):
            raise site.unsupported(f"it has {name}; none is allowed", _HINT_STANDARD)
    if not site.has_input(_INPUT_WEIGHTS):
        raise site.unsupported(
            "its input gate is one minus the forget gate; a gate of its own is needed", _HINT_STANDARD
        )
    if site.option("FusedActivationFunction") != _TANH:
        raise site.unsupported("its activation function is not TANH", _HINT_STANDARD)
    if site.option("DiagonalRecurrentTensors"):
        raise site.unsupported("its recurrent weights are diagonal; matrices are allowed", _HINT_STANDARD)


def _gates(site: Site, first: int) -> Array:
    """The weights of the four gates, [4, units, columns]."""
    arrays: list[Array] = []
    for position in range(first, first + 4):
        site.require(site.input(position), "INT8")
        if site.zero_point(site.input(position)):
            name = site.input(position).name
            raise site.unsupported(f"the weights `{name}` have a zero point; 0 is allowed", _HINT_STATE)
        arrays.append(site.constant(position))
    return np.stack(arrays)


def _factors(site: Site, x: FlatTensor, first: int) -> tuple[Dims4, Dims4]:
    """Multipliers and shifts that bring the products of `x` with the weights of the gates to steps of 2^-12.

    LiteRT multiplies the scales of int8 in float32, and TFLite Micro those of int16 in float64.
    """
    real = np.float32 if x.dtype == "INT8" else np.float64
    scales = (real(site.scale(site.input(position))) * real(site.scale(x)) for position in range(first, first + 4))
    found = [factor(float(scale) * _GATE_STEPS) for scale in scales]
    (a, i), (b, j), (c, k), (d, m) = found
    return (a, b, c, d), (i, j, k, m)


def _cell_bits(site: Site, cell: FlatTensor) -> int:
    """Whole bits of the cell state, whose scale must be a power of two."""
    mantissa, exponent = math.frexp(float(site.scale(cell)))
    bits = 15 + exponent - 1
    if mantissa != 0.5 or not 0 <= bits <= _MOST_CELL_BITS:
        raise site.unsupported(
            f"the cell state `{cell.name}` has the scale {site.scale(cell):g}; powers of two from 2^-15 to 2^-9 are "
            "allowed",
            _HINT_STATE,
        )
    site.zero_point(cell)
    return bits


def _cell_clip(site: Site, cell: FlatTensor) -> int:
    """The limit of the cell state in its steps; 0 for none."""
    clip = np.float32(site.op.options.get("CellClip", 0.0))
    return int(min(max(float(clip) / float(site.scale(cell)), 0.0), 32767.0)) if clip > 0 else 0


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "SVDF": by_type({"INT8": svdf, "FLOAT32": svdf_f32}, note="int8: state of int8 or int16"),
        "UNIDIRECTIONAL_SEQUENCE_LSTM": by_type(
            {"INT8": lstm, "INT16": lstm_s16},
            note="no peephole weights, projection or layer normalisation; int16 cell state",
        ),
    }
)
