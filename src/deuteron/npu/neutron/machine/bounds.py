"""Bounds of the cost of fetches, from the commands of a program."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch
from deuteron.operators.access_footprint import reached_by
from deuteron.operators.regions import Place, Region


@dataclass(frozen=True, slots=True)
class _Stream:
    """A fetch of every run: bytes, and the indices of the first and last call that read them."""

    nbytes: int
    first: int
    last: int


def fetch_bound(decoded: Decoded, engine: Engine) -> int:
    """Return a lower bound in cycles of runs with these fetches, resident bytes and order of calls.

    There is one flash, and fetches start between calls. Let C(i..j) be the cycles of calls, and F(i..j) the bytes of
    non-resident fetches that calls i..j are the first to read. A run takes at least, for every i and k < i,

        F(0..i) / bandwidth + C(i..end)
        C(0..k) + (F(k+1..i) - ahead) / bandwidth + C(i..end)

    where `ahead` are the bytes that may have been issued before call k: whole fetches that fit into the area next to
    resident bytes and bytes that call k or a later one still reads. For programs that fetch to scratch this includes
    scratch, without bytes that call k or a later one reads there, and those that call k writes.
    """
    prices = [engine.call_dispatch + cost(call.params, engine).cycles for call in decoded.calls]
    before = list(accumulate(prices, initial=0))
    streams = _streams(decoded)
    bound, needed = before[-1], 0
    for stream in streams:
        needed += stream.nbytes
        bound = max(bound, engine.transfer(needed) + before[-1] - before[stream.first])
    area = decoded.header.prefetch_bytes - decoded.header.resident_bytes
    free = _free_scratch(decoded)
    for k in range(len(prices)):
        space = area + free[k] - sum(stream.nbytes for stream in streams if stream.first <= k <= stream.last)
        total = fitting = 0
        for stream in (stream for stream in streams if stream.first > k):
            total += stream.nbytes
            fitting += stream.nbytes if stream.nbytes <= space else 0
            late = engine.transfer(total - min(space, fitting))
            bound = max(bound, before[k + 1] + late + before[-1] - before[stream.first])
    return bound


def serial_cycles(decoded: Decoded, engine: Engine) -> int:
    """Return the cycles of a run that makes every fetch, resident or not, when it is needed, and waits for it."""
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
    """Return for each fetch, by its command, the commands that read it before its bytes are overwritten."""
    by_fetch: dict[int, list[int]] = {}
    there: dict[int, Fetch] = {}
    for index, command in enumerate(decoded.commands):
        match command:
            case Fetch():
                there = {at: fetch for at, fetch in there.items() if not fetch.written.overlaps(command.written)}
                there[index], by_fetch[index] = command, []
            case Call():
                reads = len(command.kernel.reads)
                for at, fetch in there.items():
                    if any(operand.overlaps(fetch.written) for operand in command.operands[:reads]):
                        by_fetch[at].append(index)
                written = command.operands[reads:]
                there = {at: fetch for at, fetch in there.items() if not any(map(fetch.written.overlaps, written))}
            case _:
                pass
    return {at: tuple(reading) for at, reading in by_fetch.items()}


def fetched_to_scratch(decoded: Decoded) -> dict[int, tuple[Place, ...]]:
    """Return for each call, by its command, its operands that are weights fetched to scratch."""
    fetched: dict[int, list[Place]] = {}
    for index, reading in readers(decoded).items():
        fetch = decoded.commands[index]
        if isinstance(fetch, Fetch) and fetch.region is Region.SCRATCH:
            for at in reading:
                call = decoded.commands[at]
                operands = call.operands[: len(call.kernel.reads)] if isinstance(call, Call) else ()
                fetched.setdefault(at, []).extend(operand for operand in operands if operand.overlaps(fetch.written))
    return {at: tuple(places) for at, places in fetched.items()}


def _free_scratch(decoded: Decoded) -> list[int]:
    """Return for each call the bytes of scratch without live results; 0 if nothing is fetched there.

    Fetched bytes count as free; `_streams` has them.
    """
    fetched = fetched_to_scratch(decoded)
    if not fetched:
        return [0] * len(decoded.calls)
    is_live = np.zeros(decoded.header.scratch_bytes, np.bool_)
    free: list[int] = []
    for index, command in reversed(list(enumerate(decoded.commands))):
        if not isinstance(command, Call):
            continue
        strides, reads = reached_by(command.params), len(command.kernel.reads)
        places = [
            operand.offset + strides[at] if at in strides else slice(operand.offset, operand.offset + operand.nbytes)
            for at, operand in enumerate(command.operands)
        ]
        ours = [at for at, operand in enumerate(command.operands) if operand.region is Region.SCRATCH]
        ours = [at for at in ours if command.operands[at] not in fetched.get(index, ())]
        during = is_live.copy()
        for at in ours:
            during[places[at]] = True
            if at >= reads:
                is_live[places[at]] = False
        for at in ours:
            if at < reads:
                is_live[places[at]] = True
        free.append(len(is_live) - int(np.count_nonzero(during)))
    return free[::-1]


def _streams(decoded: Decoded) -> list[_Stream]:
    """Yield the fetches of every run that a call reads, by the first such call."""
    number = decoded.calls_before
    streams: list[_Stream] = []
    for index, reading in readers(decoded).items():
        fetch = decoded.commands[index]
        if isinstance(fetch, Fetch) and not fetch.resident and reading:
            streams.append(_Stream(fetch.nbytes, number[reading[0]], number[reading[-1]]))
    return sorted(streams, key=lambda stream: stream.first)
