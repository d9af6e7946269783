"""Estimated instructions of operators on the CPU, compared with an emulated board's count for a whole model."""

from pathlib import Path

import pytest

from deuteron import api
from deuteron.board import boards, image, qemu
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.views import offload_costs as placement

pytestmark = pytest.mark.slow


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
