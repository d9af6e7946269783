"""The range that PyTorch's histogram observer chooses, found by the same steps without a tensor for each number.

The observer takes off bins at either end, a 100,000th of all samples at a time, until the error of quantisation grows.
Most of those steps only compare two numbers, and are most of the time that a quantisation takes.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

STEP = 1e-5
"""Share of the samples that one step gives up."""


def searched_by_numbers(original: Callable[[Any], tuple[Tensor, Tensor]]) -> Callable[[Any], tuple[Tensor, Tensor]]:
    """The search of `HistogramObserver`, with the same results bit for bit; of odd histograms `original` makes them."""

    def search(observer: Any) -> tuple[Tensor, Tensor]:
        counts: Tensor = observer.histogram
        total = counts.sum().item()
        if counts.dtype != torch.float32 or not math.isfinite(total):
            return original(observer)
        error = observer._compute_quantization_error  # noqa: SLF001 - it has no public name
        sums: list[float] = cast("Any", torch.cumsum(counts, 0)).tolist()
        first, last = _kept_bins(sums, total, error)
        width = (observer.max_val - observer.min_val) / observer.bins
        return observer.min_val + width * first, observer.min_val + width * (last + 1)

    return search


def _kept_bins(sums: list[float], total: float, error: Callable[[int, int], float]) -> tuple[int, int]:
    """The first and the last bin of the range, from the counts of all bins up to each and the error of a range.

    PyTorch compares tensors of float32 with Python's numbers, which it rounds to float32 for that.
    """
    first, last = 0, len(sums) - 1
    lower, upper = 0.0, 1.0
    least = math.inf
    while lower < upper:
        low, high = lower + STEP, upper - STEP
        left = bisect_left(sums, float(np.float32(low * total)), first, last)
        right = bisect_right(sums, float(np.float32(high * total)), first + 1, last + 1) - 1
        is_left = left - first > last - right
        lower, upper = (low, upper) if is_left else (lower, high)
        chosen = (left, last) if is_left else (first, right)
        if chosen == (first, last):
            continue
        value = error(*chosen)
        if value > least:
            break
        least = value
        first, last = chosen
    return first, last
