"""TFLite files for an Ethos-U within a budget of SRAM: cut before Vela compiles them, never worse than Vela alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import full
from tests.graph_stripes.networks import Network, random_network
from tests.tflite.stateful import StatefulNet

from deuteron.api import build_model
from deuteron.arch import targets
from deuteron.arch.memory import DepthFirst, Effort, MemoryOptions
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.board import image, vela_budget, vela_search
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.board.vela_budget import TfliteCompiler
from deuteron.board.vela_search import Candidate, Chosen, VelaSearch
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, InternalError, OptionError
from deuteron.graph_stripes.emit import Work
from deuteron.graph_stripes.search import Tried
from deuteron.graph_stripes.tflite_writer import Cut
from deuteron.runtime import pte, tflite_model, vela_compile
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_build import VelaBuild, VelaBuilder
from deuteron.runtime.vela_compile import VelaResult, compile_cached
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel

pytest.importorskip("ethosu.vela")

TARGET = "ethos-u55-128"


def _branched() -> FlatModel:
    """A residual block of a large map."""
    net = Network((1, 48, 48, 3))
    x = net.layer(net.input, 16)
    x = net.sum(net.layer(net.layer(x, 16), 16, act=0), x)
    return net.model(net.head(net.layer(x, 24, 3, 2)))


def _options(budget: int | None, depth_first: DepthFirst = DepthFirst.AUTO) -> BuildOptions:
    memory = MemoryOptions(sram_budget=budget, depth_first=depth_first)
    return BuildOptions(memory=memory, vela=VelaOptions(memory_mode="Shared_Sram"))


def _sram(directory: Path, manifest: Manifest) -> int:
    return sum(memory.bytes for memory in image.translated(directory, manifest).memories)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("budget") / "net.tflite"
    path.write_bytes(encode(_branched()))
    return path


@pytest.fixture(scope="module")
def whole(file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """SRAM of the program that Vela makes for the least of it, and its build."""
    directory = tmp_path_factory.mktemp("whole") / "build"
    build = build_model(str(file), target=TARGET, output=directory, options=_options(1 << 20))
    assert build.manifest.stripes == ()
    return _sram(directory, build.manifest), directory


def test_a_program_that_vela_alone_cannot_fit_is_cut(file: Path, whole: tuple[int, Path], tmp_path: Path):
    budget = 64_000
    build = build_model(str(file), target=TARGET, output=tmp_path / "b", options=_options(budget))
    (stripes,) = build.manifest.stripes
    assert stripes.stripes > 1
    assert _sram(tmp_path / "b", build.manifest) == stripes.sram <= budget < stripes.sram_before
    assert {node.name for node in build.manifest.nodes} == {
        t.name for op in _branched().operators for t in [_branched().tensors[op.outputs[0]]]
    }
    sample = [np.random.default_rng(0).integers(-128, 128, (1, 48, 48, 3)).astype(np.int8)]
    (expected,) = Litert(file.read_bytes()).run(sample)
    (got,) = HostExecutor(image.bundle_of(tmp_path / "b")).run(sample)
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1
    (first,) = HostExecutor(image.bundle_of(whole[1])).run(sample)
    np.testing.assert_array_equal(got, first)


@pytest.mark.full
def test_what_cannot_fit_says_the_least_that_was_found(file: Path):
    with pytest.raises(CapacityError, match=r"needs [\d,]+ bytes of SRAM, in stripes, the budget is 9,000") as error:
        vela_budget.build_of(file, TARGET, _options(9000))
    least = int(str(error.value.hint).split("`--sram-budget ")[1].split("`")[0])
    manifest, _ = vela_budget.build_of(file, TARGET, _options(least))
    assert manifest.stripes[0].sram == least
    with pytest.raises(CapacityError, match="bytes of SRAM, the budget is"):
        vela_budget.build_of(file, TARGET, _options(least, DepthFirst.NEVER))


def _builder(file: bytes, options: BuildOptions = BuildOptions()) -> VelaBuilder:
    return VelaBuilder(tflite_model.prepare(file, options.tflite), targets.load(TARGET), options)


def _chosen(builder: VelaBuilder, **more: Any) -> Chosen:
    return VelaSearch(TfliteCompiler(builder), builder.options.memory, builder.options.vela, **more).chosen()


@pytest.mark.parametrize("seed", full.first(range(40), 1))
def test_random_networks_are_never_worse_than_vela_alone(seed: int):
    file = encode(random_network(seed))
    alone = _builder(file, _options(40_000)).built(is_cached=True)
    alone_fits = vela_budget.sram_of(alone) <= 40_000
    budget = 40_000 if alone_fits else vela_budget.sram_of(alone) * 9 // 10
    builder = _builder(file, _options(budget, DepthFirst.ALWAYS if alone_fits else DepthFirst.AUTO))
    try:
        searched = _chosen(builder, retries=0).candidate.made
    except CapacityError:
        assert not alone_fits
        return
    assert vela_budget.sram_of(searched) <= budget
    if alone_fits:
        auto = _chosen(_builder(file, _options(budget)))
        assert auto.candidate.cycles <= alone.cycles
    executors = [HostExecutor(translate(pte.read(each.program), name="net")) for each in (alone, searched)]
    model = builder.prepared.model
    sample = [np.random.default_rng(seed).integers(-128, 128, model.tensors[model.inputs[0]].shape).astype(np.int8)]
    for expected, got in zip(*(executor.run(sample) for executor in executors), strict=True):
        np.testing.assert_array_equal(expected, got)


def _stateful(step: int) -> bytes:
    """A network whose output is its input and its state; the next state is the input and a constant."""
    net = StatefulNet()
    x, handle = net.input((1, 4)), net.variable("state", np.zeros((1, 4), np.int8))
    step = net.tensor((1, 4), data=np.full((1, 4), step, np.int8))
    fused = {"FusedActivationFunction": 0}
    net.outputs.append(net.add("ADD", [x, net.read(handle, (1, 4))], (1, 4), kind="AddOptions", options=fused))
    net.assign(handle, net.add("ADD", [x, step], (1, 4), kind="AddOptions", options=fused))
    return net.file()


def test_a_program_with_a_wrong_next_state_is_left_out():
    compilers = [TfliteCompiler(_builder(_stateful(step))) for step in (10, 20)]
    right, wrong = (compiler.candidate(VelaOptions()) for compiler in compilers)
    assert compilers[0].difference(right, right) is None
    assert compilers[0].difference(right, wrong) == "Vela's commands compute other outputs"


@pytest.mark.full
def test_errors_name_no_budget_of_a_program_that_was_left_out(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(TfliteCompiler, "difference", lambda self, uncut, one: "it differs")
    builder = _builder(file.read_bytes(), _options(64_000))
    least = vela_budget.sram_of(builder.built(replace(builder.options.vela, optimise=Optimise.SIZE), is_cached=True))
    with pytest.raises(CapacityError, match=f"needs {least:,} bytes of SRAM, the budget is 64,000") as error:
        _chosen(builder)
    assert f"--sram-budget {least}`" in str(error.value.hint)


def test_cuts_that_compute_something_else_do_not_end_the_search(file: Path, monkeypatch: pytest.MonkeyPatch):
    def differs(self: TfliteCompiler, uncut: Candidate, one: Candidate) -> str | None:
        return "its commands have a hazard" if any(each.cut.kept for each in one.segments) else None

    monkeypatch.setattr(TfliteCompiler, "difference", differs)
    builder = _builder(file.read_bytes())
    least = vela_budget.sram_of(builder.built(replace(builder.options.vela, optimise=Optimise.SIZE), is_cached=True))
    chosen = _chosen(replace(builder, options=_options(least * 3 // 4)))
    assert chosen.stripes
    assert not any(each.cut.kept for each in chosen.candidate.segments)


class _Numbered:
    """A compiler whose first cut is wrong."""

    workers = 1

    def __init__(self) -> None:
        self.asked: list[int] = []

    def candidate(self, options: VelaOptions, segments: tuple[Tried, ...] = ()) -> Candidate:
        return Candidate(
            50 if segments else 100, 100, 10, segments, (2,) * len(segments), (Work(0, 0, 0),) * len(segments)
        )

    def segments(self, uncut: Candidate) -> Any:
        return None

    def difference(self, uncut: Candidate, one: Candidate) -> str | None:
        self.asked.append(one.segments[0].cut.height)
        return "it differs" if self.asked[-1] == 1 else None

    def names(self, first: int, last: int) -> tuple[str, ...]:
        return ("a",)


def test_each_cut_is_compared(monkeypatch: pytest.MonkeyPatch):
    """Also if the object of one that was left out is gone, and another has its number."""
    compiler = _Numbered()
    search = VelaSearch(compiler, MemoryOptions(sram_budget=60), VelaOptions())
    proposals = [vela_search._Proposal((Tried(Cut(0, 1, height), 0, 0),), 50, height) for height in range(1, 5)]
    waiting = vela_search._Waiting(proposals, 50, 100, 1.0)
    monkeypatch.setattr(search, "_proposed", lambda *_: waiting)
    search.chosen()
    assert sorted(compiler.asked) == [1, 2, 3, 4]


def test_an_error_of_one_cut_does_not_end_the_build(file: Path, monkeypatch: pytest.MonkeyPatch):
    built = VelaBuilder.built

    def failing(self: VelaBuilder, *args: Any, is_cached: bool = False) -> VelaBuild:
        if len(args) > 1 and args[1] is not None:
            raise InternalError("a partition has no commands")
        return built(self, *args, is_cached=is_cached)

    monkeypatch.setattr(VelaBuilder, "built", failing)
    monkeypatch.setattr(vela_search, "_PARTS", (0.7,))
    monkeypatch.setattr(vela_search, "_SECONDS", dict.fromkeys(Effort, 4.0))
    chosen = _chosen(_builder(file.read_bytes(), _options(None, DepthFirst.ALWAYS)))
    assert chosen.stripes == ()
    assert "a program that the search tried was left out: a partition has no commands" in chosen.notes
    assert "the program is not in stripes: no cut of it can be used" in chosen.notes


def test_depth_first_always_takes_a_program_in_stripes(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vela_search, "_PARTS", (0.7,))
    monkeypatch.setattr(vela_search, "_SECONDS", dict.fromkeys(Effort, 4.0))
    chosen = _chosen(_builder(file.read_bytes(), _options(None, DepthFirst.ALWAYS)))
    assert chosen.stripes


def test_options_without_effect_are_refused(file: Path, tmp_path: Path):
    with pytest.raises(OptionError, match="`--effort` is for a search within a budget"):
        vela_budget.build_of(file, TARGET, BuildOptions(memory=MemoryOptions(effort=Effort.EXACT)))
    npu = targets.load(TARGET).need_ethosu()
    compiled = tmp_path / "compiled.tflite"
    compiled.write_bytes(compile_cached(file.read_bytes(), npu, VelaOptions()).file)
    memories = (_options(2000), _options(None, DepthFirst.ALWAYS), _options(None, DepthFirst.NEVER))
    for options in memories:
        with pytest.raises(OptionError, match="is for files that are not compiled yet"):
            vela_budget.build_of(compiled, TARGET, BuildOptions(memory=options.memory))


@pytest.mark.parametrize("text", ["[]", "3", '{"file": "", "left": 3, "summary": {}}', '{"file": 1}'])
def test_a_damaged_cache_is_made_again(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEUTERON_CACHE", str(tmp_path))
    monkeypatch.setattr(vela_compile, "compile_file", lambda *args: VelaResult(b"made", {}))
    npu = targets.load(TARGET).need_ethosu()
    compile_cached(b"file", npu, VelaOptions())
    (kept,) = (tmp_path / "vela").glob("*.json")
    kept.write_text(text)
    assert compile_cached(b"file", npu, VelaOptions()).file == b"made"


def test_options_that_vela_programs_do_not_have_are_refused(file: Path):
    options = BuildOptions(memory=MemoryOptions(weights_budget=1000))
    with pytest.raises(OptionError, match="`--weights-budget` is for programs that Deuteron plans"):
        vela_budget.build_of(file, TARGET, options)


def test_a_transposed_convolution_behind_a_slice_is_kept_apart(tmp_path: Path):
    net = Network((1, 6, 8, 16))
    x = net.layer(net.input, 16, 1)
    begin, size = net.constant([0, 2, 0, 0], "INT32"), net.constant([1, 3, 8, 16], "INT32")
    x = net.add("SLICE", (x, begin, size), (1, 3, 8, 16), "SliceOptions", {}, x)
    path = tmp_path / "net.tflite"
    path.write_bytes(encode(net.model(net.transposed(x, 12))))
    build_model(str(path), target=TARGET, output=tmp_path / "b")
    sample = [np.random.default_rng(0).integers(-128, 128, (1, 6, 8, 16)).astype(np.int8)]
    (got,) = HostExecutor(image.bundle_of(tmp_path / "b")).run(sample)
    np.testing.assert_array_equal(got, Litert(path.read_bytes()).run(sample)[0])
