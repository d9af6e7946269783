"""The bench of prefetch overlap, for the rate at which compute and transfer take about as long."""

from dataclasses import replace
from pathlib import Path

import pytest
from benches import prefetch_overlap

from deuteron import api
from deuteron.board import image
from deuteron.board.toolchain import Toolchain
from deuteron.operators.transfers import Fetch, Wait

pytestmark = pytest.mark.slow


@pytest.mark.full
def test_a_planned_build_takes_the_larger_of_compute_and_transfer(tmp_path: Path) -> None:
    build, rate = tmp_path / "build", prefetch_overlap.RATES[1]
    prefetch_overlap.build(build, rate)
    result = prefetch_overlap.measure(build, rate, Toolchain.find(image.OBJECTS))
    assert result.problems() == []
    assert 0.5 < result.compute / result.transfer < 2
    assert result.blocking > 1.5 * result.planned
    (outputs,) = api.run_each(build, api.seeded_inputs(api.read_manifest(build), 1))
    assert len(set(outputs[0].ravel().tolist())) > 100


def test_what_is_not_as_it_must_be_is_told() -> None:
    result = prefetch_overlap.Result(160_000_000, 1000, 900, 1060, 1800, identical=False)
    assert result.problems() == [
        "160 MB/s: the outputs are not the host's",
        "160 MB/s: the planned run is off by +6.0%",
        "160 MB/s: the blocking run is off by -5.3%",
    ]


def test_a_blocking_run_fetches_where_the_planned_one_waits() -> None:
    first, second, third = (Fetch(channel, 16 * channel, 0, 16) for channel in (0, 1, 0))
    planned = {0: (first, second, Wait(0)), 1: (third,), 3: (Wait(1), Wait(0))}
    assert prefetch_overlap.blocking(planned) == {0: (first, Wait(0)), 3: (second, Wait(1), third, Wait(0))}
    kept = replace(second, resident=True)
    assert prefetch_overlap.blocking({**planned, 0: (first, kept, Wait(0))}) == {
        0: (kept, Wait(1), first, Wait(0)),
        3: (third, Wait(0)),
    }
