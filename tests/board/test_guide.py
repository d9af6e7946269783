"""The C examples of the guides compile, each as one file, with every warning an error."""

import re
from pathlib import Path

import pytest
from tests.board import programs
from tests.board.host import FIRMWARE, WARNINGS, command

from deuteron.board.emit import EmitOptions, emit
from deuteron.board.translate import translate

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def examples() -> list[tuple[str, str]]:
    """The name and the text of each."""
    found: list[tuple[str, str]] = []
    for guide in ("own-board", "integrate"):
        text = (GUIDES / f"{guide}.md").read_text("utf-8")
        blocks: list[str] = re.findall(r"^```c\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        found += ((f"{guide} {i}", block) for i, block in enumerate(blocks))
    return found


def test_the_guides_have_examples() -> None:
    assert [name for name, _ in examples()] == ["own-board 0", *(f"integrate {i}" for i in range(6))]


@pytest.mark.parametrize("example", [pytest.param(text, id=name) for name, text in examples()])
def test_an_example_compiles(example: str, tmp_path: Path) -> None:
    bundle = translate(programs.two_partitions(), name="two")
    for symbol in ("dtn_bundle", "words", "images"):
        for name, content in emit(bundle, EmitOptions(symbol)).items():
            (tmp_path / name).write_bytes(content)
    (tmp_path / "example.c").write_text(example)
    flags = [flag for flag in WARNINGS if flag != "-Wmissing-prototypes"]
    command(
        "cc", *flags, "-c", "-I", tmp_path, "-I", FIRMWARE / "include", tmp_path / "example.c", "-o", tmp_path / "o"
    )
