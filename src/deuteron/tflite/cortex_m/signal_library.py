"""The signal library of TFLite Micro: from samples of sound to features of a network."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from deuteron.operators.kernel_params import KernelParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR
from deuteron.operators.tflite_signal import (
    SignalAutoScaleParams,
    SignalEnergyParams,
    SignalFftParams,
    SignalFilterBankParams,
    SignalLogParams,
    SignalPcanParams,
    SignalSpectralSubtractionParams,
    SignalSquareRootParams,
    SignalWindowParams,
)
from deuteron.operators.tflite_unquantized import ArithmeticParams
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Array, Site
from deuteron.tflite.flat_model import FlatTensor
from deuteron.tflite.operands import ShapeError
from deuteron.tflite.signal_library import option

_MOST_SAMPLES = 1 << 15
_GAINS = 125
_MUL = 2
_FFT = {"INT16": "fft", "INT32": "fft_s32", "FLOAT32": "fft_f32"}

_HINT_EXPORTER = "make the file again; its exporter has a defect"
_HINT_FFT = "make the graph with an FFT length that is a power of two, such as 512"
_HINT_TYPE = "make the graph with the types of TFLite Micro's audio front end"


def _number(site: Site, name: str, low: int, high: int) -> int:
    """An option within limits."""
    try:
        value = option(site.op, name)
    except ShapeError as error:
        raise site.unsupported(str(error), _HINT_EXPORTER) from error
    if not low <= value <= high:
        raise site.unsupported(f"its option `{name}` is {value}; {low} to {high} are allowed", _HINT_EXPORTER)
    return value


def _sized(site: Site, tensor: FlatTensor, dtype: str, elements: int) -> None:
    """Check the type of a tensor and the number of its elements."""
    site.require(tensor, dtype, hint=_HINT_TYPE)
    if math.prod(tensor.shape) != elements:
        raise site.unsupported(
            f"tensor `{tensor.name}` has the shape {list(tensor.shape)}; {elements} elements are needed", _HINT_EXPORTER
        )


def _call(site: Site, name: str, params: KernelParams, *inputs: Operand, state: int | None = None) -> CpuCall:
    """The call that writes all outputs."""
    written = () if state is None else (FileTensor(site.op.inputs[state]),)
    outputs = (*written, *(site.out(position) for position in range(len(site.op.outputs))))
    return CpuCall(BY_TFLITE_OPERATOR[f"signal_{name}"], inputs, outputs, params)


def window(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalWindow."""
    x, length = site.input(), math.prod(site.input(1).shape)
    site.require(site.input(1), "INT16", hint=_HINT_TYPE)
    _sized(site, site.output(), "INT16", math.prod(x.shape))
    if math.prod(x.shape) % length:
        raise site.unsupported(f"{math.prod(x.shape)} samples are no windows of {length}", _HINT_EXPORTER)
    params = SignalWindowParams(math.prod(x.shape) // length, length, _number(site, "shift", 0, 31))
    return (_call(site, "window", params, site.ref(), site.ref(1)),)


def auto_scale(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalFftAutoScale."""
    elements = math.prod(site.input().shape)
    _sized(site, site.output(), "INT16", elements)
    _sized(site, site.output(1), "INT32", 1)
    return (_call(site, "auto_scale", SignalAutoScaleParams(elements), site.ref()),)


def _factors(points: int, dtype: str, *, inverse: bool) -> Array:
    """The factors of a transform: one turn, and those that take even and odd samples apart."""
    turns = [2 * k / points for k in range(points)] + [(k + 1) / points + 0.5 for k in range(points // 2)]
    sign = 1 if inverse else -1
    values = np.array([[math.cos(math.pi * turn), sign * math.sin(math.pi * turn)] for turn in turns])
    return (values if dtype == "float32" else np.floor(values * np.iinfo(dtype).max + 0.5)).astype(dtype)


def fft(*, inverse: bool) -> Callable[[Site], tuple[CpuCall, ...]]:
    """Return the lowering of SignalRfft or SignalIrfft."""

    def lower(site: Site) -> tuple[CpuCall, ...]:
        samples, spectra = (site.input(), site.output())[:: -1 if inverse else 1]
        length = _number(site, "fft_length", 4, _MOST_SAMPLES)
        if length & (length - 1):
            raise site.unsupported(f"its option `fft_length` is {length}; powers of two are allowed", _HINT_FFT)
        points, count = length // 2, samples.shape[-1]
        if not 1 <= count <= length or (inverse and count != length):
            raise site.unsupported(f"{count} samples for a transform of {length}", _HINT_EXPORTER)
        rows = math.prod(samples.shape) // count
        dtype = site.require(site.output(), site.input().dtype, hint=_HINT_TYPE)
        _sized(site, spectra, dtype, rows * (length + 2))
        params = SignalFftParams(rows, count, points, int(inverse))
        factors = Constant(_factors(points, dtype.lower(), inverse=inverse))
        call = _call(site, _FFT[dtype], params, site.ref(), factors)
        return _divided(site, call, length) if inverse and dtype == "FLOAT32" else (call,)

    return lower


def _divided(site: Site, call: CpuCall, count: int) -> tuple[CpuCall, ...]:
    """The result of a call of float32, divided by a power of two."""
    shape, steps = site.output().shape, (0, 0, 0, 0, 1)
    undivided, limits = Temporary(shape, "float32"), (bits_of(-math.inf), bits_of(math.inf))
    params = ArithmeticParams((1, 1, 1, 1, math.prod(shape)), steps, (0, 0, 0, 0, 0), _MUL, *limits)
    factor = Constant(np.array([1 / count], np.float32))
    return (
        replace(call, outputs=(undivided,)),
        CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (undivided, factor), call.outputs, params),
    )


def energy(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalEnergy."""
    bins = math.prod(site.output().shape)
    _sized(site, site.input(), "INT16", 2 * bins)
    _sized(site, site.output(), "UINT32", bins)
    first = _number(site, "start_index", 0, bins)
    return (
        _call(site, "energy", SignalEnergyParams(bins, first, _number(site, "end_index", first, bins)), site.ref()),
    )


def filter_bank(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalFilterBank. Its bands are constants, so that their limits are known."""
    bins, weights = (math.prod(site.input(position).shape) for position in range(2))
    channels = _number(site, "num_channels", 1, _MOST_SAMPLES)
    for position in (1, 2):
        _sized(site, site.input(position), "INT16", weights)
    for position in (3, 4, 5):
        _sized(site, site.input(position), "INT16", channels + 1)
    _sized(site, site.output(), "UINT64", channels)
    bands = np.stack([site.constant(position).ravel() for position in (3, 4, 5)]).astype(np.int64)
    if bands.min() < 0 or (bands[0] + bands[2]).max() > bins or (bands[1] + bands[2]).max() > weights:
        raise site.unsupported(f"a band is outside of {bins} bins or {weights} weights", _HINT_EXPORTER)
    params = SignalFilterBankParams(bins, weights, channels)
    operands = site.ref(), site.ref(1), site.ref(2), Constant(bands.astype(np.int16))
    return (_call(site, "filter_bank", params, *operands),)


def square_root(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalFilterBankSquareRoot."""
    channels = math.prod(site.input().shape)
    _sized(site, site.input(1), "INT32", 1)
    _sized(site, site.output(), "UINT32", channels)
    return (_call(site, "square_root", SignalSquareRootParams(channels), site.ref(), site.ref(1)),)


def spectral_subtraction(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalFilterBankSpectralSubtraction, whose state is its second operand (`tflite.signal_library`)."""
    channels = math.prod(site.input().shape)
    for tensor in (site.input(1), site.output(), site.output(1)):
        _sized(site, tensor, "UINT32", channels)
    most = np.iinfo(np.int32).max
    params = SignalSpectralSubtractionParams(
        channels=channels,
        smoothing=_number(site, "smoothing", 0, most),
        one_minus_smoothing=_number(site, "one_minus_smoothing", 0, most),
        alternate_smoothing=_number(site, "alternate_smoothing", 0, most),
        alternate_one_minus_smoothing=_number(site, "alternate_one_minus_smoothing", 0, most),
        min_signal_remaining=_number(site, "min_signal_remaining", 0, most),
        smoothing_bits=_number(site, "smoothing_bits", 0, 31),
        bits=_number(site, "spectral_subtraction_bits", 0, 63),
        clamping=_number(site, "clamping", 0, 1),
    )
    return (_call(site, "spectral_subtraction", params, site.ref(), state=1),)


def pcan(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalPCAN."""
    channels = math.prod(site.input().shape)
    _sized(site, site.input(1), "UINT32", channels)
    _sized(site, site.input(2), "INT16", _GAINS)
    _sized(site, site.output(), "UINT32", channels)
    params = SignalPcanParams(channels, _number(site, "snr_shift", 0, 63))
    return (_call(site, "pcan", params, site.ref(), site.ref(1), site.ref(2)),)


def logarithm(site: Site) -> tuple[CpuCall, ...]:
    """Lower SignalFilterBankLog."""
    channels = math.prod(site.input().shape)
    _sized(site, site.output(), "INT16", channels)
    scale = _number(site, "output_scale", 0, np.iinfo(np.int32).max)
    pieces = np.arange(129) / 128
    table = np.round((np.log2(1 + pieces) - pieces) * (1 << 16)).astype(np.int16)
    params = SignalLogParams(channels, _number(site, "input_correction_bits", 0, 31), scale)
    return (_call(site, "log", params, site.ref(), Constant(table)),)


_FFT_NOTE = "FFT length a power of two up to 32,768"

OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "SignalEnergy": Lowering(energy, ("INT16",), hint=_HINT_TYPE),
        "SignalFftAutoScale": Lowering(auto_scale, ("INT16",), hint=_HINT_TYPE),
        "SignalFilterBank": Lowering(filter_bank, ("UINT32",), note="constant bands", hint=_HINT_TYPE),
        "SignalFilterBankLog": Lowering(logarithm, ("UINT32",), hint=_HINT_TYPE),
        "SignalFilterBankSpectralSubtraction": Lowering(spectral_subtraction, ("UINT32",), hint=_HINT_TYPE),
        "SignalFilterBankSquareRoot": Lowering(square_root, ("UINT64",), hint=_HINT_TYPE),
        "SignalIrfft": Lowering(fft(inverse=True), tuple(_FFT), note=_FFT_NOTE, hint=_HINT_TYPE),
        "SignalPCAN": Lowering(pcan, ("UINT32",), hint=_HINT_TYPE),
        "SignalRfft": Lowering(fft(inverse=False), tuple(_FFT), note=_FFT_NOTE, hint=_HINT_TYPE),
        "SignalWindow": Lowering(window, ("INT16",), hint=_HINT_TYPE),
    }
)
