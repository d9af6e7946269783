"""Estimated instructions of operators on the CPU, compared with an emulated board's count for a whole model."""

from pathlib import Path

import pytest
import torch
from torch import nn

from deuteron import api
from deuteron.arch import cores
from deuteron.board import boards, image, qemu
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.views import offload_costs as placement

pytestmark = pytest.mark.slow


class Convolutions(nn.Sequential):
    """Layers of 3x3 on maps of two sizes."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(
            nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 16, 3, padding=1), nn.Flatten(), nn.Linear(6400, 4),
        )  # fmt: skip


def test_reports_count_weights_that_a_run_transforms(tmp_path: Path) -> None:
    """Explain, plan and profile agree, and are near the count of an emulated board."""
    build, batches = tmp_path / "build", [torch.randn(1, 4, 40, 40) for _ in range(2)]
    api.build(Convolutions().eval(), batches[0], target="cortex-m33", calibration=batches, output=build)
    plan = api.plan(build)
    transformed = plan.to_json()["transformed_weights"]
    assert len(transformed) > 1
    assert set(transformed[0]) == {"instruction", "channels", "keeps_tiles", "scratch", "instructions"}
    (line,) = (line for line in plan.lines() if line.startswith("Winograd's algorithm"))
    before, after = (sum(one["instructions"][i] for one in transformed) for i in range(2))
    assert f"{before:,} -> {after:,} instructions" in line
    explained = api.explain(build)
    assert line in explained.lines()
    assert explained.costs.total == pytest.approx(plan.to_json()["instructions"], rel=0.05)
    profiled = api.profile(build, on="an505", output=tmp_path / "profile").profile
    estimates = {estimate.ticks for estimate in profiled.estimates}
    call = cores.load("cortex-m33").call.value
    assert estimates >= {one["instructions"][1] + call for one in transformed}


@pytest.mark.full
def test_the_estimate_of_a_model_is_near_its_count(tmp_path: Path) -> None:
    build, board = tmp_path / "build", boards.load("an505")
    made = api.build_model("refused_middle", target="cortex-m33", output=build)
    firmware = image.build(build, board, FirmwareOptions(), Toolchain.find(image.OBJECTS))
    image.write(firmware, tmp_path / "image", force=False)
    (run,) = qemu.run(tmp_path / "image", firmware.record, board, api.seeded_inputs(made.manifest, 1)).runs
    counted = sum(event.instructions for event in run.events if event.kind is qemu.EventKind.STEP)
    estimate = placement.costs(made.manifest, made.pte)
    assert None not in estimate.nodes.values()
    assert estimate.total == pytest.approx(counted, rel=0.15)
