"""Reads the CSV file of a current meter that also records the pins of `dtn_port_trigger`."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, unreadable

Numbers = npt.NDArray[np.float64]

_QUANTITIES = {
    "time": (re.compile(r"time|timestamp"), "s"),
    "current": (re.compile(r"current|\bamps?\b"), "a"),
    "voltage": (re.compile(r"voltage|volts?\b"), "v"),
}
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "": 1.0}  # both signs for micro
_UNIT = re.compile(r"[\s(\[_/](?P<prefix>[nuµμm]?)(?P<unit>[sav])[)\]]?$")
_PLAIN = re.compile(r"[a-z ]*\b(time|timestamp|current|amps?|amperes|voltage|volts?)( \d+)?")
"""A name without a unit: it is the SI unit then."""
_SLOWEST = 1.0
"""Seconds between samples from which a time without a unit is taken for one in another unit."""
_NUMBER = re.compile(r"[\s\"]*[-+]?[.,]?\d[\dTeE.:+-]*Z?[\s\"]*[,;\t]|[\s\"]*\d{4}-\d\d-\d\d ")
"""Start of a line of samples."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d*)?Z?")
"""A time of the day as ISO 8601 has it, in UTC."""
_BITS = re.compile(r"(?P<name>[A-Za-z]+)(?P<first>\d+)-(?P=name)(?P<last>\d+)")
"""Name of a column with several digital channels, one character for each: `D0-D7` of PPK2's application."""
_ONE_CHANNEL = "name the column of one digital channel, with 0 and 1"
_LAYOUT = "the first line names the columns with their units, such as `Timestamp(ms),Current(uA),D0,D1`"


