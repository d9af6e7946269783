"""Random models of one operator of TFLite Micro's signal library each: `MODELS[name](rng)`, and inputs for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from flatbuffers import flexbuffers
from tests.tflite.cortex_m.models import Array, Make, Rng, constant, model, tensor

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor

Options = Mapping[str, int | bool]
TYPES = {"FLOAT32": 0, "INT32": 2, "INT16": 7}
"""The schema's numbers of types."""


def custom(code: str, operands: Sequence[FlatTensor], results: Sequence[FlatTensor], options: Options) -> FlatModel:
    """A model of one custom operator."""
    source = model("CUSTOM", operands, results)
    (op,) = source.operators
    data = bytes(flexbuffers.Dumps(dict(options)))
    return replace(source, operators=(FlatOperator("CUSTOM", op.inputs, op.outputs, "", {}, code, data),))


def window(rng: Rng) -> FlatModel:
    rows, length = (int(n) for n in rng.integers(1, 9, 2))
    weights = constant("w", rng.integers(-32768, 32768, length), "INT16")
    x, y = (tensor(name, (rows, length), "INT16") for name in "xy")
    return custom("SignalWindow", [x, weights], [y], {"shift": int(rng.integers(0, 16))})


def auto_scale(rng: Rng) -> FlatModel:
    count = int(rng.integers(1, 5))
    x, y = (tensor(name, (count,), "INT16") for name in "xy")
    return custom("SignalFftAutoScale", [x], [y, tensor("bits", (), "INT32")], {})


