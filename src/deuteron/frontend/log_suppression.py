"""Suppresses the log output of PyTorch and ExecuTorch during a build."""

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path


@contextmanager
def quiet() -> Generator[None]:
    """Suppress log lines, warnings and prints of PyTorch and ExecuTorch unless `deuteron` logs at debug level."""
    if logging.getLogger("deuteron").isEnabledFor(logging.DEBUG):
        with redirect_stdout(sys.stderr):
            yield
        return
    disabled = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        if disabled < logging.ERROR:  # each change makes all loggers forget what they found
            logging.disable(logging.ERROR)
        try:
            yield
        finally:
            if logging.root.manager.disable != disabled:
                logging.disable(disabled)
            for handler in list(logging.root.handlers):  # Python makes one when nothing has been set up
                if getattr(handler, "stream", None) is sys.stderr:
                    logging.root.removeHandler(handler)


@contextmanager
def captured_output() -> Generator[list[str]]:
    """Capture standard output and error, of C++ code too; the list holds the text after the context ends."""
    captured: list[str] = []
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as file:
        try:
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            with redirect_stdout(file), redirect_stderr(file):
                yield captured
        finally:
            for descriptor, original in zip((1, 2), kept, strict=True):
                os.dup2(original, descriptor)
                os.close(original)
            file.flush()
            file.seek(0)
            captured.append(file.read())
            if logging.getLogger("deuteron").isEnabledFor(logging.DEBUG):
                sys.stderr.write(captured[0])
