"""Changes in place of tensors and of their views: what reads them afterwards reads what PyTorch gives."""

import inspect
from collections.abc import Callable
from functools import cache

import pytest
import torch
from tests import full
from tests.frontend.build_helpers import Applies, failure
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.builds.options import BuildOptions
from deuteron.errors import UnsupportedError
from deuteron.frontend import upstream_caches
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantize import casts, inplace

aten = torch.ops.aten
IMAGE = (1, 4, 6, 6)
LAST = torch.channels_last


def views_base(y: Tensor) -> Tensor:
    w = y[:, 1:]
    w.relu_()
    return y


def views_both(y: Tensor) -> tuple[Tensor, Tensor]:
    w = y[:, 1:]
    w.relu_()
    return y, w * 2


def part_of_a_channel(y: Tensor) -> Tensor:
    y[:, 0] += 1
    return y


def flat(y: Tensor) -> Tensor:
    y.view(-1).add_(1)
    return y * 2


def first_image(y: Tensor) -> Tensor:
    torch.relu_(y[0])
    return y


def copied(y: Tensor) -> Tensor:
    y[:, :2].copy_(y[:, 2:] * 0.5)
    return y


def chain(y: Tensor) -> Tensor:
    y[:, 1:][:, :, ::2].flatten(1, 2)[:, 2:7].mul_(-2)
    y.view(-1)[5:50] += 1
    return y


def every_second(y: Tensor) -> Tensor:
    y[:, ::2, 1::3] += y[:, 1::2, ::3]
    y[:, :, :, 1::4].neg_()
    y[:, :, 0:5:2, 0:6:5].exp_()
    return y


def permuted(y: Tensor) -> Tensor:
    w = y.permute(0, 2, 3, 1)
    w[..., 1].sigmoid_()
    w.flatten(1, 2)[:, 5:9] *= 2
    return w.relu()


def view_read_later(y: Tensor) -> Tensor:
    w = y.flatten(1)
    y.relu_()
    y += 1
    return w


def base_changed_between(y: Tensor) -> Tensor:
    before = y[:, 1:3] * 1
    a, b = y.chunk(2, 1)
    a.relu_()
    c = y[:, 1:3] - before
    b.clamp_(-0.5, 0.5)
    return torch.cat([a, b, c, y], 1)


def unbound(y: Tensor) -> Tensor:
    a, _, c, d = y.unbind(1)
    a.relu_()
    d.add_(c, alpha=3)
    return y


def filled(y: Tensor) -> Tensor:
    z = torch.zeros(1, 4, 6, 6)
    z[:, :2] = y[:, :2]
    z[:, 2:, 1:-1] = 1.5
    y[..., 0].zero_()
    y[:, 3, 2, 1] = y[0, 0, 0, 1]
    y[:, 0].fill_(y.amax())
    return z + y


def channel_by_channel(y: Tensor) -> Tensor:
    z = torch.empty_like(y)
    for index in range(4):
        z[:, index] = y[:, 3 - index] * (index + 1)
    return z


def interleaved(y: Tensor) -> Tensor:
    z = torch.empty(1, 4, 6, 6)
    z[..., ::2], z[..., 1::2] = -y[..., 1::2], y[..., ::2]
    z[0, 1].fill_diagonal_(0.5)
    return z


def converted(y: Tensor) -> Tensor:
    y[:, 1].gt_(0)
    y[..., 0].copy_(torch.arange(6))
    return y


def out(y: Tensor) -> Tensor:
    z = torch.zeros_like(y)
    torch.add(y, 1, out=z)
    torch.mul(y[:, :1], 2, out=z[:, :1])
    return z


def functions(y: Tensor) -> Tensor:
    functional.leaky_relu(y[:, 1:], 0.1, inplace=True)
    functional.dropout(y[:, :1], 0.5, training=False, inplace=True).mul_(3)
    functional.hardtanh(y[:, :, 2:], inplace=True)
    return y


def dropped_nothing(y: Tensor) -> Tensor:
    h = functional.dropout(y, 0.5, training=False)
    h[:, 0] = 1
    return y + functional.dropout2d(h, training=False) * 0.5


