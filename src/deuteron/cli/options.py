"""Shared parts of all commands: the printer argument, `-q`, `-v`, and `--json` where a command reports."""

import functools
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar, cast

import click

from deuteron.arch import targets
from deuteron.builds.options import DEFAULT_TARGET, TfliteOptions, parse_shapes
from deuteron.cli.printer import QUIET, Printer
from deuteron.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound=Enum)


def _set_quiet(ctx: click.Context, _param: click.Parameter, quiet: bool) -> None:
    if quiet:
        ctx.ensure_object(Printer).verbosity = QUIET


def _set_verbose(ctx: click.Context, _param: click.Parameter, count: int) -> None:
    if count:
        ctx.ensure_object(Printer).verbosity = count


def _set_json(ctx: click.Context, _param: click.Parameter, as_json: bool) -> None:
    ctx.ensure_object(Printer).as_json = as_json


def _boards() -> tuple[str, ...]:
    """Names of all boards."""
    from deuteron.board import boards

    return (*boards.names(), *boards.ports())


class Command(click.Command):
    """A command that refuses superfluous arguments, and empty ones, which come from variables that are not set."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options and return the rest of the arguments."""
        values, extra, _ = self.make_parser(ctx).parse_args([*args])
        for param in self.get_params(ctx):
            value: object = values.get(str(param.name))
            each = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
            if "" in (
                each[:1] if param.type is click.UNPROCESSED else each
            ):  # another program may accept an empty word
                if isinstance(param, click.Option):
                    name = f"`{param.opts[-1]}`"
                else:
                    name = "the path" if param.type is PATH else f"`{param.make_metavar(ctx).strip('[].')}`"
                out = "" if param.required else ", or leave it out"
                raise OptionError(
                    f"{name} is empty", hint=f"give it a value{out}; check that the variable for it is set"
                )
        if extra and not values.get("help"):
            hint = self.hint_about_extra(ctx, args, extra[0]) or f"`{ctx.command_path} --help` lists the options"
            noun = "argument" if len(extra) == 1 else "arguments"
            raise OptionError(f"got unexpected extra {noun} ({' '.join(extra)})", hint=hint)
        return super().parse_args(ctx, args)

    def hint_about_extra(self, ctx: click.Context, args: list[str], extra: str) -> str | None:
        """Return the hint about an argument too many: the option before it that is repeated, or whose value it is."""
        options = {name: param for param in self.get_params(ctx) for name in param.opts if name.startswith("-")}
        before = next((arg for arg in reversed(args[: args.index(extra)]) if arg.startswith("-")), "")
        if (option := options.get(before)) is not None and option.multiple:
            return f"repeat the option: `{before} {extra}`"
        for name, values in (("--target", targets.names), ("--board", _boards), ("--on", _boards)):
            if name in options and extra in values():
                return f"name it with the option: `{name} {extra}`"
        return None


def command(function: Callable[Concatenate[Printer, P], int | None], cls: type[Command] = Command) -> click.Command:
    """Return the function as a command that gets the printer first and returns its exit code (None is 0)."""

    @click.pass_obj
    @functools.wraps(function)
    def run(printer: Printer, /, *args: P.args, **kwargs: P.kwargs) -> int | None:
        return function(printer, *args, **kwargs)

    as_json = click.option("--json", is_flag=True, expose_value=False, callback=_set_json, help="Report as JSON.")
    quiet = click.option(
        "-q",
        "--quiet",
        is_flag=True,
        expose_value=False,
        callback=_set_quiet,
        help="No notes, no warnings.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        count=True,
        expose_value=False,
        callback=_set_verbose,
        help="Print more; -vv adds tracebacks.",
    )
    run.__doc__ = (function.__doc__ or "").replace("\\b\n", "\b\n")  # click's mark for preformatted lines
    return click.command(cls=cls)(as_json(quiet(verbose(run))))


target_option = click.option(
    "--target",
    default=DEFAULT_TARGET,
    show_default=True,
    metavar="NAME",
    help="Target to compile for; `deuteron targets` lists them.",
)
"""The target to compile for."""

tflite_target_option = click.option(
    "--target",
    metavar="NAME",
    help=f"Target of a TFLite file, `{DEFAULT_TARGET}` by default, or of a .pte.",
)
"""The target of a file that is not a build."""


def target_note(target: str, *, is_default: bool) -> str:
    """Return the line that says which target a program is for."""
    chosen = ", the default; `--target` chooses another, and `deuteron targets` lists them" if is_default else ""
    return f"target `{target}`{chosen}"


def tflite_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the options of TFLite files to a command, which gets them as `tflite`, a TfliteOptions."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        kwargs["tflite"] = TfliteOptions(
            parse_shapes(cast("tuple[str, ...]", kwargs.pop("shape"))),
            cast("str | None", kwargs.pop("signature")),
            bool(kwargs.pop("keep_dead_channels")),
        )
        return function(*args, **kwargs)

    options = (
        click.option(
            "--shape",
            multiple=True,
            metavar="INPUT=1,96,96,3",
            help="Shape of an input of a TFLite file; may be repeated.",
        ),
        click.option("--signature", metavar="NAME", help="Signature of a TFLite file to compile."),
        click.option(
            "--keep-dead-channels", is_flag=True, help="Keep constant and unread channels of a TFLite file's layers."
        ),
    )
    for option in reversed(options):
        run = option(run)
    return run


class _PathType(click.ParamType[Path]):
    """A path."""

    name = "path"

    def convert(self, value: str | Path, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path."""
        return Path(value)


PATH = _PathType()
"""The type of all paths on the command line."""


etrecord_option = click.option(
    "--etrecord",
    metavar="FILE",
    type=PATH,
    help="ExecuTorch's ETRecord of a .pte: source lines, modules and names.",
)
"""The ETRecord, for facts about a .pte that its build would have."""


def file_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the options of files that are no builds: the target, those of TFLite files, and the ETRecord."""
    return tflite_target_option(tflite_options(etrecord_option(function)))


def note_missing_facts(printer: Printer, path: Path, target: str | None, etrecord: Path | None) -> None:
    """Print a note on the facts that a program without its build lacks."""
    from deuteron import api

    for sentence in api.missing(path, target=target, etrecord=etrecord):
        printer.note(sentence)


def note_file_facts(printer: Printer, path: Path, target: str | None, etrecord: Path | None) -> None:
    """Print the target of a TFLite file if none is given, and the facts that a program without its build lacks."""
    from deuteron.board.build_directory import is_tflite

    if target is None and is_tflite(path):
        printer.note(target_note(DEFAULT_TARGET, is_default=True))
    note_missing_facts(printer, path, target, etrecord)


def choice(kind: type[E], option: str, value: str) -> E:
    """Return the member of an enum for an option's value."""
    allowed = [str(member.value) for member in kind]
    if value not in allowed:
        listed = ", ".join(f"`{name}`" for name in allowed)
        raise OptionError(f"unknown value `{value}` of `{option}`", hint=f"choose one of {listed}")
    return kind(value)
