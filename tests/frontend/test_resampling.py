"""Resampling operators are written as layers with constant weights, and compute the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import left
from torch import Tensor
from torch.nn import functional

from deuteron.frontend.quantize import resampling

aten = torch.ops.aten

WINDOWS = [aten.conv2d.default, aten.reshape.default]
PRODUCTS = [aten.linear.default, aten.transpose.int, aten.linear.default, aten.transpose.int]
GRID = torch.rand(1, 3, 5, 2) * 2.4 - 1.2
SAMPLED = [aten.reshape.default, aten.linear.default, aten.reshape.default]
WAYS: list[tuple[Callable[[Tensor], Tensor], list[Any]]] = [
    (lambda x: functional.unfold(x, 2, stride=2), [aten.pixel_unshuffle.default, aten.reshape.default]),
    (lambda x: functional.unfold(x, 3, padding=1), WINDOWS),
    (lambda x: functional.unfold(x, (1, 2), dilation=2, padding=(1, 0), stride=(2, 1)), WINDOWS),
    (lambda x: functional.unfold(x[0], 3, padding=1), [aten.select.int, aten.reshape.default, *WINDOWS]),
    (
        lambda x: functional.fold(x.reshape(1, 8, 12), (4, 12), 2, stride=2),
        [aten.reshape.default, aten.reshape.default, aten.pixel_shuffle.default, aten.reshape.default],
    ),
    (
        lambda x: functional.fold(x.reshape(1, 16, 6), (5, 8), 2, stride=(2, 3), padding=(0, 1), dilation=(1, 2)),
        [aten.reshape.default, aten.reshape.default, aten.conv_transpose2d.input, aten.reshape.default],
    ),
    (lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"), PRODUCTS),
    (lambda x: functional.interpolate(x, (3, 5), mode="bicubic", align_corners=True), PRODUCTS),
    (lambda x: functional.interpolate(x, (3, 5), mode="bicubic", antialias=True), PRODUCTS),
    (lambda x: functional.interpolate(x, (3, 7), mode="bilinear", antialias=True), PRODUCTS),
    (lambda x: functional.grid_sample(x, GRID, align_corners=False), SAMPLED),
    (lambda x: functional.grid_sample(x, GRID, "nearest", "border", align_corners=True), SAMPLED),
    (lambda x: functional.grid_sample(x, GRID, "bicubic", "reflection", align_corners=False), SAMPLED),
]


@pytest.mark.parametrize(("function", "wanted"), WAYS)
def test_it_is_a_layer(function: Callable[[Tensor], Tensor], wanted: list[Any]):
    assert left(resampling.write, function, (1, 4, 4, 6)) == wanted


def test_grids_that_differ_per_sample_stay():
    grids = torch.cat([GRID, GRID / 2])
    found = left(resampling.write, lambda x: functional.grid_sample(x, grids, align_corners=False), (2, 4, 4, 6))
    assert found == [aten.grid_sampler.default]


OVERLAPPING: list[Callable[[Tensor], Tensor]] = [
    lambda x: functional.fold(x.reshape(1, 16, 6), (5, 7), 2, stride=(2, 3), padding=(0, 1)),
    lambda x: functional.fold(x.reshape(1, 8, 12), (15, 1), (4, 1)),
    lambda x: functional.fold(x.reshape(1, 16, 6), (4, 3), (4, 2), padding=(1, 0)),
    lambda x: functional.fold(x.reshape(1, 24, 4), (4, 4), (4, 3), padding=(2, 1), stride=(3, 2)),
]


@pytest.mark.parametrize("function", OVERLAPPING)
def test_overlapping_windows_are_added(function: Callable[[Tensor], Tensor]):
    allowed = {aten.reshape.default, aten.permute.default, aten.slice.Tensor, aten.constant_pad_nd.default}
    assert {*left(resampling.write, function, (1, 4, 4, 6))} <= {*allowed, aten.add.Tensor}
