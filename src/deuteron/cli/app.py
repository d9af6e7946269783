"""The program `deuteron`: the table of commands, and how errors are reported."""

import atexit
import difflib
import errno
import gc
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

import click

from deuteron.cli.printer import Printer
from deuteron.errors import DeuteronError, InputError, InternalError, OptionError

UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of the operating system for output that cannot be written: no defect of ours."""

_NEAR = 0.75
"""Similarity to the typed option from which the hint offers more than the closest option."""

FUNCTIONS = {
    "build_model": "build",
    "compare": "run --compare",
    "convert_file": "convert",
    "run_each": "run --input",
    "simulate": "sim",
}
"""Functions of the Python interface whose commands have other names."""

_ALWAYS = "a build always quantizes: leave it out; `--activations` and `--weights` choose the types"
_ABSENT_OPTIONS = {"--quantise": _ALWAYS, "--quantize": _ALWAYS, "--int8": _ALWAYS}
"""Options that users expect, with the reason why there are none."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: the module whose `command` runs it and its line in the help; loads no module."""

    name: str
    help: str

    @property
    def module(self) -> str:
        """The module that defines the command."""
        return f"deuteron.cli.{self.name}"


GROUPS = {
    "Make a program": (
        Entry("check", "Show what a build for each target would do, writing no program"),
        Entry("build", "Compile a PyTorch model for a target"),
        Entry("convert", "Convert a TFLite file for the NPU"),
        Entry("shrink", "Cut a TFLite file so that it needs a smaller tensor arena"),
    ),
    "Look into a program": (
        Entry("explain", "Show where each operator of a build runs, why, and what that costs"),
        Entry("plan", "Show a build's memories over time, next to the best possible"),
        Entry("inspect", "Show what is inside a build, a .pte, a microcode file or a TFLite file"),
        Entry("report", "Write a profile as a page: timeline, memory, modules"),
        Entry("ops", "List the operators that the NPU supports, and their conditions"),
        Entry("models", "List the models that can be built by name"),
        Entry("targets", "List the targets, or the figures of one"),
    ),
    "Run and measure": (
        Entry("run", "Run a build, a .pte or a TFLite file on the host, or a build on a board"),
        Entry("sim", "Simulate a build: time of each kernel and fetch, and the bottleneck"),
        Entry("profile", "Measure a build's time by module, line, operator and kernel"),
        Entry("calibrate", "Keep how much longer your boards take than estimated"),
        Entry("energy", "Show the energy of runs and steps from the log of a current meter"),
        Entry("sweep", "Evaluate models on many targets, memories and clocks"),
    ),
    "Firmware": (
        Entry("firmware", "Build firmware for a board from a build"),
        Entry("flash", "Write firmware to a board with a debug probe"),
        Entry("bundle", "Write a build as C files for firmware of your own"),
        Entry("kernels", "Merge kernel selection files, or show the kernels of an image"),
    ),
    "Other": (
        Entry("exec", "Run a script of ExecuTorch or NXP with our converter"),
        Entry("fvp", "Write substitutes for Arm's simulators"),
        Entry("doctor", "Check this installation and say how to repair it"),
    ),
}
"""The commands by the section of the help that lists them."""

COMMANDS = tuple(entry for entries in GROUPS.values() for entry in entries)


