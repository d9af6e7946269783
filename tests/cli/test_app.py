"""The frame of the program: help, version, wrong usage, errors, and streams that close early."""

import atexit
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import pytest

import deuteron as deuteron_package
from deuteron import api
from deuteron.arch import targets
from deuteron.cli.app import COMMANDS, FUNCTIONS, app
from deuteron.cli.options import PATH
from deuteron.errors import InputError, InternalError, OptionError

from .conftest import PROGRAM, Result

Run = Callable[..., Result]

HELP = """\
Usage: deuteron [OPTIONS] COMMAND [ARGS]...

  Compile PyTorch and TFLite models for Cortex-M microcontrollers, with and
  without an NPU.

Options:
  --version    Show the version and exit.
  --cmake-dir  Show where the CMake package is and exit.
  -h, --help   Show this message and exit.

Make a program:
  check      Show what a build for each target would do, writing no program
  build      Compile a PyTorch model for a target
  convert    Convert a TFLite file for the NPU
  shrink     Cut a TFLite file so that it needs a smaller tensor arena

Look into a program:
  explain    Show where each operator of a build runs, why, and what that
             costs
  plan       Show a build's memories over time, next to the best possible
  inspect    Show what is inside a build, a .pte, a microcode file or a TFLite
             file
  report     Write a profile as a page: timeline, memory, modules
  ops        List the operators that the NPU supports, and their conditions
  models     List the models that can be built by name
  targets    List the targets, or the figures of one

Run and measure:
  run        Run a build, a .pte or a TFLite file on the host, or a build on a
             board
  sim        Simulate a build: time of each kernel and fetch, and the
             bottleneck
  profile    Measure a build's time by module, line, operator and kernel
  calibrate  Keep how much longer your boards take than estimated
  energy     Show the energy of runs and steps from the log of a current meter
  sweep      Evaluate models on many targets, memories and clocks

Firmware:
  firmware   Build firmware for a board from a build
  flash      Write firmware to a board with a debug probe
  bundle     Write a build as C files for firmware of your own
  kernels    Merge kernel selection files, or show the kernels of an image

Other:
  exec       Run a script of ExecuTorch or NXP with our converter
  fvp        Write substitutes for Arm's simulators
  doctor     Check this installation and say how to repair it
"""


def test_help(program: Run):
    assert program("--help") == Result(0, HELP, "")
    assert program("-h").out == HELP


def test_no_command_shows_the_help_as_a_mistake(program: Run):
    result = program()
    assert (result.code, result.out, result.err.strip()) == (2, "", HELP.strip())


def test_version(program: Run):
    formats = "".join(f"{name} {number}\n" for name, number in api.formats().items())
    assert "microcode 1.2\n" in formats
    assert program("--version") == Result(0, f"deuteron 0.1.0\n{formats}", "")


