"""Small float models and passes that write them otherwise."""

from collections.abc import Callable

import torch
from torch import Tensor, fx, nn

from deuteron.frontend import upstream_caches
from deuteron.frontend.quantize import rewrite_equivalence


class Call(nn.Module):
    """A function of an input and of layers."""

    def __init__(self, function: Callable[..., Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.layers)


def rewritten(
    module: nn.Module,
    shape: tuple[int, ...],
    *passes: Callable[[fx.GraphModule], None],
    rtol: float = 1e-12,
    x: Tensor | None = None,
    has_lines: bool = False,
) -> list[object]:
    """The operators of the module after it was rewritten, which must not change what it gives.

    PyTorch exports it in a quarter of the time if its operators need no lines of functions: with `has_lines` they have.
    """
    torch.manual_seed(1)
    x = torch.randn(shape) if x is None else x
    with upstream_caches.exporting():
        model = torch.export.export(module.eval(), (x,), strict=has_lines).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    (before,) = rewrite_equivalence.original(model, [(x,)])
    for rewrite in passes:
        rewrite(model)
    (after,) = rewrite_equivalence.original(model, [(x,)])
    (node,) = model.graph.output_node().all_input_nodes
    for wanted, actual in zip(before.outputs, after.outputs, strict=True):
        assert isinstance(wanted, Tensor)
        torch.testing.assert_close(actual, wanted, rtol=rtol, atol=1e-5, equal_nan=True)
        assert node.meta["val"].shape == wanted.shape
    return [node.target for node in model.graph.nodes if node.op == "call_function"]


def left(
    write: Callable[[fx.GraphModule], None],
    function: Callable[..., Tensor],
    shape: tuple[int, ...],
    *layers: nn.Module,
) -> list[object]:
    """Rewrite a function of an input and of layers, check that its result is the same, and return its operators."""
    return rewritten(Call(function, *layers), shape, write, rtol=1e-5)
