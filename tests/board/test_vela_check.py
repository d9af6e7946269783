"""Builds find operators that Vela compiles wrongly; the CPU runs them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.runtime.test_vela_hidden import MERGED, RESIZED, Q, every_second
from tests.tflite.cortex_m.models import constant, model, tensor
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.graph_check import Build, built

from deuteron.board import vela_budget
from deuteron.errors import FormatError, UnsupportedError
from deuteron.runtime import tflite_build, vela_merges
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_ethosu import NPU_STEPS
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator

pytest.importorskip("ethosu.vela")

MODELS = (*MERGED, *RESIZED)
TARGETS = ("ethos-u55-128", "ethos-u85-256")
FIRST = [(make, TARGETS[at % 2]) for at, make in enumerate(MODELS)]


@pytest.fixture(autouse=True)
def _no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the rules that hide from Vela what is known to be wrong."""

    def is_right(_: FlatModel, __: FlatOperator) -> bool:
        return False

    monkeypatch.setattr(vela_merges, "is_wrong", is_right)


def _differs(model: FlatModel, target: str, build_of: Build) -> bool:
    inputs = random_inputs(model, np.random.default_rng(3))
    pairs = zip(built(target, build_of)(model, inputs), Litert(encode(model)).run(inputs), strict=True)
    return any(np.abs(ours.astype(int) - theirs.astype(int)).max() > NPU_STEPS for ours, theirs in pairs)


def test_vela_merges_wrongly() -> None:
    assert _differs(every_second(), "ethos-u55-128", tflite_build.build_of)


@pytest.mark.parametrize(
    ("make", "target"), full.only([(make, target) for make in MODELS for target in TARGETS], *FIRST)
)
def test_wrong_merges_are_found_and_mended(make: Callable[[], FlatModel], target: str) -> None:
    assert not _differs(make(), target, vela_budget.build_of)


def test_a_build_says_what_the_cpu_computes(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(encode(every_second()))
    manifest, _ = vela_budget.build_of(path, "ethos-u55-128")
    assert manifest.warnings == ("the CPU computes 1 tensor, for which Vela's commands are wrong",)
    (op,) = {op.node: op for op in manifest.cpu_ops if op.node}.values()
    assert (op.node, op.why) == ("part", "Vela's commands for it and its neighbours compute other values")


def test_what_is_wrong_in_any_case_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def same(*_: object) -> frozenset[str]:
        return frozenset()

    path = tmp_path / "net.tflite"
    path.write_bytes(encode(every_second()))
    monkeypatch.setattr("deuteron.board.vela_check._Check._suspects", same)
    with pytest.raises(UnsupportedError, match="Vela's commands compute other values than the file"):
        vela_budget.build_of(path, "ethos-u55-128")


def test_commands_that_are_refused_are_those_of_operators_on_the_cpu() -> None:
    """An Ethos-U85 has a command for ARG_MAX whose result no document defines."""
    x, axis = tensor("x", (1, 4, 4, 8), "INT8", Q), constant("axis", [3])
    source = model("ARG_MAX", [x, axis], [tensor("y", (1, 4, 4), "INT32")], "ArgMaxOptions", {"OutputType": 2})
    with pytest.raises(FormatError, match="the commands are refused"):
        built("ethos-u85-256", tflite_build.build_of)(source, random_inputs(source, np.random.default_rng(3)))
    assert not _differs(source, "ethos-u85-256", vela_budget.build_of)
