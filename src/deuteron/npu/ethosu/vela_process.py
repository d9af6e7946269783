"""Runs Vela in a separate process, since some models make its compiler recurse until the stack ends.

On Linux, a server process imports Vela once and forks for each run: the import takes longer than small partitions.
"""

import atexit
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

_MAIN = "from ethosu.vela.vela import main; main()"
_SERVER = """
import json, os, sys
from ethosu.vela.vela import main
for line in sys.stdin:
    folder, arguments, files = json.loads(line)
    if not (child := os.fork()):
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for descriptor, file in enumerate([os.devnull, *files]):
    os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), descriptor)
os.chdir(folder)
sys.argv[1:] = arguments
main()
"""
"""Each line of the input is a run: the working directory, the arguments, and files for the two outputs.

Its exit status is a line of the output, negative for a signal.
"""
_TIME_OUT = 1800
"""Seconds until Vela counts as hung."""

_FAULT = re.compile(r"^\s*(?:Error|ERROR)\b:?\s*(?!processing line \d+ of )(.*)$", re.MULTILINE)
"""A line about something that is wrong; Vela's exit code is 0 all the same.

Python's own line about a `.pth` file that does not load is none.
"""


@dataclass(frozen=True, slots=True)
class VelaRun:
    """A run of Vela.

    Attributes:
        output: what it wrote to standard output and standard error.
        fault: an error that it reports although it went on; empty if there is none.
        failure: why it ended without a result; empty if it did not.
    """

    output: str
    fault: str
    failure: str


def run_vela(arguments: Sequence[str], folder: Path | None = None) -> VelaRun:
    """Run Vela.

    Args:
        arguments: of its command line.
        folder: the working directory.
    """
    try:
        status, output = _forked(arguments, folder) or _started(arguments, folder)
    except (TimeoutError, subprocess.TimeoutExpired):
        return VelaRun("", "", f"Vela did not end within {_TIME_OUT} s")
    fault = _FAULT.search(output)
    return VelaRun(output, fault[1].strip() if fault else "", _failure(status, output))


def _started(arguments: Sequence[str], folder: Path | None) -> tuple[int, str]:
    """Run Vela in a new process and return its exit status and its output."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _MAIN, *arguments],  # -P: without the modules of the working directory
        capture_output=True, text=True, errors="replace", timeout=_TIME_OUT, check=False, cwd=folder,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def _forked(arguments: Sequence[str], folder: Path | None) -> tuple[int, str] | None:
    """Run Vela in a fork of a server, and return the same; None if no server starts."""
    if sys.platform != "linux":
        return None
    server = _take() or _Server()
    with tempfile.TemporaryDirectory(prefix="deuteron-vela-") as scratch:
        files = [Path(scratch) / name for name in ("stdout", "stderr")]
        status = server.run(json.dumps([str(folder or Path.cwd()), [*arguments], [*map(str, files)]]))
        if status is None:
            return None
        _idle.append(server)
        return status, "".join(file.read_text("utf-8", errors="replace") for file in files)


def _context() -> tuple[object, ...]:
    """Return what a server depends on: this process, not a fork of it, and the settings of Python."""
    return os.getpid(), sys.executable, {key: text for key, text in os.environ.items() if key.startswith("PYTHON")}


class _Server:
    """A process that has imported Vela."""

    def __init__(self) -> None:
        self.context = _context()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, process_group=0,
        )  # fmt: skip

    def run(self, request: str) -> int | None:
        """Return the exit status of a run; None if the server ends instead.

        Raises:
            TimeoutError: the run takes too long.
        """
        requests, answers = cast("TextIO", self._process.stdin), cast("TextIO", self._process.stdout)
        try:
            print(request, file=requests, flush=True)
            if not select.select([answers], [], [], _TIME_OUT)[0]:
                raise TimeoutError
            status = answers.readline()
        except BaseException as e:  # also of the keyboard, whose signal the server and its fork do not get
            os.killpg(self._process.pid, signal.SIGKILL)
            self.end()
            if isinstance(e, BrokenPipeError):
                return None
            raise
        if not status:
            self.end()
        return int(status) if status else None

    def end(self) -> None:
        """End the process, which ends by itself with its input; a fork of this process leaves it alone."""
        if self.context[0] == os.getpid():
            self._process.communicate()


_idle: list[_Server] = []
"""Servers without a run; a thread takes one for its run."""


def _take() -> _Server | None:
    """Return an idle server of this process with the same settings, and end others; None if there is none."""
    while True:
        try:
            server = _idle.pop()
        except IndexError:
            return None
        if server.context == _context():
            return server
        server.end()


@atexit.register
def _end_servers() -> None:
    while server := _take():
        server.end()


def _failure(status: int, output: str) -> str:
    """Return why Vela ended, from its exit status; empty for status 0."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if status < 0:
        return f"signal {-status} ended Vela: {signal.strsignal(-status) or 'unknown'}"
    if status > 0:
        return f"Vela fails: {lines[-1]}" if lines else f"Vela fails with exit code {status} and says nothing"
    return ""
