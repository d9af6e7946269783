"""Totals of a run without its events: costs of calls are computed once per array, for any clock and flash.

`Priced.totals` equals the sum of the events of `timeline.simulate`, and is much faster.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import Rates, cost
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch, Wait
from deuteron.npu.timeline import Totals


@dataclass(frozen=True, slots=True)
class Calls:
    """Consecutive calls: their number, and the cycles of their kernels."""

    number: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Priced:
    """The commands of a program, and the cycles of its kernels on an array, for any clock and flash.

    Attributes:
        steps: calls, fetches and waits, in order.
        macs: multiply-accumulates of all kernels.
        compute: cycles of compute-bound kernels.
        sram: cycles of kernels that are bound by the SRAM port.
    """

    steps: tuple[Calls | Fetch | Wait, ...]
    macs: int
    compute: int
    sram: int

    def totals(self, engine: Engine, *, keep_resident: bool = True) -> Totals:
        """Return the totals of one run; arguments are those of `simulate`."""
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
    """Compute the costs of a program on an array with these rates."""
    costs = [cost(call.params, rates) for call in decoded.calls]
    return Priced(
        tuple(_steps(decoded, [price.cycles for price in costs])),
        sum(price.macs for price in costs),
        sum(price.cycles for price in costs if price.bound == "compute"),
        sum(price.cycles for price in costs if price.bound == "SRAM"),
    )


def _steps(decoded: Decoded, prices: list[int]) -> Iterator[Calls | Fetch | Wait]:
    """Yield the commands, with consecutive calls merged."""
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
