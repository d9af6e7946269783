"""deuteron-runner: a program with a float input in channels-last order and an int32 one, run like NXP's tests do."""

import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from deuteron.native import LIBRARY_DIRECTORY

pytestmark = pytest.mark.slow

RUNNER = LIBRARY_DIRECTORY / "deuteron-runner"
SHAPE = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    stdout: str
    stderr: str


def run(*arguments: str | Path) -> Outcome:
    # NXP's tests replace this variable, so the runner must find its libraries without it.
    process = subprocess.run(
        [RUNNER, *arguments], env={"LD_LIBRARY_PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    # The runtime logs to stderr, too; its lines begin with a level and a time.
    lines = [line for line in process.stderr.splitlines() if not line.startswith(("I ", "E "))]
    return Outcome(process.returncode, process.stdout, "\n".join(lines))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`-x, n * 2` with x channels last."""
    import torch
    from executorch.exir import to_edge

    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return -x, n * 2

    inputs = (torch.zeros(SHAPE).to(memory_format=torch.channels_last), torch.zeros(3, dtype=torch.int32))
    path = tmp_path_factory.mktemp("program") / "both.pte"
    path.write_bytes(to_edge(torch.export.export(Both().eval(), inputs)).to_executorch().buffer)
    return path


@pytest.fixture(scope="session")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with a segment of constants."""
    import torch
    from executorch.exir import to_edge

    path = tmp_path_factory.mktemp("program") / "weighted.pte"
    exported = torch.export.export(torch.nn.Linear(8, 8).eval(), (torch.zeros(1, 8),))
    path.write_bytes(to_edge(exported).to_executorch().buffer)
    return path


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`x + 3 * 0.5`, exported with the two numbers as inputs, a truth value and nothing."""
    import torch
    from executorch.exir import to_edge

    class Numbers(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int, r: float, add: bool, other: torch.Tensor | None) -> torch.Tensor:
            return x + n * r if add and other is None else x

    path = tmp_path_factory.mktemp("program") / "numbers.pte"
    exported = torch.export.export(Numbers().eval(), (torch.zeros(2), 3, 0.5, True, None))
    path.write_bytes(to_edge(exported).to_executorch().buffer)
    return path


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    directory = tmp_path / "0000"
    directory.mkdir()
    np.arange(24, dtype=np.float32).tofile(directory / "00.bin")
    np.array([1, 2, 3], dtype=np.int32).tofile(directory / "01.bin")
    return directory


def test_outputs_lie_in_memory_as_the_program_has_them(program: Path, sample: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = run("--model", program, "--inputs", sample, f"--output={output}")
    assert result == Outcome(0, "0000: 2 outputs\n", "")
    np.testing.assert_array_equal(np.fromfile(output / "0000/0000.bin", np.float32), -np.arange(24))
    np.testing.assert_array_equal(np.fromfile(output / "0000/0001.bin", np.int32), [2, 4, 6])
    assert (output / "trace.etdump").read_bytes()[8:12] == b"ED00"


def test_bytes_become_floats(program: Path, sample: Path, tmp_path: Path) -> None:
    np.full(24, 200, np.uint8).tofile(sample / "00.bin")
    assert run("--model", program, "--inputs", sample, "--output", tmp_path / "out").code == 0
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out/0000/0000.bin", np.float32), np.full(24, -200))


def test_numbers_among_the_inputs(numbers: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("x", "n", "r", "add", "other")]
    values = (np.ones(2, np.float32), np.array(3), np.array(0.5), np.array(True), np.zeros(0))
    for path, array in zip(files, values, strict=True):
        array.tofile(path)
    words = ("--model", numbers, "--inputs", ",".join(map(str, files)), "--output", tmp_path / "out")
    assert run(*words).code == 0
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out/0000.bin", np.float32), [2.5, 2.5])
    files[1].write_bytes(bytes(4))
    assert run(*words).stderr == f"error: `{files[1]}` has 4 bytes; the input is a number of 8"
    files[1].write_bytes(np.array(3).tobytes())
    files[3].write_bytes(bytes(1))
    assert run(*words).stderr.startswith("error: method `forward` failed on sample `.`: ")
    files[3].write_bytes(bytes(2))
    assert run(*words).stderr == f"error: `{files[3]}` has 2 bytes; the input is a truth value of 1"
    files[3].write_bytes(bytes([1]))
    files[4].write_bytes(bytes(1))
    assert run(*words).stderr == f"error: `{files[4]}` has 1 bytes; the input is None"
    files[4].write_bytes(np.array(None).tobytes())  # as ExecuTorch's Arm tests write it: an address
    assert run(*words).code == 0


def test_files_of_one_sample(program: Path, sample: Path, tmp_path: Path) -> None:
    files = ",".join(str(path) for path in sorted(sample.iterdir()))
    assert run("--model", program, "--inputs", files, "--output", tmp_path / "out").code == 0
    assert (tmp_path / "out/0001.bin").is_file()


def test_paths_of_a_simulator_do_not_matter(program: Path, sample: Path, tmp_path: Path) -> None:
    result = run("--model", program, "--inputs", sample, "--output", tmp_path / "out", "--nsys_config", "gone.ini")
    assert result.code == 0
    assert result.stderr == "warning: `--nsys_config`: no file `gone.ini`; it is not needed"


def test_a_file_of_the_wrong_size(program: Path, sample: Path, tmp_path: Path) -> None:
    (sample / "00.bin").write_bytes(b"12345")
    result = run("--model", program, "--inputs", sample, "--output", tmp_path / "out")
    assert result == Outcome(
        1,
        "",
        f"error: `{sample}/00.bin` has 5 bytes; the input tensor has 96, or 24 of unsigned 8-bit values",
    )
    assert not (tmp_path / "out").exists()


def test_too_few_inputs(program: Path, sample: Path, tmp_path: Path) -> None:
    result = run("--model", program, "--dataset", sample, "--output", tmp_path / "out")
    assert result.code == 1
    assert result.stderr == (
        "error: sample `00.bin` has 1 input file(s), the program has 2\n\n"
        "hint: `--inputs DIR,DIR..` expects one directory per sample with one file per input"
    )


def test_an_output_that_cannot_be_written(program: Path, sample: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    result = run("--model", program, "--inputs", sample, "--output", tmp_path / "out")
    assert result.code == 1
    assert result.stderr == f"error: cannot create directory `{tmp_path}/out/0000`: Not a directory"


def test_something_that_is_no_program(sample: Path) -> None:
    result = run("--model", sample / "00.bin", "--inputs", sample)
    assert result.code == 1
    assert result.stderr.startswith(
        f"error: cannot load program `{sample}/00.bin`: Error::InvalidProgram (35): Program identifier '"
    )
    assert result.stderr.endswith("' != expected 'ET12'\n\nhint: give a .pte file of ExecuTorch")


def field(data: bytearray, table: int, slot: int) -> int:
    """Return the offset of a field in a flatbuffer's table."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    return table + struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]


def with_segments(program: Path, path: Path, *segments: tuple[int, int]) -> Path:
    """A copy with these segments, offset and size, in a vector behind its end."""
    data = bytearray(program.read_bytes())
    (root,) = struct.unpack_from("<I", data, 0)
    data += bytes(-len(data) % 8)
    offset = field(data, root, 4)
    struct.pack_into("<I", data, offset, len(data) - offset)
    first = 8 + 8 * (len(segments) // 2)
    starts = [first + 32 * i for i in range(len(segments))]
    data += struct.pack("<I", len(segments))
    data += b"".join(struct.pack("<I", start + 12 - 4 * (i + 1)) for i, start in enumerate(starts))
    data += bytes(-len(data) % 8)
    for offset, size in segments:
        data += struct.pack("<4H4xiQQ", 8, 20, 4, 12, 12, offset, size)
    struct.pack_into("<Q", data, 16, len(data))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (((0, 1 << 20),), "a segment ends after the file"),
        (((0, (1 << 64) - 1),), "a segment ends after the file"),
        (((1 << 63, 1 << 63),), "a segment ends after the file"),
        (((0, 1024),) * 99, "a segment starts at byte {base}, inside the program that ends at byte {size}"),
    ],
)
def test_segments_that_are_not_behind_the_program_and_in_the_file(
    weighted: Path, sample: Path, tmp_path: Path, segments: tuple[tuple[int, int], ...], message: str
) -> None:
    # The runtime loads the first itself, for its constants.
    path = with_segments(weighted, tmp_path / "damaged.pte", (0, 320), *segments)
    result = run("--model", path, "--inputs", sample)
    size, base = struct.unpack_from("<QQ", path.read_bytes(), 16)
    message = message.format(size=size, base=base)
    assert (result.code, result.stderr) == (
        1,
        f"error: cannot load program `{path}`: {message}\n\nhint: the file is damaged or truncated: build it again",
    )


def test_a_flatbuffer_whose_offsets_lead_outside(program: Path, sample: Path, tmp_path: Path) -> None:
    data = bytearray(program.read_bytes())
    (root,) = struct.unpack_from("<I", data, 0)
    plans = field(data, root, 1)
    struct.pack_into("<I", data, plans, 1 << 28)
    (tmp_path / "damaged.pte").write_bytes(data)
    result = run("--model", tmp_path / "damaged.pte", "--inputs", sample)
    assert result.code == 1
    assert result.stderr == (
        f"error: cannot load program `{tmp_path}/damaged.pte`: Error::InvalidProgram (35): "
        "Verification failed; data may be truncated or corrupt\n\nhint: give a .pte file of ExecuTorch"
    )


def test_two_samples_of_one_name(program: Path, sample: Path, tmp_path: Path) -> None:
    twin = tmp_path / "elsewhere" / sample.name
    twin.parent.mkdir()
    shutil.copytree(sample, twin)
    result = run("--model", program, "--inputs", f"{sample},{twin}", "--output", tmp_path / "out")
    assert (result.code, (tmp_path / "out").exists()) == (1, False)
    assert result.stderr == (
        "error: `--inputs` has two directories named `0000`\n\n"
        "hint: outputs go to a directory of the sample's name: give each its own"
    )


def test_an_unknown_method(program: Path, sample: Path) -> None:
    result = run("--model", program, "--inputs", sample, "--method", "backward")
    assert result.code == 1
    assert result.stderr == "error: the program has no method `backward`\n\nhint: choose with `--method`: `forward`"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--dataset", "d"),
            "error: `--model` is missing\n\nhint: give the program to run, for example `--model model.pte`",
        ),
        (
            ("--model", "m"),
            "error: neither `--dataset` nor `--inputs` is given\n\n"
            "hint: `--dataset DIR` for programs with one input, `--inputs DIR,DIR..` for others",
        ),
        (
            ("--model=m", "--dataset=d", "--inputs=i"),
            "error: `--dataset` and `--inputs` exclude each other\n\n"
            "hint: `--dataset DIR` for programs with one input, `--inputs DIR,DIR..` for others",
        ),
        (("--model",), "error: `--model` has no value\n\nhint: write `--model FILE`"),
        (
            ("--modle", "m"),
            "error: unknown argument `--modle`\n\nhint: options are `--model`, `--dataset`, `--inputs`, `--output`, "
            "`--method`, `--firmware`, `--nsys`, `--nsys_config`",
        ),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    assert run(*arguments) == Outcome(2, "", message)


def test_help() -> None:
    result = run("--help")
    assert result.code == 0
    assert "--dataset DIR" in result.stdout
