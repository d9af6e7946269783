"""Partitions in stripes of rows: they compute what the uncut ones compute, within a budget of SRAM."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import full
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy, MemoryOptions
from deuteron.arch.vela import VelaOptions
from deuteron.board import vela_search
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, OptionError
from deuteron.frontend.backends.ethosu import npu_backend, sram_budget
from deuteron.frontend.backends.ethosu.upstream import EthosUPartition, Recording
from deuteron.frontend.recipes import Provider, Recipe
from deuteron.graph_stripes.rows import StripesError
from deuteron.graph_stripes.search import Tried
from deuteron.graph_stripes.tflite_writer import Cut
from deuteron.views.compare.tosa import TosaModel

TARGET = "ethos-u55-128"


class Layers(nn.Module):
    """Layers, pools, resizes and functions."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.last = nn.Conv2d(16, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """A map."""
        x = torch.relu(self.first(x))
        y = self.dilated(functional.relu6(self.depthwise(x))) + x
        z = torch.cat([self.up(functional.max_pool2d(y, 2)), functional.hardswish(y)], 1)
        z = functional.interpolate(functional.avg_pool2d(z, 3, 1, 1), scale_factor=2, mode=self.mode)
        return torch.sigmoid(self.last(z)) - 0.5


class Moves(nn.Module):
    """Slices, pads, reductions, and elementwise operators with broadcasts."""

    def forward(self, x: Tensor) -> Tensor:
        """A map."""
        y = functional.pad(torch.relu(x), (1, 0, 2, 1, 1, 1)) * 0.7
        return torch.maximum(y, y.amax(-1, keepdim=True) * 0.5)[:, 1:, 3:30] - 0.2


class Blocks(nn.Module):
    """Two blocks with a residual, which Vela alone does not cascade."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores."""
        x = torch.relu(self.stem(x))
        for first, second in zip(self.layers[::2], self.layers[1::2], strict=True):
            x = torch.relu(second(torch.relu(first(x))) + x)
        return self.last(x.mean((2, 3)))


def batches(size: int) -> list[tuple[Tensor]]:
    """Calibration batches of images."""
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(1, 3, size, size, generator=generator),) for _ in range(4)]


def compiler(model: nn.Module, size: int, target: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, EthosUPartition]:
    """The largest partition of a model, and the compiler of its cuts."""
    taken: list[Recording] = []

    def fitted(manager: Any, recording: Recording, *_: object) -> Any:
        taken.append(recording)
        return manager

    monkeypatch.setattr(npu_backend, "fitted", fitted)
    api.build(model, batches(size)[0], target=target, calibration=batches(size))
    partition = max(taken[0].partitions, key=lambda each: len(each.nodes))
    npu = targets.load(target).need_ethosu()
    return sram_budget.PartitionCompiler(partition, npu, 0, 0), partition


def cuts(rows: Any, heights: tuple[int, ...]) -> Iterator[Cut]:
    """Cuts of each run of operators, with and without kept rows."""
    for first, last in rows.runs():
        segment = rows.graph.segment(first, last)
        for height in heights:
            if segment is not None and height < segment.count:
                yield Cut(first, last, height)
                yield Cut(first, last, height, frozenset(range(first, last)))


