"""ETDump files: read, written, and refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.views.profile import example_profile

from deuteron.errors import FormatError
from deuteron.views.events import tables
from deuteron.views.events.events import Event, Measure, SpanKind, Track
from deuteron.views.events.exports import inspector
from deuteron.views.events.gaps import attributed
from deuteron.views.events.sources import etdump, host
from deuteron.views.events.sources.etdump import EventBlock, Span


def block(kernels: tuple[str, str] = ("\x01", "\x07"), operator: str = "quantize_per_tensor.out") -> EventBlock:
    """One run as ExecuTorch's runtime and our delegate write it."""
    return EventBlock(
        "Execute",
        (
            Span(f"native_call_{operator}", 0, 1010, 1090),
            Span("OPERATOR_CALL", 0, 1005, 1095),
            Span("", 1, 1110, 1120, text="arguments"),
            Span("", 1, 1125, 1500, id=0, metadata=kernels[0]),
            Span("", 1, 1501, 1510, text="fetch 0"),
            Span("", 1, 1511, 1520, text="wait 0"),
            Span("", 1, 1520, 1800, id=1, metadata=kernels[1]),
            Span("", 1, 1120, 1810, text="run"),
            Span("", 1, 1810, 1850, text="log"),
            Span("DELEGATE_CALL", 1, 1100, 1860),
            Span("Method::execute", 0, 1000, 1900, chain=-1),
        ),
    )


def test_what_was_written_is_read():
    blocks = (EventBlock("Default", (Span("Program::load_method", 0, 1, 1 << 40, chain=-1),)), block())
    data = etdump.write(blocks)
    assert etdump.is_etdump(data)
    assert etdump.read(data, "f") == blocks


def test_executorch_reads_what_was_written():
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    found = deserialize_from_etdump_flatcc(etdump.write([block()]))
    events = [event.profile_event for event in found.run_data[0].events or [] if event.profile_event]
    assert [(e.start_time, e.end_time) for e in events] == [(s.start, s.stop) for s in block().spans]


def test_events_of_the_runtime():
    found = host.stream([block(), block()], example_profile.INSTRUCTIONS, "f")
    assert (found.runs, found.measure, found.clock.tick) == (2, Measure.MEASURED, "ns")
    first = [event for event in found.events if event.run == 0]
    assert [(e.name, e.index, e.ticks) for e in first if e.kind is SpanKind.KERNEL] == [
        ("conv2d_s8", 0, 375),
        ("max_pool_s8", 1, 280),
    ]
    assert attributed(first) == 1
    assert [(e.start, e.stop) for e in first if e.kind is SpanKind.UNATTRIBUTED] == [(0, 5), (95, 100), (860, 900)]
    assert next(e for e in first if e.kind is SpanKind.OPERATOR).index == 0


def test_without_profiling_the_partition_is_not_attributed():
    spans = [
        span for span in block().spans if span.id < 0 and span.text not in ("fetch 0", "wait 0", "arguments", "log")
    ]
    found = host.stream([EventBlock("Execute", tuple(spans))], example_profile.INSTRUCTIONS, "f")
    assert attributed(found.events) == 0


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            block(("\x01", "\x09")),
            "partition 0 ran 2 kernel calls, the build has 2: `softmax_s8 #1` in the place of `max_pool_s8 #1`",
        ),
        (
            EventBlock("Execute", tuple(replace(span, id=7) if span.id == 1 else span for span in block().spans)),
            "partition 0 ran 2 kernel calls, the build has 2: `max_pool_s8 #7` in the place of `max_pool_s8 #1`",
        ),
        (
            block(operator="add.out"),
            "instruction 0 runs `add.out`, but in the build it runs `quantized_decomposed::quantize_per_tensor.out`",
        ),
        (
            EventBlock("Execute", (Span("Method::execute", 0, 0, 9), Span("DELEGATE_CALL", 4, 1, 2))),
            "instruction 4 calls a partition, but in the build it does neither",
        ),
        (
            EventBlock(
                "Execute",
                (Span("Method::execute", 0, 0, 9), Span("DELEGATE_CALL", 1, 1, 8), Span("", 1, 2, 3, text="x")),
            ),
            "it has an event `x`, which Deuteron's delegate does not write",
        ),
    ],
)
def test_a_dump_of_another_program_is_refused(wrong: EventBlock, text: str):
    with pytest.raises(FormatError) as caught:
        host.stream([wrong], example_profile.INSTRUCTIONS, "f")
    assert str(caught.value) == (
        f"f: the ETDump is of another program: {text}\n\nhint: give the build whose `model.pte` ran, with the SHA-256 "
        "in its `build.json`"
    )


