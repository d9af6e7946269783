"""Formats the tables as text and as plain values."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deuteron.errors import OptionError, shortened
from deuteron.views.events.events import Measure, SpanKind
from deuteron.views.events.gaps import attributed
from deuteron.views.events.record import Profile
from deuteron.views.events.tables import Row, left_out, parts, total, utilisation, whole_utilisation, with_lines

SORTS = ("time", "order", "macs", "bytes", "name")
"""Values of `--sort`; the first is the default, except for modules, which form a tree."""

SCHEMA = 2


def arranged(rows: Sequence[Row], sort: str, top: int | None) -> tuple[Row, ...]:
    """Return the rows in another order, with the rest after the first `top` as one row.

    Raises:
        OptionError: the order is unknown.
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
            # Rows outside the model are in brackets, and last.
            rows = sorted(rows, key=lambda row: (row.name.startswith("["), row.key))
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
    return (*shown, rest if rest.ticks else replace(rest, detail="in the rows above"))


def npu_counters(profile: Profile) -> Iterator[str]:
    """Yield a line per partition with the NPU's own counters, which the tables of times leave out."""
    stream = profile.stream.median()
    for counted in stream.npu_cycles:
        yield f"npu {counted.partition}: {counted.cycles:,} cycles by the NPU's own counter"
    for counted in stream.npu_counts:
        yield f"npu {counted.partition}: {counted.count:,} of event 0x{counted.what:02X} by the NPU's own counter"


def depth_first(profile: Profile) -> Iterator[str]:
    """Yield the depth-first chains on the CPU and in each partition, and the memory that they save."""
    yield from (f"cpu: {sentence.strip()}" for sentence in profile.depth_first)
    for number, partition in enumerate(profile.partitions):
        yield from (f"npu {number}: {sentence.strip()}" for sentence in partition.depth_first)


def summary(profile: Profile) -> Iterator[str]:
    """Yield the subject of the profile, its time, and the explained share."""
    stream, ticks = profile.stream, total(profile)
    tick = stream.clock.tick if stream.clock.tick == "ns" else f"{stream.clock.tick}s"
    length = f"{ticks:,} {tick}"
    if stream.measure is not Measure.COUNTED:  # an emulator has no real time
        length = f"{_amount(profile, ticks)} us ({length})"
    yield f"{title(profile)}: {length} in {'one run' if stream.runs == 1 else f'the median of {stream.runs} runs'}"
    if stream.runs > 1:
        least, most = (_amount(profile, end(stream.lengths().values())) for end in (min, max))
        yield f"runs take {least} to {most} {unit(profile)}; all numbers below are of the median run"
    yield from profile.basis
    if count := left_out(profile):
        operators = "1 operator on the CPU is" if count == 1 else f"{count} operators on the CPU are"
        yield f"{operators} not {profile.stream.measure.value} and not included in these times"
    kinds = {event.kind for event in stream.events}
    share = attributed(stream.median().events)
    if share is not None:
        what = "instructions" if stream.measure is Measure.COUNTED else "time"
        is_untold = profile.options.get("use_profiling") == "False" and SpanKind.KERNEL not in kinds
        hint = "; a build with `--use-profiling` records the kernels" if is_untold else ""
        yield f"{share:.3%} of the {what} in NPU partitions is attributed{hint}"
    if (lines := with_lines(profile)) is not None:
        what = "instructions" if stream.measure is Measure.COUNTED else "time"
        yield f"{lines:.3%} of the {what} of kernels and operators has lines of the model"
    listed = parts(profile)
    if expected := sum(part.row.estimate for part in listed):
        ratio = sum(part.row.compared for part in listed) / expected
        yield f"kernels and operators with an estimate took {ratio:.2f} times their estimates"
    used = whole_utilisation(profile)
    if used is not None:
        yield f"{used:.1%} MAC utilisation in that time"
    if fetched := sum(event.ticks for event in stream.median().events if event.kind is SpanKind.TRANSFER):
        yield (
            f"{_amount(profile, fetched)} {unit(profile)} of fetches from flash run in parallel; the tables include "
            "only the waits of kernels"
        )
    yield from npu_counters(profile)
    yield from depth_first(profile)
    if stream.lost:
        yield f"{stream.lost:,} events are lost: the recorder's memory was full; their time is not attributed"


