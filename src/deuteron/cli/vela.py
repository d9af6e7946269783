"""The options that Vela gets, for targets with an Ethos-U."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.sizes import parse_size
from deuteron.arch.vela import Optimise, VelaOptions

P = ParamSpec("P")
R = TypeVar("R")


def vela_options(function: Callable[P, R]) -> Callable[P, R]:
    """The command with the options of Vela, which it gets as `vela`, a VelaOptions."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        names = ("vela_config", "vela_system_config", "memory_mode")
        texts = {name: None if (text := kwargs.pop(name)) is None else str(text) for name in names}
        size = kwargs.pop("arena_cache_size")
        kwargs["vela"] = VelaOptions(
            **texts,
            optimise=Optimise(kwargs.pop("optimise")),
            arena_cache_size=None if size is None else parse_size("--arena-cache-size", str(size)),
        )
        return function(*args, **kwargs)

    options = (
        click.option(
            "--vela-config", metavar="FILE", help="Ethos-U: Vela's configuration file (.ini), if not its own."
        ),
        click.option("--vela-system-config", metavar="NAME", help="Ethos-U: the memories that Vela compiles for."),
        click.option("--memory-mode", metavar="NAME", help="Ethos-U: what Vela keeps in which of them."),
        click.option(
            "--optimise",
            default=Optimise.PERFORMANCE.value,
            show_default=True,
            type=click.Choice([strategy.value for strategy in Optimise]),
            help="Ethos-U: what Vela optimises for.",
        ),
        click.option("--arena-cache-size", metavar="SIZE", help="Ethos-U: the SRAM that Vela aims at (`384Ki`)."),
    )
    for option in reversed(options):
        run = option(run)
    return run
