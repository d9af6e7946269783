"""Emulated boards whose serial line is a socket or a pseudo-terminal."""

import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deuteron.board import harness_image, image
from deuteron.board.boards import Board
from deuteron.board.firmware_record import ELF, FirmwareOptions, Harness, Weights
from deuteron.board.flash import Flash
from deuteron.board.link import link
from deuteron.board.toolchain import Source, Toolchain
from deuteron.builds import manifest as manifests

SERIAL = FirmwareOptions(harness=Harness.SERIAL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def emulated(elf: Path, board: Board, *, terminal: bool = False, shift: int | None = 6) -> Iterator[str]:
    """Run an image, with instructions of 2^shift ns unless None; yield the name of its line for `--on`."""
    port = 0 if terminal else _free_port()
    line = "pty" if terminal else f"tcp:127.0.0.1:{port},server=on,wait=off"
    command = (
        "qemu-system-arm", "-M", board.machine, "-nographic", "-monitor", "none", "-serial", line,
        *(() if shift is None else ("-icount", f"shift={shift},sleep=off")), "-kernel", elf,
    )  # fmt: skip
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield _terminal(process) if terminal else _listening(process, port)
        finally:
            process.kill()
            process.wait()


def _terminal(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    said = process.stdout.readline()
    found = re.search(r"redirected to (\S+)", said)
    assert found, said
    return f"serial:{found[1]}"


def _listening(process: "subprocess.Popen[str]", port: int) -> str:
    for _ in range(200):
        assert process.poll() is None
        listeners = Path("/proc/net/tcp").read_text("ascii")
        if re.search(rf" 0100007F:{port:04X} 00000000:0000 0A ", listeners):
            break
        subprocess.run(["sleep", "0.05"], check=True)
    return f"tcp:127.0.0.1:{port}"


def linked(build: Path, board: Board, folder: Path, extra: Sequence[Source] = ()) -> Path:
    """The image of a build with the harness and further objects, in a folder.

    Its weights are in memory that can be written, unlike the flash of the an547.
    """
    bundle = image.bundle_of(build)
    sha256 = manifests.read(build).files[manifests.PROGRAM].sha256
    hash_file = image.write_hash(sha256, folder)
    own = harness_image.write(bundle, board, Flash(0, 0), folder, profiling=False)
    tools = Toolchain.find(image.OBJECTS)
    options = replace(SERIAL, weights=Weights.EXTERNAL)
    link(bundle, board, options, image.called(bundle), tools, folder, extra=(hash_file, own, *extra))
    return folder / ELF
