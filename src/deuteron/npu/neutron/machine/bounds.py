"""What the fetches of a program can cost at best and at worst, from its commands alone."""

from dataclasses import dataclass
from itertools import accumulate

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch


@dataclass(frozen=True, slots=True)
class _Stream:
    """What every run fetches anew: bytes, and the numbers of the first and the last call that read of them."""

    nbytes: int
    first: int
    last: int


def fetch_bound(decoded: Decoded, engine: Engine) -> int:
    """Cycles that no run with these fetches, these resident bytes and this order of calls is faster than.

    There is one flash, and fetches start between calls. Let C(i..j) be the cycles of calls, and F(i..j) the bytes of
    fetches, but for resident ones, that calls i..j are the first to read. A run takes at least, for every i and k < i,

        F(0..i) / bandwidth + C(i..end)
        C(0..k) + (F(k+1..i) - ahead) / bandwidth + C(i..end)

    where `ahead` is what may have been started before call k: whole fetches, in the room of the area beside what is
    resident and what call k or a later one still reads.
    """
    prices = [engine.call_dispatch + cost(call.params, engine).cycles for call in decoded.calls]
    before = list(accumulate(prices, initial=0))
    streams = _streams(decoded)
    bound, needed = before[-1], 0
    for stream in streams:
        needed += stream.nbytes
        bound = max(bound, engine.transfer(needed) + before[-1] - before[stream.first])
    area = decoded.header.prefetch_bytes - decoded.header.resident_bytes
    for k in range(len(prices)):
        room = area - sum(stream.nbytes for stream in streams if stream.first <= k <= stream.last)
        total = fitting = 0
        for stream in (stream for stream in streams if stream.first > k):
            total += stream.nbytes
            fitting += stream.nbytes if stream.nbytes <= room else 0
            late = engine.transfer(total - min(room, fitting))
            bound = max(bound, before[k + 1] + late + before[-1] - before[stream.first])
    return bound


def serial_cycles(decoded: Decoded, engine: Engine) -> int:
    """Cycles of a run that fetches everything, resident or not, when it is needed, and waits for it."""
    total = 0
    for command in decoded.commands:
        match command:
            case Call():
                total += engine.call_dispatch + cost(command.params, engine).cycles
            case Fetch():
                total += engine.fetch_setup + engine.fetch_latency + engine.transfer(command.nbytes)
            case _:
                pass
    return total


def readers(decoded: Decoded) -> dict[int, tuple[int, ...]]:
    """For each fetch, by its command, the commands that read of it before another fetch takes its place."""
    by_fetch: dict[int, list[int]] = {}
    there: dict[int, Fetch] = {}
    for index, command in enumerate(decoded.commands):
        match command:
            case Fetch():
                there = {at: fetch for at, fetch in there.items() if not fetch.written.overlaps(command.written)}
                there[index], by_fetch[index] = command, []
            case Call():
                for at, fetch in there.items():
                    if any(operand.overlaps(fetch.written) for operand in command.operands):
                        by_fetch[at].append(index)
            case _:
                pass
    return {at: tuple(reading) for at, reading in by_fetch.items()}


def _streams(decoded: Decoded) -> list[_Stream]:
    """The fetches that every run makes and that a call reads of, by the first such call."""
    number = decoded.calls_before
    streams: list[_Stream] = []
    for index, reading in readers(decoded).items():
        fetch = decoded.commands[index]
        if isinstance(fetch, Fetch) and not fetch.resident and reading:
            streams.append(_Stream(fetch.nbytes, number[reading[0]], number[reading[-1]]))
    return sorted(streams, key=lambda stream: stream.first)
