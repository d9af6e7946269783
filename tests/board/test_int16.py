"""Networks with activations of 16 bits: boards give the bits of ExecuTorch's runtime."""

from pathlib import Path

import pytest
from tests import full, store
from tests.frontend.int16_networks import NETWORKS

from deuteron import api
from deuteron.board import boards, firmware_record, qemu

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "target", "board"), full.first([
    ("wide", "cortex-m55", "an547"), ("mixed", "cortex-m33", "an505"), ("wide", "cortex-m33", "an505"),
    ("chosen", "cortex-m55", "an547"),
], 1))  # fmt: skip
@pytest.mark.full
def test_a_board_computes_what_executorchs_runtime_does(name: str, target: str, board: str) -> None:
    build = store.network(NETWORKS[name], name, target=target)
    assert api.read_manifest(build).options.activations is api.Activations.INT16
    data = api.seeded_inputs(api.read_manifest(build), 2)
    firmware: Path = store.firmware(build, boards.load(board))
    report = qemu.run(firmware, firmware_record.read(firmware), boards.load(board), data, time_out=300)
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted
