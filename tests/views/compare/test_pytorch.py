"""`compare` finds what it is there to find: each kind of wrong result, made on purpose, breaks its bound."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.errors import FormatError, InputError
from deuteron.frontend import saved
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.runtime.observer import DelegateCall
from deuteron.views.compare import outputs
from deuteron.views.compare import pytorch as compare
from deuteron.views.compare.outputs import OutputResult
from deuteron.views.compare.rounding_spread import rounded_twice, spread
from deuteron.views.compare.torch_oracle import OracleResult, oracle_result
from deuteron.views.compare.tosa_intermediates import Coverage

Sample = tuple[npt.NDArray[np.generic], ...]
pytestmark = pytest.mark.slow


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.fc = nn.Linear(4 * 4 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.conv(x)).flatten(1))


class EveryOperator(nn.Module):
    """Operators that no reference model has: functions, differences, extremes, resizes, reductions, products."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(2, 4, 1)
        self.spread, self.slopes = nn.ConvTranspose2d(4, 3, 2, stride=2), nn.PReLU(3)

    def forward(self, x: Tensor) -> Tensor:
        a, b = torch.sigmoid(self.first(x)), torch.tanh(self.second(x))
        y = torch.minimum(functional.leaky_relu(torch.maximum(a - b, functional.hardswish(b)), 0.1), a)
        y = functional.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        y = functional.interpolate(self.slopes(self.spread(y)), scale_factor=2, mode="nearest")
        y = functional.pad(y, (1, 2, 2, 1), mode="reflect")
        y = torch.cat([y.amax((2, 3)), y.amin((2, 3)), y[..., :4, :4].sum((2, 3)), y.mean((2, 3))], 1)
        y = torch.bmm(y.reshape(1, 3, 4), y.reshape(1, 4, 3)).flatten(1)
        y = torch.exp(-torch.abs(y))
        return torch.clamp(torch.rsqrt(y + 1.0) + torch.log(y + 2.0), -1, 1)


