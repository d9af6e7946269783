"""Packets of boards: what they become, and what is wrong with damaged ones."""

import subprocess
from pathlib import Path

import pytest
from tests.board import programs
from tests.views.profile import example_profile

from deuteron.board.library import FIRMWARE
from deuteron.board.translate import translate
from deuteron.errors import FormatError
from deuteron.runtime.program import TensorList
from deuteron.views.events import record, text
from deuteron.views.events.events import Measure, NpuCount, NpuCycles, SpanKind, Stream
from deuteron.views.events.gaps import attributed
from deuteron.views.events.instruction_map import Instructions
from deuteron.views.events.sources import packets as board
from deuteron.views.events.sources.packets import Step
from deuteron.views.profile.on_board import steps_of
from deuteron.views.report.data import page_data

STEPS = (
    Step(SpanKind.OPERATOR, "quantized_decomposed::quantize_per_tensor.out", index=0),
    Step(SpanKind.DELEGATE, "npu 0", 0),
)
AGAIN = "\n\nhint: run the image again, and copy everything that it sends"


def stream(data: bytes) -> Stream:
    return board.stream(board.read(data, example_profile.SHA256, "f").packets, STEPS, example_profile.INSTRUCTIONS, "f")


def refusal(data: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        stream(data)
    return str(caught.value)


GOOD = example_profile.packet(example_profile.run_records(0), 0, 1000)


def test_events_of_a_run():
    found = stream(GOOD)
    assert (found.measure, found.clock.hz, found.clock.tick, found.lost) == (
        Measure.MEASURED,
        example_profile.HZ,
        "tick",
        0,
    )
    kernels = [(e.name, e.index, e.start, e.stop) for e in found.events if e.kind is SpanKind.KERNEL]
    assert kernels == [("conv2d_s8", 0, 130, 530), ("max_pool_s8", 1, 605, 905)]
    transfers = [(e.kind, e.nbytes) for e in found.events if e.kind in (SpanKind.FETCH, SpanKind.WAIT)]
    assert transfers == [(SpanKind.FETCH, 64), (SpanKind.WAIT, 0)]
    assert attributed(found.events) == 1
    driver = [(e.name, e.index, e.ticks) for e in found.events if e.kind is SpanKind.DISPATCH and e.partition == 0]
    assert driver == [
        ("executor", -1, 15), ("driver", 0, 5), ("driver", -1, 5), ("driver", -1, 5), ("driver", 1, 5),
        ("driver", -1, 5), ("executor", -1, 10),
    ]  # fmt: skip
    gaps = [(e.start, e.stop) for e in found.events if e.kind is SpanKind.UNATTRIBUTED]
    assert gaps == [(0, 5), (960, 965), (990, 1000)]


@pytest.mark.parametrize("wrap_at", [1, 7, 300, 540, 700, 915, 999])
def test_a_clock_that_wraps_changes_nothing(wrap_at: int):
    start = (1 << 32) - wrap_at
    wrapped = stream(example_profile.packet(example_profile.run_records(start), start, (start + 1000) % (1 << 32)))
    assert wrapped.events == stream(GOOD).events


def test_a_partition_may_take_longer_than_the_clock_needs_to_wrap():
    far = 3 << 30
    records = [(3, 0, 10, far), (3, 1, far, far + 1), (3, 2, far + 1, far + 2), (3, 3, far + 2, 2 * far)]
    end = 2 * far + 8
    records += [(4, 4, 8, end), (1, 1, 4, end + 2)]
    found = stream(example_profile.packet([(1, 0, 1, 2), *records], 0, (end + 4) % (1 << 32)))
    delegate = next(e for e in found.events if e.kind is SpanKind.DELEGATE)
    assert (delegate.start, delegate.stop) == (4, end + 2)
    assert max(e.stop for e in found.events if e.kind is SpanKind.RUN) == end + 4


def test_an_operator_may_take_several_steps_or_none():
    make = programs.Maker()
    x, a, b, y = make.tensor((4, 4)), make.tensor((4, 1)), make.tensor((4, 3)), make.tensor((4, 4), "float32")
    empty = [make.tensor((4, 0)) for _ in range(3)]
    parts = make.value(TensorList((a, b)))
    make.call("aten::split_with_sizes_copy.out", x, make.value((1, 3)), make.value(1), parts, parts)
    make.call("aten::cat.out", make.value(TensorList(tuple(empty[:2]))), make.value(1), empty[2], empty[2])
    make.dequantize(x, y)
    names = ("aten::split_with_sizes_copy.out", "aten::cat.out", programs.DEQUANTIZE)
    program = Instructions(
        example_profile.SHA256, {}, {number: (name, number) for number, name in enumerate(names)}, ()
    )
    steps = steps_of(translate(make.program((x,), (a, b, empty[2], y)), name="split"), program)
    assert steps == (*(Step(SpanKind.OPERATOR, names[0], index=0),) * 2, Step(SpanKind.OPERATOR, names[2], index=2))


def test_transposes_are_the_partitions_or_operators_of_the_model():
    bundle = translate(programs.channels_first(), name="crossed")
    kinds = [step.kind for step in steps_of(bundle, Instructions(example_profile.SHA256, {0: 0}, {}, ()))]
    assert kinds == [SpanKind.TRANSPOSE, SpanKind.TRANSPOSE, SpanKind.DELEGATE, SpanKind.TRANSPOSE, SpanKind.TRANSPOSE]


def test_runs_follow_each_other():
    found = stream(GOOD + example_profile.packet(example_profile.run_records(5000), 5000, 6000, lost=2))
    assert (found.runs, found.lost) == (2, 2)
    first, second = ([(e.kind, e.start, e.stop) for e in found.events if e.run == run] for run in (0, 1))
    assert first == second


def test_time_beside_lost_events_is_not_attributed():
    records = example_profile.run_records(0)
    found = stream(example_profile.packet([*records[:4], *records[6:]], 0, 1000, lost=2))
    assert found.lost == 2
    share = attributed(found.events)
    assert share is not None
    assert 0 < share < 0.999


def test_commands_of_a_partition_whose_own_event_is_lost_are_its():
    found = stream(example_profile.packet(example_profile.run_records(0)[:4], 0, 1000, lost=6))
    inside = [(e.kind, e.start, e.stop, e.index) for e in found.events if e.partition == 0]
    assert inside == [
        (SpanKind.DELEGATE, 130, 1000, -1),
        (SpanKind.KERNEL, 130, 530, 0),
        (SpanKind.UNATTRIBUTED, 530, 535, -1),
        (SpanKind.FETCH, 535, 545, 1),
        (SpanKind.UNATTRIBUTED, 545, 1000, -1),
    ]
    assert attributed(found.events) == 1 - 460 / 870


def test_without_a_partition_nothing_is_attributed_to_it():
    found = stream(example_profile.packet(example_profile.run_records(0)[:2], 0, 1000, lost=8))
    assert attributed(found.events) is None
    lines = tuple(text.summary(example_profile.profile(found)))
    assert lines[1:] == ("8 events are lost: the recorder's memory was full; their time is not attributed",)


def test_the_npus_own_counters_are_in_no_table():
    counter = 7 | 0x82 << 8
    records = [*example_profile.run_records(0), (6, 1, (1 << 32) - 100, 1400), (counter, 1, (1 << 32) - 1, 4999)]
    found = stream(example_profile.packet(records, 0, 1000))
    assert found.npu_cycles == (NpuCycles(0, 0, 1500),)
    assert found.npu_counts == (NpuCount(0, 0, 0x82, 5000),)
    assert found.events == stream(example_profile.packet(example_profile.run_records(0), 0, 1000)).events
    profile = example_profile.profile(found)
    assert "npu 0: 1,500 cycles by the NPU's own counter" in text.summary(profile)
    assert "npu 0: 5,000 of event 0x82 by the NPU's own counter" in text.summary(profile)
    assert record.FILE.from_json(record.FILE.to_json(profile), record.Profile) == profile
    assert page_data(profile)["basis"] == [*text.npu_counters(profile)]
    plain = text.to_json(profile, (), "kernel")
    assert plain["npu_cycles"] == [{"partition": 0, "cycles": 1500}]
    assert plain["npu_counts"] == [{"partition": 0, "event": 0x82, "count": 5000}]
    assert refusal(example_profile.packet([*example_profile.run_records(0), (6, 0, 1, 2)], 0, 1000)) == (
        "f: the NPU's cycles are of step 0, which is not a partition\n\n"
        "hint: give the build that the firmware was made from"
    )
    assert refusal(example_profile.packet([*example_profile.run_records(0), (counter, 9, 1, 2)], 0, 1000)) == (
        "f: the NPU's counters are of step 9, which is not a partition\n\n"
        "hint: give the build that the firmware was made from"
    )
    assert "run 0 has no events" in refusal(example_profile.packet([(6, 1, 1, 2), (counter, 1, 1, 2)], 0, 1000))


def test_commands_after_the_last_partition_are_refused():
    last = [*example_profile.run_records(0), (3, 0, 991, 992)]
    assert refusal(example_profile.packet(last, 0, 1000, lost=1)) == (
        "f: commands run after step 1, the program has no partition there\n\n"
        "hint: give the build that the firmware was made from"
    )


def test_what_did_not_arrive_is_told():
    def run(number: int) -> bytes:
        return example_profile.packet(example_profile.run_records(0), 0, 1000, run=number)

    sent = run(1) + run(3) + run(6) + run(0) + run(1)[:40]
    received = board.read(sent, example_profile.SHA256, "f")
    assert [packet.number for packet in received.packets] == [1, 3, 6, 0]
    assert received.warnings == (
        "1 run is missing before run 1",
        "1 run is missing before run 3",
        "2 runs are missing before run 6",
        "run 6 is followed by run 0: the board restarted between them",
        "the file is truncated: packet 4 takes 72 bytes, 40 are left; it is left out",
    )


def test_the_template_keeps_whole_packets(tmp_path: Path):
    include = ("-I", str(FIRMWARE / "include"))
    files = (FIRMWARE / name for name in ("src/profile/profile.c", "port/template/events.c", "src/driver/crc32.c"))
    program = tmp_path / "kept"
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-DDTN_PROFILING=1", "-fsanitize=address,undefined")
    subprocess.run(["cc", *flags, *include, *files, Path(__file__).parent / "events_kept.c", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, check=False)
    # 16 KiB have room for 15 packets of 72 + 60 * 16 bytes
    assert (done.returncode, done.stderr) == (0, b"15 sent, 9 refused\n")
    received = board.read(done.stdout, "00" * 32, "f")
    assert ([packet.number for packet in received.packets], received.warnings) == (list(range(15)), ())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", f"f: the file is empty: no run sent events{AGAIN}"),
        (GOOD[:-1], f"f: the file is truncated: packet 0 takes 232 bytes, 231 are left{AGAIN}"),
        (GOOD + b"x" * 80, f"f: packet 1 starts with b'xxxx', not with b'DTNP'{AGAIN}"),
        (
            example_profile.packet(example_profile.run_records(0), 0, 1000, version=2),
            "f: packet 0 has version 2, this version of Deuteron reads version 1\n\nhint: build the firmware with this "
            "version of Deuteron, or read it with the one that built it",
        ),
        (
            example_profile.packet(example_profile.run_records(0), 0, 1000, sha256="cd" * 32),
            "f: the events are of another build: the image ran the program with SHA-256 cdcdcdcdcdcd, this build has "
            "abababababab\n\nhint: give the build that the firmware was made from",
        ),
        (
            example_profile.packet([], 0, 1000, lost=9),
            "f: run 0 has no events, 9 are lost\n\nhint: give the executor memory for events before the run: "
            "`executor.events`, `executor.event_capacity`",
        ),
        (
            example_profile.packet(example_profile.run_records(0), 0, 1000, hz=0),
            "f: packet 0 says 0 ticks per second\n\nhint: pass the rate to `dtn_profile_send`",
        ),
        (
            example_profile.packet([(1, 2, 0, 5)], 0, 1000),
            "f: an event is about step 2, the program has 2\n\nhint: give the build that the firmware was made from",
        ),
        (
            example_profile.packet([(3, 4, 0, 5), (1, 1, 0, 6)], 0, 1000),
            "f: an event is about command 4, partition 0 has 4\n\nhint: give the build that the firmware was made from",
        ),
        (
            example_profile.packet([(9, 0, 0, 5)], 0, 1000),
            "f: an event has the unknown kind 9\n\nhint: give the build that the firmware was made from",
        ),
        (
            example_profile.packet(example_profile.run_records(0), 0, 500),
            f"f: packet 0 has an event that stops at tick 990 of its run, which stops at tick 500{AGAIN}",
        ),
        (
            GOOD + example_profile.packet(example_profile.run_records(0), 0, 1000, hz=1),
            "f: the runs have clocks of different rates\n\nhint: profile them one by one",
        ),
    ],
)
def test_what_is_wrong_is_said(data: bytes, said: str):
    assert refusal(data) == said


def test_a_damaged_packet_is_refused():
    damaged = bytearray(GOOD)
    damaged[100] ^= 1
    said = refusal(bytes(damaged))
    assert said.startswith("f: packet 0 is damaged: its checksum is 0x")
    assert said.endswith(AGAIN)
