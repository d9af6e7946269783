"""The options about memory that compiling commands share."""

import functools
import re
from collections.abc import Callable
from fractions import Fraction
from typing import ParamSpec, TypeVar

import click

from deuteron.arch.memory import Effort, FetchPolicy, MemoryOptions
from deuteron.errors import OptionError

P = ParamSpec("P")
R = TypeVar("R")

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmM]?)(i?)(B?|B/s|Hz)")
_FACTORS = {("", ""): 1, ("k", ""): 1000, ("m", ""): 1000**2, ("k", "i"): 1024, ("m", "i"): 1024**2}
_KINDS = {
    "--flash-bandwidth": (
        "rate",
        ("", "B", "B/s"),
        "bytes per second",
        "give bytes per second, or a number with k, Ki, M or Mi: `100MB/s`",
    ),
    "--clock": ("frequency", ("", "Hz"), "Hz", "give Hz, or a number with k or M: `325M`"),
}
_SIZE = ("size", ("", "B"), "bytes", "give bytes, or a number with k, Ki, M or Mi: `512Ki`, `1.5M`")


def parse_size(option: str, text: str) -> int:
    """The bytes, bytes per second or Hz that the value of `option` says: `512Ki`, `1.5M`, `400MB/s`, `325MHz`.

    Raises:
        OptionError: when it says none.
    """
    kind, units, what, hint = _KINDS.get(option, _SIZE)
    match = _NUMBER.fullmatch(text.strip())
    factor = _FACTORS.get((match[2].lower(), match[3])) if match else None
    if match is None or factor is None or match[4] not in units:
        raise OptionError(f"`{text}` is no {kind} for `{option}`", hint=hint)
    value = Fraction(match[1]) * factor
    if value.denominator != 1:
        raise OptionError(f"`{text}` for `{option}` is no whole number of {what}", hint=hint)
    return int(value)


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
