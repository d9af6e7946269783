"""Partitions beside TOSA's reference model: equal ones, others, and what cannot be compared."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance import tosa
from conformance.tosa import Difference
from tests.frontend.ethosu.networks import built, layer

from deuteron.npu.ethosu import blob
from deuteron.runtime import pte


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a layer was compiled from, and to."""
    directory = built(layer)
    (delegate,) = pte.delegates((directory / "model.pte").read_bytes())
    (tmp_path / "layer.tosa").write_bytes((directory / "npu_0.tosa").read_bytes())
    (tmp_path / "layer.partition").write_bytes(delegate.payload)
    (tmp_path / "tests.jsonl").write_text(json.dumps({"partition": "layer", "test": "f.py::test"}) + "\n")
    return tmp_path


def test_a_partition_gives_the_bytes_of_the_reference(folder: Path) -> None:
    equal: list[str] = []
    compared = tosa.compare(folder, folder, ("f.py::test",), equal.append)
    assert (compared.partitions, compared.values, compared.differences, equal) == (1, 8, (), ["layer"])
    assert compared.passed
    assert list(compared.lines()) == [
        "1 partition of 1 test beside TOSA's reference model: 8 outputs, 0 of them differ"
    ]
    assert tosa.compare(folder, folder, ("f.py::test",), equal.append) == compared
    assert equal == ["layer"], "it is not compared again before it is compiled again"
    tosa.forget(folder, ("f.py::test",))
    (folder / "tests.jsonl").write_text(json.dumps({"partition": "layer", "test": "f.py::test"}) + "\n")
    tosa.compare(folder, folder, ("f.py::test",), equal.append)
    assert equal == ["layer", "layer"]


@pytest.mark.parametrize("again", [False, True], ids=["other tests", "run again"])
def test_only_what_the_tests_compiled_is_compared(folder: Path, again: bool) -> None:
    tosa.forget(folder, ("f.py::test",) if again else ("f.py::other",))
    compared = tosa.compare(folder, folder, ("f.py::test",) if again else ("f.py::other",), print)
    assert (compared.partitions, compared.passed) == (0, False)
    assert list(compared.lines()) == [
        "nothing was compared with TOSA's reference model: no selected test compiled anything for an Ethos-U with "
        "`--tosa`"
    ]
    assert tosa.compare(folder, folder, ("f.py::test",), print).passed is not again


def test_nothing_was_ever_kept(tmp_path: Path) -> None:
    tosa.forget(tmp_path / "compiled", ("f.py::test",))
    assert tosa.compare(tmp_path / "compiled", tmp_path, ("f.py::test",), print).partitions == 0


@pytest.mark.parametrize("broken", ["{", '{"partition": "layer", "val', ""])
def test_what_was_equal_is_compared_again_by_another_simulator(
    folder: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    equal: list[str] = []
    compared = tosa.compare(folder, folder, ("f.py::test",), equal.append)
    with (folder / "equal.jsonl").open("a") as file:
        file.write(broken)  # a run that was ended while it wrote
    assert tosa.compare(folder, folder, ("f.py::test",), equal.append) == compared
    assert equal == ["layer"]
    monkeypatch.setattr(tosa, "_by", lambda: "another")
    for _ in range(2):
        tosa.compare(folder, folder, ("f.py::test",), equal.append)
    assert equal == ["layer", "layer"]


def test_what_compares_has_a_name_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by = tosa._by.__wrapped__  # pyright: ignore[reportPrivateUsage] - without what it keeps
    before = by()
    monkeypatch.setattr(tosa, "version", lambda package: "2026.6.0")
    other = by()
    monkeypatch.setattr(tosa, "library", lambda name: folder / "layer.tosa")
    assert len({before, other, by()}) == 3


def test_values_that_the_reference_model_refuses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tosa_reference_model

    run, asked = tosa_reference_model.run, folder / "asked"

    def refuse(program: bytes, inputs: list[Any], verbosity: str) -> Any:
        asked.open("a").write("x")
        if any(np.any((x < 0) | (x > 3)) for x in inputs):
            return [], tosa_reference_model.GraphStatus.TOSA_UNPREDICTABLE
        return run(program, inputs, verbosity=verbosity)

    monkeypatch.setattr(tosa_reference_model, "run", refuse)
    compared = tosa.compare(folder, folder, ("f.py::test",), print)
    assert (compared.narrow, compared.passed) == (1, True)
    assert asked.read_text() == "xx", "without indices, counting would draw the same again"
    assert list(compared.lines()) == [
        "1 partition of 1 test beside TOSA's reference model: 8 outputs, 0 of them differ",
        "  1 of them with inputs from 0 to 3 alone: the reference model refuses others",
    ]


@pytest.mark.parametrize("listed", [False, True])
def test_a_crash_of_the_reference_model_is_no_refusal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    import tosa_reference_model

    def crash(program: bytes, inputs: list[Any], verbosity: str) -> Any:
        os._exit(1)

    monkeypatch.setattr(tosa_reference_model, "run", crash)
    if listed:
        monkeypatch.setattr(tosa, "CRASHING", frozenset(("f.py::test",)))
    compared = tosa.compare(folder, folder, ("f.py::test",), print)
    assert not compared.passed, "nothing was compared"
    assert replace(compared, partitions=2).passed is listed
    assert list(compared.lines())[1:] == [
        "  1 of them not compared: they are known to end the model's process: layer"
        if listed
        else "  layer: not compared: it ends the reference model's process"
    ]


def test_indices_count() -> None:
    generator = np.random.default_rng(0)
    indices = tosa.draw(generator, (2, 3), 4, tosa.Drawn.COUNTING)
    assert indices.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert np.min(tosa.draw(generator, (100,), 1, tosa.Drawn.COUNTING)) < -100, "the others are as before"


def test_other_constants_differ(folder: Path) -> None:
    path = folder / "layer.partition"
    payload = path.read_bytes()
    weights = blob.parse(payload, "layer").weights
    at = payload.index(weights)
    # The biases of the first channels, in the scales before the weights.
    path.write_bytes(payload[:at] + bytes(x ^ 0x40 for x in weights[:16]) + payload[at + 16 :])
    equal: list[str] = []
    compared = tosa.compare(folder, folder, ("f.py::test",), equal.append)
    assert (equal, compared.passed) == ([], False)
    assert [difference.name for difference in compared.differences] == ["layer"]
    assert 0 < compared.differences[0].values <= 8
    assert list(compared.lines())[1] == f"  layer: {compared.differences[0].values} outputs differ"


def test_what_cannot_be_compared_is_told(folder: Path) -> None:
    path = folder / "layer.partition"
    path.write_bytes(path.read_bytes()[:-32])
    (difference,) = tosa.compare(folder, folder, ("f.py::test",), print).differences
    assert difference == Difference(
        "layer", 0, f"FormatError: layer: the partition ends at byte {path.stat().st_size}, before its last block"
    )
