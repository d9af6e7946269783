"""Max-pools over three dimensions become pools over two and maxima of slices, with the same values."""

import pytest
import torch
from torch import fx, nn

from deuteron import api
from deuteron.errors import UnsupportedError
from deuteron.frontend.quantize import pools

X = torch.linspace(-1, 1, 2 * 6 * 5 * 8).sin().mul(9).frac().reshape(2, 6, 5, 8)
CASES = {
    "slices of channels": (nn.MaxPool3d((1, 3, 3), (2, 1, 2)), X),
    "one kernel": (nn.MaxPool3d(3, 2, 1), X),
    "batch": (nn.MaxPool3d((2, 2, 2)), X[None]),
    "ceil": (nn.MaxPool3d((3, 2, 3), 2, ceil_mode=True), X[None]),
    "dilation": (nn.MaxPool3d((2, 1, 1), 1, dilation=(3, 1, 1)), X),
}


@pytest.mark.parametrize("name", CASES)
def test_the_values_stay(name: str):
    pool, x = CASES[name]
    model = torch.export.export(pool, (x,)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    pools.write(model)
    assert not any("pool3d" in str(node.target) for node in model.graph.nodes)
    assert torch.equal(model(x), pool(x))


def test_a_window_of_padding_alone_is_refused():
    pool = nn.MaxPool3d((2, 1, 1), 1, padding=(1, 0, 0), dilation=(3, 1, 1))
    model = torch.export.export(pool, (X[:, :2],)).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    with pytest.raises(UnsupportedError, match="windows of padding alone"):
        pools.write(model)


@pytest.mark.slow
def test_a_pool_that_also_drops_channels_is_built():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool3d((1, 3, 3), (2, 1, 2))).eval()
    found = api.check(net, torch.rand(1, 3, 10, 10), targets=["cortex-m55", "ethos-u55-128cm"])
    assert found.all_build
