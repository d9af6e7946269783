"""The page of measurements: written from the data in the repository, with data for each section that has tables."""

import json
import tomllib
from pathlib import Path

from tools import measured


def test_the_page_is_what_the_data_say() -> None:
    assert measured.PAGE.read_text("utf-8") == measured.page(), "write it again: python tools/measured.py"


def test_all_data_are_in_the_page() -> None:
    sections = tomllib.loads((measured.DATA / "text.toml").read_text("utf-8"))["section"]
    assert {path.stem for path in measured.DATA.glob("*.json")} <= {entry["name"] for entry in sections}


def test_results_of_a_bench_become_a_table(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(measured, "DATA", tmp_path)
    monkeypatch.setattr(measured, "BENCHES", tmp_path / "benches")
    (tmp_path / "benches").mkdir()
    rows = [["a", "1,000", "+1 %"], ["b", "", "0"]]
    results = {"kind": "counted", "tables": [{"title": "", "columns": ["what", "bytes", "more"], "rows": rows}]}
    (tmp_path / "benches" / "x.json").write_text(json.dumps(results))
    measured.keep("x")
    (tmp_path / "text.toml").write_text(
        '[[section]]\nname = "x"\ntitle = "X"\ncommand = "make bench-x"\ntext = "Text."\n'
    )
    assert measured.page().removeprefix(measured.HEAD) == (
        "\n## X: `make bench-x`\n\nText.\n\n"
        "| what | bytes | more |\n|---|--:|--:|\n| a | 1,000 | +1 % |\n| b |  | 0 |\n"
    )
