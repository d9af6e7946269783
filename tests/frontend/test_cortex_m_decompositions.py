"""Operators that the Cortex-M's quantizer or kernels lack become others, which give the same results."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call, left, rewritten
from tests.frontend.heterogeneous_models import combine
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.cortex_m import decompositions
from deuteron.frontend.cortex_m.custom_ops import decompositions as added
from deuteron.frontend.quantize import recurrent

aten = torch.ops.aten
SIGNAL = (1, 4, 12)
IMAGE = (1, 4, 7, 9)

operators = partial(left, decompositions.write)


@pytest.mark.parametrize(
    ("layer", "operator"),
    [
        (nn.Conv1d(4, 6, 3), aten.conv2d.default),
        (nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False), aten.conv2d.default),
        (nn.Conv1d(4, 6, 4, padding="same", dilation=2), aten.conv2d.padding),
        (nn.Conv1d(4, 6, 4, padding="valid"), aten.conv2d.default),
        (nn.ConvTranspose1d(4, 6, 3), aten.conv_transpose2d.input),
        (nn.ConvTranspose1d(4, 6, 3, 2, 1, output_padding=1, groups=2, dilation=2), aten.conv_transpose2d.input),
        (nn.MaxPool1d(3, 2, 1), aten.max_pool2d.default),
        (nn.MaxPool1d(2, dilation=2, ceil_mode=True), aten.max_pool2d.default),
        (nn.AvgPool1d(3, 2, 1, count_include_pad=False), aten.avg_pool2d.default),
        (nn.AvgPool1d(2), aten.avg_pool2d.default),
        (nn.AdaptiveAvgPool1d(3), aten.adaptive_avg_pool2d.default),
        (nn.AdaptiveMaxPool1d(3), aten.max_pool2d.default),
        (nn.Upsample(scale_factor=2), aten.upsample_nearest2d.vec),
        (nn.Upsample(24, mode="linear"), aten.upsample_bilinear2d.vec),
        (nn.Upsample(scale_factor=1.5, mode="linear", align_corners=True), aten.upsample_bilinear2d.vec),
    ],
    ids=str,
)
def test_signals_are_images_of_one_row(layer: nn.Module, operator: object) -> None:
    found = operators(lambda x, layer: layer(x), SIGNAL, layer)
    assert found == [aten.reshape.default, operator, aten.reshape.default]


@pytest.mark.parametrize("shape", [IMAGE, SIGNAL, (2, 4)])
def test_a_slope_for_each_channel(shape: tuple[int, ...]) -> None:
    slopes = nn.PReLU(4)
    nn.init.uniform_(slopes.weight, -0.5, 0.5)
    found = operators(lambda x, slopes: slopes(x), shape, slopes)
    assert aten.prelu.default not in found
    assert {aten.clamp.default, aten.relu.default, aten.mul.Tensor, aten.add.Tensor} <= set(found)


def test_one_slope_for_all_channels_is_a_leaky_relu() -> None:
    assert operators(lambda x, slopes: slopes(x), IMAGE, nn.PReLU()) == [aten.leaky_relu.default]
    assert aten.add.Tensor in left(
        partial(decompositions.write, trains=True), lambda x, slopes: slopes(x), IMAGE, nn.PReLU()
    )


def test_what_lies_between_signals_works_on_images() -> None:
    """Activations, pads, sums and concatenations of both dimensions: one view before all, and one behind."""

    def chain(x: Tensor, first: nn.Module, second: nn.Module) -> Tensor:
        y = functional.relu(first(x))
        y = y + functional.pad(second(y), (2, 0)) * 0.5
        y = torch.cat([torch.cat([y, y], 1), torch.cat([y, y], -2)], -1)
        return functional.max_pool1d(torch.maximum(y, -y), 2)

    found = operators(chain, SIGNAL, nn.Conv1d(4, 4, 3), nn.Conv1d(4, 4, 3))
    assert found.count(aten.reshape.default) == 2
    assert found[0] is found[-1] is aten.reshape.default


def test_signals_beside_a_constant() -> None:
    def joined(x: Tensor, conv: nn.Module) -> Tensor:
        return torch.cat([conv(x), torch.ones(1, 1, 1)], -1)

    found = operators(joined, (1, 4, 12), nn.Conv1d(4, 1, 3))
    assert found[-1] is aten.cat.default


def test_signals_that_change_in_place_change_once() -> None:
    def chain(x: Tensor, conv: nn.Module) -> Tensor:
        y = conv(x)
        y += conv(x)
        return functional.relu_(y.mul_(2))

    found = operators(chain, SIGNAL, nn.Conv1d(4, 4, 3))
    assert found.count(aten.reshape.default) == 3  # the input for each convolution, and the output
    assert {aten.add.Tensor, aten.mul.Tensor, aten.relu.default} < set(found)
    assert not {aten.add_.Tensor, aten.mul_.Tensor, aten.relu_.default} & set(found)


@pytest.mark.parametrize("other_first", [False, True])
def test_values_of_another_rank_beside_signals_stay(other_first: bool) -> None:
    """A view of what is no signal, whose length meets the signal's channels once it has the dimension."""

    def excited(x: Tensor, conv: nn.Module) -> Tensor:
        y = functional.relu(conv(x))
        gate = functional.relu(functional.adaptive_avg_pool1d(y, 1).squeeze(-1))
        return gate + y if other_first else y + gate

    assert operators(excited, (4, 4, 4), nn.Conv1d(4, 4, 3, padding=1))[-1] is aten.add.Tensor


