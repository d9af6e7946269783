"""A slice of the bench of ordinary networks, and what it calls a problem."""

from dataclasses import replace
from pathlib import Path

import pytest
from benches import networks_on_targets
from tests import full
from torch import nn

from deuteron.errors import UnsupportedError

ROW = networks_on_targets.Row("n", "cortex-m33", operators=3, on_board=True, sqnr=30.0)


def test_a_row_is_as_it_must_be_or_says_what_is_not() -> None:
    assert ROW.problem == ""
    assert replace(ROW, refused="`aten::x` has no int8 kernel").problem == "fails: `aten::x` has no int8 kernel"
    bad = replace(ROW, floats=("aten::add.out", "aten::mul.out"), differs=2, on_board=False)
    assert bad.problem == (
        "computes aten::add.out, aten::mul.out in float and gives 2 numbers unlike its reference and gives other bits "
        "on the board than on the host"
    )


def test_there_are_enough_networks_for_all_targets_without_a_controller() -> None:
    assert len(networks_on_targets.NETWORKS) == len(set(networks_on_targets.NAMES)) >= 24
    assert set(networks_on_targets.BOARDS) == {"cortex-m33", "cortex-m55", "imxrt700cm"}


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (
            UnsupportedError("`aten::x` has no int8 kernel", hint="write y"),
            "`aten::x` has no int8 kernel\n\nhint: write y",
        ),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_whatever_a_network_fails_with_is_its_row_and_is_kept(error: Exception, refused: str, tmp_path: Path) -> None:
    def fail() -> nn.Module:
        raise error

    network = networks_on_targets.Network("n", fail, ((1, 2),))
    row = networks_on_targets.kept(network, "cortex-m33", tmp_path)
    assert row == networks_on_targets.Row("n", "cortex-m33", refused=refused)
    assert networks_on_targets.kept(network, "cortex-m33", tmp_path) == row
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    full.first([("rms_norm", "imxrt700cm"), ("tcn", "cortex-m55"), ("embedding_mean", "cortex-m33")], 1),
)
@pytest.mark.full
def test_a_network_is_int8_and_runs_on_host_and_board(name: str, target: str) -> None:
    network = networks_on_targets.NETWORKS[networks_on_targets.NAMES.index(name)]
    row = networks_on_targets.row(network, target)
    assert row.problem == ""
    assert row.sqnr > 15
