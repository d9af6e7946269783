"""Tables over results: by file, and failures by cause."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .backends import Backend
from .deviations import Deviation
from .suite import Result

# A test may skip itself. An expected failure is good only where the deviations say so.
GOOD = ("passed", "skipped")


@dataclass(frozen=True, slots=True)
class Account:
    """Every selected test, each in exactly one of the columns."""

    passed: tuple[str, ...]
    lifted: tuple[str, ...]
    """Passed without the expected-failure mark that the suite gives them."""
    failed: tuple[str, ...]
    deviating: tuple[str, ...]
    """Not run, or failing as it has to, with a reason in the deviations file."""
    missing: tuple[str, ...]
    """Not run yet."""


_COLUMNS = {
    "passed": "passed",
    "lifted": "mark lifted",
    "failed": "failed",
    "deviating": "deviation",
    "missing": "not run yet",
}
"""Titles of the columns."""


def account(tests: Iterable[str], results: Mapping[str, Result], deviations: Mapping[str, Deviation]) -> Account:
    """Where each test stands."""
    columns: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for test in tests:
        deviation = deviations.get(test)
        result = results.get(test)
        if deviation is not None and not deviation.runs:
            columns["deviating"].append(test)
        elif result is None:
            columns["missing"].append(test)
        elif result.outcome not in (GOOD if deviation is None else deviation.good):
            columns["failed"].append(test)
        elif deviation is not None and deviation.fails:
            columns["deviating"].append(test)
        else:
            columns["lifted" if deviation is not None and deviation.lifts else "passed"].append(test)
    return Account(**{name: tuple(members) for name, members in columns.items()})


def cause(result: Result) -> str:
    """Why a test failed, in words that tests with the same cause share: Deuteron's own error before the test's."""
    text = result.converter or f"{result.outcome}: {result.error}"
    # Names and sizes differ from test to test.
    text = re.sub(r"/[^\s\"'`]*/", "", text)
    text = re.sub(r"`[^`]*`", "`..`", text)
    return re.sub(r"(?<![A-Za-z_\d])-?\d+(\.\d+)?(e-?\d+)?", "N", text)[:160]


def show(
    console: Console, backend: Backend, tests: Sequence[str], results: Mapping[str, Result], found: Account
) -> None:
    """Prints the tables."""
    console.print(_by_file(backend, tests, results, found))
    console.print(summary(backend, tests, results, found), highlight=False)
    if found.failed:
        console.print(_by_cause([results[test] for test in found.failed]))


def summary(backend: Backend, tests: Sequence[str], results: Mapping[str, Result], found: Account) -> str:
    """The share that passes, and how many ran programs instead of a simulator."""
    good = len(found.passed) + len(found.lifted)
    text = f"{good} of {len(tests)} tests pass ({_percent(good, len(tests))})"
    if found.missing:
        run = sum(test in results for test in tests)
        text += f", {_percent(good, run)} of the {run} that were run: this is a part of the suite"
    programs = [result.programs for test in tests if (result := results.get(test)) is not None and result.programs]
    if not programs:
        return f"{text}."
    return f"{text}; {len(programs)} of them ran {sum(programs)} programs, {backend.where}."


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def to_json(backend: Backend, results: Mapping[str, Result], found: Account) -> str:
    """Where each test stands, with what it took and what went wrong."""
    columns = {name: getattr(found, name) for name in _COLUMNS}
    rows = [
        {"column": name, **(asdict(results[test]) if test in results else {"test": test})}
        for name, members in columns.items()
        for test in members
    ]
    counts = {name: len(members) for name, members in columns.items()}
    return json.dumps({"backend": backend.name, "counts": counts, "tests": rows}, indent=1) + "\n"


def markdown(
    backend: Backend,
    tests: Sequence[str],
    results: Mapping[str, Result],
    found: Account,
    known: Iterable[Deviation],
    compared: Iterable[str] = (),
) -> str:
    """The tables as a page, without times, which differ from machine to machine; `compared` is said of programs."""
    lines = [
        f"# ExecuTorch's own {backend.title} tests",
        "",
        f"The tests of the {backend.title} backend in the wheel of ExecuTorch 1.5.1, unmodified, against Deuteron: the",
        f"last result of `make {backend.command}`, written by `python -m conformance --backend {backend.name} --report",
        f"--markdown FILE`. *Mark lifted*: the suite expects the test to fail, because of {backend.lifted}; it",
        "passes here.",
        "",
        summary(backend, tests, results, found),
        "",
        *(line for sentence in compared for line in (f"{sentence.strip()}.", "")),
    ]
    if backend.configurations:
        rows = {
            title: {test for test in tests if re.search(pattern, test)} for title, pattern in backend.configurations
        }
        lines += [*_rows("configuration", rows, found), ""]
    folders = {name: {test for test in tests if _folder(test) == name} for name in sorted({*map(_folder, tests)})}
    lines += _rows("folder", folders | {"all": {*tests}}, found)
    lines += ["", "## Deviations", "", "| tests | reason | number | why |", "|---|---|--:|---|"]
    lines += [f"| `{one.tests}` | {one.reason} | {one.count} | {one.why} |" for one in known]
    if found.failed:
        lines += ["", "## Failures", "", "| test | cause |", "|---|---|"]
        lines += [f"| `{test}` | {cause(results[test]).replace('|', '/')} |" for test in found.failed]
    return "\n".join(lines) + "\n"


def _rows(what: str, groups: Mapping[str, Sequence[str]], found: Account) -> Iterator[str]:
    """A table with a row for each group of tests."""
    yield f"| {what} | {' | '.join(_COLUMNS.values())} | tests |"
    yield "|---|" + "--:|" * (len(_COLUMNS) + 1)
    for title, group in groups.items():
        counts = [len({*group} & {*getattr(found, name)}) for name in _COLUMNS]
        yield f"| {title} | " + " | ".join(str(count or "") for count in (*counts, len(group))) + " |"


def _by_file(backend: Backend, tests: Sequence[str], results: Mapping[str, Result], found: Account) -> Table:
    table = Table(title=f"ExecuTorch's {backend.title} tests", show_footer=True)
    groups = {title: getattr(found, name) for name, title in _COLUMNS.items()}
    seconds = Counter({test: result.seconds for test, result in results.items()})
    table.add_column("file", footer="all")
    for title, group in groups.items():
        table.add_column(title, footer=str(len(group)), justify="right")
    table.add_column("tests", footer=str(len(tests)), justify="right")
    table.add_column("seconds", footer=f"{sum(seconds[test] for test in tests):.0f}", justify="right")
    for file in sorted({_file(test) for test in tests}):
        inside = [test for test in tests if _file(test) == file]
        counts = [len([test for test in group if _file(test) == file]) for group in groups.values()]
        spent = sum(seconds[test] for test in inside)
        table.add_row(file, *(str(count or "") for count in counts), str(len(inside)), f"{spent:.0f}")
    return table


def _by_cause(failures: Sequence[Result]) -> Table:
    table = Table(title="Failures by cause")
    table.add_column("tests", justify="right")
    table.add_column("cause", overflow="fold")
    table.add_column("for example", overflow="fold")
    example = {cause(result): result.test for result in reversed(failures)}
    for text, count in Counter(cause(result) for result in failures).most_common():
        table.add_row(str(count), escape(text), escape(example[text]))
    return table


def _file(test: str) -> str:
    return test.split("::", maxsplit=1)[0]


def _folder(test: str) -> str:
    return PurePosixPath(_file(test)).parent.as_posix()
