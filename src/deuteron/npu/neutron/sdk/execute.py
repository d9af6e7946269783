"""Commands of others with our package in the place of the vendor's, such as ExecuTorch's own scripts for its NPU."""

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
"""The folder that has our package by the vendor's name; nothing else leads there."""

_BY_SIGNAL = 128
"""What shells add to a signal's number."""


def execute(command: Sequence[str], refused: Callable[[DeuteronError], None]) -> int:
    """The exit code of a command; in it, and in all that it starts, `import eiq_neutron_sdk` finds our package.

    `python` is the one that this runs in. What a signal has ended has the code that shells give it.

    Args:
        command: its words.
        refused: is told what our converter refused last in a command that fails, for that reason or another.

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
