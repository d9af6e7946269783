"""A family of another package, with no file of Deuteron's changed: listed, run, simulated, profiled, in firmware."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.exir import BackendDetails, PreprocessResult, to_backend, to_edge
from tests.npu.toy.toy_family import ID, payload_of
from torch import Tensor, nn

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.builds import manifest as m
from deuteron.builds.options import BuildOptions
from deuteron.cli import main
from deuteron.errors import UnsupportedError
from deuteron.npu import families
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.provenance import KernelOrigin
from deuteron.runtime.build_native import executorch_root

HERE = Path(__file__).parent
COUNT = 48
SOURCE = m.Source("negate.py", 7, "return -x", "")


class Negate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -x


class ToyBackend(BackendDetails):
    """ExecuTorch's side of the family: a program of one negation becomes one partition."""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: object) -> PreprocessResult:
        return PreprocessResult(processed_bytes=payload_of(COUNT))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The family as its users have it: installed, its backend compiled."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("toy_family.py", "npu_toy.c"):
        shutil.copy(HERE / name, folder)
    metadata = folder / "toy_npu-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-npu\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{families.GROUP}]\n{ID} = toy_family:FAMILY\n"
        "Broken = toy_family:no\nRaising = raising:FAMILY\nOther = toy_family:ID\n"
    )
    (folder / "raising.py").write_text("1 / 0\n")
    root = executorch_root()
    command = (
        "c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
        "-DC10_USING_CUSTOM_GENERATED_MACROS", "-isystem", root / "include",
        "-isystem", root / "include" / "executorch" / "runtime" / "core" / "portable_type" / "c10",
        HERE / "toy_backend.cpp", root / "lib" / "libexecutorch.so", f"-Wl,-rpath,{root / 'lib'}",
        "-o", folder / "libtoy_backend.so",
    )  # fmt: skip
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def program() -> bytes:
    exported = torch.export.export(Negate(), (torch.zeros(1, COUNT, dtype=torch.int8),), strict=True)
    return to_backend(ToyBackend.__name__, to_edge(exported).exported_program(), []).buffer()


