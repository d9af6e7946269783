"""Where operators run, why, and what that costs: on builds for NPU and CPU together."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.builds import manifest as manifests
from deuteron.builds import samples
from deuteron.builds.options import Partitioning
from deuteron.frontend.build import BuildResult
from deuteron.tflite.flat_model import TABLE
from deuteron.views import explain as explanation
from deuteron.views import offload_costs as placement
from deuteron.views.compare import pytorch as compare
from deuteron.views.events.sources import simulated
from deuteron.views.profile import subject as profiling

pytestmark = pytest.mark.slow

TARGET = "imxrt700cm"


class Curved(nn.Module):
    """Between pools that only the CPU has, an activation: less work for the NPU than the copies that it needs."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True)
        x = torch.relu(x)
        return self.last(functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False))


@dataclass(frozen=True, slots=True)
class Builds:
    """A model, built both ways."""

    first: api.Build
    cost: api.Build


def build(module: nn.Module, folder: Path, options: api.BuildOptions, **layout: torch.memory_format) -> api.Build:
    """The build of a module over images of 16x16, with calibration data that can be read once."""
    torch.manual_seed(0)
    batches = [torch.randn(1, 3, 16, 16).contiguous(**layout) for _ in range(4)]
    return api.build(
        module, (batches[0],), target=TARGET, calibration=iter(batches), output=folder / "out", options=options
    )


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """The same weights in both."""
    torch.manual_seed(0)
    module = Curved()
    ways = (Partitioning.NPU_FIRST, Partitioning.COST)
    made = [build(module, tmp_path_factory.mktemp(p.value), api.BuildOptions(partition=p)) for p in ways]
    return Builds(*made)


def directory(made: api.Build) -> Path:
    """Where a build is."""
    assert made.directory is not None
    return made.directory


@pytest.mark.full
def test_an_activation_between_operators_of_the_cpu_stays_there_by_cost(builds: Builds) -> None:
    def on(made: api.Build) -> dict[str, int | None]:
        return {node.op: node.partition for node in made.manifest.nodes if node.op == "aten::relu"}

    assert on(builds.first) == {"aten::relu": 0}
    assert on(builds.cost) == {"aten::relu": None}
    assert (len(builds.first.manifest.partitions), len(builds.cost.manifest.partitions)) == (2, 1)
    before, after = (placement.costs(made.manifest, made.pte) for made in (builds.first, builds.cost))
    assert [island.gain is not None and island.gain < 0 for island in before.islands] == [True, False]
    assert all(island.gain is not None and island.gain > 0 for island in after.islands)
    assert after.total < before.total
    (why,) = [node.why for node in builds.cost.manifest.nodes if node.op == "aten::relu"]
    island = before.islands[0]
    assert island.turns is not None
    assert island.copies is not None
    assert why == (
        f"kept on the CPU by `--partition cost`: its share of the NPU's work takes {island.npu:,} cycles there "
        f"(simulated) and {island.turns + island.copies:,} for copies of inputs and outputs, {island.cpu:,} on the "
        "CPU (estimated)"
    )


@pytest.mark.full
def test_outputs_are_those_of_the_quantized_model_either_way(builds: Builds) -> None:
    for made in (builds.first, builds.cost):
        found = compare.compare(directory(made), api.seeded_inputs(made.manifest, 3))
        assert [part.mismatches for part in found.partitions] == [0] * len(made.manifest.partitions)
        assert [(output.elements, output.unlike) for output in found.outputs] == [(3 * 8 * 81, 0)]
        assert found.outputs[0].largest <= 2  # steps: two means on the CPU, each with ties


def test_explain_reads_the_build_and_points_out_the_island(builds: Builds) -> None:
    lines = list(explanation.explain(directory(builds.first)).lines())
    line = Curved.forward.__code__.co_firstlineno + 2
    assert f"npu 0  aten::relu  {Path(__file__).name}:{line}: x = torch.relu(x)" in lines
    (island,) = (number for number, text in enumerate(lines) if "`--partition cost` moves it to the CPU" in text)
    assert lines[island - 1].startswith("npu 0: ")


