"""Partitions compared with TOSA's reference model: equal ones, others, and what cannot be compared."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tosa_serializer as ts
from conformance import tosa
from conformance.tosa import Difference
from tests.frontend.ethosu.networks import built, layer
from tests.npu.ethosu.tosa_graphs import Writer, compiled

from deuteron.npu.ethosu import blob
from deuteron.runtime import pte


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the files that a layer was compiled from, and to."""
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
        "1 partition of 1 test compared with TOSA's reference model: 8 outputs, 0 of them differ"
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
        "1 partition of 1 test compared with TOSA's reference model: 8 outputs, 0 of them differ",
        "  1 of them with inputs from 1 to 3 alone: the reference model refuses others, or they are shifted out of "
        "their type",
    ]


def test_shifts_stay_in_their_type(folder: Path) -> None:
    """If a shift overflows, TOSA keeps the low bits, and the NPU saturates to the type's limit."""
    w = Writer(np.random.default_rng(0))
    w.graph.addInputTensor(ts.TosaSerializerTensor("x", [1, 64], ts.DType.INT8, data=None))
    wide = w.op("CAST", ("x",), (1, 64), "Cast", dtype=ts.DType.INT32)
    inputs = wide.name, w.const(ts.DType.INT32, [[5]])
    shifted = w.op("LOGICAL_LEFT_SHIFT", inputs, (1, 64), "LogicalLeftShift", dtype=ts.DType.INT32)
    w.give(w.op("CAST", (shifted.name,), (1, 64), "Cast"))
    program = bytes(w.graph.serialize())
    (folder / "layer.tosa").write_bytes(program)
    (folder / "layer.partition").write_bytes(compiled(program, "ethos-u55-128"))
    compared = tosa.compare(folder, folder, ("f.py::test",), print)
    assert (compared.narrow, compared.values, compared.differences) == (1, 64, ())


@pytest.mark.parametrize("always", [False, True])
def test_a_crash_of_the_reference_model_is_no_refusal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, always: bool
) -> None:
    """For some inputs it may divide by zero; other inputs are tried then."""
    import tosa_reference_model

    run = tosa_reference_model.run

    def crash(program: bytes, inputs: list[Any], verbosity: str) -> Any:
        if always or any(np.any(x == 0) for x in inputs):
            os._exit(1)
        return run(program, inputs, verbosity=verbosity)

    monkeypatch.setattr(tosa_reference_model, "run", crash)
    compared = tosa.compare(folder, folder, ("f.py::test",), print)
    assert (compared.narrow, compared.passed) == (not always, not always)
    assert list(compared.lines())[1:] == [
        "  layer: not compared: it ends the reference model's process"
        if always
        else "  1 of them with inputs from 1 to 3 alone: the reference model refuses others, or they are shifted out "
        "of their type"
    ]


def test_what_inputs_are() -> None:
    tensors = [((2, 3), "int32"), ((100,), "int8"), ((3,), "int32"), ((100,), "bool")]
    indices, values, last, flags = tosa.draw(np.random.default_rng(0), tensors, tosa.Drawn.COUNTING)
    assert (indices.tolist(), last.tolist()) == ([[0, 1, 2], [0, 1, 2]], [0, 1, 2])
    assert np.min(values) < -100, "the others are as before"
    assert set(flags.tolist()) == {0, 1}, "truth values have no others"
    indices, _, last, _ = tosa.draw(np.random.default_rng(0), tensors, tosa.Drawn.LAST)
    assert (indices.tolist(), last.tolist()) == ([[0, 0, 0], [0, 0, 0]], [0, 1, 2])
    _, values, _, flags = tosa.draw(np.random.default_rng(0), tensors, tosa.Drawn.SMALL)
    assert (set(values.tolist()), set(flags.tolist())) == ({1, 2, 3}, {0, 1})


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
