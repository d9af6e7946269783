"""Images and signals without a batch get one, and give what they gave."""

from functools import partial

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import left
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.frontend.quantize import batches

aten = torch.ops.aten
IMAGE, SIGNAL = (2, 8, 8), (2, 8)

LAYERS = [
    (nn.Conv1d(2, 3, 3), SIGNAL),
    (nn.Conv1d(2, 3, 3, padding="same"), SIGNAL),
    (nn.ConvTranspose1d(2, 3, 3), SIGNAL),
    (nn.AvgPool1d(2), SIGNAL),
    (nn.MaxPool1d(2), SIGNAL),
    (nn.AdaptiveAvgPool1d(2), SIGNAL),
    (nn.AdaptiveMaxPool1d(2), SIGNAL),
    (nn.Conv2d(2, 4, 3, groups=2, stride=2), IMAGE),
    (nn.Conv2d(2, 3, 3, padding="same"), IMAGE),
    (nn.ConvTranspose2d(2, 3, 3, stride=2), IMAGE),
    (nn.AvgPool2d(2), IMAGE),
    (nn.MaxPool2d(3, padding=1), IMAGE),
    (nn.AdaptiveAvgPool2d(2), IMAGE),
    (nn.AdaptiveMaxPool2d(4), IMAGE),
]


operators = partial(left, batches.write)


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=str)
def test_each_layer_gets_a_batch(layer: nn.Module, shape: tuple[int, ...]) -> None:
    without = operators(lambda x, layer: layer(x), shape, layer)
    assert without == [aten.reshape.default, *operators(lambda x, layer: layer(x), (1, *shape), layer), without[-1]]
    assert without[-1] is aten.reshape.default


def test_what_lies_between_layers_has_the_batch() -> None:
    """Activations, pads, sums, concatenations and the model's own views: one view before all, and one behind."""

    def chain(x: Tensor, first: nn.Module, second: nn.Module) -> Tensor:
        y = functional.relu(first(x))
        y = y + functional.pad(second(y), (1, 1, 1, 1)) * 0.5
        y = torch.cat([torch.cat([y, y]), torch.cat([y, y], -3)], 2)
        return functional.max_pool2d(functional.avg_pool2d(y[None], 2).squeeze(0), 2)

    found = operators(chain, IMAGE, nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3))
    assert found.count(aten.reshape.default) == 2
    assert found[0] is found[-1] is aten.reshape.default


def test_pads_of_other_dimensions_stay() -> None:
    """PyTorch reflects no row alone of an image with a batch."""

    def padded(x: Tensor, conv: nn.Module) -> Tensor:
        return conv(functional.pad(conv(functional.pad(x, (1, 1), mode="reflect")), (0, 0, 0, 0, 1, 0)))

    assert operators(padded, IMAGE, nn.Conv2d(2, 1, 3)).count(aten.reshape.default) == 4


@pytest.mark.parametrize("own", [False, True])
def test_a_view_that_changes_in_place_changes_what_it_is_of(own: bool) -> None:
    """An image of the model's own view, or of its input's."""

    def changed(x: Tensor, conv: nn.Module) -> Tensor:
        y = conv(x) if own else x + 1
        functional.relu_(y[None].squeeze(0))
        return conv(y) + y

    assert aten.relu_.default in operators(changed, IMAGE, nn.Conv2d(2, 2, 3, padding=1))


def test_a_model_with_batches_stays_as_it_is() -> None:
    found = operators(lambda x, conv: functional.relu(conv(x)[0]), (1, *IMAGE), nn.Conv2d(2, 3, 3))
    assert aten.reshape.default not in found


class CellAndImage(nn.Module):
    """A cell's step, and an image without a batch that is convolved and pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 6)
        self.image = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AvgPool2d(2))

    def forward(self, x: Tensor, state: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, state), self.image(image)


FLOATS = {"quantized_decomposed::quantize_per_tensor", "quantized_decomposed::dequantize_per_tensor"}


def on_cpu(target: str) -> set[str]:
    """Return the CPU's operators of the network built for a target."""
    torch.manual_seed(1)
    inputs = torch.linspace(-1, 1, 4)[None], torch.linspace(-1, 1, 6)[None], torch.linspace(-1, 1, 32).view(2, 4, 4)
    manifest = api.build(CellAndImage(), inputs, target=target, calibration=[inputs]).manifest
    assert sum(node.macs for node in manifest.nodes) == 3 * 6 * (4 + 6) + 6 * 2 * 9 * 16
    return {op.op for op in manifest.cpu_ops}


@pytest.mark.parametrize("target", full.first(["ethos-u55-128", "imxrt700"], 1))
def test_a_gru_cell_and_an_image_without_a_batch_run_on_the_npu(target: str) -> None:
    assert on_cpu(target) == FLOATS


def test_they_run_on_a_cpu() -> None:
    names = on_cpu("cortex-m55")
    assert {f"cortex_m::quantized_{name}" for name in ("conv2d", "max_pool2d", "avg_pool2d", "linear")} <= names
    moves = {"aten::view_copy", "aten::slice_copy.Tensor", "dim_order_ops::_clone_dim_order"}
    assert all(name.startswith("cortex_m::") for name in names - moves), names
