"""The program `deuteron`: the table of commands, and what happens to errors."""

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
"""What the operating system says of output that cannot be written: no defect of ours."""

_NEAR = 0.75
"""How like what was typed another option must be to be offered beside the most alike."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: the module whose `command` runs it, and its line in the help; neither loads anything."""

    name: str
    help: str

    @property
    def module(self) -> str:
        """Where the command is defined."""
        return f"deuteron.cli.{self.name}"


COMMANDS = (
    Entry("build", "Compile a PyTorch model for a target"),
    Entry("run", "Run a build, a .pte or a TFLite file on the host, or a build on a board"),
    Entry("firmware", "Build firmware for a board from a build"),
    Entry("bundle", "Write a build as C files for firmware of your own"),
    Entry("convert", "Convert a TFLite file for the NPU"),
    Entry("explain", "Show where each operator of a build runs, why, and what that costs"),
    Entry("plan", "Show where a build's bytes live and when, beside what is possible"),
    Entry("sim", "Simulate a build: when each kernel and each fetch runs, and what bounds it"),
    Entry("sweep", "Evaluate models on many targets, memories and clocks, and show the best"),
    Entry("profile", "Show where a build's time goes: by module, line, operator and kernel"),
    Entry("report", "Write a page that shows a profile: timeline, memory, modules"),
    Entry("inspect", "Show what is inside a build, a .pte, a microcode file or a TFLite file"),
    Entry("kernels", "Merge kernel selection files, and show which kernels an image holds"),
    Entry("exec", "Run a script of ExecuTorch's or NXP's with our converter in the place of the vendor's"),
    Entry("fvp", "Write stand-ins for Arm's simulators, which ExecuTorch's tests start"),
    Entry("ops", "List the operators that the NPU takes, and on which conditions"),
    Entry("models", "List the models that can be built by name"),
    Entry("targets", "List the targets and what is known of them"),
    Entry("doctor", "Check this installation and say how to mend it"),
)


class LazyGroup(click.Group):
    """The top command: knows its commands by table and imports the module of the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, loaded now."""
        for entry in COMMANDS:
            if entry.name == cmd_name:
                command: click.Command = import_module(entry.module).command
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` begin with; an unknown one is an error that names those close to it."""
        name = args[0]
        known = self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = difflib.get_close_matches(name, known, n=2)
            listed = " or ".join(f"`{n}`" for n in near) if near else ", ".join(f"`{n}`" for n in known)
            raise OptionError(
                f"unknown command `{name}`" if name else "the command is empty",
                hint=f"did you mean {listed}?" if near else f"the commands are {listed}",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list of the help from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in COMMANDS])


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
    """Take a PyTorch model to a microcontroller whose NPU sits beside a Cortex-M."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit: 0 done, 1 the input or a check failed, 2 wrong usage or our fault."""
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # the system takes back all memory: nothing is gained by looking for cycles in it
    printer = Printer()
    try:
        code = _run(args, printer)
        printer.flush()
    except OSError as e:
        # Nothing more goes there; the interpreter must not fail again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(e, BrokenPipeError):  # then whoever read our output has left, and needs no word
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
    except PermissionError as e:  # what we would open is the user's, wherever that happens
        error = _not_permitted(e)
        error.__cause__ = e
        printer.error(error)
        return error.exit_code
    except Exception as e:  # the last line of defence: whatever it is, it is our defect
        if isinstance(e, OSError) and e.errno in UNWRITABLE:
            raise
        error = InternalError(
            f"{type(e).__name__}: {e}",
            hint="this is a defect of Deuteron; please report it with the lines above, the command "
            "and what `deuteron doctor` says",
        )
        error.__cause__ = e
        printer.error(error)
        return error.exit_code


def _not_permitted(e: PermissionError) -> InputError:
    """What the operating system refuses, which is not always a file."""
    hint = "give the user who runs this the right to it"
    if e.filename is None:
        return InputError(f"something that this needs is not permitted: {_why(e)}", hint=f"{hint}; `-vv` shows where")
    return InputError(f"`{e.filename}` cannot be opened: {_why(e)}", hint=hint)


def _why(e: OSError) -> str:
    """What is wrong; libraries may raise an error without a number, or without anything."""
    return e.strerror or str(e) or type(e).__name__


def _usage_error(e: click.UsageError) -> OptionError:
    """What click found wrong, in our form: backticks, no full stop, small first letter, and a hint."""
    if isinstance(e, click.NoSuchOption) and e.possibilities:
        nearest = difflib.get_close_matches(e.option_name, e.possibilities, cutoff=_NEAR) or e.possibilities[:1]
        near = " or ".join(f"`{name}`" for name in nearest)
        return OptionError(f"no such option `{e.option_name}`", hint=f"did you mean {near}?")
    text = e.format_message().strip().removesuffix(".").replace("'", "`")
    command = e.ctx.command_path if e.ctx else "deuteron"
    return OptionError(text[:1].lower() + text[1:], hint=f"`{command} --help` lists what is allowed")
