"""Options that reduce the loss of int8: channels of like ranges, corrected biases, and 16 bits where 8 lose most."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from tests import full
from tests.frontend.build_helpers import failure
from tests.frontend.export_sessions import edge_of
from torch import Tensor, fx, nn
from torch.nn import functional

from deuteron import api
from deuteron.arch import targets
from deuteron.errors import OptionError, UnsupportedError
from deuteron.frontend import mixed_precision
from deuteron.frontend.inputs import check_module
from deuteron.frontend.pipeline import Flow
from deuteron.frontend.quality.measure import measure
from deuteron.frontend.quantize import few_values
from deuteron.frontend.quantize.equalise import equalise, links
from deuteron.frontend.recipes import Recipe

Function = Callable[[nn.Module, Tensor], Tensor]


class Two(nn.Module):
    """Two convolutions with anything between them."""

    def __init__(self, between: Function, groups: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(2, 8, 3), nn.Conv2d(8, 8, 3, groups=groups)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.between(self, self.first(x)))


def exported(module: nn.Module, *inputs: Tensor) -> fx.GraphModule:
    """A float model as quantization gets it."""
    return cast(fx.GraphModule, torch.export.export(module.eval(), inputs, strict=False).module())


IMAGE = torch.randn(1, 2, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("image", [IMAGE, IMAGE[0]], ids=["batch", "no batch"])
@pytest.mark.parametrize("groups", [1, 8])
def test_channels_get_like_ranges_and_the_float_model_the_same_bits(groups: int, image: Tensor) -> None:
    module = Two(lambda _, x: functional.max_pool2d(torch.relu(x), 2), groups)
    with torch.no_grad():
        factors = 10 ** torch.linspace(-1, 1, 8)
        module.first.weight *= factors.reshape(-1, 1, 1, 1)
        cast(Tensor, module.first.bias).mul_(factors)
    before = copy.deepcopy(module.state_dict())
    model = exported(module, image)
    wanted = model(image)
    assert equalise(model, [(image,)]) == 1
    assert torch.equal(model(image), wanted)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    ranges = functional.conv2d(image, model.first.weight, model.first.bias).amax((-2, -1)).reshape(8)
    assert ranges.max() / ranges.min() < 12 < 100 / 3
    assert equalise(model, [(image,)]) == 0  # once is enough


def test_a_channel_that_is_next_to_nothing_takes_no_bits_from_the_others() -> None:
    module = Two(lambda _, x: torch.relu(x))
    with torch.no_grad():
        module.first.weight[0] *= 1e-36
        cast(Tensor, module.first.bias)[0] = 1e-38
    model = exported(module, IMAGE)
    wanted = model(IMAGE)
    assert equalise(model, [(IMAGE,)]) == 1
    assert torch.equal(model(IMAGE), wanted)


def test_channels_of_like_ranges_stay_as_they_are() -> None:
    model = exported(Two(lambda _, x: torch.relu(x)), IMAGE)
    with torch.no_grad():
        model.first.weight /= model.first.weight.abs().amax((1, 2, 3), keepdim=True)
        model.second.weight /= model.second.weight.abs().amax((0, 2, 3), keepdim=True)
    assert equalise(model, [(IMAGE,)]) == 0


@pytest.mark.parametrize(
    "between",
    [
        lambda _, x: functional.relu6(x),
        lambda _, x: torch.sigmoid(x),
        lambda _, x: x + x.mean(1, keepdim=True),
        lambda module, x: module.second(functional.pad(x, (1, 1, 1, 1))),
        lambda _, x: torch.relu(x + 1),
    ],
)
def test_there_is_no_link_where_factors_are_lost_or_weights_are_shared(between: Function) -> None:
    assert not links(exported(Two(between), IMAGE))


def test_there_is_no_link_into_groups_of_several_channels() -> None:
    assert not links(exported(Two(lambda _, x: x, groups=2), IMAGE))


@pytest.mark.parametrize(
    ("target", "shape"), full.first([("cortex-m33", (1, 2, 16, 16)), ("imxrt700", (2, 16, 16))], 1)
)
def test_biases_take_back_what_rounding_adds_to_means(target: str, shape: tuple[int, ...]) -> None:
    module = Two(lambda _, x: torch.relu(x))
    module.second.bias = None
    batches = [(1 + torch.rand(shape, generator=torch.Generator().manual_seed(i)) / 8,) for i in range(4)]
    flows = [
        Flow(targets.load(target), api.BuildOptions(correct_biases=corrects), lambda: batches, batches[0])
        for corrects in (False, True)
    ]
    for flow in flows:
        edge_of(flow, check_module(module), batches[0])
    assert torch.equal(*(flow.float_model(*batches[0])[0] for flow in flows))
    before, after = (measure(flow.float_model, flow.module, batches).outputs[0].all.total() for flow in flows)
    assert after > before + 1


def test_what_has_no_kernel_is_refused_as_without_these_options() -> None:
    options = api.BuildOptions(equalise=True, correct_biases=True)
    module = Two(lambda _, x: torch.relu(x).flatten().sort().values.reshape(x.shape))
    said = [
        failure(UnsupportedError, module, IMAGE, target="cortex-m33", calibration=[IMAGE], options=chosen)
        for chosen in (api.BuildOptions(), options)
    ]
    assert "`aten::sort` has no int8 kernel on the CPU" in said[0] == said[1]


class Small(nn.Module):
    """A layer whose result an other takes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


