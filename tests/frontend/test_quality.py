"""Quality of quantized models against their float models before lowering, and the findings about them."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from benches.zoo import quality_defects
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions
from deuteron.frontend import heterogeneous
from deuteron.frontend.backends import select
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.lowering_record import Recording
from deuteron.frontend.quality import calibration_subset as quality_kept
from deuteron.frontend.quality.calibration_subset import ONE_SAMPLE, CalibrationSubset
from deuteron.frontend.quality.findings import findings
from deuteron.frontend.quality.float_model import without_observers
from deuteron.frontend.quality.measure import Measured, Output, measure
from deuteron.frontend.quantize.calibration import calibrate

Pair = tuple[fx.GraphModule, fx.GraphModule]


def pair(module: nn.Module, batches: Sequence[Inputs]) -> Pair:
    """The float model and the quantized one, for a Cortex-M55."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    arch, example = targets.load("cortex-m55"), batches[0]
    side = select.of(arch, BuildOptions())
    quantizer = heterogeneous.quantizer(arch, side, heterogeneous.RejectedNodes(), Recording[Any](), lambda: example)
    exported: Any = torch.export.export(module.eval(), example, strict=False).module(check_guards=False)
    with side.imported(), quiet():
        prepared = prepare_pt2e(exported, quantizer)
        calibrate(prepared, batches)
        floats = without_observers(prepared)
        return floats, convert_pt2e(prepared)


def measured(module: nn.Module, batches: Sequence[Inputs]) -> tuple[Measured, tuple[str, ...]]:
    floats, quantized = pair(module, batches)
    result = measure(floats, quantized, batches)
    return result, findings(floats, quantized, result)


def told(text: str) -> str:
    """A finding without the path of the file."""
    return text.rpartition("/")[2]


@cache
def found(name: str) -> tuple[str, ...]:
    """The findings of a planted defect, in its model and in its calibration."""
    defect = next(one for one in quality_defects.DEFECTS if one.name == name)
    module, example, batches = defect.make()
    kept = CalibrationSubset()
    seen = list(kept.observe(iter(batches)))
    return kept.findings(example) or tuple(map(told, measured(module, seen)[1]))


@pytest.mark.parametrize("defect", quality_defects.DEFECTS, ids=lambda defect: defect.name)
def test_a_planted_defect_is_found(defect: quality_defects.Defect):
    assert any(defect.warning in text for text in found(defect.name))


def test_a_column_that_dies_is_told_with_its_line_and_what_to_do():
    assert found("dead_column") == (
        "quality_defects.py:33: output 0: channel 1 is always 0, where the float model gives -0.08228 to 0.6637: one "
        "step of the whole output is 2.12; return channels of unlike ranges as separate outputs, or scale them alike "
        "and let the application undo that",
        "quality_defects.py:33: a constant of 1 to 1000 has 1 of 2 values that become 0 when it is quantized, with one "
        "step for all its values; write it with values of like size, or split it",
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "wrong_scale",
            "input 0 reaches 3.475 in the calibration batches, and 607 in the example input: if these are scaled "
            "unlike each other, ranges are wrong; give both as the application does",
        ),
        (
            "all_zeros",
            "input 0 is 0 everywhere in all calibration batches: its range, and all that is computed from it, say "
            "nothing of real data; calibrate with inputs as the application has them",
        ),
        ("equal_batches", "all calibration batches are equal, and measure no more than one does; give unlike ones"),
    ],
)
def test_calibration_that_cannot_be_right(name: str, text: str):
    assert found(name)[-1] == text


class Constant(nn.Module):
    """One output depends on the input, the other one does not vary."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2.0, (x * 0.0).relu() + torch.arange(4.0)


def test_a_constant_output_has_no_figure() -> None:
    result, texts = measured(Constant(), [(torch.randn(1, 4),) for _ in range(4)])
    first, second = result.output_qualities()
    assert (first.constant, second.constant) == (False, True)
    assert list(second.lines(1)) == ["output 1 is constant on the calibration data"]
    assert any("output 1 is constant on the calibration data" in text for text in texts)


class Cut(nn.Module):
    """Calibrated with small values, and one place is given a range that cuts off."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x * 2.0) + x


