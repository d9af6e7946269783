"""Hints for operators without an int8 implementation on the Cortex-M.

The guide `docs/guides/first-model.md` has the same rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

BUILD = "build for a target whose CPU runs portable operators, such as `imxrt700` and `ethos-u55-128`"
_ORDERS = (
    "sort at most 16 rows of 128 elements, 64 of 64, or 256 of 32, take at most 16 by `topk`, or return the values as "
    "an output, and sort them in the application"
)
_GRID = (
    "give all samples the same fixed grid, which becomes a matrix of at most 1,048,576 weights; sample at computed "
    "places in the application"
)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A hint for an operator without an int8 implementation.

    Attributes:
        example: a call of the operator on a tensor `x` of rows that are too long for it.
        advice: the text of the hint.
        is_portable: whether ExecuTorch's portable kernels include the operator.
    """

    example: str
    advice: str
    is_portable: bool = True

    @property
    def hint(self) -> str:
        """Return the hint for an error about this operator."""
        return f"{self.advice}, or {BUILD}" if self.is_portable else self.advice


REWRITES: Mapping[str, Rewrite] = {
    "sort": Rewrite("x.sort(-1).values", _ORDERS, is_portable=False),
    "argsort": Rewrite("x.argsort(-1)", _ORDERS, is_portable=False),
    "quantile": Rewrite("x.quantile(0.25, -1)", _ORDERS, is_portable=False),
    "topk": Rewrite("x.topk(20).values", _ORDERS),
    "kthvalue": Rewrite("x.kthvalue(2).values", _ORDERS, is_portable=False),
    "median": Rewrite("x.median(-1).values", _ORDERS, is_portable=False),
    "grid_sampler_2d": Rewrite(
        "torch.nn.functional.grid_sample(x[None, None], x[None, :, :2, None].repeat(1, 1, 1, 2))", _GRID
    ),
}
"""By the names of the operators in PyTorch's registry, without overload."""
