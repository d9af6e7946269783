"""The stand-in for Arm's simulator: its command line, and what it says of programs, those that run and others."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conformance.backends import CORTEX_M, ETHOS_U, Backend
from tests.runtime.test_fvp import words

from deuteron.errors import DeuteronError
from deuteron.native import LIBRARY_DIRECTORY
from deuteron.npu.neutron.sdk import Session
from deuteron.runtime import fvp

NAME = "FVP_Corstone_SSE-300_Ethos-U55"


def run(kept: Path, *arguments: str, backend: Backend = CORTEX_M) -> "subprocess.CompletedProcess[str]":
    """Run the stand-in in the environment of the tests and return its result."""
    environment = os.environ | backend.environment_with(LIBRARY_DIRECTORY / "deuteron-runner", kept)
    environment["DEUTERON_CONFORMANCE_RUN"] = str(kept)
    return subprocess.run([NAME, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_it_is_found_by_the_simulators_name_and_has_a_version(tmp_path: Path) -> None:
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"{fvp.version(fvp.fvp(NAME))}\n")


def test_the_image_that_tests_look_for_is_there() -> None:
    root = Path(CORTEX_M.environment_with(Path("runner"), Path("images"))["EXECUTORCH_ROOT"])
    assert (root / "arm_test/arm_semihosting_executor_runner_corstone-300_cortex-m55/arm_executor_runner").is_file()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Inputs of a program, and a place for it; what stands for an image."""
    (tmp_path / "runner.elf").touch()
    (tmp_path / "i0.bin").write_bytes(np.array([1, -2], np.float32).tobytes())
    (tmp_path / "i1.bin").write_bytes(np.array(3).tobytes())
    return tmp_path


def write(folder: Path, *, exponential: bool) -> None:
    """A program of one operator, with a number among its inputs."""
    import torch
    from executorch.exir import to_edge

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return torch.exp(x) if exponential else x + x

    exported = torch.export.export(Model().eval(), (torch.zeros(2), 3))
    (folder / "program.pte").write_bytes(to_edge(exported).to_executorch().buffer)


@pytest.mark.slow
@pytest.mark.full
def test_a_program_runs_on_the_host_and_on_a_board(folder: Path) -> None:
    write(folder, exponential=False)
    done = run(folder, *words(folder, "i0.bin", "i1.bin", image=folder / "runner.elf"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    np.testing.assert_array_equal(np.fromfile(folder / "out-0.bin", np.float32), [2, -4])
    assert len((folder / "programs").read_text().splitlines()) == 1


@pytest.mark.slow
def test_a_program_that_firmware_does_not_have_leaves_the_reason_and_no_results(folder: Path) -> None:
    write(folder, exponential=True)
    done = run(folder, *words(folder, "i0.bin", "i1.bin", image=folder / "runner.elf"))
    assert done.returncode == 1
    assert done.stdout.startswith("E: instruction 0 of `forward`: the operator `aten::exp.out` is not in firmware\n")
    with pytest.raises(DeuteronError, match=r"`aten::exp\.out` is not in firmware"):
        Session(folder).raise_failure()
    assert not list(folder.glob("out-*"))
    assert not (folder / "programs").exists()


@pytest.mark.slow
def test_a_program_that_the_host_refuses(folder: Path) -> None:
    write(folder, exponential=False)
    (folder / "i1.bin").write_bytes(np.array(4).tobytes())
    done = run(folder, *words(folder, "i0.bin", "i1.bin", image=folder / "runner.elf"))
    assert done.returncode == 1
    assert done.stdout.startswith("E: program.pte: method `forward` failed on sample")


def test_programs_for_the_npu_need_no_board(folder: Path) -> None:
    write(folder, exponential=True)
    done = run(folder, *words(folder, "i0.bin", "i1.bin", image=folder / "runner.elf"), backend=ETHOS_U)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    np.testing.assert_allclose(np.fromfile(folder / "out-0.bin", np.float32), np.exp([1, -2]), rtol=1e-6)
    assert len((folder / "programs").read_text().splitlines()) == 1