def test_a_range_that_cuts_off_values():
    torch.manual_seed(0)
    small = [(torch.randn(1, 8) * 0.1,) for _ in range(8)]
    floats, quantized = pair(Cut(), small)
    large = [(torch.randn(1, 8),)]
    text = findings(floats, quantized, measure(floats, quantized, large))
    assert any("the range of input `x`, " in one and "% of its values by more than a step" in one for one in text)


SOUND: dict[str, Callable[[], nn.Module]] = {
    "convolutions": lambda: nn.Sequential(nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)),
    "classifier": lambda: nn.Sequential(
        nn.Conv2d(2, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10), nn.Softmax(-1)
    ),
    "gate": lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.Sigmoid(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_networks_have_no_findings(name: str):
    torch.manual_seed(0)
    batches = [(torch.randn(1, 2, 8, 8),) for _ in range(16)]
    result, text = measured(SOUND[name](), batches)
    assert text == ()
    assert all(output.sqnr > 25 for output in result.output_qualities())
    assert all(layer.own > 25 for layer in result.layer_qualities())


@pytest.mark.parametrize("name", quality_defects.SOUND)
def test_sound_networks_that_look_as_if_they_were_not(name: str):
    module, _, batches = quality_defects.SOUND[name]()
    before = [x.clone() for (x,) in batches]
    result, text = measured(module, batches)
    assert all(torch.equal(x, old) for (x,), old in zip(batches, before, strict=True))
    assert text == ()
    assert all(output.sqnr > 25 for output in result.output_qualities())
    assert all(layer.own > 25 for layer in result.layer_qualities())
    assert "input" in {layer.op for layer in result.layer_qualities()}


class Lossy(nn.Module):
    """A difference of like values, which loses most, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8, bias=False), nn.Linear(8, 4)
        with torch.no_grad():
            self.first.weight.copy_(torch.eye(8) + 0.02 * torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.last(y - x)


def test_the_layer_that_loses_most_comes_first():
    torch.manual_seed(0)
    result, _ = measured(Lossy(), [(torch.randn(1, 8),) for _ in range(8)])
    layers = result.layer_qualities()
    assert layers[0].op == "aten::sub.Tensor"
    assert [layer.own for layer in layers] == sorted(layer.own for layer in layers)
    assert layers[0].source[0].code == "return self.last(y - x)"
    (output,) = result.output_qualities()
    assert len(output.channels) == 4
    assert output.sqnr == pytest.approx(next(layer.sqnr for layer in layers if layer.name == "linear_1"))


class Likeness(nn.Module):
    """One number for each sample, and one without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        return y.mean(1), y[0, 0]


def test_the_rounding_error_of_a_sum_that_cancels_is_no_layer():
    class Variance(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            centred = x - x.mean(1, keepdim=True)
            return (centred - centred.mean(1, keepdim=True)).square().mean(1)

    torch.manual_seed(0)
    layers = measured(Variance(), [(torch.randn(1, 24, 4) + 2,) for _ in range(4)])[0].layer_qualities()
    assert sorted(layer.name for layer in layers if "mean" in layer.name) == ["mean", "mean_2"]  # not that of centred
    assert layers[0].own > 20


def test_outputs_of_one_dimension_and_of_none():
    torch.manual_seed(0)
    result, _ = measured(Likeness(), [(torch.randn(1, 8),) for _ in range(8)])
    assert [(output.axis, len(output.channels)) for output in result.output_qualities()] == [(0, 1), (0, 1)]


def passed(batches: Iterable[Inputs]) -> CalibrationSubset:
    kept = CalibrationSubset()
    for _ in kept.observe(iter(batches)):
        pass
    return kept


def test_samples_are_kept_at_even_distances():
    kept = passed((torch.tensor([float(i)]),) for i in range(200))
    assert kept.total == 200
    values = [int(batch[0]) for batch in kept.some(macs=1)]
    assert values[0] == 0
    assert len(values) == 32
    assert max(b - a for a, b in pairwise(values)) <= 8
    assert len(kept.some(macs=10**9)) == 4


def test_findings_are_of_all_batches_and_not_of_those_that_are_kept():
    one = (torch.ones(1, 1),)
    assert passed((torch.full((1, 1), float(i % 8 > 0)),) for i in range(512)).findings(one) == ()
    last = passed([*[one] * 511, (torch.full((1, 1), 300.0),)])
    assert last.findings(one)[0].startswith("input 0 reaches 300 in the calibration batches, and 1 in the example")
    assert passed([one, (2 * one[0],)]).findings(one) == ()
    assert passed([(torch.randn(1, 2),)]).findings((torch.randn(1, 2),)) == (ONE_SAMPLE,)
    assert passed([(torch.randn(8, 2),)]).findings((torch.randn(8, 2),)) == ()
    whole = (torch.ones(1, 1, dtype=torch.int64),)
    assert passed([*[whole] * 511, (2 * whole[0],)]).findings(whole) == ()
    assert passed([whole] * 512).findings(whole) == (
        "all calibration batches are equal, and measure no more than one does; give unlike ones",
    )


def test_large_samples_are_thinned_while_they_pass_and_never_too_few(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quality_kept, "_HELD", 10 * 400)
    kept = passed((torch.full((100,), float(i)),) for i in range(50))
    assert sum(4 * batch[0].numel() for batch in kept.batches) <= 10 * 400
    assert [int(batch[0][0]) for batch in kept.some(macs=1)] == [0, 8, 16, 24, 32, 40, 48]
    monkeypatch.setattr(quality_kept, "_HELD", 1)
    assert len(passed((torch.zeros(100),) for _ in range(50)).some(macs=1)) == 7
    assert len(passed((torch.zeros(100),) for _ in range(50)).some(macs=10**9)) == 4


def test_an_output_without_layers_is_poor_without_a_worst_one():
    poor, nothing = Output(fx.Graph().placeholder("x"), None, 0), fx.GraphModule({}, fx.Graph())
    wanted, actual = torch.tensor([[1.0, 2.0]]), torch.zeros(1, 2)
    poor.add(wanted, actual)
    (text,) = findings(nothing, nothing, Measured([], {0: poor}, (), ((wanted,),), {}))
    assert text == "output 0 has 0.0 dB of signal to noise compared with the float model"


@pytest.mark.parametrize(("x", "count"), [(torch.arange(50), 1), (torch.randn(50), 0)])
def test_integers_of_integers_are_exact_or_told(x: torch.Tensor, count: int):
    nothing, equal = fx.symbolic_trace(nn.Identity()), torch.arange(50) > 0
    found = findings(nothing, nothing, Measured([(x,)], {}, (), ((torch.arange(50),),), {0: [equal]}))
    assert len([text for text in found if text.startswith("output 0 has 98.0% of the float model's integers")]) == count


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x[:, :1] > 0, x, x * 0.2)


def test_a_choice_that_rounding_turns_in_a_few_samples_is_told():
    batches = [(torch.tensor([[(-1.0) ** i, 0.3, i / 16]]),) for i in range(16)]
    assert measured(Chosen(), batches)[1] == ()
    (text,) = measured(Chosen(), [*batches, (torch.tensor([[1e-4, 0.5, 0.7]]),)])[1]
    line = Chosen.forward.__code__.co_firstlineno + 1
    assert told(text) == (
        f"test_quality.py:{line}: output 0 has 2.0 dB in the worst of 17 samples, and 35.5 dB in the median one: "
        "rounding changes what `gt` chooses where its operands are nearly equal; blend with weights instead, as "
        "`torch.sigmoid` gives them, or let the application choose"
    )


class Signed(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sign(x)


def test_a_sign_that_rounding_turns_in_a_few_samples_is_told():
    batches = [(torch.tensor([[(-1.0) ** i, 0.3, i / 16 + 0.1]]),) for i in range(16)]
    assert measured(Signed(), batches)[1] == ()
    (text,) = measured(Signed(), [*batches, (torch.tensor([[1e-6, 0.5, 0.7]]),)])[1]
    assert "what `sign` chooses where its operand is near a jump" in text


def test_a_few_large_samples_do_not_hide_the_others():
    generator = torch.Generator().manual_seed(0)
    small = [(torch.randn(1, 8, generator=generator),) for _ in range(15)]
    assert measured(Squared(), small)[1] == ()
    (text,) = measured(Squared(), [*small, (torch.randn(1, 8, generator=generator) * 9,)])[1]
    line = Squared.forward.__code__.co_firstlineno + 1
    assert told(text).startswith(f"test_quality.py:{line}: output 0 has ")
    assert "in all 16 samples together, but at most " in text
    assert text.endswith("let the application scale the samples alike, or build with `--activations int16`")


class Squared(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.abs()
