"""Vela's estimates as a timeline: a run is as long as all of its steps, whatever commands they are of."""

import pytest

from deuteron.arch.engine import Engine
from deuteron.npu.ethosu.stream import FeatureMap, Operation, Span
from deuteron.npu.ethosu.timeline import timeline
from deuteron.npu.schedule import Schedule, Step
from deuteron.npu.timeline import Activity, Track

ENGINE = Engine(500_000_000, 1, 128, 0, 0, 0, 0, 0, 0)
MAP = FeatureMap("scratch", 0, (4, 4, 8), "int8", in_bricks=False, zero_point=0)


def copy(offset: int, nbytes: int) -> Operation:
    """A copy from the weights to scratch memory."""
    return Operation(offset, "copy", source=Span("weights", 0, nbytes), target=Span("scratch", 256, nbytes))


def kernel(offset: int) -> Operation:
    """An operation that computes."""
    return Operation(offset, "add", (MAP, MAP), MAP)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_step_of_copies_alone_takes_its_cycles(at: int) -> None:
    """First, between others, and last; the NPU waits, and what comes after begins later."""
    kinds = ["add", "add"]
    kinds.insert(at, "copies")
    operations: list[Operation] = []
    steps: list[Step] = []
    for kind in kinds:
        first = len(operations)
        operations += [copy(first, 30), copy(first + 1, 70)] if kind == "copies" else [kernel(first)]
        cycles, transfer = (50, 0) if kind == "copies" else (100, 10)
        steps.append(
            Step(tuple(range(first, len(operations))), cycles, 0 if kind == "copies" else 90, 0, transfer, 0, 0)
        )
    run = timeline(operations, Schedule("Vela", "a system", 500_000_000, tuple(steps)), ENGINE)
    assert run.cycles == sum(step.cycles for step in steps) == 250
    busy = [event for event in run.events if event.track is Track.NPU]
    assert [event.start for event in busy] == [0, *(event.stop for event in busy[:-1])]
    transfers = [(e.start, e.stop) for e in run.events if e.activity is Activity.TRANSFER]
    assert transfers == [(100 * at, 100 * at + 15), (100 * at + 15, 100 * at + 50)]
    assert sum(e.cycles for e in busy if e.command in steps[at].commands) == 50
