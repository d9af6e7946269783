"""The tables as text and as plain values."""

from collections.abc import Iterator, Sequence

from deuteron.errors import OptionError
from deuteron.profile.events import Measure
from deuteron.profile.gaps import attributed
from deuteron.profile.record import Profile
from deuteron.profile.tables import Row, left_out, per_run, total, utilisation

SORTS = ("time", "order", "macs", "bytes", "name")
"""What `--sort` offers; the first is the default, but of modules, which are a tree."""

SCHEMA = 1


def arranged(rows: Sequence[Row], sort: str, top: int | None) -> tuple[Row, ...]:
    """The rows in another order, and the rest after the first `top` as one: what is in none of these.

    Raises:
        OptionError: for an unknown order.
    """
    match sort:
        case "time":
            rows = sorted(rows, key=lambda row: -row.ticks)
        case "order":
            pass
        case "macs":
            rows = sorted(rows, key=lambda row: -row.macs)
        case "bytes":
            rows = sorted(rows, key=lambda row: -row.nbytes)
        case "name":
            rows = sorted(rows, key=lambda row: row.key)
        case _:
            raise OptionError(
                f"unknown value `{sort}` of `--sort`", hint=f"choose one of {', '.join(f'`{s}`' for s in SORTS)}"
            )
    if top is None or top >= len(rows):
        return tuple(rows)
    shown, rest = list(rows[:top]), Row(f"[{len(rows) - top} others]")
    paths = {row.path for row in shown}
    for row in rows[top:]:
        if row.path is None or not any(row.path[:depth] in paths for depth in range(row.depth)):
            rest += row
            paths.add(row.path)
    return (*shown, rest) if rest.ticks else tuple(shown)


def summary(profile: Profile) -> Iterator[str]:
    """What was run, how long it took, and how much of that is explained."""
    stream = profile.stream
    each = total(profile) / max(1, stream.runs)
    tick = stream.clock.tick if stream.clock.tick == "ns" else f"{stream.clock.tick}s"
    length = f"{each:,.0f} {tick}"
    if stream.measure is not Measure.COUNTED:  # an emulator has no time of its own
        length = f"{stream.clock.microseconds(round(each)):,.1f} us ({length})"
    yield (
        f"{profile.model} for {profile.target} on {profile.on}, {stream.measure.value}: {length} per run, "
        f"{stream.runs} {'run' if stream.runs == 1 else 'runs'}"
    )
    if count := left_out(profile):
        operators = "1 operator on the CPU is" if count == 1 else f"{count} operators on the CPU are"
        yield f"{operators} not simulated, and not in these times"
    share = attributed(stream.events)
    if share is not None:
        yield f"{share:.3%} of the time on the NPU's partitions is attributed"
    if stream.lost:
        yield f"{stream.lost:,} events are lost: the recorder had no room for them, and their time is not attributed"
        if stream.runs > 1:
            yield "numbers per run are means of all runs, also of those whose events are lost"


def table(profile: Profile, rows: Sequence[Row], title: str) -> Iterator[str]:
    """The rows as text; times per run."""
    whole, runs, clock = total(profile) or 1, max(1, profile.stream.runs), profile.stream.clock
    counted = profile.stream.measure is Measure.COUNTED
    unit = "instr." if counted else "us"

    def amount(ticks: int) -> str:
        return each(ticks) if counted else f"{clock.microseconds(ticks) / runs:,.1f}"

    def each(number: int) -> str:
        mean = per_run(number, profile)
        return f"{mean:,}" if isinstance(mean, int) else f"{mean:,.1f}"

    yield (
        f"{unit:>12} {'share':>7} {f'wait {unit}':>12} {'calls':>6} {'MACs':>13} {'bytes':>11} {'used':>6} "
        f"{'bound':<8} {title}"
    )
    for row in rows:
        used = utilisation(row, profile)
        yield (
            f"{amount(row.ticks):>12} {row.ticks / whole:>7.2%} {amount(row.wait):>12} "
            f"{each(row.calls):>6} {each(row.macs):>13} "
            f"{each(row.nbytes):>11} {'-' if used is None else f'{used:.1%}':>6} {row.bound:<8} "
            f"{'  ' * row.depth}{row.name}{f'  {row.detail}' if row.detail else ''}"
        )


def to_json(profile: Profile, rows: Sequence[Row], by: str) -> dict[str, object]:
    """The rows as plain values; ticks of all runs together."""
    stream, whole = profile.stream, total(profile)
    return {
        "schema": SCHEMA,
        "model": profile.model,
        "on": profile.on,
        "kind": stream.measure.value,
        "clock": {"id": stream.clock.id, "hz": stream.clock.hz, "tick": stream.clock.tick},
        "runs": stream.runs,
        "ticks": whole,
        "attributed": attributed(stream.events),
        "lost": stream.lost,
        "by": by,
        "rows": [
            {
                "name": row.name,
                "detail": row.detail,
                "depth": row.depth,
                "calls": row.calls,
                "ticks": row.ticks,
                "wait": row.wait,
                "dispatch": row.dispatch,
                "share": row.ticks / whole if whole else 0.0,
                "macs": row.macs,
                "bytes": row.nbytes,
                "utilisation": utilisation(row, profile),
                "bound": row.bound,
            }
            for row in rows
        ],
    }
