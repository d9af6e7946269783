"""What the fetches of a program can cost at best and at worst, from its commands alone."""

from deuteron.arch.engine import Engine
from deuteron.kernels.cost import cost
from deuteron.microcode.decode import Call, Decoded, Fetch


def fetch_bound(decoded: Decoded, engine: Engine) -> int:
    """Cycles that no run with these resident bytes and this order of calls is faster than.

    With one flash, and F(i) the bytes that calls 0..i need and that are not resident, a run takes at least the maximum
    over i of F(i) / bandwidth + cycles of calls i..end: call i starts after its weights have come.
    """
    calls = decoded.calls
    remaining = [0] * (len(calls) + 1)
    for at in reversed(range(len(calls))):
        remaining[at] = remaining[at + 1] + engine.call_dispatch + cost(calls[at].params, engine).cycles
    bound, needed = remaining[0], 0
    for number, nbytes in _first_uses(decoded):
        needed += nbytes
        bound = max(bound, engine.transfer(needed) + remaining[number])
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


def _first_uses(decoded: Decoded) -> list[tuple[int, int]]:
    """For each fetch that every run makes, in order: the number of the first call that reads of it, and its bytes."""
    found: list[tuple[int, int]] = []
    before = decoded.calls_before
    for index, fetch in enumerate(decoded.commands):
        if not isinstance(fetch, Fetch) or fetch.resident:
            continue
        for at in range(index + 1, len(decoded.commands)):
            command = decoded.commands[at]
            if isinstance(command, Call) and any(operand.overlaps(fetch.written) for operand in command.operands):
                found.append((before[at], fetch.nbytes))
                break
    return found