def reshaped_in_place(y: Tensor) -> Tensor:
    y = y + 1
    y.transpose_(1, 2)
    y[:, 1:].relu_()
    return y.unsqueeze_(0).squeeze(0)


def masked(y: Tensor) -> Tensor:
    y[y > 0.5] = 0.25
    y[:, :2].masked_fill_(y[:, :2] < 0, -0.125)
    return y


def constants(y: Tensor) -> Tensor:
    t = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    t[1:3] = 7
    t *= 2
    return y * t


def nothing(y: Tensor) -> Tensor:
    y = y * 1
    y.detach_()
    y[0, 0, 0, 0].copy_(y[0, 0, 0, 0])
    return y


def empty(y: Tensor) -> tuple[Tensor, ...]:
    none = y[:, 4:]
    y[:, :2].relu_()
    none.relu_()
    y.add_(1)
    return y * 2, none + 1, none


ALL = [
    views_base,
    views_both,
    part_of_a_channel,
    flat,
    first_image,
    copied,
    chain,
    every_second,
    permuted,
    view_read_later,
    base_changed_between,
    unbound,
    filled,
    channel_by_channel,
    interleaved,
    converted,
    out,
    functions,
    dropped_nothing,
    reshaped_in_place,
    masked,
    constants,
    nothing,
    empty,
]


def functional_form(function: Callable[..., object], x: Tensor, *, strict: bool = True) -> fx.GraphModule:
    """The exported function without changes in place, which gives to the bit what the function gives."""
    with upstream_caches.exporting():
        model = torch.export.export(Applies(function).eval(), (x.clone(),), strict=strict).module(check_guards=False)
    assert isinstance(model, fx.GraphModule)
    casts.remove_identity_casts(model)
    inplace.write(model)
    assert not [node for node in model.graph.nodes if changes_operand(node)]
    given = x.clone()
    wanted, actual = function(x.clone()), model(given)
    assert torch.equal(given, x)  # an input stays as it is
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0)
    return model


def operators(model: fx.GraphModule) -> list[object]:
    return [node.target for node in model.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    ("is_input", "strict"), full.first([(True, False), (False, True), (True, True), (False, False)], 2)
)
@pytest.mark.parametrize("function", ALL)
def test_readers_get_what_stands_there(function: Callable[[Tensor], object], is_input: bool, strict: bool) -> None:
    torch.manual_seed(1)
    functional_form(function if is_input else lambda x: function(x * 2), torch.randn(IMAGE), strict=strict)


@pytest.mark.parametrize("function", [views_both, copied, permuted, every_second, base_changed_between, unbound])
def test_images_in_another_order_of_memory(function: Callable[[Tensor], object]) -> None:
    torch.manual_seed(1)
    functional_form(lambda x: function(x.contiguous(memory_format=LAST)), torch.randn(IMAGE))
    functional_form(lambda x: function(x.transpose(2, 3)), torch.randn(IMAGE))


def test_what_nothing_else_reads_is_computed_alone() -> None:
    model = functional_form(lambda x: (x * 2)[:, 1].relu_(), torch.randn(IMAGE))
    assert operators(model) == [aten.mul.Tensor, aten.select.int, aten.relu.default]


def test_joints_do_not_nest() -> None:
    model = functional_form(channel_by_channel, torch.randn(IMAGE))
    assert operators(model).count(aten.cat.default) == 1
    assert aten.slice.Tensor not in operators(model)


def test_what_is_put_back_where_it_is_changes_nothing() -> None:
    """`y[:, 0] += 1` is an addition in place, whose result PyTorch copies to where it is."""
    model = functional_form(lambda x: part_of_a_channel(x * 2), torch.randn(IMAGE))
    assert operators(model).count(aten.cat.default) == 1