class Twins(nn.Module):
    """One layer twice, with a step between that the CPU does: two partitions of equal bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1)
        with torch.no_grad():
            self.conv.weight.copy_(torch.eye(8).reshape(8, 8, 1, 1))
            self.conv.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(torch.flip(self.conv(x), [3]))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    batches = [torch.randn(1, 2, 6, 6) for _ in range(8)]
    folder = tmp_path_factory.mktemp("compare") / "out"
    api.build(Net(), (batches[0],), calibration=batches, output=folder)
    return folder


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    rng = np.random.default_rng(1)
    return [(rng.standard_normal((1, 2, 6, 6)).astype(np.float32),) for _ in range(3)]


def test_a_sound_build_passes(directory: Path, samples: list[Sample]):
    done: list[tuple[int, int]] = []
    found = compare.compare(directory, samples, lambda index, count: done.append((index, count)))
    assert found.failures() == ()
    assert found.passed
    assert done == [(1, 3), (2, 3), (3, 3)]
    (partition,) = found.partitions
    assert (partition.calls, partition.elements, partition.mismatches) == (3, 15, 0)
    assert [o.op for o in found.operators][-1] == "FULLY_CONNECTED"
    assert found.outputs[0].rows == found.outputs[0].top1 == 3
    assert "all bounds hold" in found.text()


def test_a_sound_build_of_every_other_operator_passes(samples: list[Sample], tmp_path: Path):
    torch.manual_seed(0)
    batches = [torch.randn(1, 2, 6, 6) for _ in range(8)]
    api.build(EveryOperator(), (batches[0],), calibration=batches, output=tmp_path / "out")
    found = compare.compare(tmp_path / "out", samples)
    assert found.failures() == ()
    assert {
        "BATCH_MATMUL", "DeuteronTable", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MEAN", "MINIMUM",
        "MIRROR_PAD", "PRELU", "REDUCE_MAX", "REDUCE_MIN", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SUB", "SUM",
        "TANH", "TRANSPOSE_CONV",
    } <= {result.op for result in found.operators}  # fmt: skip
    assert all(result.elements for result in found.operators)


def test_a_wrong_bit_of_the_npu_is_found(directory: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch):
    check = compare._TflitePartition.check

    def flipped(self: compare._TflitePartition, call: DelegateCall) -> None:
        output = call.outputs[0].copy()
        output[2] ^= 1
        check(self, replace(call, outputs=(output,)))

    monkeypatch.setattr(compare._TflitePartition, "check", flipped)
    found = compare.compare(directory, samples)
    assert found.failures() == ("partition 0: 3 of 15 results of the NPU differ from the interpreter",)
    assert "bounds broken:" in found.text()


def test_a_partition_that_never_ran_is_found(directory: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compare._TflitePartition, "check", lambda self, call: None)
    assert compare.compare(directory, samples).failures() == ("partition 0: ran 0 times on 3 samples",)


def test_an_operator_off_by_one_is_found(directory: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch):
    def shifted(op: ops.Op, graph: Graph, values: dict[str, npt.NDArray[np.generic]]) -> OracleResult:
        view = oracle_result(op, graph, values)
        if not isinstance(op, ops.FullyConnected):
            return view
        return replace(view, quantized=np.where(view.quantized < 0, view.quantized + 1, view.quantized - 1))

    monkeypatch.setattr(compare, "oracle_result", shifted)
    (failure,) = compare.compare(directory, samples).failures()
    assert "FULLY_CONNECTED: 15 of 15 results differ from PyTorch's beyond ties" in failure


def test_a_wrong_rounding_is_found(directory: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch):
    def moved(op: ops.Op, graph: Graph, values: dict[str, npt.NDArray[np.generic]]) -> OracleResult:
        view = oracle_result(op, graph, values)
        return replace(view, exact=view.exact + 1) if isinstance(op, ops.FullyConnected) else view

    monkeypatch.setattr(compare, "oracle_result", moved)
    (failure,) = compare.compare(directory, samples).failures()
    assert failure.endswith("FULLY_CONNECTED: 15 of 15 results are not correctly rounded")


def test_outputs_far_from_pytorch_are_found(directory: Path, samples: list[Sample], monkeypatch: pytest.MonkeyPatch):
    expected = compare._expected

    def far(reference: saved.Reference, sample: Sequence[npt.NDArray[np.generic]]) -> tuple[Tensor, ...]:
        (scores,) = expected(reference, sample)
        affine = reference.outputs[0]
        assert affine is not None
        scores = scores.clone()
        scores[0, int(scores.argmin())] += 300 * affine.scale
        return (scores,)

    monkeypatch.setattr(compare, "_expected", far)
    monkeypatch.setattr(compare, "_led_to", lambda *_: ())  # the reference itself leads to the right output
    first, second = compare.compare(directory, samples).failures()
    assert first == (
        "output 0: 300 steps from PyTorch's, at most 2 are allowed; the NPU's own results are those of the "
        "interpreter, bit for bit"
    )
    assert second == "output 0: another best score than PyTorch's in 3 of 3, which no tie explains"


@pytest.mark.parametrize(
    ("shape", "batches", "scores"),
    [
        ((10,), (1,), True),
        ((1, 10), (1,), True),
        ((1, 10), (49,), True),  # inputs with another dimension first
        ((4, 10), (4,), True),
        ((), (1,), False),
        ((4, 1), (4,), False),
        ((32, 32), (1,), False),  # an image without batch and channel
        ((1, 49, 12), (1,), False),
        ((1, 2, 32, 32), (1,), False),
    ],
)
def test_classes_are_those_of_rows(shape: tuple[int, ...], batches: tuple[int, ...], scores: bool):
    assert outputs.are_scores(shape, batches) == scores


def test_best_scores_are_compared_where_there_are_classes_only():
    ours, wanted = np.array([[7.0, 8.0]], np.float32), np.array([[8.0, 7.0]], np.float32)
    affine = saved.Affine(1.0, 0)
    classes, image = OutputResult(0, scores=True), OutputResult(1)
    for result in (classes, image):
        outputs.check(result, ours, affine, wanted)
    found = compare.PytorchComparison(1, (), (), (classes, image))
    assert found.failures() == ()  # each may be a step off
    differ = "2 of 2 values differ, the largest by 1 steps of 1"
    assert f"  output 0: {differ}; best score the same in 0 of 1\n  output 1: {differ}\n" in found.text()


def test_a_best_score_that_no_bound_explains():
    result = OutputResult(0, scores=True)
    outputs.check(result, np.array([[2.0, 9.0]], np.float32), saved.Affine(1.0, 0), np.array([[9.0, 2.0]]))
    assert compare.PytorchComparison(1, (), (), (result,)).failures() == (
        "output 0: 7 steps from PyTorch's, at most 2 are allowed",
        "output 0: another best score than PyTorch's in 1 of 1, which no tie explains",
    )


def scores_apart(by: int, ties: int) -> tuple[str, ...]:
    """Return the failures if PyTorch's best score is `by` steps above ours, and ties move each of the two."""
    result, moves = OutputResult(0, scores=True), np.full((1, 2), float(ties))
    ours, wanted = np.array([[8.0, 9.0]], np.float32), np.array([[8.0 + by, 8.0]], np.float32)
    outputs.check(result, ours, saved.Affine(1.0, 0), wanted, lambda: [moves])
    return compare.PytorchComparison(1, (), (), (result,)).failures()


