"""Operators of TFLite Micro's signal library: the steps from samples of sound to features of a network.

A part of the table of `tflite.py`. A spectrum has complex numbers, real part first. Sums and products of uint32 and
uint64 keep their low bits.
"""

from dataclasses import dataclass

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.kernel_params import KernelParams

PREFIX = "dtn_tfl"
"""Prefix of the C functions."""


@dataclass(frozen=True, slots=True)
class SignalWindowParams(KernelParams):
    """Rows of `length` int16 samples times a window of int16: sat(x * weight / 2^shift), rounded down."""

    rows: int
    length: int
    shift: int


@dataclass(frozen=True, slots=True)
class SignalAutoScaleParams(KernelParams):
    """int16 samples times the largest power of two that fits, and its exponent in int32: 0 for zeros.

    The largest magnitude decides, which starts at 0: x if x is larger, else -x if that is. It is int16: a sample of
    -32768 makes it -32768. A largest magnitude below 1 scales by 1. Products keep their low 16 bits.
    """

    elements: int


@dataclass(frozen=True, slots=True)
class SignalEnergyParams(KernelParams):
    """Squares of the magnitudes of a spectrum of int16 [bins, 2], to uint32, from bin `first` to `past`; others 0."""

    bins: int
    first: int
    past: int


@dataclass(frozen=True, slots=True)
class SignalFilterBankParams(KernelParams):
    """Triangular filters of a spectrum: uint32 [bins] to uint64 [channels].

    A filter is the sum of `weights` * x over the band of its channel, and of `unweights` * x over the band before.
    `bands` [3, channels + 1] has the first bin of each band, the first of its weights, and their number. A run fails
    for bands out of range.
    """

    bins: int
    weights: int
    channels: int


@dataclass(frozen=True, slots=True)
class SignalSquareRootParams(KernelParams):
    """Roots of uint64, rounded to nearest, divided by 2^bits and rounded down, to uint32; `bits` is an int32 input.

    Roots of numbers below 2^32 are at most 65535, of others at most 2^32 - 1. A run fails for `bits` outside of 0..31.
    """

    channels: int


@dataclass(frozen=True, slots=True)
class SignalSpectralSubtractionParams(KernelParams):
    """Subtraction of an estimate of the noise, which is the state: uint32 [channels] each.

    With s = x * 2^smoothing_bits, the estimate becomes (s * smoothing + estimate * one_minus_smoothing) / 2^bits,
    rounded down; odd channels have the alternate factors. The output is (s - estimate) / 2^smoothing_bits, at least
    x * min_signal_remaining / 2^bits, both rounded down. An estimate above s counts as s; with `clamping` 1 it becomes
    s. The second output has the estimate.
    """

    channels: int
    smoothing: int
    one_minus_smoothing: int
    alternate_smoothing: int
    alternate_one_minus_smoothing: int
    min_signal_remaining: int
    smoothing_bits: int
    bits: int
    clamping: int


@dataclass(frozen=True, slots=True)
class SignalPcanParams(KernelParams):
    """Per-channel amplitude normalization (PCAN) of uint32 [channels] by a gain of the noise estimate.

    The gain is a table of int16 polynomials: entry 4 i - 6 and two that follow are of numbers of i bits. The product
    x * gain / 2^snr_shift, with 12 bits behind the point, becomes q^2 / 4 below 2, else q - 1, with 6 bits.
    """

    channels: int
    snr_shift: int


@dataclass(frozen=True, slots=True)
class SignalLogParams(KernelParams):
    """ln(x * 2^correction_bits) * scale of uint32, to int16; 0 for numbers up to 1.

    Binary logarithms have 16 bits behind the point. The table has log2(1 + i / 128) - i / 128 in these steps, i 0..128.
    """

    channels: int
    correction_bits: int
    scale: int


@dataclass(frozen=True, slots=True)
class SignalFftParams(KernelParams):
    """The spectrum of rows of int16, int32 or float32 samples [rows, length], zeros behind: [rows, points + 1, 2].

    A fast Fourier transform of `points` complex numbers, a power of two: steps of four, the first one of two if the
    power is odd. Each step of whole numbers divides by its number, so that results fit. With `inverse` 1 spectra become
    rows, whose `length` is 2 * points. Factors have the type of samples, whose largest number stands for 1. They are
    exp(-2 pi i k / points), then half as many of exp(-pi i ((k + 1) / points + 1/2)). Inverse ones have the other sign.
    """

    rows: int
    length: int
    points: int
    inverse: int


SIGNAL_OPERATORS: tuple[CpuOperator, ...] = (
    CpuOperator("signal_window", ("input", "weights"), SignalWindowParams, prefix=PREFIX),
    CpuOperator("signal_auto_scale", ("input",), SignalAutoScaleParams, prefix=PREFIX),
    CpuOperator("signal_fft", ("input", "factors"), SignalFftParams, prefix=PREFIX),
    CpuOperator("signal_fft_f32", ("input", "factors"), SignalFftParams, prefix=PREFIX),
    CpuOperator("signal_fft_s32", ("input", "factors"), SignalFftParams, prefix=PREFIX),
    CpuOperator("signal_energy", ("input",), SignalEnergyParams, prefix=PREFIX),
    CpuOperator(
        "signal_filter_bank", ("input", "weights", "unweights", "bands"), SignalFilterBankParams, prefix=PREFIX
    ),
    CpuOperator("signal_square_root", ("input", "bits"), SignalSquareRootParams, prefix=PREFIX),
    CpuOperator(
        "signal_spectral_subtraction", ("input",), SignalSpectralSubtractionParams, state=("estimate",), prefix=PREFIX
    ),
    CpuOperator("signal_pcan", ("input", "noise", "gains"), SignalPcanParams, prefix=PREFIX),
    CpuOperator("signal_log", ("input", "table"), SignalLogParams, prefix=PREFIX),
)
