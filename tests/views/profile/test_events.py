"""Gaps, tables, comparison and the record, on a profile made by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.views.profile import example_profile
from tests.views.profile.example_profile import CONV

from deuteron.cli import main
from deuteron.errors import FormatError, InputError, OptionError
from deuteron.views.events import changes, record, tables, text
from deuteron.views.events.events import Event, Measure, SpanKind, Track
from deuteron.views.events.exports.node_data import node_data
from deuteron.views.events.exports.trace import trace
from deuteron.views.events.gaps import attributed, with_gaps
from deuteron.views.events.record import Op, Source
from deuteron.views.report.page import html


def test_gaps_are_events_of_their_own():
    gaps = [event for event in example_profile.events() if event.kind is SpanKind.UNATTRIBUTED]
    assert [(gap.name, gap.start, gap.stop) for gap in gaps] == [
        ("in the delegate", 985, 990),
        ("between steps", 990, 1000),
    ]
    assert attributed(example_profile.events()) == 1 - 5 / 890


def test_a_whole_run_without_events_is_one_gap():
    found = with_gaps(
        [Event(SpanKind.RUN, Track.CPU, 0, 50, "run"), Event(SpanKind.DELEGATE, Track.CPU, 10, 40, "npu 0")]
    )
    assert attributed(found) == 0
    assert sum(event.ticks for event in found if event.kind is SpanKind.UNATTRIBUTED) == 50


def test_what_took_no_time_stands_before_what_follows_it():
    npu = {"partition": 0}
    events = with_gaps(
        [
            Event(SpanKind.RUN, Track.CPU, 0, 20, "run"),
            Event(SpanKind.KERNEL, Track.CPU, 5, 5, "conv2d_s8", index=0, **npu),
            Event(SpanKind.DISPATCH, Track.CPU, 5, 15, "driver", index=1, **npu),
            Event(SpanKind.KERNEL, Track.CPU, 15, 20, "max_pool_s8", index=1, **npu),
            Event(SpanKind.DISPATCH, Track.CPU, 0, 5, "driver", index=0, **npu),
            Event(SpanKind.DELEGATE, Track.CPU, 0, 20, "npu 0", **npu),
        ]
    )
    stream = replace(example_profile.profile().stream, events=events)
    assert [row.dispatch for row in tables.kernels(example_profile.profile(stream))] == [5, 10]


@pytest.mark.parametrize("by", ["line", "operator", "kernel"])
def test_rows_add_up_to_the_run(by: str):
    profile = example_profile.profile()
    assert sum(row.ticks for row in tables.TABLES[by](profile)) == tables.total(profile) == 1000


def test_rows_of_kernels_have_their_waits_and_dispatches():
    rows = {row.name: row for row in tables.kernels(example_profile.profile())}
    conv, pool = rows["npu 0 #0 conv2d_s8"], rows["npu 0 #1 max_pool_s8"]
    assert (conv.own, conv.wait, conv.dispatch, conv.bound) == (500, 0, 10, "compute")
    assert (pool.own, pool.wait, pool.dispatch, pool.bound) == (275, 80, 10, "SRAM")
    assert rows["[start of fetches]"].ticks == 10
    assert (rows["[not attributed in npu 0]"].ticks, rows["[not attributed]"].ticks) == (5, 10)
    assert rows["cpu quantized_decomposed::quantize_per_tensor"].bound == "CPU"


def test_a_kernel_waits_also_where_the_next_fetch_starts_before_it():
    npu = {"partition": 0}
    events = with_gaps(
        [
            Event(SpanKind.RUN, Track.CPU, 0, 100, "run"),
            Event(SpanKind.DELEGATE, Track.CPU, 0, 100, "npu 0", **npu),
            Event(SpanKind.DISPATCH, Track.CPU, 0, 5, "driver", **npu),
            Event(SpanKind.WAIT, Track.CPU, 5, 65, "channel 0", index=1, **npu),
            Event(SpanKind.FETCH, Track.CPU, 65, 75, "weights 64", index=2, **npu),
            Event(SpanKind.DISPATCH, Track.CPU, 75, 80, "conv2d_s8", index=0, **npu),
            Event(SpanKind.KERNEL, Track.NPU, 80, 95, "conv2d_s8", index=0, **npu),
            Event(SpanKind.WAIT, Track.CPU, 95, 100, "channel 0", index=4, **npu),
        ]
    )
    rows = {
        row.name: row
        for row in tables.kernels(example_profile.profile(replace(example_profile.profile().stream, events=events)))
    }
    conv = rows["npu 0 #0 conv2d_s8"]
    assert (conv.own, conv.wait, conv.dispatch, conv.bound) == (15, 60, 5, "flash")
    assert rows["[waiting for weights]"].ticks == 5
    assert rows["[start of fetches]"].ticks == 10
    assert rows["[driver and runtime]"].ticks == 5


def test_rows_that_hold_the_others_are_said_to():
    rows = text.arranged([row for row in tables.modules(example_profile.profile()) if row.path is not None], "time", 2)
    assert [(row.name, row.detail) for row in rows] == [("net", ""), ("block", ""), ("[2 others]", "in the rows above")]


def test_what_simulated_times_rest_on_is_told():
    profile = replace(example_profile.profile(), basis=("NPU at 1 MHz", "all is kept"))
    assert list(text.summary(profile))[1:3] == ["NPU at 1 MHz", "all is kept"]


def test_what_runs_depth_first_is_told():
    profile = example_profile.striped()
    assert list(text.summary(profile))[-2:] == [f"npu 0: {told.strip()}" for told in example_profile.DEPTH_FIRST]
    details = {row.name: row.detail for row in tables.kernels(profile)}
    assert details["npu 0 #0 conv2d_s8"] == f"model.py:7, {example_profile.STRIPE}"
    assert details["npu 0 #1 max_pool_s8"] == "model.py:8"


def test_modules_are_a_tree():
    rows = [(row.name, row.depth, row.ticks) for row in tables.modules(example_profile.profile())]
    assert rows[:4] == [("net", 0, 875), ("block", 1, 875), ("block.conv", 2, 510), ("block.pool", 2, 365)]


def test_lines_and_operators_name_what_they_are():
    profile = example_profile.profile()
    lines = {row.name: row.detail for row in tables.lines(profile) if row.calls}
    assert lines == {
        "model.py:7": "x = self.conv(x)",
        "model.py:8": "return self.pool(x)",
        "cpu quantized_decomposed::quantize_per_tensor": "",
    }
    assert "CONV_2D (aten_convolution_default)" in [row.name for row in tables.operators(profile)]
    (partition,) = profile.partitions
    ops = (Op(0, "PADV2", partition.ops[0].nodes, (CONV,)), *partition.ops, Op(3, "TRANSPOSE", (), ()))
    kernel = replace(partition.kernels[0], ops=(0, 1, 2, 3))
    fused = replace(profile, partitions=(replace(partition, ops=ops, kernels=(kernel, partition.kernels[1])),))
    assert (
        "PADV2 + CONV_2D (aten_convolution_default) + MAX_POOL_2D (aten_max_pool2d_default) + "
        "TRANSPOSE (added at an input or output of the partition)"
    ) in [row.name for row in tables.operators(fused)]


def test_utilisation_is_of_the_array():
    conv = tables.kernels(example_profile.profile())[1]
    assert tables.utilisation(conv, example_profile.profile()) == 4000 / ((500 + 10) * 16)
    assert tables.whole_utilisation(example_profile.profile()) == 4000 / (890 * 16)


def test_rest_of_the_rows_is_one_row():
    rows = text.arranged(tables.kernels(example_profile.profile()), "time", 2)
    assert [row.name for row in rows] == ["npu 0 #0 conv2d_s8", "npu 0 #1 max_pool_s8", "[4 others]"]
    assert sum(row.ticks for row in rows) == 1000


@pytest.mark.parametrize("sort", ["time", "order", "name"])
@pytest.mark.parametrize("top", [1, 2, 3, 5])
def test_rest_of_a_tree_is_what_its_rows_do_not_hold(sort: str, top: int):
    shown = text.arranged(tables.modules(example_profile.profile()), sort, top)
    held = [
        row for row in shown if row.depth and any(row.path[:n] in [r.path for r in shown] for n in range(row.depth))
    ]
    assert sum(row.ticks for row in shown if row not in held) == 1000


def test_lines_of_files_with_one_name_are_told_apart():
    profile = example_profile.profile()
    (partition,) = profile.partitions
    sources = [Source(f"/net/{folder}/model.py", 7, "x", "") for folder in "ab"]
    ops = tuple(replace(op, sources=(source,)) for op, source in zip(partition.ops, sources, strict=True))
    rows = tables.lines(replace(profile, partitions=(replace(partition, ops=ops),)))
    assert [row.name for row in rows if "model" in row.name] == ["a/model.py:7", "b/model.py:7"]


def test_modules_are_compared_by_their_place():
    before = example_profile.profile()
    after = replace(before, model="block")  # as its first module is called
    found = changes.changes(before, after, "module")
    assert [row.change for row in found.changes] == [0] * len(found.changes)
    assert all(row.before is not None and row.after is not None for row in found.changes)
    assert [row.name for row in found.changes][:2] == ["net", "block"]
    assert list(found.lines(1))[-2:] == [
        "        A us         B us       change module",
        f"{len(found.changes)} rows are the same in both",
    ]
    assert "A is `net`, B is `block`: rows of equal name may differ in meaning" in found.lines()


def test_an_unknown_order_is_refused():
    with pytest.raises(OptionError) as caught:
        text.arranged((), "size", None)
    assert str(caught.value) == (
        "unknown value `size` of `--sort`\n\nhint: choose one of `time`, `order`, `macs`, `bytes`, `name`"
    )


def test_lost_events_are_told():
    profile = example_profile.profile()
    lines = list(text.summary(replace(profile, stream=replace(profile.stream, lost=3))))
    assert lines == [
        "net for imxrt700 on sim, simulated: 1,000.0 us (1,000 cycles) in one run",
        "99.438% of the time in NPU partitions is attributed",
        "88.571% of the time of kernels and operators has lines of the model",
        "28.1% MAC utilisation in that time",
        "80.0 us of fetches from flash run in parallel; the tables include only the waits of kernels",
        "3 events are lost: the recorder's memory was full; their time is not attributed",
    ]


@pytest.mark.parametrize(
    ("option", "hint"), [("False", "; a build with `--use-profiling` records the kernels"), ("True", "")]
)
def test_kernels_that_a_build_does_not_record_are_told(option: str, hint: str):
    whole = (
        Event(SpanKind.RUN, Track.CPU, 0, 100, "run"),
        Event(SpanKind.DELEGATE, Track.CPU, 0, 100, "npu 0", partition=0),
    )
    profile = example_profile.profile(replace(example_profile.profile().stream, events=with_gaps([*whole])))
    profile = replace(profile, options={"use_profiling": option})
    assert f"0.000% of the time in NPU partitions is attributed{hint}" in text.summary(profile)


def test_operators_that_nobody_simulates_are_told():
    npu = example_profile.npu_alone()
    assert "1 operator on the CPU is not simulated and not included in these times" in text.summary(npu)
    two = replace(npu, cpu_ops=npu.cpu_ops * 2)
    assert "2 operators on the CPU are not simulated and not included in these times" in text.summary(two)
    assert not any("not simulated" in line for line in text.summary(example_profile.profile()))
    found = changes.changes(npu, two, "kernel")
    assert "times do not include operators on the CPU, which are not simulated: 1 in A and 2 in B" in found.lines()
    assert found.to_json()["left_out"] == [1, 2]
    assert not any("leave out" in line for line in changes.changes(two, two, "kernel").lines())


def test_what_one_run_is_held_up_by_is_in_no_number():
    three = example_profile.one_of_three_runs_held_up()
    assert list(text.summary(three))[:2] == [
        "net for imxrt700 on sim, simulated: 1,100.0 us (1,100 cycles) in the median of 3 runs",
        "runs take 1,000.0 to 90,000.0 us; all numbers below are of the median run",
    ]
    for rows in (tables.kernels, tables.operators, tables.lines):
        assert sum(row.ticks for row in rows(three)) == tables.total(three) == 1100
    (conv,) = (row for row in tables.kernels(three) if "conv2d" in row.name)
    assert next(line for line in text.table(three, [conv], "kernel") if "conv2d" in line).split()[:8] == [
        "510.0", "46.36%", "500.0", "0.0", "10.0", "1", "4,000", "900",
    ]  # fmt: skip
    assert json.loads(node_data(three))["graph"]["results"]["aten_convolution_default"] == {"value": 500}
    assert changes.changes(example_profile.profile(), three, "kernel").totals == (1000, 1100)
    said = text.to_json(three, [conv], "kernel")
    assert (said["ticks"], said["lengths"]) == (1100, [1100, 90000, 1000])


def test_of_two_runs_the_shorter_one_is_shown():
    assert example_profile.lost_in_one_of_two_runs().stream.median().events == example_profile.profile().stream.events


def test_rows_of_what_nobody_knows_have_no_counts():
    profile = example_profile.profile()
    lines = list(text.table(profile, tables.kernels(profile), "kernel"))
    assert next(line for line in lines if "quantize_per_tensor" in line).split()[:9] == [
        "100.0", "10.00%", "100.0", "0.0", "0.0", "1", "-", "-", "-",
    ]  # fmt: skip
    assert next(line for line in lines if "[not attributed]" in line).split()[6:8] == ["-", "-"]


def test_the_record_is_what_was_written(tmp_path: Path):
    profile = example_profile.profile()
    (tmp_path / record.NAME).write_text(record.FILE.to_json(profile))
    assert record.read(tmp_path) == record.read(tmp_path / record.NAME) == profile


def test_a_path_that_is_no_text_harms_no_file(tmp_path: Path):
    profile = example_profile.profile()
    source = record.Source("m\udcff.py", 7, "x = \udc80", "block")
    ops = tuple(replace(op, sources=(source,)) for op in profile.partitions[0].ops)
    hurt = replace(profile, model="n\udcff", partitions=(replace(profile.partitions[0], ops=ops),))
    (tmp_path / record.NAME).write_text(record.FILE.to_json(hurt))
    found = record.read(tmp_path)
    assert found.model == "n?"
    assert found.partitions[0].ops[0].sources == (record.Source("m?.py", 7, "x = ?", "block"),)
    assert html(found).encode()
    assert trace(found.stream, found.model, found)


def test_a_profile_is_shown_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    profile = example_profile.profile()
    (tmp_path / record.NAME).write_text(record.FILE.to_json(profile))
    by_name = [row.name for row in text.arranged(tables.kernels(profile), "name", None)]
    in_brackets = [name.startswith("[") for name in by_name]
    assert any(in_brackets)
    assert in_brackets == sorted(in_brackets)  # last
    rows = text.arranged(tables.kernels(profile), "name", 2)
    for given in (tmp_path, tmp_path / record.NAME):
        with pytest.raises(SystemExit):
            main(["profile", str(given), "--by", "kernel", "--sort", "name", "--top", "2"])
        shown = capsys.readouterr().out.splitlines()
        assert shown == [*text.summary(profile), "", *text.table(profile, rows, "kernel")]
    with pytest.raises(SystemExit):
        main(["profile", str(tmp_path), "--on", "sim", "--force"])
    assert capsys.readouterr().err == (
        f"error: `{tmp_path}` is a profile: this shows its tables and runs nothing\n\n"
        "hint: leave out `--on` and `--force`\n"
    )


@pytest.mark.parametrize("options", [(), ("--on", "host")])
def test_a_program_is_no_profile(options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = tmp_path / "bare.pte"
    program.write_bytes(b"\0\0\0\0ET12")
    with pytest.raises(SystemExit):
        main(["profile", str(program), *options])
    assert capsys.readouterr().err.startswith(f"error: `{program}`: ")


def test_names_command_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    profile = example_profile.profile()
    evil = (
        replace(event, name="\x1b[2Jevil\nrow", index=-1) if event.kind is SpanKind.OPERATOR else event
        for event in profile.stream.events
    )
    hurt = replace(profile, model="\x1b[31mnet", stream=replace(profile.stream, events=tuple(evil)))
    (tmp_path / record.NAME).write_text(record.FILE.to_json(hurt))
    with pytest.raises(SystemExit):
        main(["profile", str(tmp_path), "--by", "kernel"])
    said = capsys.readouterr().out
    assert said.startswith("\\x1b[31mnet for imxrt700")
    assert "cpu \\x1b[2Jevil\\nrow\n" in said
    assert "\x1b" not in said


def test_a_damaged_record_says_what_is_wrong(tmp_path: Path):
    path = tmp_path / "p.json"
    path.write_text(record.FILE.to_json(example_profile.profile()).replace('"simulated"', '"guessed"'))
    with pytest.raises(FormatError) as caught:
        record.read(path)
    assert str(caught.value) == (
        f"{path}: `p.json` cannot have 'guessed' at `stream.measure`\n\nhint: profile the build again"
    )
    (tmp_path / "out/profile_sim").mkdir(parents=True)
    for hint in ("give a profile of `deuteron profile DIR`", f"give `{tmp_path / 'out/profile_sim'}`"):
        with pytest.raises(InputError) as other:
            record.read(tmp_path / "out")
        assert str(other.value) == f"`{tmp_path / 'out'}` has no `profile.json`\n\nhint: {hint}"
        (tmp_path / "out/profile_sim/profile.json").touch()
    with pytest.raises(InputError) as missing:
        record.read(tmp_path / "none")
    assert str(missing.value) == (
        f"`{tmp_path / 'none'}` cannot be read as a profile\n\nhint: give a profile of `deuteron profile DIR`"
    )


def longer(profile: record.Profile, ticks: int) -> record.Profile:
    """The profile, but its pooling and its run take so many ticks more."""
    events = tuple(
        replace(event, stop=event.stop + ticks)
        if event.kind is SpanKind.RUN or (event.kind, event.index) == (SpanKind.KERNEL, 1)
        else event
        for event in profile.stream.events
    )
    return example_profile.profile(replace(profile.stream, events=events))


def test_the_largest_change_comes_first():
    before = example_profile.profile()
    found = changes.changes(before, longer(before, 100), "kernel")
    assert (found.changes[0].name, found.changes[0].change) == ("npu 0 #1 max_pool_s8", 100.0)
    assert list(found.lines(1)) == [
        "A: net for imxrt700 on sim, simulated, 1,000.0 us",
        "B: net for imxrt700 on sim, simulated, 1,100.0 us",
        "+100.0 us (+10.0%)",
        "",
        "        A us         B us       change kernel",
        "       365.0        465.0       +100.0 npu 0 #1 max_pool_s8",
        "5 rows are the same in both",
    ]
    counted = [replace(p, stream=replace(p.stream, measure=Measure.COUNTED)) for p in (before, longer(before, 100))]
    assert list(changes.changes(*counted, "kernel").lines())[1:-1] == [
        "B: net for imxrt700 on sim, counted, 1,100 instr.",
        "+100 instr. (+10.0%)",
        "",
        "    A instr.     B instr.       change kernel",
        "         365          465         +100 npu 0 #1 max_pool_s8",
    ]


def test_different_places_are_told():
    before = example_profile.profile()
    found = changes.changes(before, replace(before, on="an505"), "kernel")
    assert "A ran on sim, B on an505: differences include those of the places" in found.lines()
    assert found.to_json()["places"] == ["sim", "an505"]
    assert not any("ran on" in line for line in changes.changes(before, before, "kernel").lines())


def test_different_kinds_of_numbers_are_not_compared():
    before = example_profile.profile()
    with pytest.raises(InputError) as caught:
        changes.changes(before, example_profile.profile(replace(before.stream, measure=Measure.MEASURED)), "kernel")
    assert str(caught.value) == (
        "the first profile is simulated, the second measured: their times are not comparable\n\n"
        "hint: compare two profiles of the same place: `deuteron profile DIR --on PLACE`"
    )


def test_the_trace_has_every_event():
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    profile = example_profile.profile()
    found = Trace()
    found.ParseFromString(trace(profile.stream, "title", profile))
    begins = [
        p for p in found.packet if p.HasField("track_event") and p.track_event.type == TrackEvent.TYPE_SLICE_BEGIN
    ]
    assert len(begins) == len(profile.stream.events)
    conv = next(p for p in begins if p.track_event.name == "conv2d_s8")
    notes = {a.name: a.string_value or a.int_value for a in conv.track_event.debug_annotations}
    assert conv.timestamp == 110_000
    assert notes["line"] == "model.py:7: x = self.conv(x)"
    assert notes["module"] == "block.conv"


def test_a_kernel_without_a_tick_is_an_instant_of_the_trace():
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

    found = Trace()
    found.ParseFromString(trace(example_profile.with_an_empty_kernel().stream, "title"))
    events = [(p.track_event.name, p.timestamp) for p in found.packet if p.track_event.type == TrackEvent.TYPE_INSTANT]
    assert events == [("conv2d_s8", 110_000)]


def test_node_data_has_the_time_of_each_node():
    data = json.loads(node_data(example_profile.profile()))["graph"]
    assert data["name"] == "us on sim, simulated"
    assert data["results"] == {
        "aten_convolution_default": {"value": 500.0},
        "aten_max_pool2d_default": {"value": 275.0},
        "quantize": {"value": 100.0},
    }