def test_a_best_score_within_the_bounds_of_each_score():
    assert scores_apart(1, ties=0) == ()
    assert scores_apart(2, ties=0) == ("output 0: another best score than PyTorch's in 1 of 1, which no tie explains",)
    assert scores_apart(2, ties=1) == ()


def test_a_row_of_scores_is_held_against_what_ties_move_in_it():
    result, moves = OutputResult(0, scores=True), np.array([[0.0, 0.0], [5.0, 5.0]])
    ours, wanted = np.array([[8.0, 9.0]] * 2, np.float32), np.array([[10.0, 8.0]] * 2, np.float32)
    outputs.check(result, ours, saved.Affine(1.0, 0), wanted, lambda: [moves])
    assert (result.rows, result.top1, result.worse) == (2, 0, 1)


def test_ties_explain_16_steps_of_int8_values_before_an_output_in_int16(directory: Path):
    wide, narrow = saved.Affine(1.0, 0, -32768, 32767), saved.Affine(1.0, 0)
    manifest = manifests.read(directory)
    mixed = replace(manifest, options=replace(manifest.options, min_sqnr=30.0))

    def most_tied(manifest: manifests.Manifest, affine: saved.Affine | None) -> int:
        (result,) = outputs.results(manifest, [affine], is_int16=False)
        return result.most_tied

    assert [most_tied(mixed, affine) for affine in (wide, narrow, None)] == [16 << 8, 16, 16]
    assert most_tied(manifest, wide) == 16


def test_ties_explain_16_steps_at_most():
    result, wanted = OutputResult(0), np.zeros((1, 2), np.float32)
    moves = [np.array([[41.0, 0.0]])]
    outputs.check(result, np.full((1, 2), 16.0), saved.Affine(1.0, 0), wanted, lambda: moves)
    found = compare.PytorchComparison(1, (), (), (result,))
    assert found.passed
    assert "the largest by 16 steps of 1, of which ties explain 16\n" in found.text()
    outputs.check(result, np.full((1, 2), 17.0), saved.Affine(1.0, 0), wanted, lambda: moves)
    assert compare.PytorchComparison(1, (), (), (result,)).failures() == (
        "output 0: 17 steps from PyTorch's, at most 16 are allowed, though ties explain 41",
    )


def test_the_bound_that_is_told_is_of_the_sample_that_broke_it():
    result, wanted = OutputResult(0), np.zeros((1, 2), np.float32)
    for far, ties in ((8.0, 9.0), (5.0, 3.0)):
        outputs.check(
            result, np.full((1, 2), far), saved.Affine(1.0, 0), wanted, lambda ties=ties: [np.full((1, 2), ties)]
        )
    assert compare.PytorchComparison(2, (), (), (result,)).failures() == (
        "output 0: 5 steps from PyTorch's, at most 3 are allowed",
    )


def test_what_nothing_is_seen_of_is_told():
    coverage = Coverage(operators=3)
    assert "0 of 3 operators are compared; 3 results stay" in (
        compare.PytorchComparison(1, (), (), (), coverage=coverage).text()
    )


LIMITS = (-128, 127, torch.int8)


class Shares(nn.Module):
    """A softmax of scores in steps of 0.125."""

    def forward(self, x: Tensor) -> Tensor:
        return rounded(torch.softmax(rounded(x, 0.125, 0), -1), 1 / 256, -128)


def rounded(x: Tensor, scale: float, zero_point: int) -> Tensor:
    ops = torch.ops.quantized_decomposed
    stored = ops.quantize_per_tensor(x, scale, zero_point, *LIMITS)
    return ops.dequantize_per_tensor(stored, scale, zero_point, *LIMITS)


