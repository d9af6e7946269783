"""`python -m deuteron.cli.subprocess_entry ERROR ARGUMENTS...`: run the program as a child process.

Writes a DeuteronError into the file ERROR, as JSON, so that the parent process knows its kind.
"""

import ctypes
import json
import signal
import sys
from pathlib import Path

from deuteron.cli.app import app
from deuteron.cli.printer import Printer
from deuteron.errors import DeuteronError

_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux."""


def main() -> int:
    """Run the program, and return its exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    try:
        return app.main(sys.argv[2:], prog_name="deuteron", standalone_mode=False, obj=Printer()) or 0
    except DeuteronError as e:
        error = {"kind": type(e).__name__, "message": e.message, "where": e.where}
        Path(sys.argv[1]).write_text(json.dumps(error), "utf-8")
        return e.exit_code


if __name__ == "__main__":
    sys.exit(main())
