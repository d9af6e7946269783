"""Numbers, bools and integers in one operator: programs compute in the dtype in which PyTorch does."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests import full
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend.quantize import promotion

aten = torch.ops.aten
X = torch.tensor([[-1.0, 0.5, 2.0]])
I = torch.tensor([[3, -2, 1]])  # noqa: E741 - an index

CASES: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, i: (x > 0) * 3,
    lambda x, i: (x > 0) + 1,
    lambda x, i: ((x > 0) * 4 + (i > 0) * 2).sum(1),
    lambda x, i: (i * 2.5).long(),
    lambda x, i: i * x,
    lambda x, i: i / 2,
    lambda x, i: i // 2,
    lambda x, i: i % 2,
    lambda x, i: i**2 + (i > 1),
    lambda x, i: torch.sqrt(i.abs()),
    lambda x, i: (x > 0) * 0.5 * x,
    lambda x, i: (x > 0) > 0.5,
    lambda x, i: i > x,
    lambda x, i: i == 1.0,
    lambda x, i: torch.cat([x, i], 1),
    lambda x, i: torch.where(x > 0, i, x),
    lambda x, i: torch.where(x > 0, 2, i),
    lambda x, i: torch.where(x > 0, i, 0.5),
    lambda x, i: (x > 0).sum(1),
    lambda x, i: (x > 0).cumsum(1),
    lambda x, i: i.clamp(min=0.5),
    lambda x, i: x.masked_fill(i > 0, 0),
    lambda x, i: torch.maximum(x, i.float()),
    lambda x, i: torch.logical_and(x > 0, i),
    lambda x, i: torch.isposinf(x / 0) | torch.isneginf(x / 0),
    lambda x, i: torch.signbit(x) ^ torch.isnan(x - x),
    lambda x, i: x.clone().mul_(x > 0),
    lambda x, i: i - (i == i.max()) * 7,
]


class Applies(nn.Module):
    """A function of two tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, i: Tensor) -> Any:
        return self.function(x, i)


@pytest.mark.parametrize("function", CASES)
def test_operands_are_of_the_dtype_in_which_pytorch_computes(function: Callable[..., Any]) -> None:
    model = torch.export.export(Applies(function), (X, I)).module(check_guards=False)
    wanted = function(X, I)
    promotion.write(model)
    for node in model.graph.nodes:
        if node.target in (aten.mul.Tensor, aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor, aten.cat.default):
            found = list[fx.Node]()
            fx.node.map_arg(node.args, found.append)
            assert {arg.meta["val"].dtype for arg in found} == {node.meta["val"].dtype}
    ours = fx.Interpreter(model).run(X, I)
    assert (ours.dtype, ours.tolist()) == (wanted.dtype, wanted.tolist())


class Scores(nn.Module):
    """Integers and floats of a mask, of what is compared, and of sums, in one model."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.layer(x)
        mask = y > 0
        return mask * 3, mask + 1, (mask * 4 + (x > 0) * 2).sum(1), mask * 0.5, mask * 2.0 * y, y.argmax(1)


@pytest.mark.parametrize(
    "target",
    full.only(["imxrt700", "imxrt700cm", "cortex-m55", "ethos-u55-128", "ethos-u55-128cm"], "cortex-m55"),
)
def test_programs_have_the_dtypes_and_values_of_the_module(target: str, tmp_path: Any) -> None:
    module, samples = Scores().eval(), [torch.randn(2, 8) for _ in range(8)]
    built = api.build(module, samples[0], target=target, calibration=samples, output=tmp_path / "build")
    for x in samples:
        with torch.no_grad():
            wanted = module(x)
        for ours, theirs in zip(api.run(tmp_path / "build", [x.numpy()]), wanted, strict=True):
            assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
            assert abs(ours - theirs.numpy()).mean() < 0.3
    integers = [quality.equal for quality in built.manifest.quality.outputs if not quality.channels]
    assert len(integers) == 4
    assert min(integers) > 0.8