def test_signals_whose_views_change_in_place_change_with_them() -> None:
    def changed(x: Tensor, conv: nn.Module) -> Tensor:
        y = conv(x)
        functional.relu_(y.unsqueeze(2).squeeze(2))
        return conv(y)

    assert aten.relu_.default in operators(changed, SIGNAL, nn.Conv1d(4, 4, 3))


def test_what_is_no_signal_stays() -> None:
    """Rows of images, and a linear layer between two convolutions."""
    assert aten.reshape.default not in operators(lambda x: functional.relu(x[:, :, 0]), IMAGE)
    layers = nn.Conv1d(4, 4, 1), nn.Linear(12, 12)
    found = operators(lambda x, conv, linear: conv(linear(conv(x))), SIGNAL, *layers)
    assert found.count(aten.reshape.default) == 4


def test_a_convolution_by_computed_weights_stays() -> None:
    found = operators(lambda x: functional.conv1d(x, x[:, :, :3]), SIGNAL)
    assert aten.conv1d.default in found


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("dilation", [1, (2, 3)])
def test_transposed_convolutions_are_in_one_group_without_gaps(groups: int, dilation: int | tuple[int, int]) -> None:
    layer = nn.ConvTranspose2d(4, 8, (3, 2), 2, 1, output_padding=1, groups=groups, dilation=dilation)
    model = Call(lambda x, layer: layer(x), layer)
    assert rewritten(model, IMAGE, decompositions.write, rtol=1e-5) == [aten.conv_transpose2d.input]


@pytest.mark.parametrize(
    ("stride", "dilation", "more"),
    [(1, 3, 2), (1, 2, 1), (2, 3, 2), (2, 4, 3), ((2, 1), (1, 3), (1, 2)), ((1, 3), (2, 1), 1)],
    ids=str,
)
def test_more_output_than_a_step_is_that_of_the_gaps(
    stride: int | tuple[int, int], dilation: int | tuple[int, int], more: int | tuple[int, int]
) -> None:
    """PyTorch wants less of it than the larger one of stride and dilation, of which no dilation is left."""
    layer = nn.ConvTranspose2d(4, 8, (3, 2), stride, 1, more, groups=2, dilation=dilation)
    model = Call(lambda x, layer: layer(x), layer)
    assert rewritten(model, IMAGE, decompositions.write, rtol=1e-5) == [aten.conv_transpose2d.input]