def test_a_clock_that_wraps_is_refused():
    spans = (Span("DELEGATE_CALL", 1, 4294967000, 900), Span("Method::execute", 0, 4294966000, 1000, chain=-1))
    with pytest.raises(FormatError) as caught:
        host.stream([EventBlock("Execute", spans)], example_profile.INSTRUCTIONS, "f")
    assert str(caught.value) == (
        "f: the ETDump's event `DELEGATE_CALL` stops at 900, before it starts at 4,294,967,000\n\n"
        "hint: let `et_pal_current_ticks` count in 64 bits: its clock has wrapped"
    )


def test_ticks_of_a_device_have_its_rate():
    clock = host.stream([block()], example_profile.INSTRUCTIONS, "f", 100_000_000).clock
    assert (clock.tick, clock.microseconds(1000)) == ("tick", 10)


def test_a_dump_without_runs_is_refused():
    with pytest.raises(FormatError) as caught:
        host.stream([EventBlock("Default", ())], example_profile.INSTRUCTIONS, "f")
    assert str(caught.value) == ("f: the ETDump has no run\n\nhint: run the program before you write the file")


def test_a_truncated_dump_is_refused():
    data = etdump.write([block()])
    with pytest.raises(FormatError) as caught:
        etdump.read(data[:-10], "f")
    assert str(caught.value) == (
        f"f: the ETDump is truncated: it says {len(data):,} bytes, there are {len(data) - 10:,}\n\n"
        "hint: run the program again, and copy the whole file"
    )
    with pytest.raises(FormatError) as other:
        etdump.read(b"DTNP" * 8, "f")
    assert str(other.value) == "f: this is not an ETDump\n\nhint: give a file that ExecuTorch's runtime has written"


def test_what_no_instruction_is_known_of_is_in_the_dump(tmp_path: Path):
    from executorch.devtools import Inspector

    extra = (
        Event(SpanKind.COPY_IN, Track.CPU, 0, 10, "input 0", index=0),
        Event(SpanKind.OPERATOR, Track.CPU, 10, 30, "aten::add.out"),
        Event(SpanKind.TRANSPOSE, Track.CPU, 30, 60, "output 0: channels first"),
        Event(SpanKind.COPY_OUT, Track.CPU, 60, 100, "output 0", index=0),
    )
    stream = example_profile.profile().stream
    file = tmp_path / "etdump.etdp"
    file.write_bytes(inspector.dump(replace(stream, events=(*stream.events, *extra)), example_profile.INSTRUCTIONS))
    (block,) = Inspector(etdump_path=str(file)).event_blocks
    shown = {event.name: event.perf_data.raw for event in block.events if event.perf_data}
    assert [shown[event.name] for event in extra] == [[0.01], [0.02], [0.03], [0.04]]


def test_dumps_of_profiles_are_told_from_those_of_the_runtime():
    assert inspector.is_dumped(
        etdump.read(inspector.dump(example_profile.profile().stream, example_profile.INSTRUCTIONS), "f")
    )
    assert not inspector.is_dumped([block()])


def test_what_starts_a_kernel_is_its_dispatch_and_what_comes_after_the_last_is_not():
    found = host.stream([block()], example_profile.INSTRUCTIONS, "f").median().events
    driver = [(e.name, e.index, e.ticks) for e in found if e.kind is SpanKind.DISPATCH and e.partition == 0]
    assert driver == [
        ("runtime", -1, 10), ("arguments", -1, 10), ("driver", 0, 5), ("driver", -1, 1), ("driver", -1, 1),
        ("driver", -1, 10), ("log", -1, 40), ("runtime", -1, 10),
    ]  # fmt: skip
    rows = {
        row.name: row
        for row in tables.kernels(example_profile.profile(host.stream([block()], example_profile.INSTRUCTIONS, "f")))
    }
    conv, pool = rows["npu 0 #0 conv2d_s8"], rows["npu 0 #1 max_pool_s8"]
    assert [(row.own, row.wait, row.dispatch) for row in (conv, pool)] == [(375, 0, 5), (280, 9, 0)]
    assert rows["[driver and runtime]"].ticks == 10 + 10 + 1 + 1 + 10 + 40 + 10 + 5 + 5


def test_any_stream_becomes_a_dump():
    blocks = etdump.read(inspector.dump(example_profile.profile().stream, example_profile.INSTRUCTIONS), "f")
    spans = {span.text or span.name: span for span in blocks[0].spans}
    assert (spans["conv2d_s8 #0"].start, spans["conv2d_s8 #0"].stop) == (110_000, 610_000)
    assert (spans["Method::execute"].stop, spans["DELEGATE_CALL"].instruction) == (1_000_000, 1)
    inside = [s for s in blocks[0].spans if s.text]
    assert sum(s.stop - s.start for s in inside) == spans["DELEGATE_CALL"].stop - spans["DELEGATE_CALL"].start
