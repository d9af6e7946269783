"""The first line of an exception whose text has several lines."""

import pytest

from deuteron.frontend.source_lines import first_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no \nmore", "no"),
        ("Reader error:\nPAD:\n - Rank must be 4\nand so on", "Reader error: PAD: Rank must be 4"),
        ("what:", "what:"),
        ("", "ValueError"),
    ],
)
def test_the_first_line_goes_on_behind_a_colon(text: str, line: str) -> None:
    assert first_line(ValueError(text)) == line
