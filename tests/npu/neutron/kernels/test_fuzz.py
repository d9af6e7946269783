"""A slice of `benches/fuzz_selection.py`, and that the bench would see each kind of finding."""

from dataclasses import replace

import pytest
from benches import fuzz_selection
from benches.fuzz_selection import Tally, fuzz

from deuteron.errors import FormatError
from deuteron.npu.neutron.kernels.catalogue import ADD
from deuteron.npu.neutron.kernels.selection import Selection, parse


def test_damaged_files_are_refused_in_their_place() -> None:
    tally = Tally()
    for seed in range(3000):
        fuzz(seed, tally)
    assert tally.findings == []
    assert tally.outcomes["refused"] > 2000
    assert tally.outcomes["undamaged"] > 10


def broken(data: bytes, name: str) -> Selection:
    raise IndexError("of nothing")


def placeless(data: bytes, name: str) -> Selection:
    raise FormatError("somewhere", where=name)


def lenient(data: bytes, name: str) -> Selection:
    found = parse(fuzz_selection.SOURCES[0], name)
    return replace(found, kernels=(ADD,))


@pytest.mark.parametrize(
    ("reader", "finding"),
    [
        (broken, "IndexError: of nothing"),
        (placeless, "a refusal that names no line: FormatError('somewhere')"),
        (lenient, "read as something else"),
    ],
)
def test_each_kind_of_finding(monkeypatch: pytest.MonkeyPatch, reader: object, finding: str) -> None:
    monkeypatch.setattr(fuzz_selection, "parse", reader)
    tally = Tally()
    fuzz(1, tally)
    assert tally.findings == [(1, finding)]
