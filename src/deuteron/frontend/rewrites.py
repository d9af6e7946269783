"""Operators that have no int8 form on the Cortex-M, or none at all, and what to write instead: the hints of errors.

The guide `docs/guides/first-model.md` has the same rows; a test builds what they say.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BUILD = "build for a target whose CPU runs portable operators, such as `imxrt700` and `ethos-u55-128`"
_ORDERS = "give what it orders as an output of the model, and order it in the application"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What does the work of an operator in one call of it, as an example; both are Python, of a tensor `x` of rows.

    Attributes:
        example: the operator as models have it.
        instead: what is built.
        said: how an error says it, if not by the example.
        is_portable: ExecuTorch's portable operators have it.
    """

    example: str
    instead: str
    said: str = ""
    is_portable: bool = True

    @property
    def advice(self) -> str:
        """What to write, as errors say it."""
        return self.said or f"write it with other operators, as `{self.example}` is `{self.instead}`"

    @property
    def hint(self) -> str:
        """What to do about an operator without an int8 form, as errors say it."""
        return f"{self.advice}, or {BUILD}" if self.is_portable else self.advice


_VARIANCE = "(x - x.mean(-1, keepdim=True)).square().sum(-1) / (x.shape[-1] - 1)"

REWRITES: Mapping[str, Rewrite] = {
    "var": Rewrite("x.var(-1)", _VARIANCE),
    "std": Rewrite("x.std(-1)", f"({_VARIANCE}).sqrt()"),
    "prod": Rewrite("x[..., :3].prod(-1)", "x[..., 0] * x[..., 1] * x[..., 2]"),
    "logsumexp": Rewrite("x.logsumexp(-1)", "x.amax(-1) + (x - x.amax(-1, keepdim=True)).exp().sum(-1).log()"),
    "roll": Rewrite("x.roll(1, -1)", "torch.cat([x[..., -1:], x[..., :-1]], -1)"),
    "einsum": Rewrite("torch.einsum('ab,ac->bc', x, x)", "x.transpose(0, 1) @ x"),
    "sort": Rewrite("x.sort(-1).values", "x", _ORDERS, is_portable=False),
    "topk": Rewrite("x.topk(2).values", "x", _ORDERS),
    "median": Rewrite("x.median(-1).values", "x", _ORDERS, is_portable=False),
}
"""By the names of the operators in PyTorch's registry, without overload."""
