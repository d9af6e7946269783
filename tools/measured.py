"""Write `docs/reference/measured.md` from `docs/reference/measured/`: the text of each section, and its tables as data.

    python tools/measured.py [--keep NAME ...]

`--keep` first copies the tables of `build/benches/NAME.json`, which `make bench-NAME` writes.
"""

import argparse
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "measured.md"
DATA = PAGE.with_suffix("")
BENCHES = ROOT / "build" / "benches"
NUMBER = re.compile(r"[-+]?\d[\d,.]*\b|$")
HEAD = """# Measured

This page is for engineers who want numbers and their methods. It lists all measured, counted, simulated and estimated
figures. Each section names the command that repeats it.

The host was one machine: 2 cores of an AMD EPYC, shared with other work, gcc 12. Times are medians of alternating runs,
so trust the ratios. `tools/measured.py` writes this page from `docs/reference/measured/`.
"""


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of a table in Markdown; columns of numbers are right-aligned."""
    yield f"| {' | '.join(columns)} |"
    cells = zip(*rows, strict=True)
    yield "|" + "|".join("--:" if all(map(NUMBER.match, column)) else "---" for column in cells) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def section(title: str, command: str, text: str, tables: Sequence[Mapping[str, Any]]) -> str:
    """A heading, a paragraph, and tables."""
    parts = [f"## {title}: `{command}`", text.strip(), *("\n".join(table(t["columns"], t["rows"])) for t in tables)]
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for entry in tomllib.loads((DATA / "text.toml").read_text("utf-8"))["section"]:
        data = DATA / f"{entry['name']}.json"
        tables = json.loads(data.read_text("utf-8"))["tables"] if data.exists() else []
        parts.append(section(entry["title"], entry["command"], entry["text"], tables))
    return "\n".join(parts)


def keep(name: str) -> None:
    """Copy the tables of a bench's results, a row on each line."""
    tables = json.loads((BENCHES / f"{name}.json").read_text("utf-8"))["tables"]
    rows = (",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in each["rows"]) for each in tables)
    parts = (
        f'  {{"columns": {json.dumps(each["columns"], ensure_ascii=False)}, "rows": [\n{text}\n  ]}}'
        for each, text in zip(tables, rows, strict=True)
    )
    (DATA / f"{name}.json").write_text('{"tables": [\n' + ",\n".join(parts) + "\n]}\n", "utf-8")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", nargs="*", default=(), metavar="NAME", help="benches whose results are taken over")
    for name in parser.parse_args().keep:
        keep(name)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