@pytest.fixture
def build(package: Path, program: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build for the toy, in a process where its package is installed."""
    monkeypatch.syspath_prepend(str(package))
    tensors = (m.TensorInfo((1, COUNT), "int8", "x"),)
    partition = m.Partition(
        payload_sha256=hashlib.sha256(payload_of(COUNT)).hexdigest(),
        microcode_bytes=0,
        weights_bytes=0,
        kernels_bytes=0,
        scratch_bytes=0,
        scratch_proven_optimal=True,
        prefetch_bytes=0,
        prefetch_bound=0,
        prefetch_proven_optimal=True,
        inputs=tensors,
        outputs=tensors,
        ops=(m.PartitionOp(0, "NEG", ("y",), ("aten_neg",), (SOURCE,)),),
        kernels=(KernelOrigin(0, "negate", (0,)),),
        dataflow=Dataflow(("x",), ("y",), (), (("x+0", "y+0"),)),
    )
    manifest = m.Manifest(
        deuteron="0",
        executorch="0",
        torch="0",
        target="imxrt700",
        converter="open",
        options=BuildOptions(),
        model=m.ModelInfo("negate"),
        files={m.PROGRAM: m.entry_of(program)},
        inputs=tensors,
        outputs=tensors,
        nodes=(m.Node("aten_neg", "aten::neg", "neg", (SOURCE,), 0, "", Work.NOTHING, COUNT, 0, 2 * COUNT),),
        partitions=(partition,),
        cpu_ops=(),
    )
    folder = tmp_path / "negate"
    folder.mkdir()
    (folder / m.PROGRAM).write_bytes(program)
    (folder / m.NAME).write_text(manifest.to_json())
    return folder


@pytest.fixture
def deuteron(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the output of `deuteron ARGS`, run in this process; it must succeed."""

    def run(*args: str | Path) -> str:
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        assert ended.value.code == 0, err
        return out

    return run


def test_its_partitions_are_listed(build: Path, deuteron: Callable[..., str]) -> None:
    line = "npu 0: negates 48 B  ; tflite op 0 NEG; negate.py:7 `return -x`"
    assert deuteron("inspect", build).splitlines()[2] == line
    (listed,) = json.loads(deuteron("inspect", build, "--json"))["partitions"]
    assert listed == {"name": "npu 0", "count": 48, "origins": [line.partition("; ")[2]]}


def test_without_its_package_it_is_a_delegate_of_another_backend(
    build: Path, deuteron: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert deuteron("inspect", build).splitlines()[1:3] == ["", f"delegate of `{ID}`: 16 B, not shown"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Broken",
            "`Broken`, `toy_family:no`, cannot be loaded: module 'toy_family' has no attribute 'no'\n\n"
            "hint: install its package again, or remove it",
        ),
        (
            "Raising",
            "`Raising`, `raising:FAMILY`, cannot be loaded: ZeroDivisionError: division by zero\n\n"
            "hint: install its package again, or remove it",
        ),
        (
            "Other",
            "`Other`, `toy_family:ID`, is of type `str`, allowed is `deuteron.npu.families.Family`\n\n"
            "hint: install a release of its package that fits this one of Deuteron, or remove it",
        ),
    ],
)
@pytest.mark.usefixtures("build")
def test_a_package_without_a_family_is_named(name: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        families.family_of(name)
    assert str(error.value) == f"the NPU family {said}"


def test_it_runs_on_the_host(build: Path) -> None:
    values = np.arange(-COUNT // 2, COUNT // 2, dtype=np.int8).reshape(1, COUNT)
    (result,) = api.run(build, [values])
    np.testing.assert_array_equal(result, -values)


def test_it_is_simulated_explained_planned_and_profiled(build: Path, deuteron: Callable[..., str]) -> None:
    (run,) = json.loads(deuteron("sim", build, "--json"))["partitions"]
    assert (run["cycles"], run["bound"], run["hazards"]) == (COUNT, "compute", None)
    assert json.loads(deuteron("explain", build, "--json"))["islands"][0]["npu"] == COUNT
    assert json.loads(deuteron("plan", build, "--json"))["partitions"][0]["memories"] == []
    deuteron("profile", build, "--on", "sim", "-o", build.parent / "profile")
    profile = json.loads((build.parent / "profile" / "profile.json").read_text())
    (kernel,) = profile["partitions"][0]["kernels"]
    assert (kernel["name"], kernel["cycles"], kernel["output"]) == ("negate", COUNT, ["y"])
    assert [e["name"] for e in profile["stream"]["events"] if e["kind"] == "kernel"] == ["negate"]


def test_it_is_profiled_on_the_host(build: Path, deuteron: Callable[..., str]) -> None:
    deuteron("profile", build, "--on", "host", "-o", build.parent / "profile")
    events = json.loads((build.parent / "profile" / "profile.json").read_text())["stream"]["events"]
    delegates = [event for event in events if event["kind"] == "delegate"]
    assert delegates
    assert all((event["name"], event["stop"] > event["start"]) == ("npu 0", True) for event in delegates)


def test_it_cannot_be_planned_anew(build: Path) -> None:
    from deuteron.views.simulate import simulate_build

    with pytest.raises(UnsupportedError) as error:
        simulate_build(build, sram_budget=1 << 20)
    assert str(error.value) == (
        f"partitions of `{ID}` cannot be planned again\n\nhint: build the model again for the budget"
    )


@pytest.mark.slow
def test_firmware_runs_it_on_an_emulated_board(build: Path, deuteron: Callable[..., str]) -> None:
    values = np.arange(-COUNT // 2, COUNT // 2, dtype=np.int8).reshape(1, COUNT)
    inputs, outputs = build.parent / "x.npy", build.parent / "y.npy"
    np.save(inputs, values)
    deuteron("firmware", build, "--board", "an505", "-o", build.parent / "firmware")
    deuteron("run", build.parent / "firmware", "--on", "an505", "--input", inputs, "--output", outputs)
    np.testing.assert_array_equal(np.load(outputs), -values)
    deuteron("profile", build, "--on", "an505", "-o", build.parent / "profile")
    events = json.loads((build.parent / "profile" / "profile.json").read_text())["stream"]["events"]
    (delegate,) = (event for event in events if event["kind"] == "delegate")
    assert (delegate["name"], delegate["stop"] > delegate["start"]) == ("npu 0", True)
