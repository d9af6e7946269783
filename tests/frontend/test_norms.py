"""Batch norms that no layer absorbs: as layers of their own they compute the same, and builds take them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, nn

from deuteron import api
from deuteron.board import image
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.quantize import norms
from deuteron.views.compare.pytorch import compare

aten = torch.ops.aten
IMAGE = (2, 4, 7, 9)


def norm(channels: int, kind: type[nn.BatchNorm1d | nn.BatchNorm2d] = nn.BatchNorm2d, **options: bool) -> nn.Module:
    """One that has seen values of all sizes."""
    torch.manual_seed(2)
    layer = kind(channels, **options)
    if options.get("track_running_stats", True):
        layer.running_mean.normal_()
        layer.running_var.uniform_(0.01, 3)
    if layer.affine:
        nn.init.normal_(layer.weight)
        nn.init.normal_(layer.bias)
    return layer


@pytest.mark.parametrize("options", [{}, {"affine": False}])
@pytest.mark.parametrize(
    ("shape", "kind"), [(IMAGE, nn.BatchNorm2d), ((2, 4, 5), nn.BatchNorm1d), ((2, 4), nn.BatchNorm1d)]
)
def test_norms_without_a_layer_become_one(
    shape: tuple[int, ...], kind: type[nn.BatchNorm1d | nn.BatchNorm2d], options: dict[str, bool]
) -> None:
    operators = rewritten(Call(lambda x, one: one(x), norm(4, kind, **options)), shape, norms.write)
    views = [aten.reshape.default] if len(shape) < 4 else []
    assert operators == [*views, aten.conv2d.default, *views]


def conv() -> nn.Module:
    torch.manual_seed(0)
    return nn.Conv2d(4, 4, 1)


def tied(layer: nn.Module) -> nn.Module:
    """Another layer with the bias of one."""
    other = nn.Conv2d(4, 4, 1)
    other.bias = layer.bias
    return other


BIASED = conv()
FOLDED = [
    Call(lambda x, a, n: n(a(x)), conv(), norm(4)),
    Call(lambda x, a, n: n(a(x)) + n(a(x + 1)), conv(), norm(4)),  # weights that are shared, and the norm with them
]
KEPT = [
    Call(lambda x, n: n(x + 1), norm(4)),
    Call(lambda x, a, n: n(a(x)) + a(x), conv(), norm(4)),
    Call(lambda x, a, n: n(y := a(x)) + y, conv(), norm(4)),  # as in residual networks whose norms stand before layers
    Call(lambda x, a, n, m: n(y := a(x)) + m(y), conv(), norm(4), norm(4, affine=False)),
    Call(lambda x, a, n, m: n(a(x)) + m(a(x)), conv(), norm(4), norm(4, affine=False)),
    Call(lambda x, a, b, n, m: n(a(x)) + m(b(x)), BIASED, tied(BIASED), norm(4), norm(4, affine=False)),
    Call(lambda x, a, b, n: n(a(x)) + n(b(x)), BIASED, tied(BIASED), norm(4)),
    Call(lambda x, a, b, n: n(a(x)) + b(x), BIASED, tied(BIASED), norm(4)),
    Call(lambda x, a, n: n(a(x)) + a.bias.reshape(1, 4, 1, 1), BIASED, norm(4)),
]


@pytest.mark.parametrize("module", FOLDED)
def test_norms_are_folded_into_layers_that_have_no_other_use(module: nn.Module) -> None:
    operators = rewritten(module, IMAGE, norms.write, upstream.fold_batch_norms)
    assert operators.count(aten.conv2d.default) == len([node for node in operators if node is not aten.add.Tensor])


@pytest.mark.parametrize("module", KEPT)
def test_norms_behind_layers_with_other_readers_are_not_folded(module: nn.Module) -> None:
    before = rewritten(module, IMAGE)
    operators = rewritten(module, IMAGE, norms.write, upstream.fold_batch_norms)
    assert operators.count(aten.conv2d.default) == before.count(aten.conv2d.default) + before.count(
        aten.batch_norm.default
    )
    assert aten.batch_norm.default not in operators


@pytest.mark.parametrize(
    ("layer", "shape", "kind"),
    [
        (nn.ConvTranspose2d(4, 4, 3, groups=2), IMAGE, nn.BatchNorm2d),
        (nn.ConvTranspose2d(4, 4, 3, groups=4, bias=False), IMAGE, nn.BatchNorm2d),
        (nn.ConvTranspose1d(4, 4, 3, groups=2), (2, 4, 5), nn.BatchNorm1d),
    ],
    ids=str,
)
def test_norms_behind_transposed_convolutions_in_groups_are_layers(
    layer: nn.Module, shape: tuple[int, ...], kind: type[nn.BatchNorm1d | nn.BatchNorm2d]
) -> None:
    """PyTorch's folding takes their weights for those of one group."""
    operators = rewritten(
        Call(lambda x, a, n: n(a(x)), layer, norm(4, kind)), shape, norms.write, upstream.fold_batch_norms
    )
    assert aten.conv2d.default in operators
    assert aten.batch_norm.default not in operators


