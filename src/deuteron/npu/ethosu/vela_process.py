"""Runs Vela in a separate process, since some models make its compiler recurse until the stack ends."""

import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MAIN = "from ethosu.vela.vela import main; main()"
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
        done = subprocess.run(
            [sys.executable, "-P", "-c", _MAIN, *arguments],  # -P: without the modules of the working directory
            capture_output=True, text=True, errors="replace", timeout=_TIME_OUT, check=False, cwd=folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return VelaRun("", "", f"Vela did not end within {_TIME_OUT} s")
    output = done.stdout + done.stderr
    fault = _FAULT.search(output)
    return VelaRun(output, fault[1].strip() if fault else "", _failure(done.returncode, output))


def _failure(status: int, output: str) -> str:
    """Return why Vela ended, from its exit status; empty for status 0."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if status < 0:
        return f"signal {-status} ended Vela: {signal.strsignal(-status) or 'unknown'}"
    if status > 0:
        return f"Vela fails: {lines[-1]}" if lines else f"Vela fails with exit code {status} and says nothing"
    return ""
