"""Images in the order of memory of the CPU's operators: the float model computes what it did before."""

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.frontend.cortex_m.layout import make_explicit, put_channels_last


class Larger(nn.Module):
    """An image of other height and width."""

    def __init__(self, *, size: tuple[int, int] | None = None, factor: float | None = None) -> None:
        super().__init__()
        self.size, self.factor = size, factor

    def forward(self, x: Tensor) -> Tensor:
        return functional.interpolate(x, size=self.size, scale_factor=self.factor)


def laid_out(module: nn.Module, x: Tensor) -> fx.GraphModule:
    """The exported module, all of it for the CPU."""
    model = torch.export.export(module, (x,), strict=True).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    make_explicit(model)
    put_channels_last(model, {node.name for node in model.graph.nodes})
    return model


@pytest.mark.parametrize(
    ("module", "repeats"),
    [
        (Larger(factor=3.0), True),
        (Larger(size=(4, 9)), True),
        (Larger(factor=3.3), False),  # as large as three times the height, whose rows are not repeated alike
        (Larger(size=(5, 9)), False),
    ],
    ids=["factor", "size", "factor between", "size between"],
)
def test_rows_are_repeated_where_pytorch_repeats_them_alike(module: nn.Module, repeats: bool) -> None:
    x = torch.arange(12.0).reshape(1, 2, 2, 3)
    model = laid_out(module, x)
    assert torch.equal(model(x), module(x))
    assert any("cat" in str(node.target) for node in model.graph.nodes) == repeats
