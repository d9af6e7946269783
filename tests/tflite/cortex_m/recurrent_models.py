"""Random models of one operator that keeps a state: `MODELS[name](rng)`."""

import math
from collections.abc import Mapping

from tests.tflite.cortex_m.models import Make, Rng, constant, f32, tensor, zero_point

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant


def _symmetric(rng: Rng, around: float) -> Quant:
    return Quant((f32(around * rng.uniform(0.5, 2.0)),), (0,))


def _model(
    name: str, operands: list[FlatTensor | None], out: FlatTensor, kind: str, options: Mapping[str, float],
    middle: list[FlatTensor] | None = None,
) -> FlatModel:  # fmt: skip
    """A model of one operator; None is an operand that is left out, `middle` are its intermediate tensors."""
    present = [operand for operand in operands if operand is not None]
    tensors = (*present, out, *(middle or ()))
    places = {id(one): i for i, one in enumerate(tensors)}
    inputs = tuple(-1 if operand is None else places[id(operand)] for operand in operands)
    op = FlatOperator(
        name, inputs, (len(present),), kind, options, version=3,
        intermediates=tuple(range(len(present) + 1, len(tensors))),
    )  # fmt: skip
    return FlatModel("m", tensors, (0,), (len(present),), (op,))


def svdf(rng: Rng, *sizes: int) -> FlatModel:
    """An SVDF with int16 state, as LiteRT has it."""
    batches, features, units, rank, steps = sizes or (int(v) for v in rng.integers(1, (4, 40, 9, 4, 12)))
    filters = units * rank
    x, w = Quant((f32(rng.uniform(0.01, 0.1)),), (zero_point(rng, "INT8"),)), _symmetric(rng, 0.01)
    state = _symmetric(rng, x.scale * w.scale * math.sqrt(features) / 50)
    times = _symmetric(rng, 1e-4)
    out = Quant((f32(state.scale * times.scale * 2e6 * math.sqrt(steps * rank)),), (zero_point(rng, "INT8"),))
    operands: list[FlatTensor | None] = [
        tensor("x", (batches, features), "INT8", x),
        constant("features", rng.integers(-127, 128, (filters, features)), "INT8", w),
        constant("times", rng.integers(-32767, 32768, (filters, steps)), "INT16", times),
        None,
        FlatTensor("state", (batches, filters * steps), "INT16", state, is_variable=True),
    ]
    # LiteRT reads the bias of every SVDF, and takes a scale that is near.
    scale = Quant((f32(state.scale * times.scale),), (0,))
    operands[3] = constant("bias", rng.integers(-(10**7), 10**7, units), "INT32", scale)
    options = {"Rank": rank, "FusedActivationFunction": 1}  # LiteRT takes no other
    return _model("SVDF", operands, tensor("y", (batches, units), "INT8", out), "SVDFOptions", options)


def lstm(rng: Rng) -> FlatModel:
    """A standard LSTM of int8."""
    batches, steps, features, units = (int(v) for v in rng.integers(1, (4, 6, 20, 14)))
    time_major = int(rng.integers(2))
    x = Quant((f32(rng.uniform(0.005, 0.05)),), (zero_point(rng, "INT8"),))
    hidden = Quant((f32(rng.uniform(1 / 160, 1 / 100)),), (int(rng.integers(-20, 20)),))
    cell = Quant((2.0 ** int(rng.integers(-15, -8)),), (0,))
    wide = 10.0 ** rng.uniform(-0.5, 1)
    operands: list[FlatTensor | None] = [
        tensor("x", (steps, batches, features) if time_major else (batches, steps, features), "INT8", x)
    ]
    input_quants = [_symmetric(rng, 0.01 * wide) for _ in range(4)]
    for columns, quants in ((features, input_quants), (units, [_symmetric(rng, 0.01 * wide) for _ in range(4)])):
        operands += (constant("w", rng.integers(-127, 128, (units, columns)), "INT8", quant) for quant in quants)
    operands += [None] * 3
    for quant in input_quants:
        scale = Quant((f32(x.scale * quant.scale),), (0,))
        operands.append(constant("b", rng.integers(-2000, 2001, units), "INT32", scale))
    operands += [None] * 2
    operands.append(FlatTensor("hidden", (batches, units), "INT8", hidden, is_variable=True))
    operands.append(FlatTensor("cell", (batches, units), "INT16", cell, is_variable=True))
    operands += [None] * 4
    middle = [tensor(f"middle{i}", (), "INT16", Quant((1 / 4096,), (0,))) for i in range(4)]
    middle.append(tensor("middle4", (), "INT8", hidden))
    options = {
        "FusedActivationFunction": 4, "CellClip": float(rng.choice([0.0, 0.4, 10.0])), "ProjClip": 0.0,
        "TimeMajor": time_major, "AsymmetricQuantizeInputs": 0, "DiagonalRecurrentTensors": 0,
    }  # fmt: skip
    out = tensor("y", (*(operands[0].shape[:2] if operands[0] else ()), units), "INT8", hidden)
    return _model("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, out, "UnidirectionalSequenceLSTMOptions", options, middle)


MODELS: Mapping[str, Make] = {"svdf": svdf, "lstm": lstm}
"""A generator per operator."""
