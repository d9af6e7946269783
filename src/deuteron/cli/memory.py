"""The options about memory that compiling commands share."""

import functools
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.memory import Effort, FetchPolicy, MemoryOptions
from deuteron.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)(i?)[bB]?(?:/s)?")
_FACTORS = {("", ""): 1, ("k", ""): 1000, ("m", ""): 1000**2, ("k", "i"): 1024, ("m", "i"): 1024**2}


def parse_size(text: str) -> int:
    """The bytes that `text` says: a number with no unit or one of k, Ki, M and Mi (`512Ki`, `1.5M`, `400MB/s`).

    Raises:
        OptionError: when it says none.
    """
    found = _SIZE.fullmatch(text.strip())
    factor = _FACTORS.get((found[2].lower(), found[3])) if found else None
    if found is None or factor is None:
        raise OptionError(f"`{text}` is no size", hint="give bytes, or a number with k, Ki, M or Mi: `512Ki`, `1.5M`")
    return round(float(found[1]) * factor)


def memory_options(function: Callable[P, R]) -> Callable[P, R]:
    """The command with the options about memory, which it gets as `memory`, a MemoryOptions."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        sizes = {name: kwargs.pop(name) for name in ("sram_budget", "weights_budget", "flash_bandwidth")}
        kwargs["memory"] = MemoryOptions(
            FetchPolicy(kwargs.pop("fetch_constants_to_sram")),
            effort=Effort(kwargs.pop("effort")),
            **{name: None if text is None else parse_size(str(text)) for name, text in sizes.items()},
        )
        return function(*args, **kwargs)

    options = (
        click.option(
            "--fetch-constants-to-sram",
            is_flag=False,
            flag_value=FetchPolicy.ALWAYS.value,
            default=FetchPolicy.AUTO.value,
            show_default=True,
            type=click.Choice([policy.value for policy in FetchPolicy]),
            help="Fetch weights from flash while kernels run; auto: if they do not fit into SRAM.",
        ),
        click.option("--sram-budget", metavar="SIZE", help="SRAM for intermediate results and weights (`512Ki`)."),
        click.option("--weights-budget", metavar="SIZE", help="SRAM for weights that are fetched."),
        click.option("--flash-bandwidth", metavar="RATE", help="What the prefetch is planned for (`100MB/s`)."),
        click.option(
            "--effort",
            default=Effort.FAST.value,
            show_default=True,
            type=click.Choice([effort.value for effort in Effort]),
            help="How hard the planner tries; exact proves what it can.",
        ),
    )
    for option in reversed(options):
        run = option(run)
    return run
