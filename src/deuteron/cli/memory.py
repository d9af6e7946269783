"""Memory options that compiling commands share."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.memory import (
    DepthFirst,
    Effort,
    FetchPolicy,
    IoInScratch,
    MemoryOptions,
    SpeedForFlash,
    WeightsCompression,
)
from deuteron.arch.sizes import parse_size

P = ParamSpec("P")
R = TypeVar("R")


def memory_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the memory options to a command, which gets them as `memory`, a MemoryOptions."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        names = ("sram_budget", "weights_budget", "flash_bandwidth", "flash_budget")
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
            speed_for_flash=SpeedForFlash(kwargs.pop("speed_for_flash")),
            weights_compression=WeightsCompression(kwargs.pop("weights_compression")),
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
            help="Fetch weights from flash while kernels run; auto: if they do not fit in SRAM.",
        ),
        click.option("--sram-budget", metavar="SIZE", help="SRAM for tensors and weights (`512Ki`)."),
        click.option("--weights-budget", metavar="SIZE", help="SRAM for fetched weights, in addition to free scratch."),
        click.option(
            "--flash-bandwidth", metavar="RATE", help="Flash bandwidth that the prefetch is planned for (`100MB/s`)."
        ),
        click.option(
            "--flash-budget",
            metavar="SIZE",
            help="Flash for a CPU-only program's constants, with larger weights of layers to be faster (`1Mi`).",
        ),
        click.option(
            "--speed-for-flash",
            default=SpeedForFlash.AUTO.value,
            show_default=True,
            type=click.Choice([choice.value for choice in SpeedForFlash]),
            help="Make convolutions faster by larger weights within `--flash-budget`, or by free SRAM.",
        ),
        click.option(
            "--weights-compression",
            default=WeightsCompression.NEVER.value,
            show_default=True,
            type=click.Choice([choice.value for choice in WeightsCompression]),
            help="Compress weights without loss; auto: to fit `--flash-budget`, or without one, all that get smaller.",
        ),
        click.option(
            "--effort",
            default=Effort.FAST.value,
            show_default=True,
            type=click.Choice([effort.value for effort in Effort]),
            help="Search effort of the planner; exact proves optimality where it can.",
        ),
        click.option(
            "--depth-first",
            default=DepthFirst.AUTO.value,
            show_default=True,
            type=click.Choice([choice.value for choice in DepthFirst]),
            help="Compute chains of layers in stripes of rows; auto: if needed to fit, or faster.",
        ),
        click.option(
            "--io-in-scratch",
            default=IoInScratch.AUTO.value,
            show_default=True,
            type=click.Choice([choice.value for choice in IoInScratch]),
            help="Let other tensors reuse the memory of inputs and outputs; auto: if that helps the program.",
        ),
    )
    for option in reversed(options):
        run = option(run)
    return run
