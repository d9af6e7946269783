"""The stand-ins for Arm's simulators: command lines, programs that run, and what is refused, to the letter."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.exir import to_edge
from tests.npu.ethosu.test_family import layer, program
from tests.npu.ethosu.vela import compiled

import deuteron
from deuteron.cli import fvp_program
from deuteron.errors import InputError, InternalError, OptionError
from deuteron.runtime import fvp
from deuteron.runtime.fvp import Simulation

U55, U65, SSE_320 = (one.name for one in fvp.FVPS)
HOW = "\n\nhint: start the simulator as ExecuTorch's `backends/arm/test/runner_utils.py` does"
IMAGE = "arm_test/arm_semihosting_executor_runner_corstone-300/arm_executor_runner"


def words(
    folder: Path, *inputs: str, macs: str = "128", system: str = "", line: str = "", image: Path = Path("runner.elf")
) -> list[str]:
    """A simulator's command line as ExecuTorch's tests write it."""
    line = line or " ".join(("executor_runner -m program.pte -o out", *(f"-i {name}" for name in inputs)))
    settings = (
        f"{system}ethosu.num_macs={macs}", "mps3_board.uart0.out_file='-'", f"{system}cpu0.semihosting-enable=1",
        f"{system}cpu0.semihosting-cwd={folder}", "ethosu.extra_args='--fast'",
        f"{system}cpu0.semihosting-cmd_line='{line}'",
    )  # fmt: skip
    return [*(word for setting in settings for word in ("-C", setting)), "-a", str(image), "--timelimit", "120"]


def test_what_a_command_line_asks_for() -> None:
    asked = Simulation(
        Path("/a folder"), "program.pte", ("i0.bin", "i1.bin"), "out", Path("runner.elf"), "ethos-u55-128", 120
    )
    assert Simulation.of(fvp.fvp(U55), words(Path("/a folder"), "i0.bin", "i1.bin")) == asked
    system = "mps4_board.subsystem."
    given = words(Path("/a"), "i0.bin", macs="512", system=system)
    assert Simulation.of(fvp.fvp(SSE_320), given).accelerator == "ethos-u85-512"
    # As ExecuTorch's `run_fvp.sh` writes it, and by the long names of options.
    given = [
        "--parameter", "cpu0.semihosting-cwd=/a", "-C", "cpu0.semihosting-cmd_line=runner -i i0.bin -m m.pte -o y",
        "--application=x.elf",
    ]  # fmt: skip
    assert Simulation.of(fvp.fvp(U65), given) == Simulation(
        Path("/a"), "m.pte", ("i0.bin",), "y", Path("x.elf"), "ethos-u65-256", None
    )


FOLDER = Path("/a")
WRONG = {
    "an argument": (
        [*words(FOLDER), "--gdb"],
        "unknown argument `--gdb`\n\nhint: the substitute takes --application, --parameter, --timelimit, -C, -a",
    ),
    "no value": ([*words(FOLDER), "-a"], "`-a` has no value" + HOW),
    "no setting": (["-C", "enable"], "`-C enable` sets nothing\n\nhint: write `-C enable=VALUE`"),
    "no program": (
        ["-C", "cpu0.semihosting-cwd=/a", "-a", "runner.elf"],
        "the setting `cpu0.semihosting-cmd_line` is missing: the substitute runs programs from this "
        "computer's files, not programs inside an image\n\n"
        "hint: build the runner with `--pte=semihosting`, and start the simulator as ExecuTorch's "
        "`backends/arm/test/runner_utils.py` does",
    ),
    "no image": (words(FOLDER)[:-4], "the image that the simulator boots is missing\n\nhint: give it with `-a`"),
    "macs": (
        words(FOLDER, macs="512"),
        "`ethosu.num_macs=512` is not a size of an Ethos-U55\n\nhint: allowed are 32, 64, 128, 256",
    ),
    "no model": (
        words(FOLDER, line="runner -o y"),
        "the runner's command line has no program, `-m`: `runner -o y`" + HOW,
    ),
    "no output": (
        words(FOLDER, line="runner -m y"),
        "the runner's command line has no name of the outputs, `-o`: `runner -m y`" + HOW,
    ),
    "an option of the runner": (
        words(FOLDER, line="runner -m y -o x -q 1"),
        "the runner's command line has an unknown option `-q`: `runner -m y -o x -q 1`" + HOW,
    ),
    "half an option of the runner": (
        words(FOLDER, line="runner -m y -o"),
        "the runner's command line has an unknown option `-o`: `runner -m y -o`" + HOW,
    ),
    "half a quotation": (
        words(FOLDER, line="runner -m 'y -o x"),
        "the runner's command line cannot be read, No closing quotation: `runner -m 'y -o x`" + HOW,
    ),
    "time": (
        [*words(FOLDER), "--timelimit=soon"], "`--timelimit soon` is no number of seconds" + HOW,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_command_line_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    given, message = WRONG[name]
    with pytest.raises(OptionError) as raised:
        Simulation.of(fvp.fvp(U55), given)
    assert str(raised.value) == message
    assert fvp_program.main([U55, *given]) == 2
    assert capsys.readouterr().out == f"E: {message}\n"


def test_a_stand_in_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert fvp_program.main([U65, "--version"]) == 0
    assert capsys.readouterr().out == (
        f"deuteron-fvp {deuteron.__version__}, a substitute for Arm's {U65}\nIt runs .pte files in ExecuTorch's "
        "runtime on this computer: results bit for bit, no cycles, no firmware.\n"
    )
    assert fvp_program.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: deuteron-fvp SIMULATOR ")
    assert all(f"\n  {one.name}" in shown for one in fvp.FVPS)
    assert fvp_program.main(["FVP_Base"]) == 2
    assert capsys.readouterr().out == (
        f"E: there is no substitute for a simulator `FVP_Base`\n\nhint: there are substitutes for `{U55}`, `{U65}`, "
        f"`{SSE_320}`\n"
    )


def test_neither_numpy_nor_torch_is_loaded() -> None:
    code = "import sys\nimport deuteron.cli.fvp_program\nprint('numpy' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = compiled(layer(), "ethos-u55-128", tmp_path_factory.mktemp("layer"))
    assert made is not None
    return made


@pytest.fixture
def folder(partition: bytes, tmp_path: Path) -> Path:
    """A program of one partition, its input, and images."""
    fvp.install(tmp_path)
    (tmp_path / "program.pte").write_bytes(program(partition, ((1, 6, 5, 3),), ((1, 3, 3, 9),)))
    np.random.default_rng(1).integers(-128, 128, (1, 6, 5, 3)).astype(np.int8).tofile(tmp_path / "i0.bin")
    return tmp_path


def test_an_installed_program_runs_a_partition_bit_for_bit(folder: Path) -> None:
    from deuteron.runtime.host import HostRunner

    command = [str(folder / U55), *words(folder, "i0.bin", image=folder / IMAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (
        0, f"deuteron-fvp for {U55}: ran `program.pte`, wrote 1 output\n", "",
    )  # fmt: skip
    x = np.fromfile(folder / "i0.bin", np.int8).reshape(1, 6, 5, 3)
    (expected,) = HostRunner(folder / "program.pte").run([x])
    np.testing.assert_array_equal(np.fromfile(folder / "out-0.bin", np.int8), expected.ravel())


def refused(folder: Path, capsys: pytest.CaptureFixture[str], name: str, given: list[str]) -> str:
    """Return the error of a simulation that does not run."""
    assert fvp_program.main([name, *given]) == 1
    assert not list(folder.glob("out-*"))
    return capsys.readouterr().out


def test_partitions_of_other_accelerators_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hint = (
        "\n\nhint: lower the model for the simulator's NPU, or start the simulator of the model's NPU with its "
        "`num_macs`\n"
    )
    image = folder / IMAGE
    assert refused(folder, capsys, U55, words(folder, "i0.bin", macs="256", image=image)) == (
        "E: program.pte, delegate 0: the commands are for ethos-u55-128, the simulator's NPU is ethos-u55-256" + hint
    )
    assert refused(folder, capsys, U65, words(folder, "i0.bin", macs="256", image=image)) == (
        "E: program.pte, delegate 0: the commands are for ethos-u55-128, the simulator's NPU is ethos-u65-256" + hint
    )


def test_what_is_missing_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(folder, capsys, U55, words(folder, "i0.bin", image=Path("nowhere/x"))) == (
        "E: there is no image `nowhere/x`\n\nhint: `deuteron fvp install` writes a placeholder for it\n"
    )
    assert refused(folder, capsys, U55, words(folder, "i1.bin", image=folder / IMAGE)) == (
        f"E: {folder}: there is no input `i1.bin`\n"
    )
    (folder / "program.pte").unlink()
    assert refused(folder, capsys, U55, words(folder, "i0.bin", image=folder / IMAGE)) == (
        f"E: {folder / 'program.pte'}: cannot read the program: No such file or directory\n"
    )


def test_a_program_that_does_not_end_in_time(folder: Path) -> None:
    slow = folder / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    asked = Simulation.of(fvp.fvp(U55), [*words(folder, "i0.bin", image=folder / IMAGE), "--timelimit=0.01"])
    with pytest.raises(InputError) as raised:
        fvp.on_host(asked, slow)
    assert str(raised.value) == (
        "program.pte: the program still ran after 0.01 s, the `--timelimit`\n\nhint: give a longer `--timelimit`"
    )


def test_inputs_that_a_program_does_not_take(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "i0.bin").write_bytes(bytes(7))
    assert refused(folder, capsys, U55, words(folder, "i0.bin", image=folder / IMAGE)) == (
        "E: program.pte: `i0.bin` has 7 bytes; the input tensor has 90\n"
    )


def test_a_runner_that_crashes(folder: Path) -> None:
    crashing = folder / "crashing"
    crashing.write_text("#!/bin/sh\necho out of luck >&2\nkill -SEGV $$\n")
    crashing.chmod(0o755)
    asked = Simulation.of(fvp.fvp(U55), words(folder, "i0.bin", image=folder / IMAGE))
    with pytest.raises(InternalError) as raised:
        fvp.on_host(asked, crashing)
    assert str(raised.value) == "program.pte: the runner ended with status -11: out of luck"


def exported(function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> bytes:
    """A program of operators that all stay on the CPU."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    program = to_edge(torch.export.export(Model().eval(), (torch.zeros(shape),)))
    return program.to_executorch().buffer