def title(profile: Profile) -> str:
    """Return the subject, the place and the kind of numbers."""
    return f"{profile.model} for {profile.target} on {profile.on}, {profile.stream.measure.value}"


def unit(profile: Profile) -> str:
    """Return the unit of times in texts."""
    return "instr." if profile.stream.measure is Measure.COUNTED else "us"


def _amount(profile: Profile, ticks: int) -> str:
    counted = profile.stream.measure is Measure.COUNTED
    return f"{ticks:,}" if counted else f"{profile.stream.clock.microseconds(ticks):,.1f}"


def table(profile: Profile, rows: Sequence[Row], by: str) -> Iterator[str]:
    """Yield the rows as text."""
    whole = total(profile) or 1
    has_estimates = any(row.estimate for row in rows)

    def amount(ticks: int) -> str:
        return _amount(profile, ticks)

    estimates = f"{'estimate':>12} {'ratio':>6} " if has_estimates else ""
    yield (
        f"{unit(profile):>12} {'share':>7} {'own':>12} {estimates}{'wait':>10} {'dispatch':>10} {'calls':>6} "
        f"{'MACs':>13} {'bytes':>11} {'used':>6} {'bound':<8} {by}"
    )
    for row in rows:
        used = utilisation(row, profile)
        known = (amount(row.estimate), f"{row.ratio:.2f}") if row.ratio is not None else ("-", "-")
        estimates = f"{known[0]:>12} {known[1]:>6} " if has_estimates else ""
        yield (
            f"{amount(row.ticks):>12} {row.ticks / whole:>7.2%} {amount(row.own):>12} {estimates}"
            f"{amount(row.wait):>10} {amount(row.dispatch):>10} {row.calls:>6,} {_count(row, row.macs):>13} "
            f"{_count(row, row.nbytes):>11} {'-' if used is None else f'{used:.1%}':>6} {row.bound:<8} "
            f"{'  ' * row.depth}{shortened(row.name)}{f'  {row.detail}' if row.detail else ''}"
        )


def _count(row: Row, number: int) -> str:
    """Return a count of a row's work; `-` if it has none or the count is unknown."""
    return f"{number:,}" if row.nbytes else "-"


def to_json(profile: Profile, rows: Sequence[Row], by: str) -> dict[str, object]:
    """Return the rows as plain values; ticks are those of the median run."""
    stream, whole = profile.stream, total(profile)
    return {
        "schema": SCHEMA,
        "model": profile.model,
        "on": profile.on,
        "kind": stream.measure.value,
        "clock": {"id": stream.clock.id, "hz": stream.clock.hz, "tick": stream.clock.tick},
        "runs": stream.runs,
        "ticks": whole,
        "lengths": [ticks for _, ticks in sorted(stream.lengths().items())],
        "attributed": attributed(stream.median().events),
        "lines": with_lines(profile),
        "utilisation": whole_utilisation(profile),
        "lost": stream.lost,
        "npu_cycles": [{"partition": c.partition, "cycles": c.cycles} for c in stream.median().npu_cycles],
        "npu_counts": [
            {"partition": c.partition, "event": c.what, "count": c.count} for c in stream.median().npu_counts
        ],
        "by": by,
        "rows": [
            {
                "name": row.name,
                "detail": row.detail,
                "depth": row.depth,
                "calls": row.calls,
                "ticks": row.ticks,
                "own": row.own,
                "wait": row.wait,
                "dispatch": row.dispatch,
                "share": row.ticks / whole if whole else 0.0,
                "macs": row.macs,
                "bytes": row.nbytes,
                "utilisation": utilisation(row, profile),
                "estimate": row.estimate or None,
                "ratio": row.ratio,
                "bound": row.bound,
            }
            for row in rows
        ],
    }
