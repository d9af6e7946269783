"""Results of custom operators are correctly rounded, except for values close to the middle of two steps."""

import numpy as np
import pytest
import torch
from tests.cortex_m.operator_library import Array
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron.frontend.cortex_m.custom_ops.catalogue import DEFINITIONS, PATTERNS
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Affine, Site

aten = torch.ops.aten

MIDDLE = 2.0**-10
"""Share of a step: values so close to the middle may be rounded to the other side."""


def computed(target: object, x: Tensor, scale: Affine, result: Affine, *args: object) -> Array:
    """Return the operator's result for stored values; tensors among `args` are constants."""
    graph = fx.Graph()
    source = graph.placeholder("x")
    source.meta["val"] = x
    constants = {graph.placeholder(f"c{i}"): arg for i, arg in enumerate(args) if isinstance(arg, Tensor)}
    names = {id(value): node for node, value in constants.items()}
    node = graph.call_function(target, (source, *(names.get(id(arg), arg) for arg in args)))
    node.meta["val"] = target(x.float(), *args)
    last = x.dim() == 4 and not x.is_contiguous()
    call = PATTERNS[torch.int8][target].call(
        Site(node, (scale,), result, constants.__getitem__, (source,), is_channels_last=last)
    )
    assert call is not None
    flat = (x.permute(0, 2, 3, 1) if last else x).numpy().reshape(-1)
    values = DEFINITIONS[call.operator].compute(call.params, flat, *(c.numpy() for c in call.constants))
    shape = node.meta["val"].shape
    if last:
        return values.reshape(x.permute(0, 2, 3, 1).shape).transpose(0, 3, 1, 2)
    return values.reshape(shape)


def check(target: object, x: Tensor, exact, *args: object, scale: Affine = Affine(0.05, 7)) -> None:
    """Compare with a function in float64."""
    wanted = exact((x.double() - scale.zero_point) * scale.scale)
    least, most = min(0.0, float(wanted.min())), max(0.0, float(wanted.max()))
    step = float(np.float32((most - least or 1.0) / 240))
    result = Affine(step, -120 - round(least / step))
    ours = computed(target, x, scale, result, *args).astype(np.int64)
    steps = wanted.numpy() / result.scale + result.zero_point
    assert np.abs(ours - np.clip(steps, -128, 127)).max() <= 0.5 + MIDDLE


def stored(*shape: int) -> Tensor:
    """Stored values."""
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("scale", [Affine(0.05, 7), Affine(1e-3, -128), Affine(2.0, 127)], ids=str)
@pytest.mark.parametrize("depth", [1, 2, 3, 64, 1000])
def test_norms_of_rows(depth: int, scale: Affine) -> None:
    x, weight, bias = stored(6, depth), torch.linspace(-1, 2, depth), torch.linspace(0.5, -3, depth)
    x[0] = 5  # a group without any variance
    x[1] //= 64
    doubles = weight.double(), bias.double()
    check(
        aten.layer_norm.default, x, lambda y: functional.layer_norm(y, (depth,), *doubles, 1e-5), [depth], weight, bias,
        1e-5, scale=scale,
    )  # fmt: skip
    check(
        aten.rms_norm.default, x, lambda y: functional.rms_norm(y, (depth,), doubles[0], 1e-6), [depth], weight, 1e-6,
        scale=scale,
    )  # fmt: skip


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_norms_of_images(groups: int, order: torch.memory_format) -> None:
    x = stored(2, 8, 5, 6).contiguous(memory_format=order)
    norm = nn.GroupNorm(groups, 8).double().requires_grad_(False)
    norm.weight += torch.linspace(-1, 1, 8)
    norm.bias -= torch.linspace(-2, 1, 8)
    check(aten.group_norm.default, x, norm, groups, norm.weight.float(), norm.bias.float(), 1e-5)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("scale", [Affine(0.05, 7), Affine(1e-4, 0), Affine(1.5, -3)], ids=str)
def test_logarithms_and_totals_over_dimensions(dim: int, scale: Affine) -> None:
    x = stored(4, 7, 9)
    check(aten.log_softmax.int, x, lambda y: y.log_softmax(dim), dim, scale=scale)
    check(aten.cumsum.default, x, lambda y: y.cumsum(dim), dim, scale=scale)
    check(aten.mean.dim, x, lambda y: y.mean(dim), [dim], scale=scale)


def test_a_logarithm_over_many_elements() -> None:
    check(aten.log_softmax.int, torch.zeros((1, 65536), dtype=torch.int8), lambda y: y.log_softmax(1), 1)


def test_a_norm_whose_epsilon_leaves_no_digits_has_no_form() -> None:
    x = stored(2, 4)
    graph = fx.Graph()
    node = graph.call_function(aten.layer_norm.default, (source := graph.placeholder("x"), [4], None, None, 1.0))
    source.meta["val"], node.meta["val"] = x, x.float()
    site = Site(node, (Affine(1e-10, 0),), Affine(0.1, 0), lambda _: x, (source,))
    assert PATTERNS[torch.int8][aten.layer_norm.default].call(site) is None