def fft(code: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        length, rows = 1 << int(rng.integers(2, 10)), int(rng.integers(1, 3))
        sizes = (int(rng.integers(1, length + 1)), length + 2) if code == "SignalRfft" else (length + 2, length)
        x, y = (tensor(name, (rows, size), dtype) for name, size in zip("xy", sizes, strict=True))
        return custom(code, [x], [y], {"T": TYPES[dtype], "fft_length": length})

    return make


def energy(rng: Rng) -> FlatModel:
    bins = int(rng.integers(1, 20))
    x, y = tensor("x", (2 * bins,), "INT16"), tensor("y", (bins,), "UINT32")
    return custom("SignalEnergy", [x], [y], {"start_index": 0, "end_index": bins})


def filter_bank(rng: Rng) -> FlatModel:
    bins, channels = int(rng.integers(8, 30)), int(rng.integers(1, 6))
    widths = rng.integers(0, 8, channels + 1)
    starts = np.cumsum(widths) - widths
    weights = (constant(name, rng.integers(-5, 4097, max(1, widths.sum())), "INT16") for name in "wu")
    bands = (rng.integers(0, bins - widths + 1), starts, widths)
    constants = [*weights, *(constant(name, band, "INT16") for name, band in zip("fsn", bands, strict=True))]
    x, y = tensor("x", (bins,), "UINT32"), tensor("y", (channels,), "UINT64")
    return custom("SignalFilterBank", [x, *constants], [y], {"num_channels": channels})


def square_root(rng: Rng) -> FlatModel:
    channels = int(rng.integers(1, 20))
    x, y = tensor("x", (channels,), "UINT64"), tensor("y", (channels,), "UINT32")
    return custom("SignalFilterBankSquareRoot", [x, tensor("bits", (), "INT32")], [y], {})


def spectral_subtraction(rng: Rng) -> FlatModel:
    channels = int(rng.integers(1, 10))
    tensors = [tensor(name, (channels,), "UINT32") for name in ("x", "y", "noise")]
    names = ("smoothing", "one_minus_smoothing", "alternate_smoothing", "alternate_one_minus_smoothing")
    options = {name: int(rng.integers(0, 1 << 14)) for name in (*names, "min_signal_remaining")}
    options |= {"num_channels": channels, "clamping": bool(rng.integers(2)), "spectral_subtraction_bits": 14}
    options["smoothing_bits"] = int(rng.integers(0, 14))
    return custom("SignalFilterBankSpectralSubtraction", tensors[:1], tensors[1:], options)


def pcan(rng: Rng) -> FlatModel:
    channels = int(rng.integers(1, 20))
    x, noise, y = (tensor(name, (channels,), "UINT32") for name in ("x", "noise", "y"))
    gains = constant("gains", rng.integers(-32768, 32768, 125), "INT16")
    return custom("SignalPCAN", [x, noise, gains], [y], {"snr_shift": int(rng.integers(0, 20))})


def logarithm(rng: Rng) -> FlatModel:
    channels = int(rng.integers(1, 20))
    x, y = tensor("x", (channels,), "UINT32"), tensor("y", (channels,), "INT16")
    options = {"output_scale": int(rng.choice([1, 64, 3000])), "input_correction_bits": int(rng.integers(0, 5))}
    return custom("SignalFilterBankLog", [x], [y], options)


def delay(rng: Rng) -> FlatModel:
    dims = tuple(int(n) for n in rng.integers(1, 6, 2))
    x, y = (tensor(name, dims, "INT16") for name in "xy")
    return custom("SignalDelay", [x], [y], {"delay_length": int(rng.integers(0, 12))})


def framer(rng: Rng) -> FlatModel:
    step, count, rows = (int(n) for n in rng.integers(1, 4, 3))
    size = step + int(rng.integers(0, 9))
    x, y = tensor("x", (rows, step * count), "INT16"), tensor("y", (rows, count, size), "INT16")
    options = {"frame_size": size, "frame_step": step, "prefill": bool(rng.integers(2))}
    return custom("SignalFramer", [x], [y, tensor("valid", (), "BOOL")], options)


def stacker(rng: Rng) -> FlatModel:
    channels, left, right = int(rng.integers(1, 5)), int(rng.integers(0, 4)), int(rng.integers(0, 4))
    options = {
        "num_channels": channels, "stacker_left_context": left, "stacker_right_context": right,
        "stacker_step": int(rng.integers(1, left + right + 2)),
    }  # fmt: skip
    x, y = tensor("x", (channels,), "INT16"), tensor("y", (channels * (left + right + 1),), "INT16")
    return custom("SignalStacker", [x], [y, tensor("valid", (), "BOOL")], options)


def overlap_add(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        rows, count, size = (int(n) for n in rng.integers(1, 5, 3))
        step = int(rng.integers(1, size + 1))
        x, y = tensor("x", (rows, count, size), dtype), tensor("y", (rows, count * step), dtype)
        return custom("SignalOverlapAdd", [x], [y], {"T": TYPES[dtype], "frame_step": step})

    return make


def front_end(rng: Rng) -> FlatModel:
    """The front end of a keyword spotter, from 30 samples to 4 channels, with casts of uint32 between its parts."""
    hann = np.round(np.hanning(30) * 4096)
    ramp = np.arange(1, 13) * 300
    bands = np.array([[1, 2, 4, 6, 9], [0, 1, 3, 5, 8], [1, 2, 2, 3, 4]])
    subtraction = {
        "alternate_one_minus_smoothing": 15401, "alternate_smoothing": 983, "clamping": False, "num_channels": 4,
        "min_signal_remaining": 819, "one_minus_smoothing": 15975, "smoothing": 409, "smoothing_bits": 10,
        "spectral_subtraction_bits": 14,
    }  # fmt: skip
    tensors = [
        tensor("samples", (1, 30), "INT16"), constant("window", hann, "INT16"), tensor("windowed", (1, 30), "INT16"),
        tensor("row", (30,), "INT16"), tensor("scaled", (30,), "INT16"), tensor("bits", (), "INT32"),
        tensor("spectrum", (34,), "INT16"), tensor("energy", (17,), "UINT32"), tensor("signed", (17,), "INT32"),
        tensor("unsigned", (17,), "UINT32"), constant("weights", ramp, "INT16"),
        constant("unweights", 4096 - ramp, "INT16"), *(constant(f"bands{i}", bands[i], "INT16") for i in range(3)),
        tensor("filtered", (4,), "UINT64"), tensor("roots", (4,), "UINT32"), tensor("clean", (4,), "UINT32"),
        tensor("noise", (4,), "UINT32"), constant("gains", rng.integers(0, 4096, 125), "INT16"),
        tensor("normalised", (4,), "UINT32"), tensor("features", (4,), "INT16"),
    ]  # fmt: skip
    at = {each.name: i for i, each in enumerate(tensors)}
    steps: list[tuple[str, str, str, Options]] = [
        ("SignalWindow", "samples window", "windowed", {"shift": 12}),
        ("RESHAPE", "windowed", "row", {}),
        ("SignalFftAutoScale", "row", "scaled bits", {}),
        ("SignalRfft", "scaled", "spectrum", {"T": TYPES["INT16"], "fft_length": 32}),
        ("SignalEnergy", "spectrum", "energy", {"start_index": 1, "end_index": 13}),
        ("CAST", "energy", "signed", {}),
        ("CAST", "signed", "unsigned", {}),
        ("SignalFilterBank", "unsigned weights unweights bands0 bands1 bands2", "filtered", {"num_channels": 4}),
        ("SignalFilterBankSquareRoot", "filtered bits", "roots", {}),
        ("SignalFilterBankSpectralSubtraction", "roots", "clean noise", subtraction),
        ("SignalPCAN", "clean noise gains", "normalised", {"snr_shift": 6}),
        ("SignalFilterBankLog", "normalised", "features", {"input_correction_bits": 3, "output_scale": 64}),
    ]
    operators = [
        FlatOperator("CUSTOM", *places, "", {}, code, bytes(flexbuffers.Dumps(dict(options))))
        if code.startswith("Signal")
        else FlatOperator(code, *places)
        for code, inputs, outputs, options in steps
        for places in [[tuple(at[name] for name in names.split()) for names in (inputs, outputs)]]
    ]
    return FlatModel("front end", tuple(tensors), (at["samples"],), (at["features"], at["noise"]), tuple(operators))


MODELS: Mapping[str, Make] = {
    "auto_scale": auto_scale, "delay": delay, "energy": energy, "filter_bank": filter_bank, "framer": framer,
    "front_end": front_end, "logarithm": logarithm, "overlap_add": overlap_add("INT16"),
    "overlap_add_f32": overlap_add("FLOAT32"), "pcan": pcan, "spectral_subtraction": spectral_subtraction,
    "square_root": square_root, "stacker": stacker, "window": window,
    **{f"{code} {dtype}": fft(code, dtype) for code in ("SignalRfft", "SignalIrfft") for dtype in TYPES},
}  # fmt: skip


def stream(source: FlatModel, rng: Rng, calls: int) -> list[list[Array]]:
    """Inputs of calls: numbers of all magnitudes, zeros and ends of the type."""
    return [[_numbers(source.tensors[i], rng) for i in source.inputs] for _ in range(calls)]


def _numbers(of: FlatTensor, rng: Rng) -> Array:
    if of.name == "bits":
        return np.int32(rng.integers(0, 32)).reshape(())
    if of.dtype == "FLOAT32":
        return rng.standard_normal(of.shape).astype(np.float32)
    limits = np.iinfo(of.dtype.lower())
    match rng.integers(4):
        case 0:
            return rng.choice(np.array([limits.min, limits.max, 0], limits.dtype), of.shape)
        case 1:
            return np.full(of.shape, rng.choice(np.array([limits.min, limits.max, 0], limits.dtype)))
        case _:
            shifts = rng.integers(0, limits.bits, of.shape if rng.integers(2) else ())
            bits = rng.integers(limits.min, limits.max, of.shape, limits.dtype, endpoint=True)
            return (bits >> shifts.astype(limits.dtype)).reshape(of.shape)
