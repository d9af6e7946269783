"""Sizes, rates and frequencies as users write them: `512Ki`, `400MB/s`, `325M`."""

import re
from fractions import Fraction

from deuteron.errors import OptionError

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
