"""Programs of a CPU alone compared with quantized PyTorch, operator by operator."""

import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.runtime.host import HostRunner
from deuteron.runtime.inputs import seeded_inputs
from deuteron.runtime.operator_results import operator_results
from deuteron.views.compare import cpu_programs, outputs, pytorch

pytestmark = pytest.mark.slow
Array = npt.NDArray[np.generic]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.gate, self.fc = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 1), nn.Linear(96, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.conv(x))
        y = y + torch.sigmoid(self.gate(y))
        return torch.softmax(self.fc(y.flatten(1)), 1)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    batches = [torch.randn(1, 2, 6, 8) for _ in range(8)]
    folder = tmp_path_factory.mktemp("on_cpu") / "out"
    api.build(Net(), (batches[0],), calibration=batches, output=folder, target="cortex-m33")
    return folder


def _compared(directory: Path) -> pytorch.PytorchComparison:
    return pytorch.compare(directory, seeded_inputs(manifests.read(directory), 2))


def test_every_operator_of_a_cpu_alone_is_compared(directory: Path) -> None:
    compared = _compared(directory)
    assert compared.failures() == ()
    assert [(r.op.removeprefix("cortex_m::"), r.elements) for r in compared.on_cpu] == [
        ("quantized_conv2d", 2 * 96),
        ("quantized_conv2d", 2 * 96),
        ("quantized_activation", 2 * 96),
        ("quantized_add", 2 * 96),
        ("quantized_linear", 2 * 5),
        ("softmax", 2 * 5),
    ]
    assert compared.on_cpu_computing == 6
    text = compared.text()
    assert re.search(r"\n  cortex_m::quantized_conv2d +384 +\d\.\d{3} +\d+ +0 +[01]\n", text)
    assert "\n  6 of 6 operators that compute are compared\n\n" in text


class Unquantized(nn.Module):
    """A linear layer whose largest result is an integer, and a part of whose result is returned as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.fc(x)
        return torch.relu(y), y.argmax(1) * 2


def test_operators_that_are_not_compared_are_named_with_the_reason(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [torch.randn(1, 8) for _ in range(8)]
    api.build(Unquantized(), (batches[0],), calibration=batches, output=tmp_path / "out", target="cortex-m33")
    compared = _compared(tmp_path / "out")
    assert len(compared.on_cpu) + len(compared.uncompared) == compared.on_cpu_computing
    line = inspect.getsourcelines(Unquantized.forward)[1] + 2
    why = "PyTorch's model does not quantize its result"
    assert (
        "  2 of 4 operators that compute are compared\n"
        f"  not compared by itself: `deuteron::argmax_argmin`, {__file__}:{line}: {why}\n"
        f"  not compared by itself: `aten::mul.Tensor`, {__file__}:{line}: {why}\n\n"
    ) in compared.text()


def test_an_adaptive_pool_is_compared_though_its_node_is_named_anew(tmp_path: Path) -> None:
    """A file of a program names nodes by their operators, which differ once an adaptive pool is a plain one."""
    net = nn.Sequential(nn.AdaptiveAvgPool2d((1, None)), nn.Conv2d(2, 2, (1, 3), groups=2))
    batch = torch.randn(1, 2, 4, 8)
    api.build(net, (batch,), calibration=[batch], output=tmp_path / "out", target="cortex-m33")
    compared = _compared(tmp_path / "out")
    assert compared.failures() == ()
    assert len(compared.on_cpu) == compared.on_cpu_computing == 2


@pytest.mark.parametrize(
    ("operator", "by", "failure"),
    [
        (
            "quantized_linear",
            3,
            r"`cortex_m::quantized_linear` on the CPU, .*test_cpu_programs\.py:\d+: 2 of 10 results differ from "
            "PyTorch's beyond one step, the largest by [34] steps",
        ),
        (
            "quantized_activation",
            1,
            r"`cortex_m::quantized_activation` on the CPU, .*test_cpu_programs\.py:\d+: 2 of 192 results differ from "
            "PyTorch's beyond ties, the largest by 1 step",
        ),
    ],
)
def test_an_operator_that_is_off_is_named(
    operator: str, by: int, failure: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (number,) = [op.instructions[-1] for op in manifests.read(directory).cpu_ops if op.op == f"cortex_m::{operator}"]

    def wrong(path: Path, sample: Sequence[Array]) -> Mapping[int, Array]:
        results = {**operator_results(path, sample)}
        value = results[number].copy()
        value.flat[0] += by if value.flat[0] < 0 else -by
        results[number] = value
        return results

    monkeypatch.setattr(pytorch, "operator_results", wrong)
    named = _compared(directory).failures()[0]  # what reads it has read another value here than is compared
    assert re.fullmatch(failure, named)


@pytest.mark.parametrize(
    "target",
    full.only(
        ["cortex-m55", "imxrt700", "imxrt700cm", "ethos-u55-128", "ethos-u55-128cm"], "imxrt700cm", "ethos-u55-128"
    ),
)
def test_ties_explain_more_steps_if_all_operators_are_exact(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output that is not what the operators lead to is no tie."""
    torch.manual_seed(0)
    steep = nn.Conv2d(3, 16, 3, padding=1)
    steep.weight.data *= 40
    batches = [torch.randn(1, 3, 48, 48) for _ in range(3)]
    net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.AvgPool2d(2), steep, nn.Sigmoid())
    api.build(net, (batches[0],), calibration=batches, output=tmp_path / "out", target=target)
    samples = [(batch.numpy(),) for batch in batches]
    compared = pytorch.compare(tmp_path / "out", samples)
    assert compared.passed
    assert compared.outputs[0].largest > outputs.MAX_TIED_STEPS

    def moved(runner: HostRunner, sample: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(value[..., ::-1].copy() for value in run(runner, sample))

    run = HostRunner.run
    monkeypatch.setattr(HostRunner, "run", moved)
    assert "output 0" in pytorch.compare(tmp_path / "out", samples).failures()[0]


def test_ties_explain_more_steps_of_values_that_are_joined_in_float(tmp_path: Path) -> None:
    torch.manual_seed(0)
    steep = nn.Conv2d(3, 16, 3, padding=1)
    steep.weight.data *= 40

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Conv2d(3, 3, 1), nn.AvgPool2d(2), steep, nn.Sigmoid())

        def forward(self, x: Tensor) -> Tensor:
            y = self.net(x)
            return torch.cat([y, 100 * y], 1)

    batches = [torch.randn(1, 3, 48, 48) for _ in range(3)]
    api.build(Joined(), (batches[0],), calibration=batches, output=tmp_path / "out", target="cortex-m55")
    compared = pytorch.compare(tmp_path / "out", [(batch.numpy(),) for batch in batches])
    assert compared.passed
    assert compared.outputs[0].largest > outputs.MAX_TIED_STEPS


