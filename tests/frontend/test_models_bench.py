"""Problems that the bench of models reports, and its resumption after a stop; a row of it is a slow test."""

from dataclasses import replace
from pathlib import Path

import pytest
from benches import models
from benches.harness import kept

ROW = models.Row("m", "imxrt700cm", partitions=1, macs=1.0, cycles=0.9, sqnr=40.0, agrees=True)


def test_a_row_is_as_it_must_be_or_says_what_is_not() -> None:
    assert ROW.problem == ""
    assert replace(ROW, refused="`aten::x` has no int8 kernel").problem == "is refused: `aten::x` has no int8 kernel"
    assert replace(ROW, refused="no", target="imxrt700").problem == ""
    assert replace(ROW, agrees=False).problem == "does not agree with its reference"
    assert replace(ROW, board="differs").problem == "gives other bits on the board than on the host"
    assert replace(ROW, board="the program is too large").problem == ""


def test_all_rows_together_are_judged_once_all_are_there() -> None:
    rows = [replace(ROW, model=model, target=target) for model in models.MODELS for target in models.BOARDS]
    assert len(models.MODELS) >= 30
    assert models.problems(rows) == []
    assert models.problems(rows[1:]) == []
    many = [replace(row, partitions=3, sqnr=34.0) for row in rows]
    assert models.problems(many[1:]) == []
    assert models.problems(many) == [
        "0 networks have at most 2 partitions on imxrt700cm",
        "the median signal to noise is 34.0 dB",
    ]


def test_a_row_that_is_kept_is_not_made_again(tmp_path: Path) -> None:
    assert kept(tmp_path, "m.imxrt700cm", models.Row, lambda: ROW) == ROW
    assert kept(tmp_path, "m.imxrt700cm", models.Row, lambda: pytest.fail("it is there")) == ROW


def test_the_table_of_the_docs_has_a_cell_for_each_row() -> None:
    rows = [
        ROW,
        replace(ROW, model="n", agrees=False, board="the program is too large"),
        replace(ROW, target="cortex-m33", partitions=0, cycles=None, seconds=2.6),
        replace(ROW, model="n", target="imxrt700", refused="no"),
    ]
    shown = models.report(rows)
    assert shown.columns == ("network", "`imxrt700cm`", "`imxrt700`", "`cortex-m33`")
    assert shown.rows == (
        ("m", "1: 100%, 90%; 40.0 dB; 0 s", "", "40.0 dB; 3 s"),
        ("n", "1: 100%, 90%; 40.0 dB; 0 s; does not agree; board: the program is too large", "refused: no", ""),
    )


@pytest.mark.slow
@pytest.mark.full
def test_a_network_is_measured() -> None:
    row = models.row("embedding_mean", "imxrt700cm")
    assert (row.problem, row.board, row.partitions) == ("", "", 1)
    assert 0 < row.macs <= 1
    assert 0 < (row.cycles or 0) < 1
    assert row.sqnr > 25
    assert row.seconds > 0