def test_the_module_is_the_program_too(program: Run, tmp_path: Path):
    done = subprocess.run([sys.executable, "-m", "deuteron", "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == program("--version").out


GROUPS = {"fvp": ("fvp install",), "kernels": ("kernels merge", "kernels show")}


@pytest.mark.parametrize("name", [name for entry in COMMANDS for name in GROUPS.get(entry.name, (entry.name,))])
def test_every_command_explains_itself(deuteron: Run, name: str):
    result = deuteron(*name.split(), "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: deuteron {name} ")
    for option in ("--json", "-q, --quiet", "-v, --verbose"):
        assert option in result.out


def test_every_path_on_the_command_line_is_checked_to_be_one():
    """No parameter is a bare `Path`, for which an empty word is the current directory."""
    commands = [name.split() for entry in COMMANDS for name in GROUPS.get(entry.name, (entry.name,))]
    params = [param for words in commands for param in _command(words).params]
    kinds = [kind for param in params for kind in getattr(param.type, "types", [param.type])]
    assert PATH in kinds
    assert not [kind for kind in kinds if isinstance(kind, click.Path) or getattr(kind, "func", None) is Path]


def _command(words: Sequence[str]) -> click.Command:
    """The command of these words."""
    command: click.Command = app
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


ALWAYS = "a build always quantizes: leave it out; `--activations` and `--weights` choose the types"
NOT_SET = "check that the variable for it is set"


@pytest.mark.parametrize(
    ("args", "err"),
    [
        (["biuld"], "error: unknown command `biuld`\n\nhint: did you mean `build`?\n"),
        (
            ["frobnicate"],
            "error: unknown command `frobnicate`\n\n"
            "hint: the commands are `check`, `build`, `convert`, `shrink`, `explain`, `plan`, `inspect`, `report`, "
            "`ops`, `models`, `targets`, `run`, `sim`, `profile`, `calibrate`, `energy`, `sweep`, `firmware`, `flash`, "
            "`bundle`, `kernels`, `exec`, `fvp`, `doctor`\n",
        ),
        (["--colour"], "error: no such option `--colour`\n\nhint: `deuteron --help` lists the options\n"),
        (
            ["targets", "--jsn"],
            "error: no such option `--jsn`\n\nhint: did you mean `--json`?\n",
        ),
        (
            ["build", "--taget"],
            "error: no such option `--taget`\n\nhint: did you mean `--target`?\n",
        ),
        (
            ["build", "digits", "-o", ""],
            f"error: `--output` is empty\n\nhint: give it a value; {NOT_SET}\n",
        ),
        (
            ["explain", ""],
            f"error: the path is empty\n\nhint: give it a value; {NOT_SET}\n",
        ),
        (
            ["sim", "--compare", "", "x"],
            f"error: `--compare` is empty\n\nhint: give it a value, or leave it out; {NOT_SET}\n",
        ),
        (
            ["sweep", ""],
            f"error: `SPEC.toml|show` is empty\n\nhint: give it a value; {NOT_SET}\n",
        ),
        (
            ["sweep", "s.toml", "-o", "o", "--scheduler="],
            f"error: `--scheduler` is empty\n\nhint: give it a value, or leave it out; {NOT_SET}\n",
        ),
        (
            ["build", "", "-o", "x"],
            f"error: `MODEL` is empty\n\nhint: give it a value; {NOT_SET}\n",
        ),
        (
            ["build", "digits", "-o", "x", "--operators-not-to-delegate", ""],
            f"error: `--operators-not-to-delegate` is empty\n\nhint: give it a value, or leave it out; {NOT_SET}\n",
        ),
        (
            ["build", "digits", "-o", "x", "--sram-budget", ""],
            f"error: `--sram-budget` is empty\n\nhint: give it a value, or leave it out; {NOT_SET}\n",
        ),
        (
            ["ops", "conv", ""],
            f"error: `NAME` is empty\n\nhint: give it a value, or leave it out; {NOT_SET}\n",
        ),
        (
            ["exec", "--", ""],
            f"error: `COMMAND` is empty\n\nhint: give it a value; {NOT_SET}\n",
        ),
        (
            ["targets", "mcxn947", "all"],
            "error: got unexpected extra argument (all)\n\nhint: `deuteron targets --help` lists the options\n",
        ),
        (
            ["check", "net.py:net", "--target", "cortex-m55", "imxrt700", "mcxn947"],
            "error: got unexpected extra arguments (imxrt700 mcxn947)\n\n"
            "hint: repeat the option: `--target imxrt700`\n",
        ),
        (
            ["firmware", "net-build", "an547"],
            "error: got unexpected extra argument (an547)\n\nhint: name it with the option: `--board an547`\n",
        ),
        (
            ["run", "net-build", "an547"],
            "error: got unexpected extra argument (an547)\n\nhint: name it with the option: `--on an547`\n",
        ),
        (
            ["build", "net.py:net", "imxrt700"],
            "error: got unexpected extra argument (imxrt700)\n\nhint: name it with the option: `--target imxrt700`\n",
        ),
        *(
            (
                ["run", *args],
                f"error: got unexpected extra argument ({args[-1]})\n\nhint: `--compare` is one of "
                "`--compare=reference`, `--compare=pytorch`, `--compare=litert`, `--compare=host`, `--compare=float`\n",
            )
            for args in (["net-build", "--compare", "floatt"], ["--compare", "floatt", "net-build"])
        ),
        *(
            (["build", option], f"error: no such option `{option}`\n\nhint: {ALWAYS}\n")
            for option in ("--quantise", "--quantize")
        ),
        (["compare", "net-build"], "error: unknown command `compare`\n\nhint: did you mean `run --compare`?\n"),
        (["simulate", "net-build"], "error: unknown command `simulate`\n\nhint: did you mean `sim`?\n"),
        (["inspect"], "error: missing argument `PATH`\n\nhint: `deuteron inspect --help` lists the options\n"),
    ],
)
def test_wrong_usage(deuteron: Run, args: list[str], err: str):
    assert deuteron(*args) == Result(2, "", err)


def test_every_public_function_is_a_command_or_has_one_of_another_name():
    functions = {name for name in deuteron_package.__all__ if name.islower() and not name.startswith("_")}
    assert functions == (functions & {entry.name for entry in COMMANDS}) | set(FUNCTIONS)


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> tuple[str, ...]:
        raise error

    monkeypatch.setattr(targets, "names", fail)


@pytest.mark.parametrize(
    ("error", "code"),
    [(InputError("the model is empty", hint="give it a layer", where="net.py"), 1), (OptionError("x"), 2)],
)
def test_an_error_is_a_message_and_an_exit_code(
    deuteron: Run, monkeypatch: pytest.MonkeyPatch, error: OptionError | InputError, code: int
):
    fail_with(monkeypatch, error)
    assert deuteron("targets") == Result(code, "", f"error: {error}\n")
    shown = deuteron("targets", "-vv").err
    assert shown.startswith("Traceback (most recent call last):\n")
    assert shown.endswith(f"error: {error}\n")


def test_files_that_may_not_be_read_are_no_defect(deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    fail_with(monkeypatch, PermissionError(13, "Permission denied", "build/model.pte"))
    assert deuteron("targets") == Result(
        1,
        "",
        "error: `build/model.pte` cannot be opened: Permission denied\n\n"
        "hint: give the user who runs this the permission\n",
    )


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (PermissionError(1, "Operation not permitted"), "Operation not permitted"),
        (PermissionError("no other process may be traced"), "no other process may be traced"),
        (PermissionError(), "PermissionError"),
    ],
)
def test_what_is_not_permitted_and_concerns_no_file_is_no_defect(
    deuteron: Run, monkeypatch: pytest.MonkeyPatch, error: PermissionError, why: str
):
    fail_with(monkeypatch, error)
    assert deuteron("targets") == Result(
        1,
        "",
        f"error: the operating system refused an operation: {why}\n\n"
        "hint: give the user who runs this the permission; `-vv` shows where\n",
    )


def test_the_form_of_an_error(deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    fail_with(monkeypatch, InputError("the model is empty", hint="give it a layer", where="net.py"))
    assert deuteron("targets").err == "error: net.py: the model is empty\n\nhint: give it a layer\n"


def test_our_own_defect_shows_a_traceback_and_asks_for_a_report(deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    fail_with(monkeypatch, ZeroDivisionError("division by zero"))
    result = deuteron("targets")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Traceback (most recent call last):\n")
    assert "in fail\n    raise error\nZeroDivisionError: division by zero\n" in result.err
    assert result.err.endswith(
        "error: ZeroDivisionError: division by zero\n\nhint: this is a defect of Deuteron; please report it with "
        "the lines above, the command and the output of `deuteron doctor`\n"
    )


def test_an_internal_error_shows_a_traceback(deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    fail_with(monkeypatch, InternalError("the plan overlaps itself"))
    result = deuteron("targets")
    assert result.code == 2
    assert result.err.startswith("Traceback (most recent call last):\n")


def test_ctrl_c_ends_quietly(deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    fail_with(monkeypatch, KeyboardInterrupt())
    assert deuteron("targets") == Result(130, "", "\ninterrupted\n")


def test_memory_is_not_searched_when_the_program_ends(deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    registered: list[object] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    deuteron("--version")
    assert registered == [gc.freeze]


def test_a_reader_that_leaves_early_causes_no_noise():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([PROGRAM, "targets"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("args", [("targets",), ("ops", "--json"), ("--help",), ("targets", "--help"), ("--version",)])
def test_a_full_disk_is_an_error_of_one_line(args: tuple[str, ...]):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([PROGRAM, *args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: cannot write the output: no space left on device\n")


def run_on_a_terminal(env: dict[str, str], *args: str) -> str:
    """Return the text that `deuteron ARGS` writes to a terminal's stderr."""
    import pty

    parent, child = pty.openpty()
    subprocess.run([PROGRAM, *args], stdout=subprocess.DEVNULL, stderr=child, env={**os.environ, **env}, check=False)
    os.close(child)
    said = b""
    try:
        while part := os.read(parent, 4096):
            said += part
    except OSError:  # what Linux reports at the end of a terminal whose other side is closed
        pass
    os.close(parent)
    return said.decode()


def test_colour_is_for_terminals_and_no_color_turns_it_off():
    env = {"TERM": "xterm", "NO_COLOR": ""}
    assert run_on_a_terminal(env, "biuld").startswith("\x1b[31;1merror\x1b[0m: unknown command `biuld`")
    assert run_on_a_terminal({**env, "NO_COLOR": "1"}, "biuld").startswith("error: unknown command `biuld`")
    assert run_on_a_terminal({"TERM": "dumb"}, "biuld").startswith("error: unknown command `biuld`")


def test_interrupting_the_process_leaves_with_130():
    code = "import os, signal; from deuteron.arch import targets; from deuteron.cli import main\n"
    # A process that was started in the background ignores interrupts; this one must not.
    code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += f"targets.names = lambda: os.kill(os.getpid(), {int(signal.SIGINT)}) or ()\nmain(['targets'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


def test_an_example_in_a_help_keeps_its_lines(deuteron: Run):
    shown = deuteron("sweep", "--help").out
    assert '\n  targets = ["imxrt700", "mcxn947"]\n' in shown
    assert "\\b" not in shown