def test_norms_behind_transposed_convolutions_are_folded() -> None:
    module = Call(lambda x, a, n: n(a(x)), nn.ConvTranspose2d(4, 4, 3), norm(4))
    assert rewritten(module, IMAGE, norms.write, upstream.fold_batch_norms) == [aten.conv_transpose2d.input]


def test_norms_that_measure_stay() -> None:
    operators = rewritten(Call(lambda x, n: n(x), norm(4, track_running_stats=False)), IMAGE, norms.write)
    assert aten.batch_norm.default in operators


def test_what_was_frozen_stays_so() -> None:
    layer = norm(4)
    layer.bias.requires_grad_(False)
    module = Call(lambda x, n: n(x), layer).eval()
    model = torch.export.export(module, (torch.ones(IMAGE),)).module(check_guards=False)
    norms.write(model)
    wanted = {name: value.requires_grad for name, value in model.named_parameters() if name.startswith("deuteron_")}
    assert list(wanted.values()) == [True, False]


class Normed(nn.Module):
    """Norms as a first operator, behind a convolution with another reader, a sum and a concatenation, and of a row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third, self.fourth = norm(3), norm(4), norm(4), norm(8)
        self.inner, self.outer = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.row, self.linear = norm(8, nn.BatchNorm1d), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(self.first(x))
        y = torch.relu(self.third(self.outer(torch.relu(self.second(x))) + x))
        y = torch.relu(self.fourth(torch.cat([x, y], 1)))
        return self.linear(self.row(y.mean((2, 3))))


def train(model: nn.Module) -> Iterator[float]:
    """A step on several samples."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
    loss = model(torch.randn(4, 3, 8, 8)).square().mean()
    loss.backward()
    optimiser.step()
    yield loss.item()


OTHERS = {
    "aten::cat",
    "aten::view_copy",
    "dim_order_ops::_clone_dim_order",
    "quantized_decomposed::quantize_per_tensor",
    "quantized_decomposed::dequantize_per_tensor",
}
"""Operators of a program other than the Cortex-M's: they move values, or convert at the inputs and outputs."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "qat"),
    full.first(
        [
            ("imxrt700cm", False),
            ("cortex-m33", True),
            ("imxrt700", False),
            ("cortex-m33", False),
            ("imxrt700cm", True),
        ],
        1,
    ),
)
def test_builds_have_norms_in_int8(target: str, qat: bool, tmp_path: Path) -> None:
    module, built = Normed().eval(), tmp_path / "built"
    torch.manual_seed(1)
    batches = [torch.randn(1, 3, 8, 8) for _ in range(8)]
    manifest = api.build(
        module,
        batches[0],
        target=target,
        calibration=batches,
        train=train if qat else None,
        output=built,
        options=api.BuildOptions(use_qat=qat),
    ).manifest
    assert not [node.op for node in manifest.nodes if "norm" in node.op]
    assert image.bundle_of(built).operators  # the firmware has them all
    assert {op.op.partition(".")[0] for op in manifest.cpu_ops if not op.op.startswith("cortex_m::")} <= OTHERS
    assert compare(built, [(x.numpy(),) for x in batches]).failures() == ()
    if not qat:
        quantized = torch.export.load(built / "reference.pt2").module()
        wanted = torch.cat([module(x) for x in batches])
        noise = torch.cat([quantized(x) for x in batches]) - wanted
        assert 10 * torch.log10(wanted.square().sum() / noise.square().sum()) > 25
