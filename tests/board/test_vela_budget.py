"""TFLite files for an Ethos-U within a budget of SRAM: cut before Vela compiles them, never worse than Vela alone."""

from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.graph_stripes.networks import Network, random_network

from deuteron.api import build_model
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.arch.vela import VelaOptions
from deuteron.board import image, vela_budget
from deuteron.board.host_executor import HostExecutor
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, OptionError
from deuteron.runtime.litert import Litert
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


def test_what_cannot_fit_says_the_least_that_was_found(file: Path):
    with pytest.raises(CapacityError, match=r"needs [\d,]+ bytes of SRAM, in stripes, the budget is 9,000") as error:
        vela_budget.build_of(file, TARGET, _options(9000))
    least = int(str(error.value.hint).split("`--sram-budget ")[1].split("`")[0])
    manifest, _ = vela_budget.build_of(file, TARGET, _options(least))
    assert manifest.stripes[0].sram == least
    with pytest.raises(CapacityError, match="bytes of SRAM, the budget is"):
        vela_budget.build_of(file, TARGET, _options(least, DepthFirst.NEVER))


@pytest.mark.parametrize("seed", full.first(range(40), 2))
def test_random_networks_are_never_worse_than_vela_alone(seed: int, tmp_path: Path):
    path = tmp_path / "net.tflite"
    path.write_bytes(encode(random_network(seed)))
    uncut, _ = vela_budget.build_of(path, TARGET, _options(None))
    assert uncut.stripes == ()
    try:
        alone, _ = vela_budget.build_of(path, TARGET, _options(40_000, DepthFirst.NEVER))
    except CapacityError:
        alone = None
    try:
        searched, _ = vela_budget.build_of(path, TARGET, _options(40_000))
    except CapacityError:
        assert alone is None
        return
    if alone is not None and searched.stripes:
        assert searched.stripes[0].cycles <= searched.stripes[0].cycles_before


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
