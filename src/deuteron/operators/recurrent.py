"""Recurrent layers in one direction: a sequence in, the states of all steps out.

A factor is multiplier * 2^(shift - 31), multiplier 0 or more, shift -31..30. R(x) is the product of a number with a
factor: it rounds to nearest after the multiplication, and after the shift to the right again, there with ties away from
zero. Sums keep their low 32 bits.
"""

from dataclasses import dataclass

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.kernel_params import Dims3, Dims4, KernelParams


@dataclass(frozen=True, slots=True)
class LstmParams(KernelParams):
    """LSTM over int8 [batches, steps, in_features], or with `time_major` 1 [steps, batches, in_features].

    Input weights are int8 [4, units, in_features], hidden weights [4, units, units]; gates are those of input, forget,
    cell and output. A gate is f(sat16(sat16(R(start + sum(x * w))) + R(start + sum(h * w)))). The starts, int32
    [2, 4, units], have the bias and the terms of the zero points. Sums keep their low 32 bits. Each gate has its
    factors. f is tanh for the cell, else the logistic function, of numbers in steps of 2^-12. The cell state is
    int16 with `cell_bits` whole bits. It becomes the forget gate times it plus input gate times cell gate, clamped to
    `cell_clip` unless that is 0. The hidden state is sat8(hidden_zp + R(output gate * tanh(cell state))), and the
    output is it. With `reverse` 1, the first step reads the last row. Scratch has 4 * units int16 elements.
    """

    batches: int
    steps: int
    in_features: int
    units: int
    time_major: int
    hidden_zp: int
    input_multipliers: Dims4
    input_shifts: Dims4
    hidden_multipliers: Dims4
    hidden_shifts: Dims4
    cell_bits: int
    cell_clip: int
    out_multiplier: int
    out_shift: int
    reverse: int = 0


@dataclass(frozen=True, slots=True)
class LstmS16Params(LstmParams):
    """LSTM over int16, with TFLite Micro's arithmetic; fields as in LstmParams, the hidden_zp is 0.

    Weights are those of inputs, then those of hidden states. A gate is f(sat16(sat16(F(bias + sum(x * w))) +
    sat16(F(sum(h * w))))), with 64-bit sums and biases. F is a factor whose multiplier has 15 bits, rounded once, ties
    up. f has the table of `sigmoid_s16`. The products of gates and cells are R of a half, and saturated.
    """


@dataclass(frozen=True, slots=True)
class GruParams(KernelParams):
    """GRU over a sequence as that of LstmParams; gates are reset, update and new gate.

    Weights are int8: [3, units, in_features], then [3, units, units]. Reset and update gate are those of an LSTM. The
    new gate is tanh(sat16(a + reset gate * b)), a = sat16(R(start + sum(x * w))), b = sat16(R(start + sum(h * w))).
    The state is int16 with `state_bits` whole bits. It becomes update gate * state + (1 - 2^-15 - update gate) * new
    gate. The hidden state h, which is the output, is sat8(hidden_zp + R(state)). The starts are int32 [2, 3, units].
    """

    batches: int
    steps: int
    in_features: int
    units: int
    time_major: int
    reverse: int
    hidden_zp: int
    input_multipliers: Dims3
    input_shifts: Dims3
    hidden_multipliers: Dims3
    hidden_shifts: Dims3
    state_bits: int
    out_multiplier: int
    out_shift: int


@dataclass(frozen=True, slots=True)
class RnnParams(KernelParams):
    """Plain recurrent layer over a sequence as that of LstmParams.

    Weights are int8: [units, in_features], then [units, units]. The gate g is sat16(sat16(R(start + sum(x * w))) +
    R(start + sum(h * w))). The hidden state, which is the output, is sat8(hidden_zp + R(f(g))). Its function is tanh of
    numbers in steps of 2^-12, or max(g, 0) with `relu` 1. The starts are int32 [2, units].
    """

    batches: int
    steps: int
    in_features: int
    units: int
    time_major: int
    reverse: int
    hidden_zp: int
    input_multiplier: int
    input_shift: int
    hidden_multiplier: int
    hidden_shift: int
    relu: int
    out_multiplier: int
    out_shift: int


def scratch_shapes(params: LstmParams | GruParams | RnnParams) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the int16 values that a call writes before the output: gates, and the state but for RNNs."""
    if isinstance(params, RnnParams):
        return ((params.units,),)
    return (4 * params.units,), (1, params.batches, params.units)


RECURRENT: tuple[CpuOperator, ...] = (
    CpuOperator(
        "lstm",
        ("input", "weights", "starts", "initial_hidden", "initial_cell"),
        LstmParams,
        scratch=("gates", "cell_state"),
    ),
    CpuOperator("gru", ("input", "weights", "starts", "initial_state"), GruParams, scratch=("gates", "state")),
    CpuOperator("rnn", ("input", "weights", "starts", "initial_hidden"), RnnParams, scratch=("gates",)),
)
"""Operators that Deuteron adds. Weights are those of inputs, then those of hidden states. Cell state and state are
results, too: those after the last step."""