@pytest.fixture
def sine(folder: Path) -> Path:
    """A program of an operator that stays on the CPU, and one that `portable-ops` runners have."""
    (folder / "program.pte").write_bytes(exported(lambda x: torch.relu(torch.sin(x)), (2,)))
    np.array([1, -2], np.float32).tofile(folder / "i0.bin")
    return folder


def test_an_image_has_the_operators_of_its_build(sine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hint = "\n\nhint: use an image in a folder of another name: it is assumed to have all operators\n"
    for kind, lacking in (("", "`aten::relu.out`, `aten::sin.out`"), ("portable-ops_", "`aten::sin.out`")):
        build = f"arm_semihosting_executor_runner_{kind}corstone-300"
        image = sine / "arm_test" / build / "arm_executor_runner"
        assert refused(sine, capsys, U55, words(sine, "i0.bin", image=image)) == (
            f"E: program.pte: ExecuTorch's runner for its tests, `{build}`, has no {lacking}{hint}"
        )
    (sine / "program.pte").write_bytes(exported(lambda x: torch.bmm(x, x), (1, 2, 2)))
    for board, lacks in (("corstone-300", True), ("corstone-320", False)):
        image = sine / "arm_test" / f"arm_semihosting_executor_runner_portable-ops_{board}" / "arm_executor_runner"
        np.ones((1, 2, 2), np.float32).tofile(sine / "i0.bin")
        given = words(sine, "i0.bin", image=image)
        assert (fvp_program.main([U55, *given]) == 1) == lacks
        assert ("has no `aten::bmm.out`" in capsys.readouterr().out) == lacks
    (sine / "out-0.bin").unlink()
    (sine / "program.pte").write_bytes(exported(lambda x: torch.relu(torch.sin(x)), (2,)))
    np.array([1, -2], np.float32).tofile(sine / "i0.bin")
    own = sine / "own" / "arm_executor_runner"
    own.parent.mkdir()
    own.touch()
    assert fvp_program.main([U55, *words(sine, "i0.bin", image=own)]) == 0
    y = np.fromfile(sine / "out-0.bin", np.float32)
    np.testing.assert_allclose(y, np.maximum(np.sin([1, -2]), 0), rtol=1e-6)


def test_an_image_has_the_memory_of_its_build(
    folder: Path, partition: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    at = partition.index(b"scratch_size") + 32
    large = partition[:at] + ((2 << 20) + 16).to_bytes(4, "little") + partition[at + 4 :]
    (folder / "program.pte").write_bytes(program(large, ((1, 6, 5, 3),), ((1, 3, 3, 9),)))
    assert refused(folder, capsys, U55, words(folder, "i0.bin", image=folder / IMAGE)) == (
        "E: program.pte, delegate 0: the partition needs 2,097,168 B of scratch memory, ExecuTorch's runner for its "
        "tests, `arm_semihosting_executor_runner_corstone-300`, has 2,097,152 B\n\n"
        "hint: use an image in a folder of another name: it is assumed to have enough\n"
    )
    (folder / "own.elf").touch()
    assert fvp_program.main([U55, *words(folder, "i0.bin", image=folder / "own.elf")]) == 0


def test_programs_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / U65).write_text("Arm's own")
    with pytest.raises(OptionError) as raised:
        fvp.install(tmp_path)
    assert str(raised.value) == (
        f"`{tmp_path / U65}` exists\n\nhint: choose another name, or replace it with `--force`"
    )
    assert [path.name for path in tmp_path.iterdir()] == [U65]
    assert fvp.install(tmp_path, force=True) == tuple(tmp_path / one.name for one in fvp.FVPS)


def test_images_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    image = tmp_path / IMAGE
    image.parent.mkdir(parents=True)
    image.write_bytes(b"\x7fELF of a checkout")
    with pytest.raises(OptionError) as raised:
        fvp.install(tmp_path)
    assert str(raised.value) == f"`{image}` exists\n\nhint: choose another name, or replace it with `--force`"
    assert image.read_bytes() == b"\x7fELF of a checkout"
    assert [path.name for path in tmp_path.iterdir()] == ["arm_test"]
    assert len(fvp.install(tmp_path, force=True)) == 3
    assert image.read_bytes() != b"\x7fELF of a checkout"
