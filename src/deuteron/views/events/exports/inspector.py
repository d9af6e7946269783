"""Writes events for ExecuTorch's Inspector, in nanoseconds.

A kernel call is an event of the delegate; the build's ETRecord maps its name to edge operators. Other time of the CPU
has names too, so that the events of a delegate add up to its call.
"""

from collections.abc import Iterable, Iterator

from deuteron.npu.neutron.kernels.event_names import event_name, kernel_code
from deuteron.views.events.events import Clock, Event, SpanKind, Stream, Track
from deuteron.views.events.instruction_map import Instructions
from deuteron.views.events.sources import etdump
from deuteron.views.events.sources.etdump import EventBlock, Span

_WHOLE = -1
_NO_INSTRUCTION = -1
"""For events without an instruction: copies, transposes at partitions, operators that the build does not list."""


def dump(stream: Stream, program: Instructions) -> bytes:
    """Return the ETDump of these events: a block per run."""
    dumper = _Dumper(stream.clock, program)
    return etdump.write([EventBlock("Execute", tuple(dumper.spans(events))) for events in stream.by_run()])


def is_dumped(blocks: Iterable[EventBlock]) -> bool:
    """Return true for the ETDump of a profile: its kernels and gaps have names; a delegate only numbers kernels."""
    ours = (SpanKind.DISPATCH.value, SpanKind.UNATTRIBUTED.value)
    spans = (span for block in blocks for span in block.spans if span.id < 0)
    return any(s.text in ours or (s.metadata and " #" in s.text) for s in spans)


class _Dumper:
    """Builds the events of a program."""

    def __init__(self, clock: Clock, program: Instructions) -> None:
        self._clock = clock
        self._instructions = {partition: number for number, partition in program.partitions.items()}
        self._operators = {index: number for number, (_, index) in program.operators.items() if index >= 0}

    def spans(self, events: Iterable[Event]) -> Iterator[Span]:
        """Yield the events of a run in the runtime's order: a container follows its content."""
        for event in sorted(events, key=lambda e: (e.stop, e.ticks)):
            match event:
                case Event(kind=SpanKind.RUN):
                    yield self._span(event, etdump.EXECUTE, 0, chain=_WHOLE)
                case Event(kind=SpanKind.DELEGATE):
                    yield self._span(event, etdump.DELEGATE_CALL, self._instructions[event.partition])
                case Event(kind=SpanKind.OPERATOR, index=index) if index in self._operators:
                    name = event.name.partition("::")[2] or event.name
                    yield self._span(event, f"native_call_{name}", self._operators[index])
                    yield self._span(event, etdump.OPERATOR_CALL, self._operators[index])
                case Event(partition=partition, track=track) if partition >= 0 and track is not Track.FLASH:
                    yield self._span(event, "", self._instructions[partition], text=_text(event))
                case Event(kind=SpanKind.OPERATOR | SpanKind.TRANSPOSE | SpanKind.COPY_IN | SpanKind.COPY_OUT):
                    yield self._span(event, event.name, _NO_INSTRUCTION, chain=_WHOLE)
                case _:
                    pass

    def _span(self, event: Event, name: str, instruction: int, text: str = "", chain: int = 0) -> Span:
        start, stop = (round(self._clock.microseconds(at) * 1000) for at in (event.start, event.stop))
        metadata = kernel_code(event.name) if event.kind is SpanKind.KERNEL else ""
        return Span(name, instruction, start, stop, text=text, metadata=metadata, chain=chain)


def _text(event: Event) -> str:
    if event.kind is SpanKind.KERNEL:
        return event_name(event.name, event.index)
    number = f" {event.index}" if event.kind is SpanKind.TRANSPOSE and event.index >= 0 else ""
    return f"{event.kind.value}{number}"