def shares(x: Tensor) -> tuple[saved.Reference, Tensor]:
    module = torch.export.export(Shares(), (x,)).module(check_guards=False)
    reference = saved.Reference(module, (None,), (saved.Affine(1 / 256, -128),))
    return reference, reference.run([x])[0]


def test_bounds_carry_through_a_softmax():
    x = torch.tensor([[0.0625, 0.0]])
    reference, wanted = shares(x)
    _, other = shares(torch.tensor([[0.125, 0.0]]))  # where the tie falls to the other side
    (moved,) = spread(reference, [x], ())
    assert moved == pytest.approx((other - wanted).abs().numpy())
    assert moved.max() * 256 > 5
    result = OutputResult(0)
    outputs.check(result, other.numpy(), reference.outputs[0], wanted.numpy(), lambda: [moved])
    assert compare.PytorchComparison(1, (), (), (result,)).passed
    outputs.check(result, (other + 0.2).numpy(), reference.outputs[0], wanted.numpy(), lambda: [moved])
    assert not compare.PytorchComparison(1, (), (), (result,)).passed


def test_a_model_without_ties_moves_by_nothing():
    x = torch.tensor([[0.1, 0.0]])
    reference, _ = shares(x)
    assert not spread(reference, [x], ())[0].any()


class Sums(nn.Module):
    """Two sums, the second of which is within 2^-4 of a tie, not within 2^-10."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = rounded(x, 0.5, 0)
        return rounded(y + 0.73, 0.5, 0), rounded(torch.relu(y * 1.02), 0.5, 0)


def test_ties_of_operators_that_round_twice_are_wider():
    x = torch.full((1, 64), 12.0)
    module = torch.export.export(Sums(), (x,)).module(check_guards=False)
    reference = saved.Reference(module, (None,), (saved.Affine(0.5, 0), saved.Affine(0.5, 0)))
    assert [bool(moved.any()) for moved in spread(reference, [x], ())] == [False, False]
    assert [bool(moved.any()) for moved in spread(reference, [x], {"add"})] == [True, False]
    assert [bool(moved.any()) for moved in spread(reference, [x], {"mul"})] == [False, True]


def test_operators_round_twice_by_what_computes_them(directory: Path):
    manifest, reference = api.read_manifest(directory), saved.load(directory / "reference.pt2")
    assert rounded_twice(manifest, reference) == frozenset()  # all of it is the Neutron's
    nodes = [replace(node, quantised=f"of_{node.name}") for node in manifest.nodes]
    ops = ["cortex_m::quantized_add", "cortex_m::quantized_activation", "aten::add", "deuteron::normalise"]
    on_cpu = [replace(manifest.cpu_ops[0], op=op, computes=node.name) for op, node in zip(ops, nodes, strict=False)]
    mixed = replace(manifest, nodes=tuple(nodes), cpu_ops=tuple(on_cpu))
    assert rounded_twice(mixed, reference) == {nodes[0].quantised, nodes[3].quantised}
    of_ethosu = rounded_twice(replace(manifest, target="ethos-u55-128"), reference)
    assert {"conv2d", "linear"} <= of_ethosu


def test_an_image_one_step_off_passes(samples: list[Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    batches = [torch.randn(1, 2, 6, 6) for _ in range(8)]
    api.build(nn.Conv2d(2, 2, 1), (batches[0],), calibration=batches, output=tmp_path / "out")
    expected = compare._expected

    def another_step(reference: saved.Reference, sample: Sequence[npt.NDArray[np.generic]]) -> tuple[Tensor, ...]:
        (values,) = expected(reference, sample)
        affine = reference.outputs[0]
        assert affine is not None
        steps = torch.where(torch.arange(values.numel()) % 2 == 0, affine.scale, -affine.scale)
        return (values + steps.reshape(values.shape),)

    monkeypatch.setattr(compare, "_expected", another_step)
    found = compare.compare(tmp_path / "out", samples)
    assert found.failures() == ()
    assert (found.outputs[0].mismatches, found.outputs[0].rows) == (3 * 72, 0)


@pytest.mark.parametrize(
    ("ours", "wanted", "unlike"),
    [
        ([np.nan, 1.0, 2.0], [0.0, 1.0, 2.0], 1),
        ([0.0, 1.0, 2.0], [np.nan, 1.0, np.inf], 2),
        ([np.inf, 1.0, 2.0], [-np.inf, 1.0, 2.0], 1),
        ([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf], 0),
    ],
)
def test_outputs_that_are_no_numbers_must_be_none_in_pytorch(ours: list[float], wanted: list[float], unlike: int):
    result = OutputResult(0)
    outputs.check(result, np.array(ours, np.float32), None, np.array(wanted, np.float32))
    assert (result.elements, result.unlike, result.largest) == (3, unlike, 0)
    assert compare.PytorchComparison(1, (), (), (result,)).failures()[:1] == (
        (f"output 0: {unlike} of 3 values are NaN or infinite unlike PyTorch's",) if unlike else ()
    )


def test_numbers_far_apart_are_found_beside_values_that_are_none():
    result = OutputResult(0)
    found, wanted = np.array([5.0, np.nan, 3.0], np.float32), np.array([1.0, np.nan, 77.0], np.float32)
    outputs.check(result, found, None, wanted)
    assert (result.unlike, result.mismatches, round(result.largest)) == (0, 2, 248)


def test_integers_must_be_equal_and_have_no_step():
    result = OutputResult(0)
    outputs.check(result, np.array([4, 1, 7]), None, np.array([4, 1, 7]))
    outputs.check(result, np.array([True, False]), None, np.array([True, False]))
    equal = compare.PytorchComparison(1, (), (), (result,))
    assert equal.passed
    assert "  output 0: 0 of 5 integers differ, the largest by 0\n" in equal.text()
    outputs.check(result, np.array([4, 1, 7]), None, np.array([4, 2, 9]))
    other = compare.PytorchComparison(1, (), (), (result,))
    assert other.failures() == ("output 0: 2 of 8 integers differ from PyTorch's",)
    assert "  output 0: 2 of 8 integers differ, the largest by 2\n" in other.text()


def test_integers_that_ties_change_in_pytorch_too():
    """The place of one of two scores that a tie makes equal."""
    result, moves = OutputResult(0), [np.array([0.0, 1.0, 0.0])]
    outputs.check(result, np.array([4, 1, 7]), None, np.array([4, 2, 7]), lambda: moves)
    found = compare.PytorchComparison(1, (), (), (result,))
    assert found.passed
    assert "  output 0: 1 of 3 integers differ, of which ties explain 1, the largest by 1\n" in found.text()
    outputs.check(result, np.array([5, 1, 7]), None, np.array([4, 2, 7]), lambda: moves)
    assert compare.PytorchComparison(1, (), (), (result,)).failures() == (
        "output 0: 3 of 6 integers differ from PyTorch's, and ties explain 2",
    )
    far = OutputResult(0)
    outputs.check(far, np.array([4, 900, 7]), None, np.array([4, 2, 7]), lambda: moves)
    assert compare.PytorchComparison(1, (), (), (far,)).failures() == (
        "output 0: 1 of 3 integers differ from PyTorch's",
    )


def test_partitions_of_one_payload_take_turns(tmp_path: Path):
    torch.manual_seed(0)
    x = torch.ones(1, 8, 8, 8)
    x[:, :, 4:, :] = -1.0
    api.build(Twins(), (x,), calibration=[x] * 4, output=tmp_path / "out")
    first, second = api.read_manifest(tmp_path / "out").partitions
    assert first.payload_sha256 == second.payload_sha256
    found = compare.compare(tmp_path / "out", [(x.numpy(),), (-x.numpy(),)])
    assert found.failures() == ()
    assert [(p.index, p.calls) for p in found.partitions] == [(0, 2), (1, 2)]


def test_no_samples_and_a_changed_program_are_refused(directory: Path, samples: list[Sample], tmp_path: Path):
    with pytest.raises(InputError) as nothing:
        compare.compare(directory, [])
    assert str(nothing.value) == "there are no samples to compare on"
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    program = bytearray((tmp_path / "model.pte").read_bytes())
    program[len(program) // 2] ^= 1
    (tmp_path / "model.pte").write_bytes(program)
    with pytest.raises(FormatError) as changed:
        compare.compare(tmp_path, samples)
    assert "`model.pte` is not the file that `build.json` describes" in str(changed.value)
