"""Your own measurements of chips, in a file of yours: `deuteron calibrate` adds them, and reports print their bands."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deuteron.arch.silicon import Band, band_of
from deuteron.errors import FormatError, InputError, counted, unreadable, unwritable
from deuteron.records import RecordFile

FILE = RecordFile("calibration.json", 1, "deuteron calibrate", "delete it, and run `deuteron calibrate` again")

_WORK = {"cpu": "estimated time of operators on the CPU", "npu": "simulated or estimated time of the NPU"}
"""Subject of an estimate, by processor."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A program on a board.

    Attributes:
        board: its name in the image.
        target: target of the build.
        processor: `cpu` or `npu`.
        model: name of the model.
        program_sha256: hash of the `.pte`.
        measured_ns: measured time of what has an estimate.
        estimated_ns: its estimate.
        deuteron: version that estimated.
    """

    board: str
    target: str
    processor: str
    model: str
    program_sha256: str
    measured_ns: int
    estimated_ns: int
    deuteron: str

    @property
    def ratio(self) -> float:
        """Return the ratio of the measured time to the estimate."""
        return self.measured_ns / self.estimated_ns

    @property
    def key(self) -> tuple[str, ...]:
        """Return the identity: a new measurement of the same replaces it."""
        return self.board, self.target, self.processor, self.program_sha256


@dataclass(frozen=True, slots=True)
class Measurements:
    """All of them, in the order in which they were made."""

    measurements: tuple[Measurement, ...]


@dataclass(frozen=True, slots=True)
class OwnBand:
    """Band of a board for a target by your measurements."""

    board: str
    target: str
    processor: str
    band: Band

    def __str__(self) -> str:
        band = self.band
        return (
            f"your `{self.board}` took {band.least:.2f} to {band.most:.2f} times the {_WORK[self.processor]}, "
            f"{band.mean:.2f} by the geometric mean of {counted(band.points, 'measurement')} of yours"
        )


def path() -> Path:
    """Return the path of the user's file."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "deuteron" / FILE.name


def read() -> tuple[Measurement, ...]:
    """Return all measurements; none if there is no file.

    Raises:
        InputError: the file cannot be read.
        FormatError: it is damaged.
    """
    file = path()
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return ()
    except OSError as e:
        raise unreadable(file, e) from e
    except UnicodeDecodeError as e:
        raise FormatError("not UTF-8 text", where=str(file), hint=FILE.again) from e
    try:
        found = FILE.from_json(text, Measurements).measurements
    except FormatError as e:
        raise FormatError(e.message, where=str(file), hint=FILE.again) from e
    if wrong := [one for one in found if min(one.measured_ns, one.estimated_ns) < 1 or one.processor not in _WORK]:
        raise FormatError(f"an impossible measurement of `{wrong[0].model}`", where=str(file), hint=FILE.again)
    return found


def add(new: Iterable[Measurement]) -> Path:
    """Add measurements to the file, in place of earlier ones of the same program, board and processor.

    Raises:
        InputError: the file cannot be written, or as `read`.
    """
    known = {one.key: one for one in read()}
    for one in new:
        known.pop(one.key, None)
        known[one.key] = one
    file = path()
    whole = file.with_name(f"{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(FILE.to_json(Measurements(tuple(known.values()))), encoding="utf-8")
        whole.replace(file)
    except OSError as e:
        raise unwritable(file, e) from e
    return file


def bands(target: str | None = None, processor: str | None = None) -> tuple[OwnBand, ...]:
    """Return the band of each board, target and processor; those of a target or processor only, if given."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for one in read():
        if target in (None, one.target) and processor in (None, one.processor):
            ratios.setdefault((one.board, one.target, one.processor), []).append(one.ratio)
    return tuple(OwnBand(*key, band_of(values)) for key, values in ratios.items())


def notes(target: str, processor: str) -> tuple[str, ...]:
    """Return the bands as text, for a report; a file that cannot be read gives a line that says so."""
    try:
        return tuple(map(str, bands(target, processor)))
    except (InputError, FormatError) as e:
        where = f"{e.where}: " if e.where else ""
        return (f"your measurements are not used: {where}{e.message}; {e.hint}",)