def test_ties_explain_more_steps_of_values_that_two_operators_compute(tmp_path: Path) -> None:
    """The scale that a ReLU shares with what it is joined with has negative values: the CPU clamps after the layer."""
    torch.manual_seed(0)

    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.steep = nn.Conv2d(3, 3, 1), nn.Conv2d(6, 16, 3, padding=1)
            self.steep.weight.data *= 40

        def forward(self, x: Tensor) -> Tensor:
            x = functional.avg_pool2d(x, 2)
            return torch.sigmoid(self.steep(torch.cat([x, torch.relu(self.layer(x))], 1)))

    batches = [torch.randn(1, 3, 48, 48) for _ in range(3)]
    api.build(Joined(), (batches[0],), calibration=batches, output=tmp_path / "out", target="cortex-m55")
    compared = pytorch.compare(tmp_path / "out", [(batch.numpy(),) for batch in batches])
    assert [one.op for one in compared.uncompared] == ["cortex_m::quantized_conv2d"]
    assert compared.passed, compared.failures()
    assert compared.outputs[0].largest > outputs.MAX_TIED_STEPS


@pytest.mark.parametrize(("fraction", "untied"), [(0.3, 0), (0.2, 8)])
def test_a_second_rounding_moves_values_near_a_tie(fraction: float, untied: int) -> None:
    class Rounded(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.quantized_decomposed.quantize_per_tensor.default(x, 1.0, 0, -128, 127, torch.int8)

    model = torch.fx.symbolic_trace(Rounded())
    (node,) = model.graph.find_nodes(
        op="call_function", target=torch.ops.quantized_decomposed.quantize_per_tensor.default
    )
    result = cpu_programs.CpuResult("node", "op", "", rounds_twice=True)
    above = np.arange(1, 9, dtype=np.int8)
    interpreter = cpu_programs._PinnedInterpreter(model, {node.name: [above]}, {node.name: result}, {})
    interpreter.run(torch.arange(8) + fraction)
    assert (result.mismatches, result.beyond, result.untied) == (8, 0, untied)
