"""A build through the command line: run, compare, inspect, and what is said of files that are damaged or do not fit."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deuteron import api
from deuteron.cli import main

from .conftest import Result

Run = Callable[..., Result]

pytestmark = pytest.mark.slow

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return self.fc(torch.flatten(x, 1))


def net():
    torch.manual_seed(0)
    calibration = [torch.randn(1, 1, 8, 8) for _ in range(8)]
    return Net(), (calibration[0],), calibration
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build directory with intermediates."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "net.py").write_text(MODEL)
    with pytest.raises(SystemExit) as ended:
        main(["build", f"{folder}/net.py:net", "-o", str(folder / "out"), "--intermediates", "--verify-each"])
    assert ended.value.code == 0
    return folder / "out"


@pytest.fixture
def copy(build: Path, tmp_path: Path) -> Path:
    """A copy of the build that a test may damage."""
    target = tmp_path / "out"
    target.mkdir()
    for file in build.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_build_says_what_runs_where(deuteron: Run, build: Path, tmp_path: Path):
    result = deuteron("build", f"{build.parent}/net.py:net", "-o", tmp_path / "again")
    manifest = api.read_manifest(build)
    (part,) = manifest.partitions
    npu, cpu, memory, quality = result.out.splitlines()
    assert npu == (
        f"npu 0: {len(part.ops)} TFLite operators in {len(part.kernels)} kernel calls; microcode "
        f"{part.microcode_bytes:,} B, weights {part.weights_bytes:,} B, scratch "
        f"{part.scratch_bytes:,} B (proven optimal)"
    )
    assert cpu.startswith("cpu: ")
    weights, scratch = part.weights_bytes, part.scratch_bytes
    assert memory == (
        f"SRAM: 320 B inputs, outputs and CPU tensors + {weights:,} B linked weights + {scratch:,} B scratch = "
        f"{320 + weights + scratch:,} B of 7,864,320 B"
    )
    assert quality == f"signal to quantization noise: output 0 {manifest.quality.outputs[0].sqnr:.1f} dB"
    said = result.err.splitlines()
    assert said[0] == "target `imxrt700`, the default; `--target` chooses another, and `deuteron targets` lists them"
    assert said[-1] == f"wrote `{tmp_path}/again/build.json`"
    assert (tmp_path / "again" / "model.pte").read_bytes() == (build / "model.pte").read_bytes()


def test_a_build_for_a_cpu_alone_says_what_sram_it_takes(deuteron: Run, build: Path, tmp_path: Path):
    result = deuteron(
        "build", f"{build.parent}/net.py:net", "--target", "cortex-m33", "--sram-budget", "64Ki", "-o", tmp_path / "m"
    )
    assert result.err.splitlines()[0] == "target `cortex-m33`"
    _, memory, _ = result.out.splitlines()
    assert memory == api.plan(tmp_path / "m").summary()
    assert memory.endswith(" B of 65,536 B; nothing depth first")


def test_a_build_for_an_ethos_u_says_what_sram_it_takes(deuteron: Run, build: Path, tmp_path: Path):
    result = deuteron("build", f"{build.parent}/net.py:net", "--target", "ethos-u55-128", "-o", tmp_path / "e")
    _, _, memory, _ = result.out.splitlines()
    (part,) = api.read_manifest(tmp_path / "e").partitions
    scratch = part.scratch_bytes
    assert memory == (
        f"SRAM: 320 B inputs, outputs and CPU tensors + 128 B contexts of partitions + {scratch:,} B Sram = "
        f"{448 + scratch:,} B"
    )


def test_a_build_that_firmware_does_not_support_says_why(deuteron: Run, build: Path, tmp_path: Path):
    kept = ("--operators-not-to-delegate", "aten::convolution,aten::relu,aten::view_copy,aten::addmm")
    result = deuteron("build", f"{build.parent}/net.py:net", "-o", tmp_path / "n", *kept)
    assert (result.code, [line.partition(":")[0] for line in result.out.splitlines()]) == (
        0,
        ["cpu", "firmware", "signal to quantization noise"],
    )
    assert "firmware: none, 5 operators cannot be compiled\n" in result.out


def test_build_json_is_the_manifest(deuteron: Run, build: Path, tmp_path: Path):
    result = deuteron("build", f"{build.parent}/net.py:net", "-o", tmp_path / "x", "--json", "-q")
    assert result.err == ""
    assert json.loads(result.out) == {
        "directory": f"{tmp_path}/x",
        **json.loads((tmp_path / "x" / "build.json").read_text()),
    }


def test_run_on_random_samples(deuteron: Run, build: Path):
    result = deuteron("run", build, "--samples", "22", "--seed", "3")
    lines = result.out.splitlines()
    assert (result.code, result.err, len(lines)) == (0, "", 21)
    assert lines[0].startswith("sample 0  output 0  float32 [1, 5]  min ")
    assert lines[-1] == "[2 others]"
    assert deuteron("run", build, "--samples", "22", "--seed", "3").out == result.out
    assert deuteron("run", build, "--samples", "22", "--seed", "4").out != result.out


def test_run_reads_and_writes_arrays(deuteron: Run, build: Path, tmp_path: Path):
    x, y = tmp_path / "x.npy", tmp_path / "y"
    samples = np.random.default_rng(5).standard_normal((3, 1, 1, 8, 8)).astype(np.float32)
    np.save(x, samples)
    result = deuteron("run", build, "--input", x, "--output", y, "--json")
    assert (result.code, result.err) == (0, f"wrote `{y}`\n")
    written = np.load(y)
    assert written.shape == (3, 1, 5)
    shown = [sample[0]["values"] for sample in json.loads(result.out)["samples"]]
    np.testing.assert_array_equal(np.array(shown, np.float32), written)
    for i, sample in enumerate(samples):
        np.testing.assert_array_equal(api.run(build, [sample])[0], written[i])

    again = deuteron("run", build, "--input", x, "--output", y)
    assert again == Result(2, "", f"error: `{y}` exists\n\nhint: choose another name, or replace it with `--force`\n")
    np.save(x, samples[0])
    assert deuteron("run", build, "--input", x, "--output", y, "--force").code == 0
    np.testing.assert_array_equal(np.load(y), written[0])


def test_compare_holds(deuteron: Run, build: Path):
    result = deuteron("run", "--compare", build, "--samples", "4")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("compared on 4 samples\n")
    report = json.loads(deuteron("run", build, "--samples", "4", "--compare", "--json").out)
    assert (report["schema"], report["passed"], report["samples"]) == (1, True, 4)


def test_what_is_for_tflite_files_only(deuteron: Run, build: Path):
    assert deuteron("run", build, "--compare", "litert") == Result(
        2,
        "",
        "error: a build is compared with PyTorch, not with LiteRT\n\n"
        "hint: use `--compare`, or run one of its TFLite files, `npu_0.tflite` and so on\n",
    )
    assert deuteron("run", build, "--target", "imxrt700") == Result(
        2, "", f"error: `{build}` is already compiled for a target\n\nhint: leave out `--target`\n"
    )


def test_a_partition_of_a_build_runs_beside_litert(deuteron: Run, build: Path):
    result = deuteron("run", build / "npu_0.tflite", "--compare", "litert", "--samples", "4")
    assert (result.code, result.out.splitlines()[-1]) == (0, "all bounds hold")
    assert deuteron("run", build / "npu_0.converted.tflite", "--samples", "4").code == 0


@pytest.mark.parametrize(
    ("array", "err"),
    [
        (
            np.zeros((1, 1, 8, 9), np.float32),
            "X: input 0 is float32 [1, 1, 8, 9], the model takes float32 [1, 1, 8, 8]",
        ),
        (np.zeros((1, 1, 8, 8), np.int8), "X: input 0 is int8 [1, 1, 8, 8], the model takes float32 [1, 1, 8, 8]"),
        (np.zeros((0, 1, 1, 8, 8), np.float32), "the input files have no samples"),
    ],
)
def test_an_input_that_does_not_fit(deuteron: Run, build: Path, tmp_path: Path, array: np.ndarray, err: str):
    np.save(tmp_path / "x.npy", array)
    err = err.replace("X", f"{tmp_path}/x.npy")
    result = deuteron("run", build, "--input", tmp_path / "x.npy")
    assert (result.code, result.out, result.err.partition("\n\nhint: ")[0].strip()) == (1, "", f"error: {err}")


def test_wrong_numbers_of_files(deuteron: Run, build: Path, tmp_path: Path):
    two = ["--input", "a.npy", "--input", "b.npy"]
    assert deuteron("run", build, *two).err == (
        "error: the model has 1 input, but `--input` is given 2 times\n\n"
        "hint: give a file for each input: x float32 [1, 1, 8, 8]\n"
    )
    two = ["--output", "a.npy", "--output", "b.npy"]
    assert deuteron("run", build, *two).err == (
        "error: the model has 1 output, but `--output` is given 2 times\n\n"
        "hint: give a file for each output, in order, or none\n"
    )
    assert deuteron("run", build, "--output", tmp_path / "no" / "y.npy") == Result(
        1,
        "",
        f"error: `{tmp_path}/no/y.npy` cannot be written: there is no directory `{tmp_path}/no`\n\n"
        "hint: create it first\n",
    )
    assert deuteron("run", build, "--input", "x.npy", "--samples", "2") == Result(
        2, "", "error: `--samples` makes random samples, `--input` reads them\n\nhint: leave one of them out\n"
    )


def test_input_files_that_cannot_be_read(deuteron: Run, build: Path, tmp_path: Path):
    path = tmp_path / "x.npy"
    assert deuteron("run", build, "--input", path) == Result(
        1,
        "",
        f"error: `{path}` does not exist\n\nhint: check its name; paths are relative to the current directory\n",
    )
    path.write_text("1, 2, 3")
    assert deuteron("run", build, "--input", path) == Result(
        1,
        "",
        f"error: `{path}` is not a .npy file: it begins with b'1, 2, ', not with b'\\x93NUMPY'\n\n"
        "hint: write it with `numpy.save`\n",
    )
    np.save(path, np.zeros(3))
    path.write_bytes(path.read_bytes()[:-1])
    assert deuteron("run", build, "--input", path).err.startswith(f"error: `{path}` is not a .npy file: ")
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    assert deuteron("run", build, "--input", tmp_path / "x.npz") == Result(
        1,
        "",
        f"error: `{tmp_path}/x.npz` is not a .npy file but an archive\n\nhint: write one array with `numpy.save`\n",
    )


def test_an_empty_program_is_called_one(deuteron: Run, tmp_path: Path):
    path = tmp_path / "empty.pte"
    path.write_bytes(b"")
    assert deuteron("run", path) == Result(
        1,
        "",
        f"error: {path}: this is not an ExecuTorch program: it is empty\n\n"
        "hint: give a `.pte` file that ExecuTorch 1.x or Deuteron wrote\n",
    )


def test_inspect_shows_the_source_lines(deuteron: Run, build: Path):
    result = deuteron("inspect", build)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{build}: build directory for imxrt700, ")
    conv, fc = (line for line in result.out.splitlines() if "net.py:" in line)
    assert "conv2d_s8 [1,8,8,1] -> [1,6,6,4]" in conv
    assert "CONV_2D" in conv
    assert "; net.py:12 `x = torch.relu(self.conv(x))`" in conv
    assert fc.endswith("FULLY_CONNECTED; net.py:13 `return self.fc(torch.flatten(x, 1))`")


def test_inspect_reads_every_file_of_a_build(deuteron: Run, build: Path):
    commands = deuteron("inspect", build).out.split("\n\n")[1].splitlines()[1:]
    kinds = {
        "model.pte": "ExecuTorch program for imxrt700",
        "npu_0.microcode": "microcode",
        "npu_0.converted.tflite": "converted TFLite file",
    }
    for name, kind in kinds.items():
        result = deuteron("inspect", build / name)
        assert result.code == 0
        assert result.out.startswith(f"{build / name}: {kind}, ")
        assert result.out.split("\n\n")[1].splitlines()[1:] == commands
    assert deuteron("inspect", build / "npu_0.tflite").out.startswith(f"{build}/npu_0.tflite: TFLite file, ")


def test_a_program_that_was_altered(deuteron: Run, copy: Path):
    program = copy / "model.pte"
    data = bytearray(program.read_bytes())
    data[len(data) // 2] ^= 1
    program.write_bytes(data)
    for command in ("run", "inspect"):
        result = deuteron(command, copy)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"error: {copy}: `model.pte` is not the file that `build.json` describes: ")
        assert result.err.endswith("\n\nhint: build the model again\n")


def test_a_program_that_was_cut(deuteron: Run, copy: Path):
    program = copy / "model.pte"
    program.write_bytes(program.read_bytes()[:1000])
    result = deuteron("inspect", program)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {program}, program: ")
    assert result.err.endswith("\n\nhint: the file is damaged or truncated: build it again\n")


def test_a_manifest_that_was_cut(deuteron: Run, copy: Path):
    manifest = copy / "build.json"
    manifest.write_text(manifest.read_text()[:100])
    result = deuteron("run", copy)
    assert (result.code, result.out) == (1, "")
    assert "build.json: `build.json` is not JSON: " in result.err


def test_only_a_comparison_needs_the_reference(deuteron: Run, copy: Path):
    (copy / "reference.pt2").unlink()
    assert deuteron("run", copy).code == 0
    assert deuteron("run", copy, "--compare") == Result(
        1,
        "",
        f"error: `{copy}` has no `reference.pt2` to compare with\n\nhint: restore it, or build again\n",
    )


def test_a_missing_file_of_a_build(deuteron: Run, copy: Path):
    (copy / "model.pte").unlink()
    assert deuteron("run", copy) == Result(
        1, "", f"error: {copy}: `model.pte` is missing though `build.json` lists it\n"
    )


def test_run_on_what_is_no_build(deuteron: Run, tmp_path: Path):
    missing = tmp_path / "nothing"
    assert deuteron("run", missing) == Result(
        1,
        "",
        f"error: `{missing}` does not exist\n\nhint: give a directory that `deuteron build MODEL -o DIR` has written\n",
    )
