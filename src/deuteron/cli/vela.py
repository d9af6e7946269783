"""Options of Vela, for targets with an Ethos-U."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.sizes import parse_size
from deuteron.arch.vela import Optimise, VelaOptions

P = ParamSpec("P")
R = TypeVar("R")


def vela_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the options of Vela to a command, which gets them as `vela`, a VelaOptions."""

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
        click.option("--vela-config", metavar="FILE", help="Ethos-U: configuration file for Vela (.ini)."),
        click.option(
            "--vela-system-config", metavar="NAME", help="Ethos-U: system configuration of Vela (memories and clocks)."
        ),
        click.option("--memory-mode", metavar="NAME", help="Ethos-U: memory mode of Vela (tensors' memories)."),
        click.option(
            "--optimise",
            default=Optimise.PERFORMANCE.value,
            show_default=True,
            type=click.Choice([strategy.value for strategy in Optimise]),
            help="Ethos-U: goal of Vela's optimiser.",
        ),
        click.option("--arena-cache-size", metavar="SIZE", help="Ethos-U: SRAM that Vela may use (`384Ki`)."),
    )
    for option in reversed(options):
        run = option(run)
    return run
