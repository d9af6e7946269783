"""Definitions of the operators of TFLite Micro's signal library, in whole numbers.

`DEFINITIONS[code](options, constants)` is a function of the inputs of one call, which keeps its state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Options = Mapping[str, Any]
Call = Callable[..., list[Array]]


def s16(x: Array) -> Array:
    """The low 16 bits."""
    return np.asarray(x).astype(np.int64).astype(np.int16).astype(np.int64)


def window(options: Options, constants: Sequence[Array]) -> Call:
    def call(x: Array) -> list[Array]:
        return [np.clip((x * constants[0].astype(np.int64)) >> options["shift"], -32768, 32767)]

    return call


def auto_scale(options: Options, constants: Sequence[Array]) -> Call:
    def call(x: Array) -> list[Array]:
        most = 0
        for value in x.tolist():
            most = value if value > most else int(s16(np.array(-value))) if -value > most else most
        bits = 15 - most.bit_length() if most > 0 else 0
        return [s16(x.astype(np.int64) << bits), np.array(bits)]

    return call


@dataclass(frozen=True)
class Fft:
    """Fourier transforms of a type of samples; complex numbers are [..., 2]."""

    dtype: npt.DTypeLike
    sign: int

    @property
    def most(self) -> int:
        """The number that stands for 1; 0 for float32."""
        return 0 if self.dtype == np.float32 else int(np.iinfo(self.dtype).max)

    def low(self, x: Array) -> Array:
        return np.asarray(x).astype(np.int64).astype(self.dtype).astype(np.int64) if self.most else np.asarray(x)

    def rounded(self, x: Array) -> Array:
        return self.low((x + (self.most + 1) // 2) // (self.most + 1)) if self.most else x

    def half(self, x: Array) -> Array:
        """Half of a sum, which is 32 bits wide."""
        return self.low(x.astype(np.int32) >> 1) if self.most else x * np.float32(0.5)

    def shared(self, x: Array, count: int) -> Array:
        return self.rounded(x * (self.most // count)) if self.most else x

    def times(self, a: Array, b: Array) -> Array:
        real = self.rounded(a[..., 0] * b[..., 0] - a[..., 1] * b[..., 1])
        return np.stack([real, self.rounded(a[..., 0] * b[..., 1] + a[..., 1] * b[..., 0])], -1)

    def turns(self, part: Array) -> Array:
        """exp(sign * 2 pi i * part)."""
        angle = 2 * np.pi * part
        values = np.stack([np.cos(angle), self.sign * np.sin(angle)], -1)
        return np.floor(values * self.most + 0.5).astype(np.int64) if self.most else values.astype(np.float32)

    def transform(self, x: Array) -> Array:
        """A transform of a power of two of complex numbers, by decimation in time."""
        count = len(x)
        if count == 1:
            return x
        radix = 4 if count % 4 == 0 else 2
        k = np.arange(count // radix)
        a, *rest = (self.shared(self.transform(x[r::radix]), radix) for r in range(radix))
        parts = [a, *(self.times(part, self.turns(k * (r + 1) / count)) for r, part in enumerate(rest))]
        if radix == 2:
            return self.low(np.concatenate([parts[0] + parts[1], parts[0] - parts[1]]))
        even, odd = self.low(parts[0] + parts[2]), self.low(parts[1] + parts[3])
        difference, other = parts[0] - parts[2], self.low(parts[1] - parts[3])
        turned = np.stack([-other[:, 1], other[:, 0]], -1) * self.sign
        return self.low(np.concatenate([even + odd, difference + turned, even - odd, difference - turned]))

    def halves(self, x: Array) -> tuple[Array, Array]:
        """The sum of bins and those mirrored, and their difference times a factor, of bins 1 to the middle."""
        count = len(x) - 1
        k = np.arange(1, count // 2 + 1)
        one, other = self.shared(x[k], 2), self.shared(self.low(x[count - k] * [1, -1]).astype(x.dtype), 2)
        return self.low(one + other), self.times(self.low(one - other), self.turns((k / count + 0.5) / 2))

    def forward(self, x: Array, count: int) -> Array:
        """The spectrum of samples, with zeros behind them."""
        padded = np.zeros(2 * count, np.int64 if self.most else np.float32)
        padded[: len(x)] = x
        found = self.transform(padded.reshape(count, 2))
        real, imaginary = self.shared(found[0], 2)
        out = np.zeros((count + 1, 2), padded.dtype)
        out[0, 0], out[count, 0] = real + imaginary, real - imaginary
        even, odd = self.halves(np.concatenate([found, found[:1]]))
        k = np.arange(1, count // 2 + 1)
        out[k] = self.half(even + odd)
        out[count - k] = self.half(((even - odd) * [1, -1]).astype(even.dtype))
        return self.low(out).ravel()

    def backward(self, x: Array, count: int) -> Array:
        """The samples of a spectrum."""
        bins = x.astype(np.int64 if self.most else np.float32).reshape(count + 1, 2)
        joined = np.zeros((count, 2), bins.dtype)
        ends = bins[0, 0] + bins[count, 0], bins[0, 0] - bins[count, 0]
        joined[0] = self.shared(self.low(np.array(ends)), 2)
        even, odd = self.halves(bins)
        k = np.arange(1, count // 2 + 1)
        joined[k] = self.low(even + odd)
        joined[count - k] = self.low(self.low(even - odd) * np.array([1, -1], bins.dtype))
        found = self.transform(joined).ravel()
        return found if self.most else found / np.float32(2 * count)


_TYPES = {0: np.float32, 2: np.int32, 7: np.int16}


def rfft(options: Options, constants: Sequence[Array]) -> Call:
    of, count = Fft(_TYPES[options["T"]], -1), options["fft_length"] // 2
    return lambda x: [np.stack([of.forward(row, count) for row in x.reshape(-1, x.shape[-1])])]


def irfft(options: Options, constants: Sequence[Array]) -> Call:
    of, count = Fft(_TYPES[options["T"]], 1), options["fft_length"] // 2
    return lambda x: [np.stack([of.backward(row, count) for row in x])]


def energy(options: Options, constants: Sequence[Array]) -> Call:
    return lambda x: [(x.astype(np.int64).reshape(-1, 2) ** 2).sum(1)]


def filter_bank(options: Options, constants: Sequence[Array]) -> Call:
    weights, unweights, bins, starts, widths = (each.tolist() for each in constants)

    def call(x: Array) -> list[Array]:
        def band(i: int, of: list[int]) -> int:
            return sum(of[starts[i] + j] * int(x[bins[i] + j]) for j in range(widths[i]))

        sums = [band(i + 1, weights) + band(i, unweights) for i in range(options["num_channels"])]
        return [np.array([total % (1 << 64) for total in sums], np.uint64)]

    return call


def square_root(options: Options, constants: Sequence[Array]) -> Call:
    def root(x: int) -> int:
        found, most = int(np.floor(np.sqrt(np.float64(x)))), 65535 if x < 1 << 32 else (1 << 32) - 1
        while found * found > x:
            found -= 1
        while (found + 1) ** 2 <= x:
            found += 1
        return found + 1 if x - found * found > found and found < most else found

    return lambda x, bits: [np.array([root(value) >> int(bits) for value in x.tolist()])]


def spectral_subtraction(options: Options, constants: Sequence[Array]) -> Call:
    noise, bits, up = [0] * options["num_channels"], options["spectral_subtraction_bits"], options["smoothing_bits"]

    def channel(i: int, x: int) -> int:
        kind = "alternate_" if i % 2 else ""
        smoothing, rest = options[f"{kind}smoothing"], options[f"{kind}one_minus_smoothing"]
        signal = (x << up) % (1 << 32)
        noise[i] = ((signal * smoothing + noise[i] * rest) % (1 << 64) >> bits) % (1 << 32)
        estimate = min(noise[i], signal)
        noise[i] = estimate if options["clamping"] else noise[i]
        least = (x * options["min_signal_remaining"] >> bits) % (1 << 32)
        return max((signal - estimate) >> up, least)

    return lambda x: [np.array([channel(i, value) for i, value in enumerate(x.tolist())]), np.array(noise)]


def pcan(options: Options, constants: Sequence[Array]) -> Call:
    table = constants[0].tolist()

    def gain(noise: int) -> int:
        if noise <= 2:
            return table[noise]
        bits = noise.bit_length()
        x = (noise << 11 - bits if bits < 11 else noise >> bits - 11) & 0x3FF
        a, b, c = table[4 * bits - 6 : 4 * bits - 3]
        product = ((c * x >> 5) + (b << 5)) * x + (1 << 14)
        return int(s16(np.array((int(np.int64(product).astype(np.int32)) >> 15) + a)))

    def channel(x: int, noise: int) -> int:
        q = ((x * (gain(noise) % (1 << 32))) >> options["snr_shift"]) % (1 << 32)
        return q * q >> 20 if q < 2 << 12 else (q >> 6) - 64

    return lambda x, noise: [np.array([channel(*pair) for pair in zip(x.tolist(), noise.tolist(), strict=True)])]


def logarithm(options: Options, constants: Sequence[Array]) -> Call:
    pieces = np.arange(129) / 128
    table = np.round((np.log2(1 + pieces) - pieces) * 65536).astype(int).tolist()

    def channel(x: int) -> int:
        x = (x << options["input_correction_bits"]) % (1 << 32)
        if x <= 1:
            return 0
        whole = x.bit_length() - 1
        rest = (x - (1 << whole)) << 16 >> whole
        piece, within = divmod(rest, 512)
        binary = (whole << 16) + rest + table[piece] + ((table[piece + 1] - table[piece]) * within >> 16)
        natural = (45426 * binary + 32768) >> 16
        return min((options["output_scale"] * natural + 32768) % (1 << 32) >> 16, 32767)

    return lambda x: [np.array([channel(value) for value in x.tolist()])]


def delay(options: Options, constants: Sequence[Array]) -> Call:
    kept: list[Array] = []

    def call(x: Array) -> list[Array]:
        kept[:] = kept or [np.zeros((len(x), options["delay_length"]), x.dtype)]
        both = np.concatenate([kept[0], x], 1)
        kept[0] = both[:, x.shape[1] :]
        return [both[:, : x.shape[1]]]

    return call


def framer(options: Options, constants: Sequence[Array]) -> Call:
    size, step = options["frame_size"], options["frame_step"]
    missing = size - step if options["prefill"] else -(-size // step) * step - step
    samples: list[Array] = []

    def call(x: Array) -> list[Array]:
        """Frames of all samples so far, with zeros before them; those that begin with such zeros are not valid."""
        samples.append(x)
        line = np.concatenate([np.zeros((len(x), missing), x.dtype), *samples], 1)
        starts = range(sum(each.shape[1] for each in samples[:-1]), line.shape[1] - missing, step)
        frames = np.stack([line[:, start : start + size] for start in starts], 1)
        return [frames, np.array(options["prefill"] or starts[0] >= missing)]

    return call


def stacker(options: Options, constants: Sequence[Array]) -> Call:
    left, right, step = (options[f"stacker_{name}"] for name in ("left_context", "right_context", "step"))
    frames: list[Array] = []

    def call(x: Array) -> list[Array]:
        frames.extend([x] if frames else [x] * (left + right + 1))
        calls = len(frames) - left - right
        return [
            np.concatenate(frames[-left - right - 1 :]),
            np.array(calls > right and (calls - right - 1) % step == 0),
        ]

    return call


def overlap_add(options: Options, constants: Sequence[Array]) -> Call:
    kept: list[Array] = []
    step = options["frame_step"]

    def call(x: Array) -> list[Array]:
        kept[:] = kept or [np.zeros_like(x[:, 0])]
        results: list[Array] = []
        for frame in np.moveaxis(x, 1, 0):
            total = kept[0] + frame
            if x.dtype == np.int16:
                total = np.clip(kept[0].astype(int) + frame, -32768, 32767).astype(np.int16)
            results.append(total[:, :step])
            kept[0] = np.concatenate([total[:, step:], np.zeros_like(total[:, :step])], 1)
        return [np.concatenate(results, 1)]

    return call


DEFINITIONS: Mapping[str, Callable[[Options, Sequence[Array]], Call]] = {
    "SignalDelay": delay,
    "SignalEnergy": energy,
    "SignalFftAutoScale": auto_scale,
    "SignalFilterBank": filter_bank,
    "SignalFilterBankLog": logarithm,
    "SignalFilterBankSpectralSubtraction": spectral_subtraction,
    "SignalFilterBankSquareRoot": square_root,
    "SignalFramer": framer,
    "SignalIrfft": irfft,
    "SignalOverlapAdd": overlap_add,
    "SignalPCAN": pcan,
    "SignalRfft": rfft,
    "SignalStacker": stacker,
    "SignalWindow": window,
}
