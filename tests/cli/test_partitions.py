"""Two partitions in one SRAM, from a user's view: combinations that fit, others that do not, and their errors."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Result

Run = Callable[..., Result]

MODEL = """import torch
from torch import nn


class View(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(256, 5)

    def forward(self, x):
        x = self.conv(x).flatten(1)
        return self.linear(x)


def view():
    torch.manual_seed(0)
    return View().eval(), (torch.randn(1, 3, 8, 8),), [(torch.randn(1, 3, 8, 8),)]
"""
TENSORS = 1280
"""The bytes that ExecuTorch plans: float inputs and outputs, and the partitions' inputs and outputs."""
SCRATCH, FIRST, SECOND = 704, 160, 1328
"""Scratch and weights of the first partition, and weights of the second, which has no scratch."""
LINKED = TENSORS + FIRST + SECOND + SCRATCH
FETCHED = TENSORS + max(SCRATCH + FIRST, SECOND)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    (path / "two.py").write_text(MODEL)
    return path


@pytest.fixture
def build(deuteron: Run, folder: Path) -> Run:
    """Builds the model with options, its `flatten` on the CPU, into a directory of that name."""

    def run(name: str, *options: str) -> Result:
        keep = ("--operators-not-to-delegate", "aten::view_copy")
        return deuteron("build", f"{folder / 'two.py'}:view", "-o", folder / name, "-q", "--force", *keep, *options)

    return run


def test_the_numbers_of_the_model(deuteron: Run, build: Run, folder: Path) -> None:
    assert build("linked", "--sram-budget", str(LINKED), "--fetch-constants-to-sram", "never").code == 0
    assert deuteron("plan", folder / "linked").out.splitlines()[1:4] == [
        "SRAM: 1,280 B inputs, outputs and CPU tensors + 1,488 B linked weights + 704 B largest partition = 3,472 B of "
        "3,472 B",
        "",
        "npu 0: 704 B scratch + 160 B linked weights",
    ]
    assert deuteron("sim", folder / "linked").out.splitlines()[-1].startswith("all partitions: ")
    cycles = json.loads(deuteron("sim", folder / "linked", "--json").out)
    assert cycles["cycles"] == sum(part["cycles"] for part in cycles["partitions"])


@pytest.mark.full
def test_weights_of_all_partitions_count(deuteron: Run, build: Run, folder: Path) -> None:
    """The weights of each partition fit alone; both together do not."""
    budget = LINKED - 16
    assert max(SCRATCH + FIRST, SECOND) + TENSORS < budget
    line = f"{folder / 'two.py'}:12: `x = self.conv(x).flatten(1)`: "
    whole = ("--fetch-constants-to-sram", "never", "--depth-first", "never")
    result = build("none", "--sram-budget", str(budget), *whole)
    assert (result.code, result.out) == (1, "")
    first, *_, hint = result.err.splitlines()
    assert first == (
        f"error: {line}npu 0, kernel call 1, `conv2d_s8` of op 1: 3,472 bytes of SRAM are needed, 704 for intermediate "
        "results, whose peak is here, and 160 for weights besides 1,280 for inputs, outputs and CPU tensors "
        "and 1,328 for weights of other partitions; 3,456 are available; the largest values are:"
    )
    assert hint.endswith(f"or give `--sram-budget {LINKED}` or more")
    told = re.search(r"auto`: ([0-9,]+) bytes are enough then", hint)
    assert told
    assert build("auto", "--sram-budget", told[1].replace(",", "")).code == 0


def test_weights_are_fetched_where_they_do_not_fit_together(deuteron: Run, build: Run, folder: Path) -> None:
    """No area keeps its content, because both partitions work in the same memory, and the results are the same."""
    result = build("fetched", "--sram-budget", str(FETCHED))
    assert result.code == 0
    assert "weights 160 B fetched, prefetch area 160 B, scratch" in result.out.splitlines()[0]
    assert "weights 1,328 B fetched, prefetch area 1,328 B, scratch" in result.out.splitlines()[1]
    report = json.loads(deuteron("plan", folder / "fetched", "--json").out)
    assert [part["linked_bytes"] for part in report["partitions"]] == [0, 0]
    assert [part["prefetch"]["resident_bytes"] for part in report["partitions"]] == [0, 0]
    working = [sum(memory["nbytes"] for memory in part["memories"]) for part in report["partitions"]]
    assert report["tensors"] + max(working) == report["sram"] == FETCHED
    assert deuteron("run", folder / "fetched", "--compare").code == 0
    replanned = deuteron("sim", folder / "fetched", "--sram-budget", str(FETCHED), "--json")
    assert (
        json.loads(replanned.out)["cycles"] == json.loads(deuteron("sim", folder / "fetched", "--json").out)["cycles"]
    )


@pytest.mark.full
def test_the_partition_that_needs_most_is_told(deuteron: Run, build: Run, folder: Path) -> None:
    """The first one does not fit, either, but what it asks for would not do for the second."""
    line = f"{folder / 'two.py'}:13: `return self.linear(x)`: "
    told = (
        f"error: {line}npu 1, kernel call 0, `fully_connected_s8` of op 0: 2,608 bytes of SRAM are needed, 0 for "
        "intermediate results and 1,328 for the weights of this call besides 1,280 for inputs, outputs and "
        "CPU tensors; 2,000 are available; the largest values are:"
    )
    hint = f"hint: split this layer into smaller ones, or give `--sram-budget {FETCHED}` or more"
    assert build("linked").code == 0
    for result in (build("none", "--sram-budget", "2000"), deuteron("sim", folder / "linked", "--sram-budget", "2000")):
        assert (result.code, result.out) == (1, "")
        assert (result.err.splitlines()[0], result.err.splitlines()[-1]) == (told, hint)


def test_weights_that_are_always_fetched_are_not_kept(deuteron: Run, build: Run, folder: Path) -> None:
    assert build("always", "--fetch-constants-to-sram").code == 0
    report = json.loads(deuteron("plan", folder / "always", "--json").out)
    assert [part["prefetch"]["resident_bytes"] for part in report["partitions"]] == [0, 0]
