"""Networks of operators that Deuteron adds to the Cortex-M backend: boards give the bits of ExecuTorch's runtime."""

from pathlib import Path

import pytest
from tests import full, store
from tests.frontend.custom_op_networks import NETWORKS

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.board import boards, firmware_record, qemu

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", full.first(NETWORKS, 1))
def test_a_board_computes_what_executorchs_runtime_does(name: str) -> None:
    build = store.network(NETWORKS[name], name, target="cortex-m33")
    assert Work.UNKNOWN not in {node.work for node in api.read_manifest(build).nodes}
    board = boards.load("an505")
    data = api.seeded_inputs(api.read_manifest(build), 2)
    firmware: Path = store.firmware(build, board)
    report = qemu.run(firmware, firmware_record.read(firmware), board, data, time_out=300)
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted
