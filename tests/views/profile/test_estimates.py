"""Estimates of what a board measures on its NPU: simulated times, taken as measured ones, are their own estimates."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests import store

from deuteron.views.events import record, tables
from deuteron.views.events.events import Measure, SpanKind
from deuteron.views.events.record import Profile
from deuteron.views.profile import subject
from deuteron.views.profile.calibrate import measurements
from deuteron.views.profile.estimates import with_estimates
from deuteron.views.profile.run import ProfileRequest, profile


def measured(*, has_npu: bool) -> Profile:
    build = subject.read(store.model("digits", target="imxrt700"))
    simulated = profile(build, ProfileRequest("sim"))
    taken = replace(simulated, on="board", stream=replace(simulated.stream, measure=Measure.MEASURED), basis=())
    return with_estimates(build, taken, 1_000_000, has_npu=has_npu)


def test_kernels_have_the_estimates_of_the_model_of_the_npu() -> None:
    found = measured(has_npu=True)
    rows = [row for row in tables.kernels(found) if row.name.startswith("npu ")]
    assert len(rows) == sum(len(partition.kernels) for partition in found.partitions)
    assert [row.estimate for row in rows] == [row.cycles for row in rows]  # ticks are cycles of the NPU
    assert all(row.ratio == row.own / row.estimate for row in rows)
    assert found.basis[0].startswith("estimates of the NPU: NPU at ")
    assert {each.index for each in found.estimates if each.partition == 0} == {-1, *range(len(rows))}


def test_a_core_in_the_npus_place_is_not_compared_with_it() -> None:
    assert measured(has_npu=False).estimates == ()


def test_a_partition_is_measured_as_a_whole(tmp_path: Path) -> None:
    found = measured(has_npu=True)
    (tmp_path / record.NAME).write_text(record.FILE.to_json(found))
    (one,) = measurements(tmp_path)
    assert (one.processor, one.board, one.target) == ("npu", "board", "imxrt700")
    assert one.ratio == pytest.approx(1)
    delegate = sum(event.ticks for event in found.stream.events if event.kind is SpanKind.DELEGATE)
    assert one.measured_ns == round(delegate * 1e9 / found.stream.clock.hz)