class Conv(nn.Module):
    """A function behind a layer and, of the input, which it may change, before one."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.before, self.behind = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[object, object]:
        behind = self.function(self.before(x))
        return behind, self.behind(self.function(x))


@cache
def qualities(target: str, function: Callable[[Tensor], Tensor]) -> tuple[float, ...]:
    """How near a program comes to the float model, in dB: of the function behind a layer, and of that before one."""
    torch.manual_seed(1)
    batches = [(torch.randn(IMAGE),) for _ in range(4)]
    build = api.build(Conv(function), batches[0], target=target, calibration=batches)
    assert build.manifest.quality is not None
    return tuple(output.sqnr for output in build.manifest.quality.outputs)


BUILT = [copied, chain, every_second, functions, masked, views_base, part_of_a_channel, flat, first_image, filled]
BUILDS = [(target, function) for target in ("cortex-m55", "imxrt700", "ethos-u55-128") for function in BUILT]
"""The CPU first, for which one function of each kind is built; those for the NPUs have the same graph."""


@pytest.mark.slow
@pytest.mark.parametrize("first", full.first([True, False], 1))
@pytest.mark.parametrize(
    ("target", "function"),
    full.only(BUILDS, BUILDS[3], ("imxrt700", chain)),
)
def test_programs_give_what_the_model_gives(target: str, function: Callable[[Tensor], Tensor], first: bool) -> None:
    behind, before = qualities(target, function)
    assert (before if first else behind) > 20


@pytest.mark.slow
@pytest.mark.parametrize("target", full.only(["imxrt700", "cortex-m55", "ethos-u55-128"], "cortex-m55"))
def test_models_that_are_trained_have_the_form_too(target: str) -> None:
    torch.manual_seed(1)
    batches = [(torch.randn(IMAGE),) for _ in range(4)]

    def train(model: nn.Module):
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        for _ in range(2):
            loss = model(torch.randn(3, *IMAGE[1:])).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield float(loss)

    options = BuildOptions(use_qat=True)
    torch.manual_seed(0)
    layers = (nn.Conv2d(4, 4, 3, padding=1), Applies(views_base), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
    model = nn.Sequential(*layers)
    build = api.build(model, batches[0], target=target, calibration=batches, train=train, options=options)
    assert build.manifest.quality is not None
    assert build.manifest.quality.outputs[0].sqnr > 25


def test_what_is_no_block_is_refused_with_its_line() -> None:
    def diagonal(x: Tensor) -> Tensor:
        y = x * 2
        y[0, 0].diagonal().add_(1)
        return y

    file, line = __file__, inspect.getsourcelines(diagonal)[1] + 2
    assert failure(UnsupportedError, Applies(diagonal), torch.randn(IMAGE)) == (
        f"{file}:{line}: `aten::add_.Tensor` changes elements in place that are no block of rows and columns, at "
        "`y[0, 0].diagonal().add_(1)`\n\n"
        "hint: compute a new tensor from the old one, such as with `torch.where` or `torch.cat`"
    )


def test_views_that_are_no_blocks_are_taken_after_the_change() -> None:
    def expanded(x: Tensor) -> Tensor:
        y = x * 2
        w = y.expand(3, *IMAGE[1:])
        y.relu_()
        return w + 1

    file, line = __file__, inspect.getsourcelines(expanded)[1] + 2
    assert failure(UnsupportedError, Applies(expanded), torch.randn(IMAGE)) == (
        f"{file}:{line}: `aten::expand` is read after an in-place change of the tensor that it is a view of, and is no "
        "block of that, at `w = y.expand(3, *IMAGE[1:])`\n\n"
        "hint: take the view after the change"
    )


def test_a_change_that_reads_what_it_has_written_is_refused_with_its_line() -> None:
    def smears(x: Tensor) -> Tensor:
        y = x * 2
        y[:, :, 1:, :3] = y[:, :, :-1, :3]
        return y

    def shifts(x: Tensor) -> Tensor:
        y = x * 2
        y[:, :, 1:, :3] = y[:, :, :-1, :3].clone()
        return y

    file, line = __file__, inspect.getsourcelines(smears)[1] + 2
    assert failure(UnsupportedError, Applies(smears), torch.randn(IMAGE), target="cortex-m55") == (
        f"{file}:{line}: `aten::copy_` reads elements of a tensor that it has written already, at "
        "`y[:, :, 1:, :3] = y[:, :, :-1, :3]`\n\n"
        "hint: copy what it reads before the change: `x[:, 1:] = x[:, :-1].clone()`"
    )
    assert api.build(Applies(shifts), torch.randn(IMAGE), target="cortex-m55").manifest.quality.outputs[0].sqnr > 25
