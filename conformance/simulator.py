"""Runs the programs that ExecuTorch's tests give to Arm's simulators, by their names and command line.

A program runs as `deuteron-fvp` runs it, in ExecuTorch's runtime on this machine. For some backends it also runs as a
bundle on an emulated board with a Cortex-M55, which has to give the same bytes. Errors are kept for the plugin that
records results (`site/deuteron_conformance.py`).
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deuteron.errors import DeuteronError, InternalError
from deuteron.runtime import fvp, pte
from deuteron.runtime.fvp import Simulation


def main(words: Sequence[str]) -> int:
    """0 when the results are written; otherwise 1, and the reason on the standard output as the tests look for it."""
    simulator = fvp.fvp(words[0])
    if words[1:] == ["--version"]:
        sys.stdout.write(f"{fvp.version(simulator)}\n")
        return 0
    kept = Path(os.environ["DEUTERON_CONFORMANCE_RUN"])
    board = os.environ.get("DEUTERON_CONFORMANCE_BOARD", "")
    try:
        simulate(
            Simulation.of(simulator, words[1:]), Path(os.environ["DEUTERON_CONFORMANCE_RUNNER"]), board=board or None
        )
    except DeuteronError as error:
        from deuteron.npu.neutron.sdk import Session  # half of what a program takes, which most do without

        Session(kept).record(error)
        sys.stdout.write(f"E: {error}\n")
        return 1
    with (kept / "programs").open("a", encoding="utf-8") as file:
        file.write(f"{words[-1]}\n")
    return 0


def simulate(simulation: Simulation, runner: Path, *, board: str | None) -> None:
    """Write the results of a simulation.

    Raises:
        DeuteronError: when the program does not run on this machine or on the board, or the two differ.
    """
    expected = fvp.on_host(simulation, runner)
    results = on_board(simulation, len(expected), board) if board else expected
    for i, (here, there) in enumerate(zip(expected, results, strict=True)):
        if here != there:
            raise InternalError(f"output {i} differs between the host and `{board}`")
        simulation.write(i, there)


def on_board(simulation: Simulation, outputs: int, name: str) -> list[bytes]:
    """The outputs of the program as a bundle on the emulated board."""
    from deuteron.board import boards, firmware_record, qemu
    from deuteron.board.firmware_record import FirmwareOptions
    from deuteron.board.image import OBJECTS
    from deuteron.board.link import link
    from deuteron.board.toolchain import Toolchain
    from deuteron.board.translate import translate

    source = simulation.folder / simulation.program
    program = pte.read(source.read_bytes(), source.name)
    bundle = translate(program, name=source.stem)
    board = boards.load(name)
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
        status, said = qemu.emulate(work / firmware_record.ELF, board, words, work)
        if status:
            raise InternalError(f"`{board.name}` ended with status {status}: {said.strip()}")
        return [(work / f"out{i}").read_bytes() for i in range(outputs)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
