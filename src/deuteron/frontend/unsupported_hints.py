"""Operators that have no int8 form on the Cortex-M, or none at all, and what to do instead: the hints of errors.

The guide `docs/guides/first-model.md` has the same rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BUILD = "build for a target whose CPU runs portable operators, such as `imxrt700` and `ethos-u55-128`"
_ORDERS = "give what it orders as an output of the model, and order it in the application"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Advice for an operator that has no int8 form.

    Attributes:
        example: the operator as models have it, of a tensor `x` of rows.
        advice: what to do, as errors say it.
        is_portable: ExecuTorch's portable operators have it.
    """

    example: str
    advice: str
    is_portable: bool = True

    @property
    def hint(self) -> str:
        """Return the hint of an error about this operator."""
        return f"{self.advice}, or {BUILD}" if self.is_portable else self.advice


REWRITES: Mapping[str, Rewrite] = {
    "sort": Rewrite("x.sort(-1).values", _ORDERS, is_portable=False),
    "topk": Rewrite("x.topk(2).values", _ORDERS),
    "median": Rewrite("x.median(-1).values", _ORDERS, is_portable=False),
}
"""By the names of the operators in PyTorch's registry, without overload."""
