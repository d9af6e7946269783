"""The long benches of Ethos-U: what they keep to go on behind it, and what they call a problem."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import harness
import pytest
from benches import ethosu_graphs, ethosu_networks
from tests.npu.ethosu.graphs import GraphCounts

from deuteron.errors import DeuteronError, FormatError, UnsupportedError

SAME = {"model": "digits", "accelerator": "ethos-u55-128", "compared": 7, "failures": []} | dict.fromkeys(
    ("partitions", "results", "differ", "tensors", "values", "values_differ", "operators", "parted"), 1
)


def _models(rows: Sequence[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The bench of one model, whose next rows are these."""
    following = iter(rows)
    monkeypatch.setattr(ethosu_networks, "row", lambda *_: next(following))
    given = ["digits", "--accelerators", "ethos-u55-128"]
    return lambda *options: harness.main(
        ethosu_networks.results, *ethosu_networks.OPTIONS, arguments=[*given, *map(str, options)]
    )


def test_rows_are_measured_again_unless_they_are_to_be_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    results, kept = tmp_path / "results.json", tmp_path / "kept.json"
    run = _models([SAME | {"results": count} for count in (1, 2, 3, 4)], monkeypatch)

    def count() -> int:
        return json.loads(results.read_text())["rows"][0]["results"]

    for expected in (1, 2):
        assert run("--json", results) == 0
        assert count() == expected
    for sources, expected in (("a", 3), ("a", 3), ("b", 4)):
        monkeypatch.setattr(harness, "sources", lambda sources=sources: sources)
        assert run("--json", results, "--resume", kept) == 0
        assert count() == expected
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "kept.json"}


def test_what_is_kept_is_for_these_sources_and_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(harness, "LIBRARY_DIRECTORY", tmp_path)
    library = tmp_path / "libdeuteron_ethosu_driver.so"
    library.write_bytes(b"before")
    before = harness.sources()
    assert harness.sources() == before
    library.write_bytes(b"after")
    assert harness.sources() != before


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"failures": ["partition 0: 3 of 8 values differ"]}, "partition 0: 3 of 8 values differ"),
        ({"results": 0}, "nothing was compared"),
        ({"compared": 0}, "nothing was compared"),
    ],
)
def test_models_that_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], problem: str
) -> None:
    assert _models([SAME | changed], monkeypatch)() == 1
    assert capsys.readouterr().err.splitlines()[-1] == f"error: digits ethos-u55-128: {problem}"
    assert ethosu_networks.problems({}) == ["no model was run"]


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (UnsupportedError("a loop"), "nothing was compared"),
        (FormatError("it is damaged"), "seeds [0] on ethos-u55-128: it is damaged"),
        (ValueError("broken"), "seeds [0] on ethos-u55-128: ValueError: broken"),
    ],
)
def test_graphs_that_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: DeuteronError | ValueError, problem: str
) -> None:
    counts = GraphCounts(1, {"relu": 1}, 1, 8, 8)

    def check(seeds: Sequence[int], accelerator: str, *, wide: bool) -> GraphCounts:
        assert wide is False
        if 0 in seeds:
            raise error
        return counts

    monkeypatch.setattr(ethosu_graphs, "check", check)
    assert ethosu_graphs.problems(ethosu_graphs.checked([0], "ethos-u55-128")) == [problem]
    refused = isinstance(error, UnsupportedError)
    code = harness.main(ethosu_graphs.results, *ethosu_graphs.OPTIONS, arguments=["--graphs", "4"])
    assert code == (0 if refused else 1), "one alone may be refused, not fail"
    assert f"refused: {int(refused)}\n" in capsys.readouterr().out
