"""The options about memory that compiling commands share."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy, IoInScratch, MemoryOptions
from deuteron.arch.sizes import parse_size

P = ParamSpec("P")
R = TypeVar("R")


def memory_options(function: Callable[P, R]) -> Callable[P, R]:
    """The command with the options about memory, which it gets as `memory`, a MemoryOptions."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        names = ("sram_budget", "weights_budget", "flash_bandwidth")
        texts = {name: kwargs.pop(name) for name in names}
        sizes = {
            name: None if text is None else parse_size(f"--{name.replace('_', '-')}", str(text))
            for name, text in texts.items()
        }
        kwargs["memory"] = MemoryOptions(
            FetchPolicy(kwargs.pop("fetch_constants_to_sram")),
            effort=Effort(kwargs.pop("effort")),
            depth_first=DepthFirst(kwargs.pop("depth_first")),
            io_in_scratch=IoInScratch(kwargs.pop("io_in_scratch")),
            **sizes,
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
        click.option("--sram-budget", metavar="SIZE", help="SRAM for tensors and weights (`512Ki`)."),
        click.option(
            "--weights-budget", metavar="SIZE", help="SRAM for weights that are fetched, beside scratch that is free."
        ),
        click.option("--flash-bandwidth", metavar="RATE", help="What the prefetch is planned for (`100MB/s`)."),
        click.option(
            "--effort",
            default=Effort.FAST.value,
            show_default=True,
            type=click.Choice([effort.value for effort in Effort]),
            help="How hard the planner tries; exact proves what it can.",
        ),
        click.option(
            "--depth-first",
            default=DepthFirst.AUTO.value,
            show_default=True,
            type=click.Choice([choice.value for choice in DepthFirst]),
            help="Compute chains of layers some rows at a time; auto: if it does not fit otherwise, or is faster.",
        ),
        click.option(
            "--io-in-scratch",
            default=IoInScratch.AUTO.value,
            show_default=True,
            type=click.Choice([choice.value for choice in IoInScratch]),
            help="Let other values use the memory of inputs and outputs; auto: if the program gains by it.",
        ),
    )
    for option in reversed(options):
        run = option(run)
    return run
