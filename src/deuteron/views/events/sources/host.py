"""Converts events of ExecuTorch's runtime, including those of our delegates."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

from deuteron.errors import FormatError
from deuteron.npu.neutron.kernels.event_names import base_name, event_name, kernel_name
from deuteron.views.events.events import Clock, Event, Measure, SpanKind, Stream, Track
from deuteron.views.events.gaps import with_gaps
from deuteron.views.events.instruction_map import Instructions
from deuteron.views.events.sources import etdump

NANOSECONDS = 1_000_000_000
_NATIVE = "native_call_"
_NAMED = {
    "fetch": SpanKind.FETCH,
    "wait": SpanKind.WAIT,
    "arguments": SpanKind.DISPATCH,
    "log": SpanKind.DISPATCH,
    "transpose in": SpanKind.TRANSPOSE,
    "transpose out": SpanKind.TRANSPOSE,
    "copy in": SpanKind.COPY_IN,
    "copy out": SpanKind.COPY_OUT,
}
"""Events of our delegates that are not kernels."""
_NUMBERED = re.compile(r"([a-z ]*[a-z])(?: (\d{1,9}))?")
"""Name of such an event, with its number if there are several."""


def stream(blocks: Iterable[etdump.EventBlock], program: Instructions, where: str, hz: int = NANOSECONDS) -> Stream:
    """Return the events of all runs of a program.

    Args:
        blocks: result of `etdump.read`.
        program: the program that ran.
        where: the file, for errors.
        hz: ticks of the runtime per second; the runtime of this machine counts nanoseconds.

    Raises:
        FormatError: there is no run, or it is of another program.
    """
    events: list[Event] = []
    runs = 0
    for block in blocks:
        if any(span.name == etdump.EXECUTE for span in block.spans):
            events += _Run(block.spans, program, runs, where).events()
            runs += 1
    if not runs:
        raise FormatError("the ETDump has no run", where=where, hint="run the program before you write the file")
    return Stream(Clock("ExecuTorch", hz, "ns" if hz == NANOSECONDS else "tick"), Measure.MEASURED, runs, tuple(events))


class _Run:
    """Converts one run."""

    def __init__(self, spans: Sequence[etdump.Span], program: Instructions, run: int, where: str) -> None:
        self._spans = spans
        self._program = program
        self._run = run
        self._where = where
        self._begin = min(span.start for span in spans)
        wrong = next((span for span in spans if span.stop < span.start), None)
        if wrong is not None:
            raise FormatError(
                f"the ETDump's event `{wrong.text or wrong.metadata or wrong.name}` stops at {wrong.stop:,}, before it "
                f"starts at {wrong.start:,}",
                where=where,
                hint="let `et_pal_current_ticks` count in 64 bits: its clock has wrapped",
            )

    def events(self) -> tuple[Event, ...]:
        """Return all events, including gaps."""
        listed: list[Event] = []
        for span in self._spans:
            if span.name == etdump.EXECUTE:
                listed.append(self._event(SpanKind.RUN, span, "run"))
            elif span.name == etdump.DELEGATE_CALL:
                listed += self._delegate(span)
            elif span.name == etdump.OPERATOR_CALL:
                listed += self._operator(span)
        return with_gaps(listed)

    def _operator(self, call: etdump.Span) -> Iterator[Event]:
        """Yield an operator, and the runtime's overhead around it."""
        name, index = self._program.operators.get(call.instruction, ("", -1))
        own = [s for s in self._spans if s.instruction == call.instruction and s.name.startswith(_NATIVE)]
        for span in own or [call]:
            operator = span.name.removeprefix(_NATIVE) if own else name
            if not name or base_name(operator) != base_name(name):
                self._refuse(f"instruction {call.instruction} runs `{operator}`, but in the build it {_does(name)}")
            yield self._event(SpanKind.OPERATOR, span, name, index=index)
            yield from self._between("runtime", call.start, span.start)
            yield from self._between("runtime", span.stop, call.stop)

    def _delegate(self, call: etdump.Span) -> Iterator[Event]:
        """Yield a partition: its kernels and the time between them."""
        if call.instruction in self._program.others:
            name, index = self._program.others[call.instruction]
            yield self._event(SpanKind.OPERATOR, call, name, index=index)
            return
        if call.instruction not in self._program.partitions:
            name, _ = self._program.operators.get(call.instruction, ("", -1))
            self._refuse(f"instruction {call.instruction} calls a partition, but in the build it {_does(name)}")
        partition = self._program.partitions[call.instruction]
        yield self._event(SpanKind.DELEGATE, call, f"npu {partition}", partition)
        spans = [s for s in self._spans if s.instruction == call.instruction and (s.id >= 0 or s.text)]
        runs = [span for span in spans if span.text == "run"]
        spans = sorted((s for s in spans if s.text != "run"), key=lambda s: s.start)
        self._check(partition, spans)
        for span in spans:
            yield self._part(partition, span)
        if len(spans) < len(self._program.calls[partition].kernels):
            return  # microcode without profiling records nothing else
        inside = [(s.start, s.stop) for s in spans]
        for run in runs:
            end = run.start
            for span in (s for s in spans if run.start <= s.start and s.stop <= run.stop):
                yield from self._between("driver", end, span.start, partition, span.id)
                end = span.stop
            yield from self._between("driver", end, run.stop, partition)
            inside.append((run.start, run.stop))
        if inside:
            yield from self._between("runtime", call.start, min(start for start, _ in inside), partition)
            yield from self._between("runtime", max(stop for _, stop in inside), call.stop, partition)

    def _part(self, partition: int, span: etdump.Span) -> Event:
        if span.id >= 0:
            return self._event(SpanKind.KERNEL, span, _kernel(span), partition, span.id)
        match = _NUMBERED.fullmatch(span.text)
        if match is None or match[1] not in _NAMED:
            self._refuse(f"it has an event `{span.text}`, which Deuteron's delegate does not write")
        what, index = match[1], int(match[2] or -1)
        name = f"channel {index}" if what in ("fetch", "wait") else what
        return self._event(_NAMED[what], span, name, partition, index)

    def _check(self, partition: int, spans: Iterable[etdump.Span]) -> None:
        """Reject kernels of another program."""
        ran = [(_kernel(s), s.id) for s in sorted((s for s in spans if s.id >= 0), key=lambda s: s.id)]
        kernels = [(name, number) for number, name in enumerate(self._program.calls[partition].kernels)]
        if ran and ran != kernels:
            pairs = zip(ran, kernels, strict=False)
            differing = (f"`{event_name(*a)}` in the place of `{event_name(*b)}`" for a, b in pairs if a != b)
            what = next(differing, "the number differs")
            self._refuse(f"partition {partition} ran {len(ran)} kernel calls, the build has {len(kernels)}: {what}")

    def _event(self, kind: SpanKind, span: etdump.Span, name: str, partition: int = -1, index: int = -1) -> Event:
        return Event(
            kind,
            Track.CPU,
            span.start - self._begin,
            span.stop - self._begin,
            name,
            self._run,
            partition,
            index,
        )

    def _between(self, name: str, start: int, stop: int, partition: int = -1, index: int = -1) -> Iterator[Event]:
        if stop > start:
            start, stop = start - self._begin, stop - self._begin
            yield Event(SpanKind.DISPATCH, Track.CPU, start, stop, name, self._run, partition, index)

    def _refuse(self, message: str) -> NoReturn:
        raise FormatError(
            f"the ETDump is of another program: {message}",
            where=self._where,
            hint="give the build whose `model.pte` ran, with the SHA-256 in its `build.json`",
        )


def _kernel(span: etdump.Span) -> str:
    """Return the name of an event: one byte with a kernel number from a Neutron, text from an Ethos-U."""
    return kernel_name(ord(span.metadata)) if len(span.metadata) == 1 else span.metadata


def _does(operator: str) -> str:
    return f"runs `{operator}`" if operator else "does neither"