class Alike(nn.Module):
    """A layer's weights and a parameter, whose names differ in a point only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(4, 4, 3, bias=False)
        self.conv_weight = nn.Parameter(torch.randn(4, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv1d(x, self.conv_weight) - self.conv(x)


def test_weights_with_like_names_are_kept_apart() -> None:
    found = rewritten(Alike(), SIGNAL, decompositions.write, rtol=1e-5)
    assert found.count(aten.conv2d.default) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [({"groups": 2}, {"groups": 4}), ({"groups": 2}, {"groups": 2, "dilation": 2}), ({"dilation": 2}, {"dilation": 3})],
    ids=str,
)
def test_weights_of_two_transposed_convolutions_are_kept_apart(first: dict[str, int], second: dict[str, int]) -> None:
    weight = torch.nn.Parameter(torch.randn(4, 2, 1, 1).expand(4, 2, 2, 2).clone())
    layer = nn.ParameterList([weight])

    def both(x: Tensor, layer: nn.ParameterList) -> Tensor:
        outputs = [functional.conv_transpose2d(x, layer[0], None, **options) for options in (first, second)]
        return torch.cat([output.flatten() for output in outputs])

    operators(both, IMAGE, layer)


def test_weights_that_are_used_twice_are_one_constant() -> None:
    layer = nn.Conv1d(4, 4, 1)
    exported = torch.export.export(Call(lambda x, one: one(one(x)), layer), (torch.ones(SIGNAL),), strict=False)
    model = exported.module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    decompositions.write(model)
    assert len({node.target for node in model.graph.nodes if str(node.target).endswith("_row")}) == 1


@pytest.mark.parametrize("shape", [(1, 5, 6), (3, 5, 6)])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"num_layers": 2}, {"bidirectional": True}], ids=str)
@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", full.first([True, False], 1))
def test_recurrent_layers_are_their_steps(
    layer: type[nn.LSTM | nn.GRU | nn.RNN], batch_first: bool, options: dict[str, object], shape: tuple[int, ...]
) -> None:
    cell = layer(6, 4, batch_first=batch_first, **options)  # pyright: ignore[reportArgumentType]
    found = operators(lambda x, cell: cell(x)[0], shape, cell)
    assert {aten.linear.default, aten.stack.default, aten.tanh.default} <= set(found)
    assert not {*recurrent.LAYERS, aten.zeros.default} & set(found)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN, partial(nn.RNN, nonlinearity="relu")])
def test_states_of_recurrent_layers(layer: Callable[..., nn.Module]) -> None:
    """Given ones go in, and the last ones come out."""
    cell = layer(6, 4, 2, bidirectional=True)

    def states(x: Tensor, cell: nn.Module) -> Tensor:
        begin = torch.cat([x[:4, :, :4]] * 4)[:4]
        given = (begin, begin * 2) if isinstance(cell, nn.LSTM) else begin
        last = cell(x, given)[1]
        return torch.cat(last) if isinstance(cell, nn.LSTM) else last

    assert aten.linear.default in operators(states, (5, 2, 6), cell)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell, partial(nn.RNNCell, nonlinearity="relu")], ids=str
)
def test_cells_are_their_step(cell: Callable[..., nn.Module], bias: bool) -> None:
    def step(x: Tensor, cell: nn.Module) -> Tensor:
        state = x[:, :4] * 0.5
        return torch.cat(cell(x, (state, x[:, 2:]))) if isinstance(cell, nn.LSTMCell) else cell(x, state)

    found = operators(step, (3, 6), cell(6, 4, bias=bias))
    assert found.count(aten.linear.default) == 2
    assert not [target for target in found if str(target).endswith("_cell.default")]


def test_a_division_of_an_image_by_one_number_per_channel_repeats_it() -> None:
    found = operators(lambda x: x / x.abs().amax((2, 3), keepdim=True), IMAGE)
    assert found[-2:] == [aten.expand.default, aten.div.Tensor]
    found = operators(lambda x: x * x.abs().amax((2, 3), keepdim=True), IMAGE)
    assert aten.expand.default not in found


def test_a_division_by_one_number_repeats_it() -> None:
    found = operators(lambda x: x / (x.abs().mean() + 0.1), SIGNAL)
    assert found[-2:] == [aten.expand.default, aten.div.Tensor]


def test_exponentials_over_their_sum_are_a_softmax() -> None:
    found = operators(lambda x: (e := x.exp()) / e.sum(1, keepdim=True), SIGNAL)
    assert found == [aten.softmax.int]


@pytest.mark.parametrize("sums", [lambda e: e.sum(1, keepdim=True) + 1, lambda e: e.sum((0, 1), keepdim=True)])
def test_exponentials_over_other_numbers_stay(sums: Callable[[Tensor], Tensor]) -> None:
    assert aten.softmax.int not in operators(lambda x: (e := x.exp()) / sums(e), SIGNAL)


@pytest.mark.parametrize(
    ("other", "dim"),
    [(lambda x: x.flip(0), -1), (lambda x: x[:1], 2), (lambda x: x.sum(2, keepdim=True), 1), (lambda x: x[0], -2)],
)
def test_a_cosine_is_a_mean_of_products(other: Callable[[Tensor], Tensor], dim: int) -> None:
    found = operators(lambda x: functional.cosine_similarity(x, other(x), dim=dim), (2, 4, 6))
    assert (found.count(aten.rms_norm.default), found[-1]) == (2, aten.mean.dim)


def test_a_cosine_with_a_repeated_number_stays() -> None:
    found = operators(lambda x: functional.cosine_similarity(x, x[:, :1], dim=1), (3, 6))
    assert aten.cosine_similarity.default in found


def test_a_norm_over_neighbouring_channels_averages_rows() -> None:
    found = operators(lambda x, norm: norm(x), IMAGE, nn.LocalResponseNorm(3))
    assert aten.avg_pool2d.default in found
    assert aten.avg_pool3d.default not in found


def test_a_condition_as_a_number_is_a_choice() -> None:
    found = operators(lambda x: x * (x > 0.1).float(), IMAGE)
    assert aten.where.Scalar in found
    assert aten.to.dtype not in found


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2, "bias": False}])
def test_an_lstm_with_projections_is_its_steps(options: dict[str, Any]) -> None:
    found = operators(lambda x, cell: cell(x)[0], (5, 1, 6), nn.LSTM(6, 4, proj_size=2, **options))
    assert aten.lstm.input not in found


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("shape", "pads"), [(SIGNAL, (3, 1)), (IMAGE, (2, 0, 1, 3)), (IMAGE, (0, 0, 0, 1))])
def test_pads_with_the_tensors_own_values(shape: tuple[int, ...], pads: tuple[int, ...], mode: str) -> None:
    found = operators(lambda x: functional.pad(x, pads, mode=mode), shape)
    assert set(found) <= {aten.index_select.default, aten.reshape.default, aten.slice.Tensor, aten.cat.default}


def test_a_pad_with_a_number_stays() -> None:
    assert operators(lambda x: functional.pad(x, (1, 1), value=2.0), IMAGE) == [aten.pad.default]


@pytest.mark.parametrize("pads", [(1, 0), (0, 0, 2, 1), (1, 0, 0, 0, 2, 0), (0, 1, 0, 0, 0, 0, 0, 0, 1, 2)])
def test_pads_of_five_axes_are_pads_of_three(pads: tuple[int, ...]) -> None:
    found = operators(lambda x: functional.pad(x, pads, value=2.0), (1, 2, 3, 4, 5))
    padded = sum(map(any, zip(pads[::2], pads[1::2], strict=True)))
    assert found == [aten.reshape.default, aten.pad.default, aten.reshape.default] * padded


def test_a_reversal_is_a_choice() -> None:
    assert operators(lambda x: x.flip(1, -1), IMAGE) == [aten.index_select.default] * 2


def test_an_embedding_is_a_choice_of_rows() -> None:
    def rows(x: Tensor, table: nn.Module) -> Tensor:
        return table((x > 0).long())

    assert aten.index_select.default in operators(rows, (2, 3), nn.Embedding(2, 5))


@pytest.mark.parametrize("dim", [-1, 1])
def test_vectors_of_length_one_are_normed(dim: int) -> None:
    found = operators(lambda x: functional.normalize(x, dim=dim), IMAGE)
    assert aten.rms_norm.default in found
    assert not {aten.linalg_vector_norm.default, aten.div.Tensor} & set(found)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / x.norm(dim=-1, keepdim=True),
        lambda x: x * x.mean(1, keepdim=True) / x.norm(dim=-1, keepdim=True),
        lambda x: 3 * x / x.norm(dim=1, keepdim=True).clamp_min(1e-9),
    ],
)
def test_scaled_vectors_are_normed(function: Callable[[Tensor], Tensor]) -> None:
    found = operators(function, IMAGE)
    assert aten.rms_norm.default in found
    assert not {aten.linalg_vector_norm.default, aten.div.Tensor} & set(found)


@pytest.mark.parametrize("options", [{"p": 1}, {"dim": (2, 3)}], ids=str)
def test_other_lengths_stay(options: dict[str, object]) -> None:
    function: Callable[..., Tensor] = functional.normalize
    assert aten.div.Tensor in operators(lambda x: function(x, **options), IMAGE)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / x.norm(dim=-1, keepdim=True),
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-8),
        lambda x: functional.normalize(x, dim=1),
    ],
)
def test_vectors_of_length_one_are_spelled_as_norms(function: Callable[[Tensor], Tensor]) -> None:
    found = rewritten(Call(function), IMAGE, added.write, rtol=1e-5)
    assert aten.rms_norm.default in found
    assert aten.div.Tensor not in found


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1.0),
        lambda x: x / (x * 0.01).norm(dim=-1, keepdim=True).clamp(min=1.0),
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp(1e-8, 1.0),
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp(max=1.0),
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1.0),
        lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(-1.0),
        lambda x: functional.normalize(x, dim=1, eps=3.0),
        lambda x: (y := x[0, 0, :, :7]) / y.norm(dim=-1).clamp_min(1e-12),
        lambda x: x / torch.linalg.vector_norm(x),
        lambda x: x / torch.linalg.vector_norm(x).clamp_min(1e-12),
        lambda x: x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp_min(1e-12).expand(3, 4, 7, 9),
    ],
)
@pytest.mark.parametrize("write", [decompositions.write, added.write])
def test_lengths_that_are_bounded_or_of_other_vectors_stay(
    function: Callable[[Tensor], Tensor], write: Callable[[fx.GraphModule], None]
) -> None:
    found = rewritten(Call(function), IMAGE, write, rtol=1e-5)
    assert aten.rms_norm.default not in found
    assert aten.div.Tensor in found


@pytest.mark.parametrize("affine", [False, True])
def test_an_instance_norm_is_a_group_norm(affine: bool) -> None:
    assert operators(lambda x, norm: norm(x), IMAGE, nn.InstanceNorm2d(4, affine=affine)) == [aten.group_norm.default]


def test_a_gated_unit_is_a_product() -> None:
    expected = [aten.slice.Tensor, aten.slice.Tensor, aten.sigmoid.default, aten.mul.Tensor]
    assert sorted(map(str, operators(lambda x: functional.glu(x, 1), IMAGE))) == sorted(map(str, expected))


@pytest.mark.parametrize(
    ("function", "last"),
    [
        (lambda x: functional.rrelu(x, 0.1, 0.2), aten.leaky_relu.default),
        (lambda x: functional.prelu(x, torch.full((1,), 0.2)), aten.leaky_relu.default),
        (lambda x: functional.prelu(x, torch.tensor([0.2, 0.1, 0.3, -0.1])), aten.add.Tensor),
        (lambda x: x.abs() ** torch.full((1,), 1.5), aten.pow.Tensor_Scalar),
        (lambda x: x / (x.abs().sum() + 1), aten.div.Tensor),
        (lambda x: torch.xlogy(x, 3.0), aten.mul.Tensor),
        (lambda x: torch.xlogy(2.0, x.abs() + 1), aten.mul.Tensor),
        (lambda x: torch.xlogy(x.relu(), x.relu()), aten.mul.Tensor),  # 0 at 0
        (lambda x: torch.special.xlogy(x, 3.0), aten.mul.Tensor),
        (lambda x: torch.special.xlogy(2.0, x.abs() + 1), aten.mul.Tensor),
        (lambda x: torch.special.xlogy(x, x.abs() + 1), aten.mul.Tensor),
    ],
)
def test_functions_that_others_compute(function: Callable[[Tensor], Tensor], last: object) -> None:
    found = operators(function, IMAGE)
    assert found[-1] is last
    assert not {aten.rrelu.default, aten.prelu.default, aten.xlogy.Tensor} & {*found}


@pytest.mark.parametrize("number", [0.0, -1.0])
def test_a_logarithm_of_what_has_none_stays(number: float) -> None:
    assert operators(lambda x: torch.xlogy(x * 0, number), IMAGE)[-1] is aten.xlogy.Scalar_Other


@pytest.mark.parametrize(
    ("function", "stretches"),
    [
        (lambda x: x + torch.ones(7, 9), False),  # a constant is as large as the result when the model is built
        (lambda x: x * torch.arange(4.0)[:, None, None], False),
        (lambda x: x + x[:, :1], True),
        (lambda x: x[:, :, :1] - x, True),
        (lambda x: x * x.mean((2, 3), keepdim=True), False),  # a number for each channel is one that kernels take
        (lambda x: x + 1, False),
        (lambda x: torch.add(x, x[:, :1], alpha=0.5), True),
        (lambda x: torch.sub(x, x * 2, alpha=2), False),
        (lambda x: x.flatten(2) * x[0, 0, 0, 0:1], False),
    ],
)
def test_arithmetic_has_operands_of_one_size(function: Callable[[Tensor], Tensor], stretches: bool) -> None:
    assert (aten.expand.default in operators(function, IMAGE)) == stretches


def _pooled(x: Tensor) -> Tensor:
    """Compute `functional.max_pool2d(x, 2, 1, dilation=2)` as the error's hint does."""
    rows = torch.maximum(x[:, :, :-2], x[:, :, 2:])
    return torch.maximum(rows[..., :-2], rows[..., 2:])


def test_a_dilated_pool_is_built_as_slices() -> None:
    x = torch.randn(IMAGE)
    torch.testing.assert_close(_pooled(x), functional.max_pool2d(x, 2, 1, dilation=2))
    found = combine(Call(lambda x, conv: _pooled(conv(x)), nn.Conv2d(4, 3, 1)), IMAGE, target="cortex-m33")
    assert found.steps <= 1
    assert found.operators["cortex_m::maximum"] == 2


class TransposedConstant(nn.Module):
    """Arithmetic with a constant whose memory has another order than its shape."""

    def forward(self, x: Tensor) -> Tensor:
        return (torch.linspace(0, 1, 12).exp().reshape(3, 4).t() * x).sum(0)


def test_a_transposed_constant_changes_no_order_of_memory() -> None:
    samples = [(torch.randn(4, 3),) for _ in range(4)]
    built = api.build(TransposedConstant(), samples[0], target="cortex-m55", calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 25
