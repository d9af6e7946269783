"""Selects the quantization range of a tensor from the histogram of its values, by each calibration method.

All quantizers measure int8 activations with PyTorch's histogram observer, so each method is a search in a histogram.
PyTorch's own search removes bins at either end, a 100,000th of all samples at a time, until the quantization error
grows. Most of its steps compare two numbers and dominate the time of a quantization. `scalar_search` computes the same
steps without tensors.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from deuteron.builds.options import CalibrationMethod

STEP = 1e-5
"""Share of the samples that one step removes."""

_BEYOND = 5e-5
"""Share of the values that the method `percentile` excludes at either end."""

_STRIDE = 8
"""Distance in bins between the range limits that the method `mse` tries."""


LEAST_SCALE, LEAST_CHANNEL_SCALE = 2**-24, 2**-23
"""The least scales of tensors, and of channels of weights, of which biases have multiples.

NXP's quantizer has 2**-12 for tensors and Arm's 2**-16 for both: many steps of small numbers. Below 2**-24, an int8
value of a tensor with the scale 1 exceeds 32 bits when it is rescaled, which TOSA leaves undefined.
"""


def allow_small(prepared: nn.Module) -> None:
    """Let the observers of a prepared model measure ranges of small numbers as exactly as others."""
    from torchao.quantization.pt2e import (  # here, because torchao is not quiet when it is loaded
        HistogramObserver,
        MinMaxObserver,
        PerChannelMinMaxObserver,
    )

    for observer in prepared.modules():
        if isinstance(observer, HistogramObserver | MinMaxObserver | PerChannelMinMaxObserver):
            is_channels = isinstance(observer, PerChannelMinMaxObserver)
            observer.eps.clamp_(max=LEAST_CHANNEL_SCALE if is_channels else LEAST_SCALE)


def choose(prepared: nn.Module, method: CalibrationMethod) -> None:
    """Set the calibration method of the histogram observers of a prepared model."""
    from torchao.quantization.pt2e import HistogramObserver  # here, because torchao is not quiet when it is loaded

    if method is CalibrationMethod.HISTOGRAM:
        return
    for observer in prepared.modules():
        if isinstance(observer, HistogramObserver):
            search = partial(_SEARCHES[method], observer)
            cast("Any", observer)._non_linear_param_search = search  # noqa: SLF001 - it has no public name


def _least_and_most(observer: Any) -> tuple[Tensor, Tensor]:
    """The range of all values."""
    return observer.min_val, observer.max_val


def _percentile(observer: Any) -> tuple[Tensor, Tensor]:
    """The range of all values, except for a small share at either end."""
    shares = np.cumsum(_counts(observer))
    if not shares[-1]:
        return _least_and_most(observer)
    shares /= shares[-1]
    first = int(np.searchsorted(shares, _BEYOND, side="right"))
    return _of_bins(observer, first, int(np.searchsorted(shares, 1 - _BEYOND, side="left")))


def _least_squares(observer: Any) -> tuple[Tensor, Tensor]:
    """The range with the least sum of squared errors, of all ranges between multiples of eight bins.

    A value inside a range has an error of a twelfth of the squared step, a value outside has its distance from the
    range. Every range includes zero, and values in zero's bin have no error.
    """
    counts, bins = _counts(observer), int(observer.bins)
    low, width = float(observer.min_val), float(observer.max_val - observer.min_val) / bins
    if not width:
        return _least_and_most(observer)
    edges = low + width * np.arange(0, bins + 1, _STRIDE)
    at = low + width * (np.arange(bins) + 0.5)
    # Sums of powers of the values below each edge; a squared distance is a polynomial of them.
    zeroth, first, second = (_below(counts * at**power) for power in range(3))
    below = second - 2 * edges * first + edges**2 * zeroth
    above = (second[-1] - second) - 2 * edges * (first[-1] - first) + edges**2 * (zeroth[-1] - zeroth)
    rounded = _below(np.where(np.abs(at) < width, 0, counts))
    spans = np.maximum(edges, 0)[None, :] - np.minimum(edges, 0)[:, None]
    steps = spans / int(observer.quant_max - observer.quant_min)
    errors = below[:, None] + above[None, :] + (rounded[None, :] - rounded[:, None]) * steps**2 / 12
    errors[1:][edges[1:] >= 0] = np.inf  # a range includes zero
    errors[:, :-1][:, edges[:-1] <= 0] = np.inf
    begin, end = divmod(int(errors.argmin()), len(edges))
    return _of_bins(observer, begin * _STRIDE, end * _STRIDE - 1)


def _counts(observer: Any) -> npt.NDArray[np.float64]:
    """The number of values in each bin."""
    return cast(Tensor, observer.histogram).double().numpy()


def _below(terms: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The sums over bins below each eighth edge."""
    return np.append(0, np.cumsum(terms))[::_STRIDE]


def _of_bins(observer: Any, first: int, last: int) -> tuple[Tensor, Tensor]:
    """The range from the first to the last bin."""
    width = (observer.max_val - observer.min_val) / observer.bins
    return observer.min_val + width * first, observer.min_val + width * (last + 1)


_SEARCHES: Mapping[CalibrationMethod, Callable[[Any], tuple[Tensor, Tensor]]] = {
    CalibrationMethod.MINMAX: _least_and_most,
    CalibrationMethod.PERCENTILE: _percentile,
    CalibrationMethod.MSE: _least_squares,
}
"""The search of each method; `histogram` is PyTorch's own."""


def scalar_search(original: Callable[[Any], tuple[Tensor, Tensor]]) -> Callable[[Any], tuple[Tensor, Tensor]]:
    """The search of `HistogramObserver` without tensors, bit for bit; `original` searches unusual histograms."""

    def search(observer: Any) -> tuple[Tensor, Tensor]:
        counts: Tensor = observer.histogram
        total = counts.sum().item()
        if counts.dtype != torch.float32 or not math.isfinite(total):
            return original(observer)
        error = observer._compute_quantization_error  # noqa: SLF001 - it has no public name
        sums: list[float] = cast("Any", torch.cumsum(counts, 0)).tolist()
        return _of_bins(observer, *_kept_bins(sums, total, error))

    return search


def _kept_bins(sums: list[float], total: float, error: Callable[[int, int], float]) -> tuple[int, int]:
    """The first and the last bin of the range, from cumulative counts and a function for the error of a range.

    PyTorch compares float32 tensors with Python numbers, which it rounds to float32. Steps that remove no bin only
    lower the upper limit, so the loop skips them together.
    """
    first, last = 0, len(sums) - 1
    lower, upper = 0.0, 0
    least = math.inf
    uppers = _upper_bounds()
    most = (uppers * total).astype(np.float32)
    while first < last and lower < uppers[upper]:
        low = lower + STEP
        left = bisect_left(sums, float(np.float32(low * total)), first, last)
        right = bisect_right(sums, float(most[upper + 1]), first + 1, last + 1) - 1
        if (left, right) == (first, last):
            upper = int(np.searchsorted(-most, -sums[last], side="right")) - 1
            continue
        is_left = left - first > last - right
        lower, upper = (low, upper) if is_left else (lower, upper + 1)
        chosen = (left, last) if is_left else (first, right)
        value = error(*chosen)
        if value > least:
            break
        least = value
        first, last = chosen
    return first, last


@cache
def _upper_bounds() -> npt.NDArray[np.float64]:
    """The shares of samples below the upper limit after each step, with PyTorch's rounding."""
    return np.subtract.accumulate(np.append(1.0, np.full(round(1 / STEP) + 2, STEP)))