LAYERS = {"ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "RESIZE", "TABLE"}
MODELS = {
    "layers": (lambda: Layers("nearest"), TARGET, LAYERS | {"TRANSPOSE_CONV2D"}),
    "moves": (Moves, TARGET, {"MAXIMUM", "MUL", "PAD", "REDUCE_MAX", "STRIDED_SLICE"}),
    "layers of U85": (lambda: Layers("bilinear"), "ethos-u85-256", LAYERS),
    "moves of U85": (Moves, "ethos-u85-256", {"MUL", "PAD", "STRIDED_SLICE"}),
}


@pytest.mark.parametrize("name", full.only(MODELS, "moves"))
def test_stripes_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    make, target, kinds = MODELS[name]
    made, partition = compiler(make().eval(), 32, target, monkeypatch)
    uncut = made.candidate(VelaOptions())
    assert uncut.made.payload == partition.payload
    rows = made.segments(uncut)
    generator = np.random.default_rng(0)
    graph = partition.record.graph
    sample = [generator.integers(-128, 128, graph.shapes[name]).astype(np.int8) for name in graph.inputs]
    wanted = TosaModel(partition.files.tosa, "npu 0").run(sample)
    found = set[str]()
    for each in cuts(rows, (3, 8) if name == "layers" else (2,)):
        try:
            one = made.candidate(VelaOptions(), (Tried(each, 0, 0),))
        except StripesError:
            continue
        for expected, got in zip(wanted, TosaModel(one.made.files.tosa, "npu 0").run(sample), strict=True):
            np.testing.assert_array_equal(expected, got)
        assert made.difference(uncut, one) in (None, "its commands have a hazard")
        found |= {op.name for op in rows.model.operators[each.first : each.last]}
    assert found >= kinds


@pytest.mark.full
def test_two_segments_are_cut_in_one_program(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    made, _ = compiler(Blocks().eval(), 24, TARGET, monkeypatch)
    uncut = made.candidate(VelaOptions())
    rows = made.segments(uncut)
    ((first, last), *_) = rows.runs()
    middle = (first + last) // 2
    segments = tuple(Tried(each, 0, 0) for each in (Cut(first, middle, 5), Cut(middle, last, 7)))
    one = made.candidate(VelaOptions(), segments)
    assert one.stripes == (5, 4)
    assert made.difference(uncut, one) is None
    other = replace(one, made=replace(one.made, payload=uncut.made.payload))
    assert made.difference(uncut, other) is None
    wrong = compiler(Blocks().eval(), 24, TARGET, monkeypatch)[0].candidate(VelaOptions())  # other weights
    assert made.difference(uncut, wrong) == "Vela's commands compute other outputs"


@pytest.mark.full
@pytest.mark.parametrize("target", [TARGET, "ethos-u55-128cm"])
def test_a_build_is_within_its_budget(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vela_search, "_PARTS", (0.7,))
    monkeypatch.setattr(vela_search, "_SECONDS", dict.fromkeys(Effort, 12.0))
    torch.manual_seed(0)
    model, given = Blocks().eval(), batches(48)
    alone = api.build(model, given[0], target=target, calibration=given, output=tmp_path / "alone")
    options = BuildOptions(memory=MemoryOptions(depth_first=DepthFirst.ALWAYS))
    build = api.build(model, given[0], target=target, calibration=given, output=tmp_path / "cut", options=options)
    (segment, *_) = build.manifest.stripes
    assert segment.sram < segment.sram_before
    assert segment.operators[0] == "aten_convolution_default"
    assert build.manifest.partitions[0].scratch_bytes < alone.manifest.partitions[0].scratch_bytes
    data = api.seeded_inputs(alone.manifest, 3)
    outputs = [list(api.run_each(tmp_path / name, data)) for name in ("alone", "cut")]
    for wanted, got in zip(*outputs, strict=True):
        np.testing.assert_array_equal(wanted[0], got[0])
    assert api.compare(tmp_path / "cut", data).passed
    planned = "\n".join(api.plan(tmp_path / "cut").lines())
    assert "cut into stripes of rows before Vela" in planned
    assert f"= {segment.sram:,} B" in planned
    lines = {source.line for op in build.manifest.partitions[0].ops for source in op.source}
    assert lines >= {source.line for op in alone.manifest.partitions[0].ops for source in op.source}
    texts = {20_000: "the CPU's tensors, inputs and outputs take 34,560 bytes", 45_000: "as Vela places it at least"}
    for budget, text in texts.items():
        small = BuildOptions(memory=MemoryOptions(sram_budget=budget))
        with pytest.raises(CapacityError, match=text) as error:
            api.build(model, given[0], target=target, calibration=given, options=small)
        assert "--sram-budget" in str(error.value.hint)


class Kept(nn.Module):
    """A layer whose result is kept from run to run."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 8, 3, padding=1)
        self.register_buffer("kept", torch.zeros(1, 8, 16, 16))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Two maps."""
        y = torch.relu(self.layer(x))
        self.kept = 0.5 * self.kept + y
        return y + self.kept * 2, y


@pytest.mark.parametrize("target", full.first([TARGET, "imxrt700"], 1))
def test_a_program_with_state_keeps_its_outputs(target: str, tmp_path: Path):
    given = batches(16)
    memory = MemoryOptions(sram_budget=1_000_000)
    if target == "imxrt700":
        memory = MemoryOptions(sram_budget=100_000, fetch_constants_to_sram=FetchPolicy.ALWAYS)
    outputs: list[Any] = []
    for name, options in (("alone", BuildOptions()), ("budget", BuildOptions(memory=memory))):
        torch.manual_seed(0)
        model = Kept().eval()
        build = api.build(model, given[0], target=target, calibration=given, output=tmp_path / name, options=options)
        assert [each.shape for each in build.manifest.outputs] == [(1, 8, 16, 16)] * 2
        outputs.append(
            [[x.tobytes() for x in run] for run in api.run_each(tmp_path / name, [[given[1][0].numpy()]] * 3)]
        )
    assert outputs[0] == outputs[1]


class Crossed(nn.Module):
    """Blocks whose shortcuts are rescaled before the layers that they join."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.stem, self.short = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        """A map."""
        x = torch.relu(self.stem(x))
        y = self.short(x) + self.layers[1](torch.relu(self.layers[0](x)))
        return self.layers[2](torch.relu(y)) + y


def test_shortcuts_are_cut(monkeypatch: pytest.MonkeyPatch):
    torch.manual_seed(0)
    made, _ = compiler(Crossed().eval(), 24, TARGET, monkeypatch)
    uncut = made.candidate(VelaOptions())
    rows = made.segments(uncut)
    found = 0
    for first in range(3):
        for last in range(first + 3, len(rows.graph.operators)):
            segment = rows.graph.segment(first, last)
            if segment is not None:
                one = made.candidate(VelaOptions(), (Tried(Cut(first, last, segment.count // 2), 0, 0),))
                assert made.difference(uncut, one) in (None, "its commands have a hazard")
                found += 1
    assert found > 4


class Parted(nn.Module):
    """Two partitions: a resize between them runs on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        self.second = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """A map."""
        y = functional.interpolate(self.first(x), scale_factor=1.5, mode="bilinear")
        return self.second(y)


@pytest.mark.full
def test_the_error_names_a_budget_for_all_partitions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vela_search, "_SECONDS", dict.fromkeys(Effort, 6.0))
    torch.manual_seed(0)
    model, given = Parted().eval(), batches(32)

    def build(budget: int) -> Any:
        memory = MemoryOptions(sram_budget=budget, depth_first=DepthFirst.NEVER)
        return api.build(
            model, given[0], target="ethos-u55-128cm", calibration=given, options=BuildOptions(memory=memory)
        )

    with pytest.raises(CapacityError) as error:
        build(70_000)
    (least,) = re.findall(r"--sram-budget (\d+)", str(error.value.hint))
    assert len(build(int(least)).manifest.partitions) == 2


def test_a_recipe_has_no_budget():
    options = BuildOptions(memory=MemoryOptions(sram_budget=10_000))
    with pytest.raises(OptionError, match="need a whole build, and a recipe is a part of one"):
        Provider().create_recipe(Recipe.ETHOSU_PTQ, target=TARGET, options=options)