class LazyGroup(click.Group):
    """The top command: lists commands from the table and imports only the module of the command that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name."""
        for entry in COMMANDS:
            if entry.name == cmd_name:
                command: click.Command = import_module(entry.module).command
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` begin with.

        Raises:
            OptionError: when no command has this name; the hint names similar ones.
        """
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            function = FUNCTIONS.get(name.replace("-", "_"))
            near = [function] if function else difflib.get_close_matches(name, known, n=2)
            listed = " or ".join(f"`{n}`" for n in near) if near else ", ".join(f"`{n}`" for n in known)
            raise OptionError(
                f"unknown command `{name}`" if name else "the command is empty",
                hint=f"did you mean {listed}?" if near else f"the commands are {listed}",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list of the help, one section per group, from the table alone."""
        column = max(len(entry.name) for entry in COMMANDS)
        for group, entries in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(entry.name.ljust(column), entry.help) for entry in entries])


def _print_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        import deuteron
        from deuteron import api

        printer = ctx.ensure_object(Printer)
        printer.data(f"deuteron {deuteron.__version__}")
        for name, version in api.formats().items():
            printer.data(f"{name} {version}")
        ctx.exit()


def _print_cmake_directory(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from deuteron.native import FIRMWARE

        ctx.ensure_object(Printer).data(str(FIRMWARE / "cmake"))
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--cmake-dir",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_cmake_directory,
    help="Show where the CMake package is and exit.",
)
def app() -> None:
    """Compile PyTorch and TFLite models for Cortex-M microcontrollers, with and without an NPU."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit: 0 for success, 1 if the input or a check failed, 2 for wrong usage or our defect."""
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # the process ends: collecting cycles would only cost time
    printer = Printer()
    try:
        code = _run(args, printer)
        printer.flush()
    except OSError as e:
        # Output to the closed stream is dropped, so that the interpreter's flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(e, BrokenPipeError):  # the reader closed the pipe: no message
            printer.error(InputError(f"cannot write the output: {_why(e).lower()}"))
        code = 1
    sys.exit(code)


def _run(args: Sequence[str] | None, printer: Printer) -> int:
    try:
        return app.main(args, prog_name="deuteron", standalone_mode=False, obj=printer) or 0
    except DeuteronError as e:
        printer.error(e)
        return e.exit_code
    except click.exceptions.NoArgsIsHelpError as e:
        e.show()
        return e.exit_code
    except click.UsageError as e:
        printer.error(_usage_error(e))
        return OptionError.exit_code
    except (click.Abort, KeyboardInterrupt):
        printer.note("interrupted")
        return INTERRUPTED
    except PermissionError as e:  # files that we open are the user's
        error = _not_permitted(e)
        error.__cause__ = e
        printer.error(error)
        return error.exit_code
    except Exception as e:  # any other exception is our defect
        if isinstance(e, OSError) and e.errno in UNWRITABLE:
            raise
        error = InternalError(
            f"{type(e).__name__}: {e}",
            hint="this is a defect of Deuteron; please report it with the lines above, the command "
            "and the output of `deuteron doctor`",
        )
        error.__cause__ = e
        printer.error(error)
        return error.exit_code


def _not_permitted(e: PermissionError) -> InputError:
    """Report a refusal of the operating system, which need not be about a file."""
    hint = "give the user who runs this the permission"
    if e.filename is None:
        return InputError(f"the operating system refused an operation: {_why(e)}", hint=f"{hint}; `-vv` shows where")
    return InputError(f"`{e.filename}` cannot be opened: {_why(e)}", hint=hint)


def _why(e: OSError) -> str:
    """Return the reason; libraries may raise an error without a number or a text."""
    return e.strerror or str(e) or type(e).__name__


def _usage_error(e: click.UsageError) -> OptionError:
    """Return click's error in our form: backticks, no full stop, small first letter, and a hint."""
    if isinstance(e, click.NoSuchOption) and e.option_name in _ABSENT_OPTIONS:
        return OptionError(f"no such option `{e.option_name}`", hint=_ABSENT_OPTIONS[e.option_name])
    if isinstance(e, click.NoSuchOption) and e.possibilities:
        nearest = difflib.get_close_matches(e.option_name, e.possibilities, cutoff=_NEAR) or e.possibilities[:1]
        near = " or ".join(f"`{name}`" for name in nearest)
        return OptionError(f"no such option `{e.option_name}`", hint=f"did you mean {near}?")
    text = e.format_message().strip().removesuffix(".").replace("'", "`")
    command = e.ctx.command_path if e.ctx else "deuteron"
    return OptionError(text[:1].lower() + text[1:], hint=f"`{command} --help` lists the options")
