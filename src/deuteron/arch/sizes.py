"""Sizes, rates and frequencies as users write them: `512Ki`, `400MB/s`, `324M`."""

import re
from fractions import Fraction

from deuteron.errors import OptionError

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgG]?)(i?)(B?|B/s|Hz)")
_FACTORS = {
    ("", ""): 1,
    **{(letter, ""): 1000**power for power, letter in enumerate("kmg", 1)},
    **{(letter, "i"): 1024**power for power, letter in enumerate("kmg", 1)},
}
_MOST = 2**40
"""Limit above any memory, rate or clock of a microcontroller, and far below the planner's 64-bit integers."""

_KINDS = {
    "--flash-bandwidth": (
        "rate",
        ("", "B", "B/s"),
        "bytes per second",
        "give bytes per second, or a number with k, Ki, M, Mi, G or Gi: `100MB/s`",
    ),
    "--clock": ("frequency", ("", "Hz"), "Hz", "give Hz, or a number with k, M or G: `324M`"),
}
_SIZE = ("size", ("", "B"), "bytes", "give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`")


def parse_size(option: str, text: str) -> int:
    """Parse the bytes, bytes per second or Hz in the value of `option`: `512Ki`, `1.5M`, `400MB/s`, `324MHz`.

    Raises:
        OptionError: the value is invalid.
    """
    kind, units, what, hint = _KINDS.get(option, _SIZE)
    match = _NUMBER.fullmatch(text.strip())
    factor = _FACTORS.get((match[2].lower(), match[3])) if match else None
    if match is None or factor is None or match[4] not in units:
        raise OptionError(f"`{text}` is no {kind} for `{option}`", hint=hint)
    value = Fraction(match[1]) * factor
    if value.denominator != 1:
        raise OptionError(f"`{text}` for `{option}` is no whole number of {what}", hint=hint)
    if value > _MOST:
        raise OptionError(f"`{text}` for `{option}` is too large: at most {_MOST:,} {what} are possible", hint=hint)
    return int(value)
