"""Runs the programs that ExecuTorch's Cortex-M tests give to Arm's simulator: a stand-in of its name and command line.

Each runs in ExecuTorch's runtime on this machine with our operators, and as a bundle on an emulated board with a
Cortex-M55. Both have to give the same bytes, which are the results of the simulation then. What goes wrong is kept for
the plugin that records results (`site/deuteron_conformance.py`).
"""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.board import boards, qemu, record
from deuteron.board.image import OBJECTS
from deuteron.board.link import link
from deuteron.board.record import FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.board.translate import translate
from deuteron.errors import DeuteronError, InternalError
from deuteron.npu.neutron.sdk import Session
from deuteron.runtime import pte

BOARD = "an547"
_SETTING = "cpu0.semihosting-"


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a command line asks for.

    Attributes:
        folder: with the files that the others name.
        program: a `.pte`.
        inputs: files with the bytes of each input.
        output: what the files with the results are called, before `-<number>.bin`.
    """

    folder: Path
    program: str
    inputs: tuple[str, ...]
    output: str

    @classmethod
    def of(cls, words: Sequence[str]) -> "Simulation":
        """What the words of the simulator's command line ask for; those that do not matter here are left out."""
        settings = dict(words[i + 1].split("=", 1) for i, word in enumerate(words) if word == "-C")
        # The simulator takes the quotes off as a shell does.
        (line,) = shlex.split(settings[f"{_SETTING}cmd_line"])
        _, *pairs = line.split()
        options = list(zip(pairs[::2], pairs[1::2], strict=True))
        given = dict(options)
        inputs = tuple(value for option, value in options if option == "-i")
        return cls(Path(settings[f"{_SETTING}cwd"]), given["-m"], inputs, given["-o"])


def main(words: Sequence[str]) -> int:
    """0 when the results are written; otherwise 1, and the reason on the standard output as the tests look for it."""
    if list(words) == ["--version"]:
        sys.stdout.write("the stand-in of the simulator\n")
        return 0
    kept = Path(os.environ["DEUTERON_CONFORMANCE_RUN"])
    try:
        simulate(Simulation.of(words), Path(os.environ["DEUTERON_CONFORMANCE_RUNNER"]))
    except DeuteronError as error:
        Session(kept).record(error)
        sys.stdout.write(f"E: {error}\n")
        return 1
    with (kept / "programs").open("a", encoding="utf-8") as file:
        file.write(f"{words[-1]}\n")
    return 0


def simulate(simulation: Simulation, runner: Path) -> None:
    """Write the results of a simulation.

    Raises:
        DeuteronError: when the program does not run on this machine or on the board, or the two differ.
    """
    expected = on_host(simulation, runner)
    given = on_board(simulation, len(expected))
    for i, (host, board) in enumerate(zip(expected, given, strict=True)):
        if host != board:
            raise InternalError(f"output {i} differs between the host and `{BOARD}`")
        (simulation.folder / f"{simulation.output}-{i}.bin").write_bytes(board)


def on_host(simulation: Simulation, runner: Path) -> list[bytes]:
    """The outputs of ExecuTorch's runtime on this machine."""
    folder = simulation.folder
    with tempfile.TemporaryDirectory() as scratch:
        inputs = ",".join(str(folder / name) for name in simulation.inputs)
        command = (runner, "--model", folder / simulation.program, "--inputs", inputs, "--output", scratch)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            raise InternalError((lines or done.stderr.splitlines() or ["it says nothing"])[0].removeprefix("error: "))
        return [path.read_bytes() for path in sorted(Path(scratch).glob("[0-9]*.bin"))]


def on_board(simulation: Simulation, outputs: int) -> list[bytes]:
    """The outputs of the program as a bundle on the emulated board."""
    source = simulation.folder / simulation.program
    program = pte.read(source.read_bytes(), source.name)
    bundle = translate(program, name=source.stem)
    board = boards.load(BOARD)
    tensors = [
        name
        for name, value in zip(simulation.inputs, program.methods[0].inputs, strict=True)
        if not isinstance(program.methods[0].values[value], int | float)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        link(bundle, board, FirmwareOptions(), (), Toolchain.find(OBJECTS), work)
        words = ["firmware", "--runs", "1", "--events", "events"]
        for i, name in enumerate(tensors):
            (work / f"in{i}").write_bytes((simulation.folder / name).read_bytes())
            words += ("--input", f"in{i}")
        for i in range(outputs):
            words += ("--output", f"out{i}")
        status, said = qemu.emulate(work / record.ELF, board, words, work)
        if status:
            raise InternalError(f"`{BOARD}` ended with status {status}: {said.strip()}")
        return [(work / f"out{i}").read_bytes() for i in range(outputs)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
