"""Functions with checks of values that only raise errors; pytest rewrites assertions of test files alone."""

import contextlib
import logging
from typing import Any

import torch
from torch import Tensor


def asserts(_: Any, x: Tensor) -> Tensor:
    assert not x.isnan().any(), "NaN"
    assert (x < 1e9).all()
    assert not bool((x < -1e9).any())
    return x * 2


def raises(_: Any, x: Tensor) -> Tensor:
    if torch.isnan(x).any() or bool((x.abs() > 1e9).any()):
        raise ValueError("values are no numbers")
    if not torch.isfinite(x).all():
        logging.getLogger(__name__).error("infinite")
        raise ValueError
    return x * 2


def branches(_: Any, x: Tensor) -> Tensor:
    if x.isnan().any():
        x = torch.zeros_like(x)
    return x


def returns(_: Any, x: Tensor) -> Tensor:
    if x.max() > 100:
        return -x
    return x


def warns(_: Any, x: Tensor) -> Tensor:
    if x.max() > 100:
        logging.getLogger(__name__).warning("large")
    return x


def ends_early(_: Any, x: Tensor) -> Tensor:
    halves: list[Tensor] = []
    assert x.max() < 100 or halves.append(x) is None
    return sum(halves) + x


def iterates(_: Any, x: Tensor) -> Tensor:
    return sum(rows(x))


def rows(x: Tensor) -> Any:
    for row in x:
        if row.max() > 100:
            raise ValueError
        yield row


def handles(_: Any, x: Tensor) -> Tensor:
    try:
        if x.max() > 100:
            raise ValueError
    except ValueError:
        return -x
    return x


def asserts_and_handles(_: Any, x: Tensor) -> Tensor:
    try:
        assert x.max() < 100, "large"
    except AssertionError:
        return -x
    return x


def suppresses(_: Any, x: Tensor) -> Tensor:
    with contextlib.suppress(ValueError):
        fails(x)
        return x
    return -x


def fails(x: Tensor) -> None:
    if x.max() > 100:
        raise ValueError
