"""Parts of the firmware, a `.c` and its `.h` each: a header offers what its part makes, and no circles."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "firmware" / "src"
INCLUDE = re.compile(r'^#include "(\w+)\.h"$', re.MULTILINE)
FUNCTION = re.compile(r"^(?!static)[a-z][\w *]*\b(dtn_\w+)\(", re.MULTILINE)
folders = pytest.mark.parametrize("folder", ["driver", "executor"])


@folders
def test_a_header_declares_what_its_own_part_defines(folder: str) -> None:
    headers = sorted((SOURCES / folder).glob("*.h"))
    declared = {header.with_suffix(".c"): FUNCTION.findall(header.read_text()) for header in headers}
    assert sum(map(len, declared.values())) > len(headers) // 2
    for source, names in declared.items():
        defined = set(FUNCTION.findall(source.read_text())) if source.is_file() else set[str]()
        assert set(names) <= defined, source.stem


@folders
def test_no_parts_include_each_other_in_a_circle(folder: str) -> None:
    graph: dict[str, set[str]] = {}
    for path in sorted((SOURCES / folder).glob("*.[ch]")):
        graph.setdefault(path.stem, set()).update(set(INCLUDE.findall(path.read_text())) - {path.stem})
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the parts
