"""Runs other programs, such as ExecuTorch's scripts, with our package in place of the vendor's."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from deuteron.errors import DeuteronError, InputError, OptionError
from deuteron.npu.neutron.sdk.install import PACKAGE, vendor_is_installed
from deuteron.npu.neutron.sdk.session import VARIABLE, Session

DROP_IN = Path(__file__).parent / "drop_in"
"""The folder with our package under the vendor's name."""

_BY_SIGNAL = 128
"""Offset that shells add to a signal's number."""


def execute(command: Sequence[str], refused: Callable[[DeuteronError], None]) -> int:
    """Run a command with our package as `eiq_neutron_sdk`, also in its child processes; return its exit code.

    `python` is the interpreter of this process. A command that a signal ends has the exit code of shells.

    Args:
        command: its words.
        refused: called with the last error of our converter if the command fails.

    Raises:
        OptionError: the vendor's package is installed.
        InputError: there is no such command.
    """
    if vendor_is_installed():
        raise OptionError(
            f"the vendor's package `{PACKAGE}` is installed, and is never hidden from commands of others",
            hint="run the command by itself to use it, or in an environment without it",
        )
    with tempfile.TemporaryDirectory(prefix="deuteron-exec-") as folder:
        environment = {
            **os.environ,
            "PATH": _joined(Path(sys.executable).parent, os.environ.get("PATH")),
            "PYTHONPATH": _joined(DROP_IN, os.environ.get("PYTHONPATH")),
            VARIABLE: folder,
        }
        try:
            code = subprocess.run(command, env=environment, check=False).returncode
        except OSError as e:
            message = f"`{command[0]}` cannot be run: {e.strerror or e}"
            raise InputError(message, hint="give a command as a shell takes it, after `--`") from e
        if code and (failure := Session(Path(folder)).failure()):
            refused(failure)
    return code if code >= 0 else _BY_SIGNAL - code


def _joined(first: Path, others: str | None) -> str:
    return os.pathsep.join(filter(None, (str(first), others)))
