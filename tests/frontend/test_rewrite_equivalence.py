"""Float models compared with their rewrites for quantizers: a wrong rewrite is an error."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torchao.quantization.pt2e.quantizer import Quantizer

from deuteron import api
from deuteron.errors import InternalError, UnsupportedError
from deuteron.frontend.quantize import rewrite_equivalence

aten = torch.ops.aten
X = torch.tensor([[1.0, -2.0, 3.0]])
HINT = "\n\nhint: report the model with its example inputs: the program would compute something else"


class Several(nn.Module):
    """Batch norm and dropout in training mode, values that cancel out, and outputs that are NaN, infinite, or whole."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = nn.BatchNorm1d(3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = self.dropout(self.norm(torch.cat([x, x * 2])))
        return y.relu(), x - x * 0.5 - x * 0.5, torch.log(x) / 0.0, x.argmax()


class Relu(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, torch.relu(x)


def exported(module: nn.Module) -> fx.GraphModule:
    model = torch.export.export(module, (X,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    return model


def rewritten(model: fx.GraphModule, rewrite: Callable[[fx.Node], None], *samples: Tensor) -> fx.GraphModule:
    """The model after a quantizer that rewrites each node, checked."""

    class Rewrites(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            for node in list(model.graph.nodes):
                rewrite(node)
            model.recompile()
            return model

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            return model

        def validate(self, model: fx.GraphModule) -> None:
            pass

    before = rewrite_equivalence.original(model, [(x,) for x in samples or (X,)])
    return rewrite_equivalence.checked(Rewrites(), lambda: before).transform_for_annotation(model)


def nothing(_: fx.Node) -> None:
    pass


def clamp_instead_of_relu(node: fx.Node) -> None:
    if node.target is aten.relu.default:
        node.target, node.args = aten.clamp.default, (node.args[0], 0.0)


def absolute_instead_of_relu(node: fx.Node) -> None:
    if node.target is aten.relu.default:
        node.target = aten.abs.default


def sum_instead_of_relu(node: fx.Node) -> None:
    if node.target is aten.relu.default:
        node.target = aten.sum.default


def test_the_same_written_otherwise_passes() -> None:
    clamped = rewritten(exported(Relu()), clamp_instead_of_relu)
    assert [node.target for node in clamped.graph.nodes].count(aten.clamp.default) == 1


def test_another_value_or_shape_is_told() -> None:
    with pytest.raises(InternalError) as caught:
        rewritten(exported(Relu()), absolute_instead_of_relu)
    assert str(caught.value) == (
        "rewriting the model for quantization changes its output 1: it differs by 2, and its largest magnitude is 3"
        + HINT
    )
    with pytest.raises(InternalError) as caught:
        rewritten(exported(Relu()), sum_instead_of_relu)
    assert str(caught.value) == (
        "rewriting the model for quantization changes its output 1: it has shape [] in place of [1, 3]" + HINT
    )


def test_a_difference_shows_only_where_a_sample_has_it() -> None:
    """So calibration batches are among the samples."""
    rewritten(exported(Relu()), absolute_instead_of_relu, X.abs())
    with pytest.raises(InternalError, match="changes its output 1"):
        rewritten(exported(Relu()), absolute_instead_of_relu, X.abs(), X)


class Looks(nn.Module):
    """Looks up the last entry of a table, which a larger input would miss."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.table[(x * 0.9999999).long()]


class Counts(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x + 1).long(), torch.relu(x).long()


def test_noise_hides_no_larger_difference_and_stays_within_tables() -> None:
    x = torch.tensor([[0.5, 1.5, 2.9999998]])
    rewritten(exported(Looks()), nothing, x)
    with pytest.raises(InternalError, match="changes its output 1: it has 1 of 3 values that are others"):
        rewritten(exported(Counts()), absolute_instead_of_relu, X)


def test_made_up_samples_may_leave_a_table() -> None:
    rewritten(exported(Looks()), nothing, X.abs() - 1, -X)


class Whole(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x > 0, (x * 2.5).long()


@pytest.mark.parametrize(
    ("index", "target", "instead"),
    [(0, aten.gt.Scalar, aten.ge.Scalar), (1, aten.mul.Tensor, lambda x, _: x * 2)],
)
def test_another_integer_or_bool_is_told(index: int, target: object, instead: Callable[..., Tensor]) -> None:
    def other(node: fx.Node) -> None:
        if node.target is target:
            node.target = instead

    with pytest.raises(InternalError) as caught:
        rewritten(exported(Whole()), other, X, torch.tensor([[0.0, -2.1, 0.3]]))
    assert str(caught.value) == (
        f"rewriting the model for quantization changes its output {index}: it has 1 of 3 values that are others" + HINT
    )


def test_integers_that_rounding_moves_may_change() -> None:
    def rounded(node: fx.Node) -> None:
        if node.target is aten.mul.Tensor:
            node.args = (node.args[0], 2.499999)

    rewritten(exported(Whole()), rounded, torch.tensor([[0.0, -2.1, 2.0]]))


class Floored(nn.Module):
    """Rounds a product of integers down."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.floor(x.round().long() * 0.3).long()


def test_factors_may_be_rounded_and_others_may_not() -> None:
    """0.3 in float32 times 10 is above 3 in float64; the same rewrite with another factor is wrong."""
    samples = torch.tensor([[10.0, -10.0, 20.0]])

    def to_factor(value: float) -> Callable[[fx.Node], None]:
        def rewrite(node: fx.Node) -> None:
            if node.target is aten.mul.Tensor:
                with node.graph.inserting_before(node):
                    whole = node.graph.call_function(aten.to.dtype, (node.args[0], torch.float32))
                node.args = (whole, value)

        return rewrite

    rewritten(exported(Floored()), to_factor(float(torch.tensor(0.3))), samples)
    with pytest.raises(InternalError):
        rewritten(exported(Floored()), to_factor(0.5), samples)


def test_a_value_that_is_no_number_any_more_is_told() -> None:
    def root_instead_of_relu(node: fx.Node) -> None:
        if node.target is aten.relu.default:
            node.target = aten.sqrt.default

    with pytest.raises(InternalError) as caught:
        rewritten(exported(Relu()), root_instead_of_relu)
    assert "changes its output 1: it differs by nan, and" in str(caught.value)


class Long(nn.Module):
    """Sums integers beyond 32 bits."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.round().long() * 1_500_000_000).sum(1)


def test_integers_beyond_the_bits_of_a_rewrite_are_refused() -> None:
    def narrow(node: fx.Node) -> None:
        if node.target is aten.mul.Tensor:
            with node.graph.inserting_before(node):
                narrowed = node.graph.call_function(aten.to.dtype, (node.args[0], torch.int32))
            node.args = (narrowed, node.args[1])

    with pytest.raises(UnsupportedError, match=r"aten::sum\..* depends on integers beyond 32 bits"):
        rewritten(exported(Long()), narrow, X.abs())


class Mean(nn.Module):
    """A mean of six whole numbers at a half, which the reciprocal of their count in float32 moves."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x + 1], 1).int().float().mean(-1).round().int()


def test_a_mean_at_a_half_may_round_to_either_side() -> None:
    def divided(node: fx.Node) -> None:
        if node.target is aten.mean.dim:
            with node.graph.inserting_before(node):
                total = node.graph.call_function(aten.sum.dim_IntList, node.args)
                node.replace_all_uses_with(node.graph.call_function(aten.mul.Tensor, (total, 1.00001 / 6)))

    rewritten(exported(Mean()), divided, torch.tensor([[1.25, 2.25, 3.25]]))


class Labels(nn.Module):
    """An operator that takes integers of 64 bits alone."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.multilabel_margin_loss(x, (x > 0).long())


def test_an_operator_that_fails_on_narrower_integers_is_refused() -> None:
    def narrow(node: fx.Node) -> None:
        if node.target is aten.multilabel_margin_loss.default:
            with node.graph.inserting_before(node):
                narrowed = node.graph.call_function(aten.to.dtype, (node.args[1], torch.int32))
            node.replace_input_with(node.all_input_nodes[1], narrowed)

    with pytest.raises(UnsupportedError, match="multilabel_margin_loss` has no form for this target: expected"):
        rewritten(exported(Labels()), narrow)


class Masked(nn.Module):
    """A softmax of scores of which a mask may leave out all."""

    def forward(self, x: Tensor) -> Tensor:
        return x.masked_fill(x < 0, -torch.inf).softmax(-1)


def test_nan_that_a_rewrite_removes_is_refused() -> None:
    def finite(node: fx.Node) -> None:
        if node.target is aten.masked_fill.Scalar:
            node.args = (*node.args[:2], -8.0)

    with pytest.raises(UnsupportedError, match=r"softmax\.int` gives NaN for a sample, which int8 does not have"):
        rewritten(exported(Masked()), finite, -X.abs())


class MaskedByInput(nn.Module):
    """A softmax of scores that a mask leaves out."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill(mask, -torch.inf).softmax(-1)


def test_masks_are_compared_on_calibration_batches_from_an_iterator() -> None:
    def batches(last: bool) -> Iterator[tuple[Tensor, Tensor]]:
        generator = torch.Generator().manual_seed(0)
        for number in range(6):
            mask = torch.tensor([[True, False, False, False], [last and number == 5] * 4])
            yield torch.randn(2, 4, generator=generator), mask

    def sqnr(last: bool) -> float:
        build = api.build(MaskedByInput(), next(batches(last)), target="cortex-m55", calibration=batches(last))
        return build.manifest.quality.outputs[0].sqnr

    assert sqnr(last=False) > 30
    with pytest.raises(UnsupportedError, match=r"softmax\.int` gives NaN for a sample"):
        sqnr(last=True)


class Attended(nn.Module):
    """Attention by PyTorch's one operator, with a mask that is an input."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, mask)


@pytest.mark.parametrize(("module", "count"), [(Attended(), 2), (MaskedByInput(), 2), (Labels(), 0)])
def test_models_with_masks_are_compared_on_calibration_batches(module: nn.Module, count: int) -> None:
    x, mask = torch.randn(1, 4, 4), torch.ones(1, 4, 4, dtype=torch.bool)
    given = (x[0],) if isinstance(module, Labels) else (x, mask)
    model: Any = torch.export.export(module, given).module()
    assert len([*rewrite_equivalence.from_batches(model, lambda: [given] * 2)]) == count


def test_neither_the_model_nor_random_numbers_are_touched() -> None:
    model = exported(Several())
    before, state = {name: value.clone() for name, value in model.named_buffers()}, torch.random.get_rng_state()
    assert any("dropout" in str(node.target) for node in model.graph.nodes)
    rewritten(model, nothing)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert before.keys() == dict(model.named_buffers()).keys()
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


class Signed(nn.Module):
    """A sign that is read from negative zeros, or from other values."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        return torch.copysign(x, -torch.relu(x) - self.offset) + torch.signbit(torch.tensor(-0.0))


def test_the_sign_of_a_negative_zero_is_refused() -> None:
    x = torch.tensor([[-1.0, 2.0]])
    with pytest.raises(UnsupportedError, match="reads the sign of a negative zero") as caught:
        api.build(Signed(0.0), (x,), target="cortex-m55", calibration=[(x,)])
    assert "test_rewrite_equivalence.py:" in str(caught.value)
    assert api.build(Signed(0.5), (x,), target="cortex-m55", calibration=[(x,)]).manifest.quality.outputs[0].sqnr > 25
