"""Operators of a float model in other words: they compute the same, and builds take them."""

from collections.abc import Callable

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call, rewritten
from tests.frontend.heterogeneous_models import combine
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.frontend.quantize import decompositions

aten = torch.ops.aten
IMAGE = (2, 4, 7, 9)


@pytest.mark.parametrize("options", [{"ceil_mode": True}, {"stride": 1, "ceil_mode": True}, {"padding": 1}])
@pytest.mark.parametrize("window", [2, 3, (3, 2)])
def test_pools_are_rounded_down(window: int | tuple[int, int], options: dict[str, int]) -> None:
    def pooled(x: Tensor) -> Tensor:
        return functional.max_pool2d(x, window, **options)

    operators = rewritten(Call(pooled), IMAGE, decompositions.write)
    assert operators[-1] is aten.max_pool2d.default
    assert (aten.cat.default in operators) == (options == {"ceil_mode": True})


@pytest.mark.parametrize("mode", ["constant", "reflect"])
def test_pads_of_no_elements_vanish(mode: str) -> None:
    """On Ethos-U Vela failed if nothing else was left."""
    assert rewritten(Call(lambda x: functional.pad(x * 2, (0, 0), mode=mode)), (2, 3, 4), decompositions.write) == [
        aten.mul.Tensor
    ]


@pytest.mark.parametrize("stride", [2, 3, 4])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("shape", [(1, 2, 15, 15), (3, 8, 10), (1, 1, 4, 5)])
def test_windows_over_the_edge_see_what_they_saw(shape: tuple[int, ...], padding: int, stride: int) -> None:
    def pooled(x: Tensor) -> Tensor:
        return functional.max_pool2d(x, 3, stride, padding, ceil_mode=True)

    assert aten.max_pool2d.default in rewritten(Call(pooled), shape, decompositions.write)


