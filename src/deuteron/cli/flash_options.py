"""Options for the flash model that an emulated board fetches weights from."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.sizes import parse_size
from deuteron.board.flash import FlashOptions

P = ParamSpec("P")
R = TypeVar("R")


def flash_options(function: Callable[P, R]) -> Callable[P, R]:
    """Add the flash options to a command, which gets them as `flash`, a FlashOptions."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        latency, bandwidth = kwargs.pop("flash_latency_ns"), kwargs.pop("flash_bandwidth")
        kwargs["flash"] = FlashOptions(
            latency if isinstance(latency, int) else None,
            None if bandwidth is None else parse_size("--flash-bandwidth", str(bandwidth)),
        )
        return function(*args, **kwargs)

    latency = click.option(
        "--flash-latency-ns",
        type=int,
        metavar="N",
        help="Emulator: latency of the flash before a fetch's first byte.  [default: the target's]",
    )
    bandwidth = click.option(
        "--flash-bandwidth",
        metavar="RATE",
        help="Emulator: bandwidth of the flash (`100MB/s`), 0 for no limit.  [default: the one that "
        "the build was planned for]",
    )
    return latency(bandwidth(run))
