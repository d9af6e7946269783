"""The harness of the benches: arguments, tables, problems and the JSON file."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from benches.harness import Results, Table, main, only, option, table


@dataclass(frozen=True)
class Row:
    name: str
    count: int
    seconds: float | None
    right: bool = True


ROWS = (Row("a", 1234, 0.5), Row("bcd", 5, None, right=False))
COLUMNS = {"name": "name", "count": "count", "s": "seconds:.2f", "right": "right", "twice": lambda row: 2 * row.count}


def results(options: argparse.Namespace) -> Results:
    rows = [row for row in ROWS if row.name in (options.name or ["a", "bcd"])][: options.most]
    problems = [f"{row.name} is wrong" for row in rows if not row.right]
    return Results("counted", rows, [table(rows, COLUMNS, "a title")], problems, ["a note"], {"more": 1})


OPTIONS = (only("--name", ("a", "bcd")), option("--most", type=int, default=9))


def test_a_bench_prints_tables_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(results, *OPTIONS, arguments=["--json", str(tmp_path / "x.json")]) == 1
    printed = capsys.readouterr()
    assert printed.out == (
        "a title\nname  count     s  right  twice\n"
        "a     1,234  0.50  yes    2,468\n"
        "bcd       5        no        10\n"
        "a note\n"
    )
    assert printed.err == "error: bcd is wrong\n"
    written = json.loads((tmp_path / "x.json").read_text())
    assert (written["kind"], written["more"], written["rows"][1]["name"]) == ("counted", 1, "bcd")
    assert written["tables"][0]["columns"] == [*COLUMNS]
    assert written["tables"][0]["rows"][0] == ["a", "1,234", "0.50", "yes", "2,468"]
    assert set(written["machine"]) == {"cpu", "cores", "load_average", "python"}


def test_options_select_and_no_problem_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(results, *OPTIONS, arguments=["--name", "a", "--most", "1"]) == 0
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit):
        main(results, *OPTIONS, arguments=["--name", "x"])


def test_items_of_mappings_and_lists_are_cells() -> None:
    assert table([{"a": None, "b": ["x", 2]}], {"a": "a", "b": "b"}) == Table(("a", "b"), (("", "x, 2"),))
