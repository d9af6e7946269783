"""Rewrites for a Neutron compute the same."""

from pathlib import Path

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.backends.neutron import decompositions

aten = torch.ops.aten


def test_indices_are_slices_and_copies_are_left_out() -> None:
    module = Call(lambda x: x.unflatten(1, (2, 3)).transpose(1, 2).contiguous().view(1, 6, 5)[:, -2])
    assert rewritten(module, (1, 6, 5), decompositions.write) == [
        aten.reshape.default, aten.transpose.int, aten.reshape.default, aten.slice.Tensor, aten.reshape.default,
    ]  # fmt: skip


@pytest.mark.parametrize("dim", [0, -1])
def test_a_stack_is_a_concatenation(dim: int) -> None:
    module = Call(lambda x: torch.stack([x, -x], dim) * 2)
    wanted = [aten.neg.default, aten.reshape.default, aten.reshape.default, aten.cat.default, aten.mul.Tensor]
    assert rewritten(module, (2, 3), decompositions.write) == wanted


LAYER = [aten.reshape.default, aten.linear.default, aten.reshape.default]


@pytest.mark.parametrize(
    ("dims", "keeps", "wanted"),
    [
        ([2], False, LAYER),
        ([-2], True, [aten.permute.default, *LAYER]),
        ([0, 2], False, [aten.permute.default, *LAYER]),
        ([0], False, [aten.sum.dim_IntList]),
    ],
)
def test_sums_of_many_elements_are_layers_with_a_scale_of_their_own(dims: list[int], keeps: bool, wanted: list[object]):
    module = Call(lambda x: x.sum(dims, keepdim=keeps))
    assert rewritten(module, (4, 40, 20), decompositions.write, rtol=1e-5) == wanted


def test_a_copy_that_is_written_into_stays() -> None:
    module = Call(lambda x: x.transpose(1, 2).contiguous().add_(1.0))
    assert aten.contiguous.default in rewritten(module, (1, 6, 5), decompositions.write)


class Tokens(nn.Module):
    """Layers over the rows and over the columns of a matrix, as mixers have them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.channels = nn.Linear(6, 6), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.channels(x + self.tokens(x.transpose(1, 2)).transpose(1, 2))


def test_a_layer_over_moved_rows_is_one_over_a_matrix() -> None:
    assert rewritten(Tokens(), (1, 6, 4), decompositions.write) == [
        *(aten.transpose.int, aten.reshape.default, aten.linear.default, aten.reshape.default, aten.transpose.int),
        *(aten.add.Tensor, aten.linear.default),
    ]


@pytest.mark.slow
def test_layers_over_rows_and_columns_are_one_partition(tmp_path: Path) -> None:
    x = torch.randn(1, 6, 4, generator=torch.Generator().manual_seed(1))
    manifest = api.build(Tokens(), x, target="imxrt700", calibration=[x], output=tmp_path / "build").manifest
    assert [node.partition for node in manifest.nodes if node.macs] == [0, 0]
    assert len(manifest.partitions) == 1
    assert api.compare(tmp_path / "build", [[x.numpy()]]).passed


class Signals(nn.Module):
    """Operators of 1-D networks: batch norm, pools, a causal pad, a transposed convolution, a mean to one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2))
        self.causal, self.up = nn.Conv1d(8, 8, 3, dilation=2), nn.ConvTranspose1d(8, 8, 2, 2)
        self.pool, self.head = nn.AdaptiveAvgPool1d(1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x + functional.silu(self.causal(functional.pad(x, (4, 0))))
        return self.head(self.pool(functional.avg_pool1d(self.up(x), 2)).flatten(1))


@pytest.mark.slow
@pytest.mark.parametrize("target", full.only(["imxrt700", "imxrt700cm"], "imxrt700cm"))
def test_a_network_of_signals_is_one_partition(target: str, tmp_path: Path) -> None:
    x = torch.randn(1, 4, 32, generator=torch.Generator().manual_seed(1))
    manifest = api.build(Signals(), x, target=target, calibration=[x], output=tmp_path / "build").manifest
    assert len(manifest.partitions) == 1
    assert all("quantize_per_tensor" in op.op for op in manifest.cpu_ops)
    names = [op.op for op in manifest.partitions[0].ops]
    assert names.count("CONV_2D") == 2
    assert "TRANSPOSE_CONV" in names
    assert api.compare(tmp_path / "build", [[x.numpy()]]).passed


class Numbers(nn.Module):
    """Operators on tensors without dimensions, between others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        ratio = y.sum() / y.abs().sum() + y.mean().clamp(min=0.01).tanh()
        return (y - y.min()) / (y.max() - y.min()) + ratio


def test_operators_on_tensors_without_dimensions_run_on_the_cpu(tmp_path: Path) -> None:
    x = torch.randn(4, 8)
    build = api.build(Numbers(), (x,), target="imxrt700cm", calibration=[(x,)], output=tmp_path / "build")
    assert build.manifest.quality.outputs[0].sqnr > 25