@pytest.mark.parametrize("value", [float("-inf"), -1e4])
@pytest.mark.parametrize(
    ("ends", "options"),
    [
        ((0, 1, 0, 1), {"kernel_size": 2}),
        ((0, 1, 1, 1), {"kernel_size": 3, "stride": 2}),
        ((1, 1, 1, 1), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
        ((0, 1, 1, 0), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((0, 1), {"kernel_size": 2, "stride": 1}),
    ],
)
def test_pads_without_a_value_before_a_pool_repeat_edges(
    ends: tuple[int, ...], options: dict[str, int], value: float
) -> None:
    def pooled(x: Tensor) -> Tensor:
        return functional.max_pool2d(functional.pad(x, ends, value=value), **options)

    assert aten.pad.default not in rewritten(Call(pooled), IMAGE, decompositions.write)


@pytest.mark.parametrize(
    ("ends", "value", "options"),
    [
        ((2, 0, 0, 0), float("-inf"), {"kernel_size": 2, "stride": 1}),  # a window of pads alone
        ((0, 3, 0, 0), float("-inf"), {"kernel_size": 2, "stride": 1}),
        ((0, 1, 0, 1, 0, 1), float("-inf"), {"kernel_size": 2}),
        ((0, 1, 0, 1), float("-inf"), {"kernel_size": 2, "dilation": 2}),
        ((0, 1, 0, 1), -5.0, {"kernel_size": 2}),
    ],
)
def test_other_pads_before_a_pool_stay(ends: tuple[int, ...], value: float, options: dict[str, int]) -> None:
    def pooled(x: Tensor) -> Tensor:
        return functional.max_pool2d(functional.pad(x, ends, value=value), **options)

    assert aten.pad.default in rewritten(Call(pooled), IMAGE, decompositions.write)


def test_pads_of_signals_repeat_edges() -> None:
    def pooled(x: Tensor) -> Tensor:
        return functional.max_pool1d(functional.pad(x, (1, 1), value=float("-inf")), 3, 2, ceil_mode=True)

    assert aten.pad.default not in rewritten(Call(pooled), (2, 4, 8), decompositions.write)


def test_a_dilated_pool_stays() -> None:
    """Its last window may step over the last row."""
    operators = rewritten(
        Call(lambda x: functional.max_pool2d(x, 2, 2, 0, 2, ceil_mode=True)), IMAGE, decompositions.write
    )
    assert operators == [aten.max_pool2d.default]


@pytest.mark.parametrize(("shape", "sizes"), [(IMAGE, 1), (IMAGE, (7, 3)), ((4, 6, 8), (2, 4))])
def test_adaptive_pools_with_like_windows_are_pools(shape: tuple[int, ...], sizes: int | tuple[int, int]) -> None:
    operators = rewritten(Call(lambda x: functional.adaptive_max_pool2d(x, sizes)), shape, decompositions.write)
    assert operators == [aten.max_pool2d.default]


def test_an_adaptive_pool_with_unlike_windows_is_maxima_of_bands() -> None:
    operators = rewritten(Call(lambda x: functional.adaptive_max_pool2d(x, (2, 4))), IMAGE, decompositions.write)
    assert aten.adaptive_max_pool2d.default not in operators
    assert aten.amax.default in operators


def test_a_pool_of_signals_whose_indices_are_unused_has_none() -> None:
    module = Call(lambda x: functional.max_pool1d(x, 2, return_indices=True)[0])
    assert rewritten(module, (2, 4, 9), decompositions.write) == [aten.max_pool1d.default]


@pytest.mark.parametrize(("sizes", "means"), [((3, 3), 3), ((2, 5), 7), ((7, 4), 4)])
def test_adaptive_averages_with_unlike_windows_are_means_of_bands(sizes: tuple[int, int], means: int) -> None:
    operators = rewritten(Call(lambda x: functional.adaptive_avg_pool2d(x, sizes)), IMAGE, decompositions.write)
    assert aten.adaptive_avg_pool2d.default not in operators
    assert operators.count(aten.mean.dim) == means


@pytest.mark.parametrize("shape", [(1, 8, 4, 6), (2, 3, 8, 4, 6), (4, 4, 2)])
@pytest.mark.parametrize("shuffle", [functional.pixel_shuffle, functional.pixel_unshuffle])
def test_shuffles_are_permutations(shuffle: Callable[[Tensor, int], Tensor], shape: tuple[int, ...]) -> None:
    operators = rewritten(Call(lambda x: shuffle(x, 2)), shape, decompositions.write, rtol=0)
    assert operators == [aten.reshape.default, aten.permute.default, aten.reshape.default]


@pytest.mark.parametrize("word", ["same", "valid"])
@pytest.mark.parametrize(
    ("make", "shape", "options"),
    [
        (nn.Conv2d, IMAGE, {"kernel_size": 3, "groups": 2}),
        (nn.Conv2d, IMAGE, {"kernel_size": (2, 4), "dilation": (3, 1), "bias": False}),
        (nn.Conv1d, (2, 4, 9), {"kernel_size": 5, "dilation": 2, "groups": 4}),
        (nn.Conv1d, (2, 4, 9), {"kernel_size": 4}),
    ],
)
def test_pads_are_numbers(make: type[nn.Module], shape: tuple[int, ...], options: dict[str, object], word: str) -> None:
    layer = make(4, 8, padding=word, **options)
    operators = rewritten(Call(lambda x, layer: layer(x), layer), shape, decompositions.write)
    is_even = word == "same" and options["kernel_size"] in (4, (2, 4))
    conv = aten.conv2d.default if make is nn.Conv2d else aten.conv1d.default
    assert operators == [aten.pad.default] * is_even + [conv]


def test_a_division_by_a_number_is_a_product() -> None:
    assert rewritten(Call(lambda x: x / 3), IMAGE, decompositions.write) == [aten.mul.Tensor]


@pytest.mark.parametrize("function", [lambda x: x / 0.0, lambda x: x / (x + 1), lambda x: x.argmax(1) / 3])
def test_other_divisions_stay(function: Callable[[Tensor], Tensor]) -> None:
    assert rewritten(Call(function), IMAGE, decompositions.write)[-1] is aten.div.Tensor


class Ordinary(nn.Module):
    """Operators that models have and that quantizers or int8 kernels lack."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(1, 4, 3), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.mish(self.first(x)) / 3.0
        x = functional.max_pool2d(x, 2, ceil_mode=True)
        x = functional.softplus(self.second(functional.pixel_shuffle(x, 2)))
        x = functional.avg_pool2d(functional.pad(x, (0, 1, 0, 1)), 2, ceil_mode=True)
        return self.third(functional.pixel_unshuffle(x, 2))


MOVES = {"view_copy", "slice_copy", "cat", "_clone_dim_order"}


@pytest.mark.slow
@pytest.mark.parametrize("target", full.only(["imxrt700cm", "cortex-m33"], "cortex-m33"))
def test_ordinary_models_are_int8_between_their_edges(target: str) -> None:
    lowered = combine(Ordinary(), (1, 3, 15, 15), target=target)
    others = {name for name in lowered.operators if not name.startswith("cortex_m::")}
    assert {name.partition("::")[2].partition(".")[0] for name in others} <= MOVES
    assert (
        lowered.operators["cortex_m::quantize_per_tensor"] == lowered.operators["cortex_m::dequantize_per_tensor"] == 1
    )
    tables = 0 if target == "imxrt700cm" else 3  # softplus, mish, and the factor
    assert lowered.operators["cortex_m::quantized_activation"] == tables
    assert lowered.steps <= 2  # roundings of the average and of the convolutions


class Doubled(nn.Module):
    """A value with 2**64 paths to it."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.ones(2)
        for _ in range(64):
            x, y = x + x, y + y
        return x, y


def test_a_constant_value_is_found_once() -> None:
    model = torch.export.export(Doubled(), (torch.ones(2),)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    doubled, constant = model.graph.output_node().all_input_nodes
    assert decompositions.constant_value(model, doubled) is None
    value = decompositions.constant_value(model, constant)
    assert value is not None
    assert value.tolist() == [2.0**64] * 2
