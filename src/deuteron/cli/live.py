"""A line about long work on a terminal, drawn again as time goes by, and gone at its end."""

import shutil
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr
from io import TextIOBase
from typing import TextIO

_BEGIN = "\r\x1b[K"
"""Takes away what stands in the terminal's last line."""

_EVERY = 0.25
_CELLS = 20


class LiveLine(TextIOBase):
    """The line, and a stream whose text appears above it."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream, self._title, self._began = stream, title, time.monotonic()
        self._step, self._index, self._count = "", 0, 0
        self._unended = ""
        self._lock, self._ended = threading.Lock(), threading.Event()

    def report(self, step: str, index: int, count: int) -> None:
        """Tell that a step begins: its name, its index, and the number of steps, 0 while that is unknown."""
        self._step, self._index, self._count = step, index, count
        self._draw(self.text())

    def write(self, text: str, /) -> int:
        """Write above the line, as soon as a line of it is whole."""
        whole, newline, self._unended = (self._unended + text).rpartition("\n")
        if newline:
            self._draw(whole + newline)
        return len(text)

    def text(self) -> str:
        """What the line says now, within the terminal."""
        seconds = int(time.monotonic() - self._began)
        filled = _CELLS * self._index // self._count if self._count else 0
        done = f"{self._index}/{self._count or '?'}"
        named = f"{self._title}: {self._step}" if self._step else self._title
        bar = "#" * filled + "." * (_CELLS - filled)
        line = f"[{bar}] {done} {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02} {named}"
        return line[: shutil.get_terminal_size().columns - 1]

    def draw_until_ended(self) -> None:
        """Draw the line again and again: while a step goes on, its time does."""
        while not self._ended.wait(_EVERY):
            self._draw(self.text())

    def end(self) -> None:
        """Take the line away."""
        self._ended.set()
        self._draw(self._unended)

    def _draw(self, text: str) -> None:
        with self._lock:
            self._stream.write(_BEGIN + text)
            self._stream.flush()


@contextmanager
def live_line(title: str) -> Generator[LiveLine]:
    """The line on standard error for as long as this lasts; what others write there meanwhile appears above it."""
    line = LiveLine(sys.stderr, title)
    drawing = threading.Thread(target=line.draw_until_ended, daemon=True)
    drawing.start()
    try:
        with redirect_stderr(line):
            yield line
    finally:
        line.end()
        drawing.join()
