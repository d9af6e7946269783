"""The only object that writes for a command: data to stdout; progress, warnings and errors to stderr."""

import contextlib
import io
import json
import logging
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Generator
from typing import Protocol, TextIO, cast

from deuteron.errors import DeuteronError, InternalError


class Report(Protocol):
    """Callback that long work calls when it begins a step."""

    def __call__(self, step: str, index: int, count: int) -> None:
        """Report the step's name, its index, and the number of steps, 0 while that is unknown."""
        ...


QUIET, NORMAL, VERBOSE, DEBUG = -1, 0, 1, 2


class Printer:
    """Owns the streams and the verbosity of one run of the program; library code returns values and never prints."""

    def __init__(self) -> None:
        self.verbosity = NORMAL
        self.as_json = False

    def data(self, text: str) -> None:
        """Write a line of the command's result."""
        sys.stdout.write(text + "\n")

    def row(self, text: str) -> None:
        """Write a line of the result that has foreign names: control characters are escaped."""
        self.data("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))

    def json(self, value: object) -> None:
        """Write the command's result as one JSON document."""
        self.data(json.dumps(value, indent=2))

    def note(self, text: str) -> None:
        """Write a line about an action that was completed."""
        if self.verbosity >= NORMAL:
            sys.stderr.write(text + "\n")

    def detail(self, text: str) -> None:
        """Write a line that only `-v` shows."""
        if self.verbosity >= VERBOSE:
            sys.stderr.write(text + "\n")

    def warn(self, text: str) -> None:
        """Write a warning."""
        if self.verbosity >= NORMAL:
            sys.stderr.write(f"{self._coloured('warning', '33')}: {text}\n")

    def error(self, error: DeuteronError) -> None:
        """Write an error and its hint, with a traceback where it helps a developer."""
        if self.verbosity >= DEBUG or isinstance(error, InternalError):
            # An error that was never raised has no traceback: its cause's is shown.
            shown = error if error.__traceback__ else error.__cause__ or error
            sys.stderr.write("".join(traceback.format_exception(shown)) + "\n")
        sys.stderr.write(f"{self._coloured('error', '31;1')}: {error}\n")

    def flush(self) -> None:
        """Hand all output to the operating system, so that a closed pipe raises here."""
        sys.stdout.flush()
        sys.stderr.flush()

    @contextlib.contextmanager
    def work(self, title: str) -> Generator[Report]:
        """Show the steps of long work: a live line on a terminal, lines with `-v`, otherwise nothing.

        Output of libraries meanwhile reaches stderr with `-v` only, so that stdout stays clean.
        """
        elsewhere: TextIO = sys.stderr if self.verbosity >= VERBOSE else io.StringIO()
        with contextlib.redirect_stdout(elsewhere), warnings.catch_warnings(), _library_logs(self.verbosity):
            if self.verbosity < VERBOSE:
                warnings.simplefilter("ignore")
            if self.verbosity == NORMAL and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
                with _live_line(title) as report:
                    yield report
            else:
                yield lambda step, index, count: self.detail(f"{title}: {index + 1}/{count} {step}")

    def _coloured(self, word: str, code: str) -> str:
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
        return word if plain else f"\x1b[{code}m{word}\x1b[0m"


@contextlib.contextmanager
def _live_line(title: str) -> Generator[Report]:
    """Show a progress bar that is redrawn in place and removed at the end; other output appears above it."""
    from tqdm import tqdm
    from tqdm.contrib import DummyTqdmFile

    form = "[{bar:20}] {n_fmt}/{total_fmt} {elapsed} {desc}"
    with tqdm(desc=title, file=sys.stderr, bar_format=form, ascii=".#", leave=False, dynamic_ncols=True) as bar:
        ended = threading.Event()

        def report(step: str, index: int, count: int) -> None:
            bar.total, bar.n = count or None, index
            bar.set_description_str(f"{title}: {step}")

        def draw_until_ended() -> None:
            while not ended.wait(0.25):
                bar.refresh()

        drawing = threading.Thread(target=draw_until_ended, daemon=True)
        drawing.start()
        try:
            with contextlib.redirect_stderr(cast(TextIO, DummyTqdmFile(sys.stderr))):
                yield report
        finally:
            ended.set()
            drawing.join()


@contextlib.contextmanager
def _library_logs(verbosity: int) -> Generator[None]:
    """Hide log records of libraries below the level for `verbosity`.

    With `-v` our own logger is at debug level; the frontend reads that and lets libraries log.
    """
    ours = logging.getLogger("deuteron")
    before, level = logging.root.manager.disable, ours.level
    logging.disable(logging.ERROR if verbosity < VERBOSE else logging.NOTSET)
    if verbosity >= VERBOSE:
        ours.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logging.disable(before)
        ours.setLevel(level)
