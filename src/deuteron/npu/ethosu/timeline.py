"""Vela's estimates as a timeline of NPU and fetches.

Vela estimates the operations of its schedule, one after the other. The cycles of an operation with several commands,
such as a transpose of many copies, are divided in proportion to the elements that these write. A fetch starts with the
previous operation, because the NPU issues it ahead. Vela's cycles of an operation include waiting for its fetches. If
an operation consists of copies only, the NPU waits for them for the cycles of Vela.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from deuteron.arch.engine import Engine
from deuteron.npu.ethosu.stream import Operation
from deuteron.npu.schedule import Schedule, Step
from deuteron.npu.timeline import Activity, Cost, Event, Measure, Timeline, Track


@dataclass(frozen=True, slots=True)
class _Share:
    """The share of a command in its step: parts `begin` to `end` of `whole`."""

    step: Step
    begin: int
    end: int
    whole: int

    def of(self, amount: int) -> int:
        """Return its share of an amount; all shares add up to the amount."""
        return amount * self.end // self.whole - amount * self.begin // self.whole


def timeline(operations: Sequence[Operation], schedule: Schedule, engine: Engine) -> Timeline:
    """Return the timeline of one run; all operations must be in a step of the schedule."""
    shares = dict(_shares(operations, schedule))
    alone = {i for step in schedule.steps if all(operations[i].source for i in step.commands) for i in step.commands}
    events: list[Event] = []
    now = before = free = 0
    for number, operation in enumerate(operations):
        share = shares[number]
        if operation.source is not None:
            name, nbytes = f"{operation.source.memory} 0x{operation.source.offset:x}", operation.source.nbytes
            cycles = share.of(share.step.cycles if number in alone else share.step.transfer)
            begin = max(now if number in alone else before, free)
            free = begin + cycles
            events.append(Event(Track.FLASH, Activity.TRANSFER, number, begin, free, name, nbytes=nbytes))
            if number in alone and cycles:
                before, now = now, now + cycles
                events.append(Event(Track.NPU, Activity.STALL, number, before, now, "memory"))
            continue
        step = share.step
        held = step.cycles - max(step.compute, step.sram)
        before, start = now, now + share.of(held)
        if start > now:
            events.append(Event(Track.NPU, Activity.STALL, number, now, start, "memory"))
        price = Cost(*map(share.of, (step.macs, step.compute, step.sram_bytes, step.sram)))
        now += share.of(step.cycles)
        events.append(Event(Track.NPU, Activity.KERNEL, number, start, now, operation.kind, price))
    events.sort(key=lambda event: (event.start, event.stop))
    return Timeline(engine, tuple(events), max(now, free), Measure.ESTIMATED)


def _shares(operations: Sequence[Operation], schedule: Schedule) -> Iterator[tuple[int, _Share]]:
    """Return the share of each command: of fetches by bytes, of others by written elements."""
    for step in schedule.steps:
        for is_copy in (False, True):
            own = [i for i in step.commands if (operations[i].source is not None) is is_copy]
            sizes = [_size(operations[i]) for i in own]
            begin = 0
            for number, size in zip(own, sizes, strict=True):
                yield number, _Share(step, begin, begin + size, sum(sizes))
                begin += size


def _size(operation: Operation) -> int:
    if operation.source is not None:
        return max(1, operation.source.nbytes)
    return prod(operation.output.shape) if operation.output else 1
