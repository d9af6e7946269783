"""Models of NPU and Cortex-M: the NPU computes what was quantized, boards give the bits of ExecuTorch's runtime."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests import store

from deuteron import api
from deuteron.arch import cores, targets
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.views.compare.pytorch import compare

pytestmark = pytest.mark.slow

CASES = [(example.name, "imxrt700cm") for example in api.COMBINED]
CASES += [(name, "cortex-m33") for name in ("encoder_decoder", "attention")]
CASES += [(name, "cortex-m55") for name in ("digits", "ds_cnn")]
"""On the NPU and the CPU, and models that the NPU would have in part or as a whole on the CPU alone."""


@pytest.mark.full
@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_npu_agrees_and_boards_give_the_bits_of_executorchs_runtime(name: str, target: str, tmp_path: Path) -> None:
    build = store.model(name, target=target)
    data = api.seeded_inputs(api.read_manifest(build), 2)
    # Steps of the CPU's operators grow on their way to the outputs, without a bound that holds for all models.
    assert replace(compare(build, data), outputs=()).failures() == ()
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    inner = cores.load(targets.load(target).cpu.name).inner
    fitting = [b for b in map(boards.load, boards.names()) if cores.load(b.cpu).inner.has(inner)]
    for board in fitting:
        made = image.build(build, board, FirmwareOptions(), Toolchain.find(image.OBJECTS))
        image.write(made, tmp_path / board.name, force=False)
        report = qemu.run(tmp_path / board.name, firmware_record.read(tmp_path / board.name), board, data, time_out=300)
        assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted, board.name
        assert all(0 < run.stack <= made.record.stack.bytes for run in report.runs)
