"""Max-pools that give indices and values."""

import inspect
from typing import Any

import pytest
import torch
from tests import full
from tests.frontend.build_helpers import failure
from tests.frontend.float_rewrites import Call, rewritten
from tests.frontend.heterogeneous_models import combine
from torch import Tensor, nn
from torch.nn import functional

from deuteron.errors import UnsupportedError
from deuteron.frontend.quantize import decompositions, dilated_pools, pools, signals

aten = torch.ops.aten
IMAGE = (1, 3, 7, 8)


@pytest.mark.parametrize("shape", [(1, 2, 9, 12), (3, 8, 10)])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
        {"kernel_size": 2, "dilation": 3},
        {"kernel_size": (3, 2), "stride": (2, 1), "dilation": (1, 2), "ceil_mode": True},
    ],
)
def test_dilated_windows_are_selections(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    found = rewritten(Call(lambda x: functional.max_pool2d(x, **options)), shape, dilated_pools.write)
    assert set(found) == {aten.index_select.default, aten.maximum.default}


def test_dilated_windows_of_signals_are_selections() -> None:
    found = rewritten(Call(lambda x: functional.max_pool1d(x, 3, 2, 1, 2)), (2, 4, 11), dilated_pools.write)
    assert aten.max_pool1d.default not in found


def test_pads_without_a_value_repeat_edges_before_signals_become_images() -> None:
    def causal(x: Tensor) -> Tensor:
        return functional.max_pool1d(functional.pad(x, (3, 0), value=float("-inf")), 4, 1)

    assert aten.pad.default not in rewritten(Call(causal), (2, 4, 11), pools.write, signals.write)


class Values(nn.Module):
    """The values alone are read."""

    def __init__(self, *, up: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.up = nn.Conv2d(3, 8, 1), up

    def forward(self, x: Tensor) -> Tensor:
        values, _ = functional.max_pool2d(self.conv(x), 2, ceil_mode=self.up, return_indices=True)
        return values


class Both(Values):
    """So are the indices."""

    def forward(self, x: Tensor) -> Tensor:
        values, indices = functional.max_pool2d(self.conv(x), 2, return_indices=True)
        return values + indices


@pytest.mark.parametrize("up", [False, True])
def test_a_pool_whose_values_alone_are_read_gives_these_alone(up: bool) -> None:
    operators = rewritten(Values(up=up), IMAGE, decompositions.write)
    assert operators.count(aten.max_pool2d.default) == 1
    assert aten.max_pool2d_with_indices.default not in operators


def test_it_is_int8_on_the_cpu() -> None:
    lowered = combine(Values(), IMAGE, target="cortex-m55")
    assert lowered.operators["cortex_m::quantized_max_pool2d"] == 1
    assert lowered.steps == 0


@pytest.mark.parametrize("target", full.first(["imxrt700cm", "cortex-m55"], 1))
def test_indices_are_refused_where_nothing_gives_them(target: str) -> None:
    code = "values, indices = functional.max_pool2d(self.conv(x), 2, return_indices=True)"
    lines, first = inspect.getsourcelines(Both.forward)
    number = first + [line.strip() for line in lines].index(code)
    x = torch.ones(IMAGE)
    assert failure(UnsupportedError, Both(), x, target=target, calibration=[x]) == (
        f"{__file__}:{number}: `aten::max_pool2d_with_indices` gives indices, which no operator for int8 on the CPU "
        f"does, at `{code}`\n\n"
        "hint: leave out `return_indices=True`, or build for a target whose CPU runs "
        "portable operators, such as `imxrt700` and `ethos-u55-128`"
    )