@dataclass(frozen=True, slots=True)
class Log:
    """Samples of a current meter.

    Attributes:
        seconds: time of each sample, not falling: meters may round it.
        amperes: current of each.
        volts: voltage of each; None if the file has no such column.
        pins: levels of digital channels by their names.
    """

    seconds: Numbers
    amperes: Numbers
    volts: Numbers | None
    pins: Mapping[str, npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The lines of samples, by their numbers in the file, and their columns."""

    path: Path
    names: Sequence[str]
    lines: Mapping[int, str]
    separator: str


def read_log(path: Path, pins: Sequence[str]) -> Log:
    """Read a CSV file with one column for the time, one for the current, and one for each of the pins.

    The pins may also share a column, such as PPK2's `D0-D7`. Times may be numbers, or dates with times of the day.

    Args:
        path: the file. Commas, semicolons and tabs separate columns; the last two allow decimal commas.
            Lines that start with `#` are ignored, but the last one before the first number may have the names.
        pins: names of digital channels.

    Raises:
        FormatError: it has no line with names, not these columns, or a value that is not a number.
    """
    rows = _rows(path)
    names = rows.names
    found = {quantity: _column(rows, quantity, pins) for quantity in _QUANTITIES}
    for quantity in ("time", "current"):
        if found[quantity] is None:
            raise FormatError(f"`{path}` has no column for the {quantity}: {_listed(names)}", hint=_LAYOUT)
    places = {pin: _place(rows, pin) for pin in pins}
    columns = {name: at for name, at in found.items() if at is not None}
    columns |= {f"pin {pin}": column for pin, (column, bit) in places.items() if bit is None}
    dates = _dates(rows, columns["time"])
    if dates is not None:
        del columns["time"]
    values = _values(rows, columns)
    seconds = values["time"] * _scale(path, names[columns["time"]], "time") if dates is None else dates
    electric = {q: values[q] * _scale(path, names[columns[q]], q) for q in ("current", "voltage") if q in columns}
    _check_units(path, [names[columns[q]] for q in _QUANTITIES if q in columns and (q != "time" or dates is None)])
    _check_time(path, names[columns["time"]] if dates is None else "", seconds)
    levels = {
        pin: _bits(rows, pin, column, bit) if bit is not None else _levels(path, pin, values[f"pin {pin}"])
        for pin, (column, bit) in places.items()
    }
    return Log(seconds, electric["current"], electric.get("voltage"), levels)


def _rows(path: Path) -> _Rows:
    """Read the file, and split its first line into names."""
    try:
        text = path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"`{path}` is not a text file: {error.reason}", hint=_LAYOUT) from None
    lines = {number: line for number, line in enumerate(text, 1) if line.strip() and line[0] != "#"}
    first = min(lines, default=0)
    if first and _NUMBER.match(lines[first]):  # then a comment has the names
        above = [number for number in range(1, first) if text[number - 1].startswith("#")]
        lines |= {number: text[number - 1] for number in above[-1:]}
    if len(lines) < 3:
        raise FormatError(f"`{path}` has fewer than two samples", hint=_LAYOUT)
    header = lines.pop(min(lines)).lstrip("# ")
    separator = next((mark for mark in "\t;" if mark in header), ",")
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
    return _Rows(path, names, lines, separator)


def _place(rows: _Rows, pin: str) -> tuple[int, int | None]:
    """Return the column of a pin, and its character in that if pins share the column."""
    if rows.names.count(pin) == 1 and not _BITS.fullmatch(pin):
        return rows.names.index(pin), None
    shared = [(at, match) for at, name in enumerate(rows.names) if (match := _BITS.fullmatch(name))]
    for at, match in shared:
        number = pin.removeprefix(match["name"])
        if number.isdecimal() and int(match["first"]) <= int(number) <= int(match["last"]):
            return at, int(number) - int(match["first"])
    raise FormatError(
        f"`{rows.path}` has no column `{pin}`: {_listed(rows.names)}",
        hint=f"name one channel of `{pin}`, such as `{bits['name']}{bits['first']}`"
        if pin in rows.names and (bits := _BITS.fullmatch(pin))
        else "name a column with one digital channel, or a channel of one such as `D0-D7`; export the digital "
        "channels together with the current",
    )


def _dates(rows: _Rows, column: int) -> Numbers | None:
    """Return the seconds since the first sample of a column with dates and times; None for one with numbers."""
    cells = _cells(rows, column)
    if not _DATE.fullmatch(cells[0]):
        return None
    for number, cell in zip(rows.lines, cells, strict=True):
        if not _DATE.fullmatch(cell):
            raise _without_number(rows.path, number, "time")
    times = np.empty(len(cells), "datetime64[ns]")
    for at, (number, cell) in enumerate(zip(rows.lines, cells, strict=True)):
        try:
            times[at] = np.datetime64(cell.rstrip("Z").replace(" ", "T").replace(",", "."), "ns")
        except ValueError:  # such as a 13th month
            raise _without_number(rows.path, number, "time") from None
    return np.asarray((times - times[0]) / np.timedelta64(1, "s"), np.float64)


def _bits(rows: _Rows, pin: str, column: int, bit: int) -> npt.NDArray[np.bool_]:
    """Return the levels of a pin that shares a column with others."""
    levels = [cell[bit : bit + 1] for cell in _cells(rows, column)]
    for number, level in zip(rows.lines, levels, strict=True):
        if level not in ("0", "1"):
            raise FormatError(
                f"line {number:,} has `{level}` for the pin {pin}, it must be 0 or 1",
                where=str(rows.path),
                hint="record the digital channels, and export all samples",
            )
    return np.array(levels) == "1"


def _cells(rows: _Rows, column: int) -> list[str]:
    """Return the text of a column; empty where a line lacks it."""
    split = csv.reader(rows.lines.values(), delimiter=rows.separator)
    return [row[column].strip() if column < len(row) else "" for row in split]


def _levels(path: Path, pin: str, values: Numbers) -> npt.NDArray[np.bool_]:
    """Return the levels of a pin with its own column."""
    if ((values != 0) & (values != 1)).any():
        raise FormatError(f"`{path}`: column `{pin}` has other values than 0 and 1", hint=_ONE_CHANNEL)
    return values == 1


def _check_time(path: Path, name: str, seconds: Numbers) -> None:
    """Reject times that fall, that never rise, or whose unit is not likely; dates, which have none, have no name."""
    steps = np.diff(seconds)
    if (falling := np.flatnonzero(steps < 0)).size or not steps.any():
        where = f"falls after sample {falling[0]:,}" if falling.size else "never rises"
        raise FormatError(f"`{path}`: the time {where}", hint="export the samples in order, with the time of each")
    usual = float(np.median(steps[steps > 0]))
    if usual >= _SLOWEST and _PLAIN.fullmatch(name.lower()):
        raise FormatError(
            f"`{path}`: the column `{name}` has no unit, and in seconds its samples are {usual:g} s apart",
            hint=f"add the unit to the name: `{name} (s)`, `(ms)`, `(us)` or `(ns)`",
        )


def _check_units(path: Path, names: Sequence[str]) -> None:
    """Reject columns with and without a unit in one file: a name whose unit was lost would count as the SI unit."""
    plain = [name for name in names if _PLAIN.fullmatch(name.lower()) and not _UNIT.search(name.lower())]
    if plain and len(plain) < len(names):
        others = ", ".join(f"`{name}`" for name in names if name not in plain)
        raise FormatError(
            f"`{path}`: the column `{plain[0]}` has no unit, but {others} {'have' if ',' in others else 'has'} one",
            hint="add the unit to its name, such as `Current (uA)`; without any unit in the file they are s, A and V",
        )


def _column(rows: _Rows, quantity: str, pins: Sequence[str]) -> int | None:
    """Return the column of a quantity; of several for the time, of which others are dates, the one with numbers."""
    pattern, _ = _QUANTITIES[quantity]
    found = [i for i, name in enumerate(rows.names) if name not in pins and pattern.search(name.lower())]
    if len(found) > 1 and quantity == "time":
        numbers = [column for column in found if not _DATE.fullmatch(_cells(rows, column)[0])]
        found = numbers or found
    if len(found) > 1:
        raise FormatError(
            f"`{rows.path}` has several columns for the {quantity}: {_listed([rows.names[i] for i in found])}",
            hint="export one channel of the meter, with one time",
        )
    return found[0] if found else None


def _scale(path: Path, name: str, quantity: str) -> float:
    """Return SI units per unit of a column; without a unit in its name it is the SI unit."""
    unit = _QUANTITIES[quantity][1]
    match = _UNIT.search(name.lower())
    if match is None and _PLAIN.fullmatch(name.lower()):
        return 1.0
    if match is None or match["unit"] != unit:
        raise FormatError(
            f"`{path}`: unknown unit in the column `{name}`",
            hint="use one of " + ", ".join(f"`{prefix}{unit.upper()}`" for prefix in ("", "m", "u", "n")),
        )
    return _PREFIXES[match["prefix"]]


def _values(rows: _Rows, columns: Mapping[str, int]) -> dict[str, Numbers]:
    """Return the values of columns with numbers."""
    lines, separator = list(rows.lines.values()), rows.separator
    if separator != "," and not any("." in line for line in lines):
        lines = [line.replace(",", ".") for line in lines]
    table = _table(lines, separator, columns.values())
    if table is None:
        at = _first_wrong(lines, separator, columns.values())
        wrong = (name for name, column in columns.items() if _table([lines[at]], separator, [column]) is None)
        raise _without_number(rows.path, list(rows.lines)[at], next(wrong))
    if (odd := np.argwhere(~np.isfinite(table))).size:
        row, column = (int(at) for at in odd[0])
        raise _without_number(rows.path, list(rows.lines)[row], list(columns)[column])
    return dict(zip(columns, table.T, strict=True))


def _table(lines: Sequence[str], separator: str, columns: Iterable[int]) -> Numbers | None:
    """Return the values of these columns; None if a line lacks one, or it is not a number."""
    try:
        return np.loadtxt(lines, delimiter=separator, usecols=list(columns), ndmin=2, comments=None, quotechar='"')
    except (ValueError, IndexError):
        return None


def _first_wrong(lines: Sequence[str], separator: str, columns: Iterable[int]) -> int:
    """Return the first line that `_table` rejects, by bisection."""
    columns, first, end = list(columns), 0, len(lines)
    while end - first > 1:
        middle = (first + end) // 2
        if _table(lines[first:middle], separator, columns) is None:
            end = middle
        else:
            first = middle
    return first


def _without_number(path: Path, line: int, column: str) -> FormatError:
    return FormatError(
        f"line {line:,} has no number for the {column}",
        where=str(path),
        hint="export a range in which every sample has numbers, with decimal points if commas separate columns",
    )


def _listed(names: Sequence[str]) -> str:
    return "columns are " + ", ".join(f"`{name}`" for name in names)