def test_every_node_is_in_one_place_and_counted(builds: Builds) -> None:
    manifest = builds.first.manifest
    nodes = {node.name: node for node in manifest.nodes}
    for index, partition in enumerate(manifest.partitions):
        assert {nodes[name].partition for op in partition.ops if op.op != TABLE for name in op.nodes} == {index}
    on_cpu = {node.name for node in manifest.nodes if node.partition is None}
    assert {op.computes for op in manifest.cpu_ops if op.computes} == on_cpu
    assert all((node.why == "") is (node.partition is not None) for node in manifest.nodes)
    convolutions = [node for node in manifest.nodes if node.work is Work.CONVOLUTION]
    assert [(node.elements, node.terms) for node in convolutions] == [(8 * 81, 8 * 81 * 27)]
    (curve,) = [node for node in manifest.nodes if node.op == "aten::relu"]
    assert (curve.work, curve.elements, curve.nbytes) == (Work.TABLE, 243, 243 + 243)


class Refused(nn.Module):
    """Operators that the NPU does not take, for different reasons."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cumsum(self.first(x), 3)
        x = functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True)[:, :, :8, :8]
        return functional.relu6(self.last(x.flatten(1)))


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> api.Build:
    """Inputs in channels-last memory, an operator that is not to be delegated, and int8 inputs and outputs."""
    options = api.BuildOptions(operators_not_to_delegate=("aten::addmm",), remove_quant_io_ops=True)
    return build(Refused(), tmp_path_factory.mktemp("together"), options, memory_format=torch.channels_last)


def test_each_node_on_the_cpu_has_the_reason_of_the_check_that_refused_it(together: api.Build) -> None:
    reasons = {node.op: node.why for node in together.manifest.nodes if node.partition is None}
    pool = "not count_include_pad and explicit_padding is not None or divisor_override is not None or ceil_mode"
    values = "ceil_mode is True, divisor_override is None, count_include_pad is True"
    assert reasons == {
        "aten::cumsum": "ExecuTorch's NXP backend has no converter for `aten::cumsum`",
        "aten::avg_pool2d": (
            f"ExecuTorch's NXP backend does not take it: `{pool}` with {values} (avg_pool_2d_converter.py:52)"
        ),
        "aten::linear": "kept on the CPU by `--operators-not-to-delegate aten_addmm`",
    }


def test_options_go_together_with_inputs_in_channels_last_memory(together: api.Build) -> None:
    manifest = together.manifest
    assert [(tensor.dtype, tensor.shape) for tensor in (*manifest.inputs, *manifest.outputs)] == [
        ("int8", (1, 3, 16, 16)),
        ("int8", (1, 5)),
    ]
    operators = Counter(op.op for op in manifest.cpu_ops)
    assert operators["cortex_m::quantized_linear"] == 1
    assert not any("quantize_per" in name for name in operators)
    assert len(manifest.partitions) >= 1
    found = compare.compare(directory(together), api.seeded_inputs(manifest, 3))
    assert found.failures() == ()


def test_a_profile_has_the_reasons(builds: Builds) -> None:
    made = profiling.read(directory(builds.first))
    events = simulated.stream((run.program, run.timeline) for run, _ in made.partitions)
    reasons = [op.why for op in profiling.profile(made, "sim", events).cpu_ops]
    assert reasons == [op.why for op in builds.first.manifest.cpu_ops]
    assert all(reasons)


def test_a_model_is_trained_once_when_it_is_known_what_runs_where(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[bool, bool, set[str]]] = []

    def built(*_: object, **given: Any) -> BuildResult:
        asked.append((given["options"].use_qat, given["train"] is not None, set(given["keep"])))
        made = builds.cost if given["keep"] else builds.first
        x, y = np.zeros((1, 3, 16, 16), np.float32), np.zeros((1, 8, 9, 9), np.float32)
        kept = samples.Stored(((x,),), ((y,),))
        return BuildResult(made.manifest, {manifests.PROGRAM: made.pte}, (), kept, Curved(), tuple)

    def train(_: nn.Module) -> Iterator[float]:
        yield 0.0

    monkeypatch.setattr("deuteron.frontend.build.build", built)
    monkeypatch.setattr("deuteron.views.compare.quality.need_like_pytorch", lambda *_: None)  # the outputs are zeros
    options = api.BuildOptions(partition=Partitioning.COST, use_qat=True)
    api.build(Curved(), (torch.zeros(1, 3, 16, 16),), target=TARGET, train=train, options=options)
    assert asked == [(False, False, set()), (False, False, {"relu"}), (True, True, {"relu"})]
