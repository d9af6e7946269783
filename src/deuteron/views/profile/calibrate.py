"""Measurements for `deuteron calibrate` from profiles of boards."""

from pathlib import Path

from deuteron.arch.calibration import Measurement
from deuteron.errors import UnsupportedError
from deuteron.views.events import record
from deuteron.views.events.events import Measure, SpanKind
from deuteron.views.events.record import Profile
from deuteron.views.events.tables import parts

_HINT = "give a profile of `deuteron profile BUILD --on serial:PORT` of a board"


def measurements(path: Path) -> tuple[Measurement, ...]:
    """Return the measured and estimated times of the processors in a profile of a board.

    Raises:
        InputError, FormatError: there is no profile, or it is damaged.
        UnsupportedError: its times are not those of a chip, or it has no estimates.
    """
    profile = record.read(path)
    kind = profile.stream.measure
    if kind is not Measure.MEASURED or profile.on == "host":
        raise UnsupportedError(f"`{path}` has no times of a chip: they are {kind.value}, on `{profile.on}`", hint=_HINT)
    on_cpu = [part.row for part in parts(profile) if part.key[0] == "operator" and part.row.estimate]
    found = (
        _measurement(profile, "cpu", sum(row.compared for row in on_cpu), sum(row.estimate for row in on_cpu)),
        _measurement(profile, "npu", *_of_partitions(profile)),
    )
    known = tuple(one for one in found if one is not None)
    if not known:
        raise UnsupportedError(f"`{path}` has no estimates to compare its times with", hint=_HINT)
    return known


def _of_partitions(profile: Profile) -> tuple[int, int]:
    """Return the ticks of all partitions with an estimate, and these estimates."""
    whole = {each.partition: each.ticks for each in profile.estimates if each.partition >= 0 and each.index < 0}
    events = [e for e in profile.stream.median().events if e.kind is SpanKind.DELEGATE and e.partition in whole]
    return sum(event.ticks for event in events), sum(whole[event.partition] for event in events)


def _measurement(profile: Profile, processor: str, measured: int, estimated: int) -> Measurement | None:
    """Return the measurement; None if a time is 0."""
    nanoseconds = 1_000_000_000 / profile.stream.clock.hz
    times = round(measured * nanoseconds), round(estimated * nanoseconds)
    if not all(times):
        return None
    return Measurement(
        profile.on,
        profile.target,
        processor,
        profile.model,
        profile.program_sha256,
        *times,
        profile.versions["deuteron"],
    )
