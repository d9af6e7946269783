"""The description of the firmware as a CMSIS-Pack: up to date, and for each core the files of an image."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from deuteron.board import boards, library
from deuteron.board.library import FIRMWARE

GENERATOR = FIRMWARE.parent / "tools" / "gen_pack.py"
DESCRIPTION = FIRMWARE / "Deuteron.Deuteron.pdsc"


def test_the_description_is_up_to_date() -> None:
    done = subprocess.run((sys.executable, GENERATOR, "--check"), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("board", "has"), [("an500", "Has DSP"), ("an505", "Has DSP"), ("an547", "Has MVE")])
def test_all_components_together_are_the_library_of_a_board(board: str, has: str) -> None:
    files = [
        file.attrib["name"]
        for file in ET.parse(DESCRIPTION).iterfind(".//file[@category='sourceC']")
        if file.get("condition", has) == has and "attr" not in file.attrib
    ]
    assert Counter(files).most_common(1)[0][1] == 1
    harness = {FIRMWARE / name for name in ("harness/frame.c", "harness/harness.c", "runner/run.c")}
    wanted = harness | {source.path for source in library.core(boards.load(board), profiling=True)}
    assert {FIRMWARE / file for file in files} == wanted
    assert all((FIRMWARE / file).is_file() for file in files)


def test_templates_are_there() -> None:
    """A project copies them; all but `dtn_bundle.h` and CMSIS itself that they include is in the pack."""
    templates = [FIRMWARE / file.attrib["name"] for file in ET.parse(DESCRIPTION).iterfind(".//file[@attr='template']")]
    assert [path.name for path in templates] == ["main.c", "line.h", "line_cmsis.c"]
    assert all(path.is_file() for path in templates)


def test_conditions_that_are_named_are_there() -> None:
    root = ET.parse(DESCRIPTION).getroot()
    there = {one.attrib["id"] for one in root.iterfind("./conditions/condition")}
    named = {one.attrib["condition"] for one in root.iter() if "condition" in one.attrib}
    assert named == there
    components = {tuple(sorted(one.attrib.items())) for one in root.iterfind("./components/component")}
    assert len(components) == len(root.findall("./components/component")) >= 10
    assert Path(DESCRIPTION).stem == f"{root.findtext('vendor')}.{root.findtext('name')}"
