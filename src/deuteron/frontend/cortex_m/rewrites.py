"""Operators that have no int8 form on the Cortex-M, and what to write instead: the hints of their errors.

The guide `docs/guides/first-model.md` has the same rows; a test builds what they say.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from torch import Tensor, fx

from deuteron.errors import all_refused
from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.operators import base_name

BUILD = "build for a target whose CPU runs portable operators, such as `imxrt700` and `ethos-u55-128`"


_ORDERS = "give what it orders as an output of the model, and order it in the application"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What does the work of an operator in one call of it, as an example; both are Python, of a tensor `x` of rows.

    Attributes:
        example: the operator as models have it.
        instead: what is built.
        said: how an error says it, if not by the example.
    """

    example: str
    instead: str
    said: str = ""

    @property
    def hint(self) -> str:
        """What to do, as errors say it."""
        return f"{self.said or f'write it with other operators, as `{self.example}` is `{self.instead}`'}, or {BUILD}"


_VARIANCE = "(x - x.mean(-1, keepdim=True)).square().sum(-1) / (x.shape[-1] - 1)"

REWRITES: Mapping[str, Rewrite] = {
    "var": Rewrite("x.var(-1)", _VARIANCE),
    "std": Rewrite("x.std(-1)", f"({_VARIANCE}).sqrt()"),
    "prod": Rewrite("x[..., :3].prod(-1)", "x[..., 0] * x[..., 1] * x[..., 2]"),
    "logsumexp": Rewrite("x.logsumexp(-1)", "x.amax(-1) + (x - x.amax(-1, keepdim=True)).exp().sum(-1).log()"),
    "roll": Rewrite("x.roll(1, -1)", "torch.cat([x[..., -1:], x[..., :-1]], -1)"),
    "einsum": Rewrite("torch.einsum('ab,ac->bc', x, x)", "x.transpose(0, 1) @ x"),
    "sort": Rewrite("x.sort(-1).values", "x", _ORDERS),
    "topk": Rewrite("x.topk(2).values", "x", _ORDERS),
    "median": Rewrite("x.median(-1).values", "x", _ORDERS),
}
"""By the names of the operators in PyTorch's registry, without overload."""


def check(model: fx.GraphModule, on_npu: Collection[str]) -> None:
    """Check that a float model has none of the operators with a rewrite but those of the NPU, by their nodes' names.

    Raises:
        UnsupportedError: naming each of them, its line and what to write instead.
    """
    refused = [
        refusal(node, "has no int8 form on the CPU", REWRITES[name].hint)
        for node in model.graph.nodes
        if node.op == "call_function" and node.name not in on_npu
        if (name := base_name(node.target)) in REWRITES and _reads_floats(node)
    ]
    if refused:
        raise all_refused(refused)


def _reads_floats(node: fx.Node) -> bool:
    """True for an operator of activations: of integers, such as indices, the runtime's own computes it."""
    values: list[object] = [arg.meta.get("val") for arg in node.all_input_nodes]
    return any(isinstance(value, Tensor) and value.is_floating_point() for value in values)
