"""The printer: what goes where at each verbosity, and what libraries may say during long work."""

import logging
import os
import re
import subprocess
import sys
import warnings

import pytest

from deuteron.cli.printer import DEBUG, NORMAL, QUIET, VERBOSE, Printer


@pytest.mark.parametrize(
    ("verbosity", "err"),
    [
        (QUIET, ""),
        (NORMAL, "a note\nwarning: a warning\n"),
        (VERBOSE, "a note\na detail\nwarning: a warning\n"),
        (DEBUG, "a note\na detail\nwarning: a warning\n"),
    ],
)
def test_verbosity(capsys: pytest.CaptureFixture[str], verbosity: int, err: str):
    printer = Printer()
    printer.verbosity = verbosity
    printer.data("data")
    printer.note("a note")
    printer.detail("a detail")
    printer.warn("a warning")
    assert capsys.readouterr() == ("data\n", err)


def work_with_a_chatty_library(printer: Printer) -> None:
    with printer.work("building") as report:
        report("export", 0, 2)
        sys.stdout.write("library output\n")
        logging.getLogger("library").error("library log")
        warnings.warn("library warning", stacklevel=1)
        report("convert", 1, 2)
    printer.data("done")


def test_long_work_is_silent_when_nobody_watches(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture):
    work_with_a_chatty_library(Printer())
    assert capsys.readouterr() == ("done\n", "")
    assert not caplog.records
    logging.getLogger("library").error("afterwards")
    assert [record.message for record in caplog.records] == ["afterwards"]


def test_verbose_work_tells_its_steps_and_lets_libraries_speak(capsys: pytest.CaptureFixture[str]):
    printer = Printer()
    printer.verbosity = VERBOSE
    with pytest.warns(UserWarning, match="library warning"):
        work_with_a_chatty_library(printer)
    out, err = capsys.readouterr()
    assert out == "done\n"
    assert err.startswith("building: 1/2 export\nlibrary output\n")
    assert err.endswith("building: 2/2 convert\n")


def test_long_work_draws_a_bar_on_a_terminal_only():
    import pty
    import termios

    code = (
        "import sys, time\nfrom deuteron.cli.printer import Printer\np = Printer()\n"
        "with p.work('building') as report:\n"
        "    report('export' + ' and more' * 9, 1, 4)\n"
        "    print('library output')\n    print('above', file=sys.stderr)\n"
        "    time.sleep(1.2)\np.data('done')\np.note('a note')"
    )
    parent, child = pty.openpty()
    termios.tcsetwinsize(child, (24, 60))
    env = {**os.environ, "TERM": "xterm"}
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=child, env=env, text=True, check=True
    )
    os.close(child)
    drawn = os.read(parent, 1 << 16).decode()
    os.close(parent)
    assert done.stdout == "done\n"
    assert "\r[#####...............] 1/4 00:00 building: export" in drawn
    assert "\rabove\r\n" in drawn
    assert max(map(len, re.split(r"[\r\n]", drawn))) <= 60
    assert len(set(re.findall(r"00:0\d", drawn))) > 1
    assert re.search(r"\r *\ra note\r\n$", drawn)
    assert "library output" not in drawn
