"""Results with several readers, which are outputs too: what ExecuTorch's NXP backend renames must keep its name."""

import operator
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests import full
from tests.frontend.build_helpers import Applies
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds.options import BuildOptions, Converter
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.backends.neutron.multi_output_fixes import merge_first_result
from deuteron.views.compare.pytorch import compare

pytestmark = pytest.mark.slow

CALIBRATION = [torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]


class Layers(nn.Module):
    """A stem, and layers that take what it gives."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.first, self.second, self.third = (nn.Conv2d(4, 4, 1) for _ in range(3))


class Pools(Layers):
    """Max pools that are read by an addition and layers, as ResNets begin, joined, as detectors end, and outputs."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = functional.max_pool2d(torch.relu(self.stem(x)), 3, 2, 1)
        y = functional.max_pool2d(x, 3, 1, 1)
        z = functional.max_pool2d(y, 3, 1, 1)
        residual, joined = self.first(x) + x, torch.cat([x, y, z], 1)
        return residual, self.second(y), self.third(y), joined, y, z, z


class Others(Layers):
    """Further operators that the backend removes or renames: copies, views, permutations, pools of rank 3, inputs."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.stem(x)
        copied, viewed, turned = y.clone(), y.reshape(1, 4, 4, 16), y.permute(0, 1, 3, 2)
        pooled = functional.max_pool1d(y.flatten(2), 2).reshape(1, 4, 8, 4)
        several = [v for z in (copied, viewed, turned, pooled) for v in (self.first(z), self.second(z), z)]
        return (*several, functional.avg_pool2d(x, 2), functional.max_pool2d(x, 2), y)


@pytest.mark.parametrize(
    ("model", "target"), full.first([(Pools, "imxrt700cm"), (Others, "imxrt700"), (Pools, "imxrt700")], 1)
)
def test_each_reader_gets_the_value(model: type[Layers], target: str, tmp_path: Path) -> None:
    build = api.build(model().eval(), CALIBRATION[0], target=target, calibration=CALIBRATION, output=tmp_path / "out")
    assert compare(tmp_path / "out", [(x.numpy(),) for x in CALIBRATION]).failures() == ()
    on_cpu = {node.op for node in build.manifest.nodes if node.partition is None}
    assert not any("pool" in op or "convolution" in op for op in on_cpu)


@pytest.mark.parametrize("other", [lambda x: x, lambda x: (x > 0).sum(-1)])
def test_what_is_copied_may_be_read_elsewhere(other: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    samples = [torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    layer = nn.Linear(8, 8)
    net = Applies(lambda x: (layer(x.clone()), other(x)))
    api.build(net.eval(), samples[0], target="imxrt700", calibration=samples, output=tmp_path / "out")
    assert compare(tmp_path / "out", [(x.numpy(),) for x in samples]).failures() == ()


def test_a_pool_gives_its_result_itself() -> None:
    program = torch.export.export(Pools().eval(), (CALIBRATION[0],)).run_decompositions()
    merge_first_result(program)
    first, *_ = (node for node in program.graph.nodes if "max_pool2d" in str(node.target))
    assert first.meta["val"].shape == (1, 4, 4, 4)
    assert {user.name for user in first.users} == {"max_pool2d_with_indices_1", "convolution_1", "add", "cat"}
    assert not any(node.target is operator.getitem for node in program.graph.nodes)


@pytest.mark.parametrize(
    ("sizes", "function"),
    [
        (1, lambda a, b: b),
        (1, lambda a, b: b - a),
        ([1, 1], lambda a, b: b * b - b),
        ([2], lambda a: a + 1),
    ],
    ids=["one part", "in another order", "twice", "of one"],
)
def test_each_reader_of_a_split_gets_its_part(sizes: int | list[int], function: Callable[..., Tensor]) -> None:
    (x, *_) = CALIBRATION
    splits = Applies(lambda x: function(*torch.split(x, sizes, 1)))
    model = torch.export.export(splits, (x,), strict=False).module(check_guards=False)
    with upstream.converter(BuildOptions()):
        sliced = upstream.quantizer("imxrt700", Converter.OPEN).transform_for_annotation(model)
    assert not any("split" in str(node.target) for node in sliced.graph.nodes)
    torch.testing.assert_close(sliced(x), splits(x))
