"""Keeps the noise of PyTorch and of ExecuTorch's NXP backend away from our users."""

import logging
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def quiet() -> Generator[None]:
    """Keeps the wheel's log lines, warnings and prints away from the user unless `deuteron` logs at debug level."""
    if logging.getLogger("deuteron").isEnabledFor(logging.DEBUG):
        with redirect_stdout(sys.stderr):
            yield
        return
    disabled = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryFile("w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(disabled)
            for handler in list(logging.root.handlers):  # Python makes one when nothing has been set up
                if getattr(handler, "stream", None) is sys.stderr:
                    logging.root.removeHandler(handler)
