"""What a run takes in all, without its events: calls are priced once for an array, then run at any clock and flash.

`Priced.totals` gives what the events of `timeline.simulate` add up to, at a small part of its time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import Rates, cost
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch, Wait
from deuteron.npu.timeline import Totals


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that follow each other: their number, and what their kernels take."""

    number: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Priced:
    """A program's commands, and what its kernels take on an array, whatever clock and flash there are.

    Attributes:
        steps: calls, fetches and waits, in order.
        macs: multiply-accumulates of all kernels.
        compute: cycles of kernels that computing limits.
        sram: cycles of kernels that the SRAM port limits.
    """

    steps: tuple[Calls | Fetch | Wait, ...]
    macs: int
    compute: int
    sram: int

    def totals(self, engine: Engine, *, keep_resident: bool = True) -> Totals:
        """What one run takes; arguments are those of `simulate`."""
        now = free = calls = fetches = stall = transfer = 0
        done: dict[int, int] = {}
        for step in self.steps:
            match step:
                case Calls():
                    calls += step.number
                    now += step.number * engine.call_dispatch + step.cycles
                case Fetch():
                    if step.resident and keep_resident:
                        continue
                    fetches += 1
                    now += engine.fetch_setup
                    taken = engine.fetch_latency + engine.transfer(step.nbytes)
                    transfer += taken
                    done[step.channel] = free = max(now, free) + taken
                case Wait():
                    arrived = done.get(step.channel, 0)
                    if arrived > now:
                        stall += arrived - now
                        now = arrived
        return Totals(
            max(now, free),
            self.macs,
            self.compute,
            self.sram,
            stall,
            calls * engine.call_dispatch,
            fetches * engine.fetch_setup,
            transfer,
        )


def priced(decoded: Decoded, rates: Rates) -> Priced:
    """The program on an array of these rates."""
    costs = [cost(call.params, rates) for call in decoded.calls]
    return Priced(
        tuple(_steps(decoded, [price.cycles for price in costs])),
        sum(price.macs for price in costs),
        sum(price.cycles for price in costs if price.bound == "compute"),
        sum(price.cycles for price in costs if price.bound == "SRAM"),
    )


def _steps(decoded: Decoded, prices: list[int]) -> Iterator[Calls | Fetch | Wait]:
    """The commands, with calls that follow each other put together."""
    cycles = iter(prices)
    number = total = 0
    for command in decoded.commands:
        if isinstance(command, Call):
            number += 1
            total += next(cycles)
        else:
            if number:
                yield Calls(number, total)
            number = total = 0
            yield command
    if number:
        yield Calls(number, total)