def rows(count: int) -> list[Tensor]:
    """Seeded inputs of it."""
    return list(torch.randn(count, 1, 8, generator=torch.Generator().manual_seed(2)))


@pytest.mark.parametrize("target", full.only(["cortex-m33", "imxrt700cm"], "imxrt700cm"))
def test_what_loses_most_gets_16_bits_and_no_more_than_that(target: str) -> None:
    options = api.BuildOptions(min_sqnr=39)
    built = api.build(Small(), rows(1)[0], target=target, calibration=rows(16), options=options).manifest
    assert built.quality.outputs[0].sqnr >= 39
    wide = [op.op for op in built.cpu_ops if op.op.endswith("_s16")]
    assert "deuteron::convolution_s16" in wide


@pytest.mark.full
def test_values_that_have_other_names_when_they_are_annotated_get_16_bits() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv1d(2, 8, 3), nn.Tanh(), nn.Conv1d(8, 4, 3))  # written as 2-D, its nodes are renamed
    batches = list(torch.randn(16, 1, 2, 16))
    with_bits = api.build(
        module, batches[0], target="cortex-m33", calibration=batches, options=api.BuildOptions(min_sqnr=39)
    )
    assert with_bits.manifest.quality.outputs[0].sqnr >= 39


def test_what_no_16_bits_reach_is_refused() -> None:
    options = api.BuildOptions(min_sqnr=90)
    assert failure(
        UnsupportedError, Small(), rows(1)[0], target="cortex-m33", calibration=rows(16), options=options
    ) == (
        "90 dB of signal to quantization noise are out of reach: int8 has 35.9 dB, and activations of 16 bits wherever "
        "they can be 43.4 dB, as weights keep 8\n\nhint: ask for at most `--min-sqnr 43`, or lose less elsewhere: "
        "with `--equalise --correct-biases`, or by training with `--use-qat`"
    )


def test_where_16_bits_throughout_reach_it_that_is_the_hint() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.Hardswish(), nn.Linear(16, 4))
    options = api.BuildOptions(min_sqnr=41)
    said = failure(UnsupportedError, module, rows(1)[0], target="cortex-m33", calibration=rows(4), options=options)
    assert said == (
        "41 dB of signal to quantization noise are out of reach: int8 has 35.0 dB, and activations of 16 bits wherever "
        "they can be 36.9 dB, with the other operators in 8 bits\n\nhint: build with `--activations int16` instead, "
        "which has 44.9 dB, "
        "or ask for at most `--min-sqnr 36`, or lose less elsewhere: with `--equalise --correct-biases`, or by "
        "training with `--use-qat`"
    )


def test_a_recipe_has_to_give_what_is_measured_on() -> None:
    from executorch.export import ExportRecipe

    with pytest.raises(OptionError) as caught:
        ExportRecipe.get_recipe(Recipe.CORTEX_M_PTQ, options=api.BuildOptions(correct_biases=True))
    assert str(caught.value) == (
        "the option `correct_biases` measures on calibration batches, and the recipe `cortex_m_int8_ptq` has none\n\n"
        "hint: give `calibration_inputs_fn`"
    )


def test_readers_behind_diamonds_are_found_at_once() -> None:
    graph = fx.Graph()
    first = node = graph.placeholder("x")
    for _ in range(64):
        node = graph.call_function(torch.maximum, (node.graph.call_function(torch.clone, (node,)), node))
    reader = graph.call_function(torch.relu, (node,))
    assert mixed_precision._readers(first, {reader.name}) == {reader}


def test_no_less_is_hinted_at_than_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "_measured", lambda *_: (0.5, ()))
    search = mixed_precision.Search(2, list)
    quantizer = SimpleNamespace(transform_for_annotation=lambda model: model)
    with pytest.raises(UnsupportedError) as caught:
        search.run(fx.symbolic_trace(nn.ReLU()), quantizer)
    assert caught.value.hint == (
        "lose less elsewhere: with `--equalise --correct-biases`, or by training with `--use-qat`"
    )


def test_a_search_widens_ranges_as_of_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    monkeypatch.setattr(few_values, "widen", lambda _, batches: counts.append(batches))
    samples = [(x,) for x in torch.randn(40, 1, 8)]
    options = api.BuildOptions(min_sqnr=1)
    api.build(nn.Linear(8, 5), samples[0], target="cortex-m55", calibration=samples, options=options)
    assert counts == [40, 40]  # of the search and of the build
