"""Packets of boards: what they become, and what is wrong with damaged ones."""

import pytest
from tests.board import programs
from tests.profile import made

from deuteron.board.translate import translate
from deuteron.errors import FormatError
from deuteron.profile import board
from deuteron.profile.board import Step
from deuteron.profile.events import Kind, Measure, Stream
from deuteron.profile.gaps import attributed
from deuteron.profile.program import Instructions
from deuteron.profiling.board import steps_of
from deuteron.runtime.program import TensorList

STEPS = (Step(Kind.OPERATOR, "quantized_decomposed::quantize_per_tensor.out", index=0), Step(Kind.DELEGATE, "npu 0", 0))
AGAIN = "\n\nhint: run the image again, and copy everything that it sends"


def stream(data: bytes) -> Stream:
    return board.stream(board.read(data, made.SHA256, "f"), STEPS, made.INSTRUCTIONS, "f")


def refusal(data: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        stream(data)
    return str(caught.value)


GOOD = made.packet(made.run_records(0), 0, 1000)


def test_events_of_a_run():
    found = stream(GOOD)
    assert (found.measure, found.clock.hz, found.clock.tick, found.lost) == (Measure.MEASURED, made.HZ, "tick", 0)
    kernels = [(e.name, e.index, e.start, e.stop) for e in found.events if e.kind is Kind.KERNEL]
    assert kernels == [("conv2d_s8", 0, 130, 530), ("max_pool_s8", 1, 605, 905)]
    transfers = [(e.kind, e.nbytes) for e in found.events if e.kind in (Kind.FETCH, Kind.WAIT)]
    assert transfers == [(Kind.FETCH, 64), (Kind.WAIT, 0)]
    assert attributed(found.events) == 1
    gaps = [(e.start, e.stop) for e in found.events if e.kind is Kind.UNATTRIBUTED]
    assert gaps == [(0, 5), (960, 965), (990, 1000)]


@pytest.mark.parametrize("wrap_at", [1, 7, 300, 540, 700, 915, 999])
def test_a_clock_that_wraps_changes_nothing(wrap_at: int):
    start = (1 << 32) - wrap_at
    wrapped = stream(made.packet(made.run_records(start), start, (start + 1000) % (1 << 32)))
    assert wrapped.events == stream(GOOD).events


def test_a_partition_may_take_longer_than_the_clock_needs_to_wrap():
    far = 3 << 30
    records = [(3, 0, 10, far), (3, 1, far, far + 1), (3, 2, far + 1, far + 2), (3, 3, far + 2, 2 * far)]
    end = 2 * far + 8
    records += [(4, 4, 8, end), (1, 1, 4, end + 2)]
    found = stream(made.packet([(1, 0, 1, 2), *records], 0, (end + 4) % (1 << 32)))
    delegate = next(e for e in found.events if e.kind is Kind.DELEGATE)
    assert (delegate.start, delegate.stop) == (4, end + 2)
    assert max(e.stop for e in found.events if e.kind is Kind.RUN) == end + 4


def test_an_operator_may_take_several_steps_or_none():
    make = programs.Maker()
    x, a, b, y = make.tensor((4, 4)), make.tensor((4, 1)), make.tensor((4, 3)), make.tensor((4, 4), "float32")
    empty = [make.tensor((4, 0)) for _ in range(3)]
    parts = make.value(TensorList((a, b)))
    make.call("aten::split_with_sizes_copy.out", x, make.value((1, 3)), make.value(1), parts, parts)
    make.call("aten::cat.out", make.value(TensorList(tuple(empty[:2]))), make.value(1), empty[2], empty[2])
    make.dequantize(x, y)
    names = ("aten::split_with_sizes_copy.out", "aten::cat.out", programs.DEQUANTIZE)
    program = Instructions(made.SHA256, {}, {number: (name, number) for number, name in enumerate(names)}, ())
    steps = steps_of(translate(make.program((x,), (a, b, empty[2], y)), name="split"), program)
    assert steps == (*(Step(Kind.OPERATOR, names[0], index=0),) * 2, Step(Kind.OPERATOR, names[2], index=2))


def test_transposes_are_the_partitions_or_operators_of_the_model():
    bundle = translate(programs.channels_first(), name="crossed")
    kinds = [step.kind for step in steps_of(bundle, Instructions(made.SHA256, {0: 0}, {}, ()))]
    assert kinds == [Kind.TRANSPOSE, Kind.TRANSPOSE, Kind.DELEGATE, Kind.TRANSPOSE, Kind.TRANSPOSE]


def test_runs_follow_each_other():
    found = stream(GOOD + made.packet(made.run_records(5000), 5000, 6000, lost=2))
    assert (found.runs, found.lost) == (2, 2)
    first, second = ([(e.kind, e.start, e.stop) for e in found.events if e.run == run] for run in (0, 1))
    assert first == second


def test_time_beside_lost_events_is_not_attributed():
    records = made.run_records(0)
    found = stream(made.packet([*records[:4], *records[6:]], 0, 1000, lost=2))
    assert found.lost == 2
    assert 0 < attributed(found.events) < 0.999


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", f"f: the file is empty: no run has sent its events{AGAIN}"),
        (GOOD[:-1], f"f: the file is truncated: packet 0 takes 232 bytes, 231 are left{AGAIN}"),
        (GOOD + GOOD[:40], f"f: the file is truncated: packet 1 takes 72 bytes, 40 are left{AGAIN}"),
        (GOOD + b"x" * 80, f"f: packet 1 starts with b'xxxx', not with b'DTNP'{AGAIN}"),
        (
            made.packet(made.run_records(0), 0, 1000, version=2),
            "f: packet 0 has version 2, this version of Deuteron reads version 1\n\nhint: build the firmware with this "
            "version of Deuteron, or read it with the one that built it",
        ),
        (
            made.packet(made.run_records(0), 0, 1000, sha256="cd" * 32),
            "f: the events are of another build: the image ran the program with SHA-256 cdcdcdcdcdcd, this build's is "
            "abababababab\n\nhint: give the build that the firmware was made from",
        ),
        (
            made.packet([], 0, 1000, lost=9),
            "f: run 0 has no events, 9 are lost\n\nhint: give the executor memory for events before the run: "
            "`executor.events`, `executor.event_capacity`",
        ),
        (
            made.packet(made.run_records(0), 0, 1000, hz=0),
            "f: packet 0 says 0 ticks per second\n\nhint: tell `dtn_profile_send` the rate",
        ),
        (
            made.packet([(1, 2, 0, 5)], 0, 1000),
            "f: an event is about step 2, the program has 2\n\nhint: give the build that the firmware was made from",
        ),
        (
            made.packet([(3, 4, 0, 5), (1, 1, 0, 6)], 0, 1000),
            "f: an event is about command 4, partition 0 has 4\n\nhint: give the build that the firmware was made from",
        ),
        (
            made.packet([(9, 0, 0, 5)], 0, 1000),
            "f: an event has the unknown kind 9\n\nhint: give the build that the firmware was made from",
        ),
        (
            GOOD + made.packet(made.run_records(0), 0, 1000, hz=1),
            "f: the runs have clocks of different rates\n\nhint: profile them one by one",
        ),
    ],
)
def test_what_is_wrong_is_said(data: bytes, text: str):
    assert refusal(data) == text


def test_a_damaged_packet_is_refused():
    damaged = bytearray(GOOD)
    damaged[100] ^= 1
    said = refusal(bytes(damaged))
    assert said.startswith("f: packet 0 is damaged: its checksum is 0x")
    assert said.endswith(AGAIN)
