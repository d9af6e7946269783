"""Weights of four bits: how they are rounded, which layers get them, and what a program of them computes."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.frontend.build_helpers import failure
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.memory import MemoryOptions
from deuteron.board import arena, image
from deuteron.board.host_executor import HostExecutor
from deuteron.board.packed_weights import layers as packed_layers
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, OptionError, UnsupportedError
from deuteron.frontend import heterogeneous
from deuteron.frontend.backends import select
from deuteron.frontend.build import PACKS_NOTHING
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.lowering_record import Recording
from deuteron.frontend.quality.float_model import without_observers
from deuteron.frontend.quantize import learned_rounding
from deuteron.frontend.quantize.calibration import calibrate
from deuteron.frontend.quantize.decompositions import value_of
from deuteron.frontend.quantize.weight_bits import Chooser, Layer, Limits, layers_of

TARGET = "cortex-m33"


class Small(nn.Module):
    """2x8x8 to 4 values: a convolution, a depthwise one, one of two groups, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, groups=6)
        self.third, self.last = nn.Conv2d(6, 10, 1, groups=2), nn.Linear(10, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.third(torch.relu(self.second(torch.relu(self.first(x))))))
        return self.last(x.mean((2, 3)))


GENERATOR = torch.Generator().manual_seed(1)
BATCHES = [(torch.randn(1, 2, 8, 8, generator=GENERATOR),) for _ in range(6)]
BYTES = {"conv2d": (108, 54), "conv2d_1": (54, 30), "conv2d_2": (30, 18), "linear": (40, 20)}
"""Bytes of the weights of each layer with eight and with four bits."""


def calibrated(module: nn.Module, batches: list[tuple[Tensor, ...]]) -> fx.GraphModule:
    """A calibrated model."""
    from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

    arch = targets.load(TARGET)
    backend = select.of(arch, BuildOptions())
    quantizer = heterogeneous.quantizer(
        arch, backend, heterogeneous.RejectedNodes(), Recording[Any](), lambda: batches[0]
    )
    exported = torch.export.export(module.eval(), batches[0], strict=False).module(check_guards=False)
    with backend.imported(), quiet():
        model = prepare_pt2e(exported, quantizer)
        calibrate(model, batches)
    return model


@pytest.fixture(scope="module")
def prepared() -> fx.GraphModule:
    """A calibrated model."""
    return calibrated(Small(), BATCHES)


def chosen(prepared: fx.GraphModule, limits: Limits) -> tuple[Layer, ...]:
    """The layers that get four bits."""
    model = copy.deepcopy(prepared)
    return Chooser(model, without_observers(model), layers_of(model, lambda _: False), BATCHES).run(limits)


def test_layers_that_the_cpu_runs_may_have_four_bits(prepared: fx.GraphModule) -> None:
    assert {layer.name: layer.bytes for layer in layers_of(prepared, lambda _: False)} == BYTES
    named = [layer.name for layer in layers_of(prepared, lambda node: node.name == "conv2d_1")]
    assert named == ["conv2d", "conv2d_2", "linear"]


@pytest.mark.full
def test_a_budget_gets_the_best_quality_that_fits(prepared: fx.GraphModule) -> None:
    whole, least = (sum(each[i] for each in BYTES.values()) for i in (0, 1))
    assert chosen(prepared, Limits(weight_bytes=whole)) == ()
    assert len(chosen(prepared, Limits(weight_bytes=least))) == len(BYTES)
    for budget in (whole - 1, (whole + least) // 2):
        taken = {layer.name for layer in chosen(prepared, Limits(weight_bytes=budget))}
        assert sum(nbytes[name in taken] for name, nbytes in BYTES.items()) <= budget
    with pytest.raises(CapacityError, match=rf"take {least} bytes with four bits each, the flash budget leaves 121"):
        chosen(prepared, Limits(weight_bytes=least - 1))


def test_a_limit_of_quality_is_kept(prepared: fx.GraphModule) -> None:
    def noise(model: fx.GraphModule) -> float:
        floats = without_observers(prepared)
        return -sum(float((model(*batch)[0] - floats(*batch)[0]).square().sum()) for batch in BATCHES)

    counts = [len(chosen(prepared, Limits(min_sqnr=least))) for least in (1.0, 25.0, 30.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == len(BYTES)
    assert len(chosen(prepared, Limits(score=noise, max_loss=1e6))) == len(BYTES)
    for limits in (Limits(min_sqnr=100.0), Limits(score=noise, max_loss=0.0)):
        with pytest.raises(UnsupportedError, match="weights of eight bits in all layers leave a quality of"):
            chosen(prepared, limits)
    with pytest.raises(UnsupportedError, match="leave a quality of"):
        chosen(prepared, Limits(min_sqnr=100.0, weight_bytes=130))


def moments_of(x: Tensor) -> Tensor:
    return (x.T @ x)[None]


def test_rounding_lowers_the_error_of_results() -> None:
    """Inputs that depend on each other let errors of weights cancel."""
    generator = torch.Generator().manual_seed(2)
    mixing = torch.randn(4, 24, generator=generator, dtype=torch.float64)
    x = torch.randn(500, 4, generator=generator, dtype=torch.float64) @ mixing
    x += 0.1 * torch.randn(500, 24, generator=generator, dtype=torch.float64)
    rows = torch.randn(1, 8, 24, generator=generator, dtype=torch.float64)
    moments = moments_of(x)
    scale = learned_rounding.limits(rows, moments, 7, per_channel=True) / 7
    nearest = (rows / scale).round().clamp(-7, 7)
    whole = learned_rounding.rounded(rows, scale, moments, 7)
    assert torch.equal(whole, whole.round())
    assert float(whole.abs().max()) <= 7
    found, plain = (learned_rounding.losses(each, rows, scale, moments) for each in (whole, nearest))
    assert found < 0.3 * plain
    results = float(((x @ (whole * scale - rows)[0].T) ** 2).sum())
    assert found == pytest.approx(results)
    assert torch.equal(whole, learned_rounding.rounded(rows, scale, moments, 7))


def test_a_layer_without_inputs_keeps_its_nearest_weights() -> None:
    rows, scale = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(1, 2, 6), torch.full((1, 2, 1), 1 / 7)
    whole = learned_rounding.rounded(rows, scale.double(), torch.zeros(1, 6, 6, dtype=torch.float64), 7)
    assert torch.equal(whole, (rows * 7).round())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(4, 6, 3, 2, 1, 2, groups=2), (2, 4, 9, 8)),
        (nn.Conv2d(4, 4, (3, 1), groups=4), (1, 4, 7, 7)),
        (nn.Linear(5, 3), (2, 4, 5)),
    ],
    ids=["groups", "depthwise", "linear"],
)
def test_moments_give_the_error_of_a_layer(layer: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, generator=GENERATOR)
    exported = torch.export.export(layer.eval(), (x,), strict=False).module()
    name = next(node.name for node in exported.graph.nodes if node.op == "call_function")
    weight, groups = layer.weight.detach(), getattr(layer, "groups", 1)
    ((_, moments),) = learned_rounding.measured(exported, {name: (groups, weight[0].numel())}, [(x,)])
    error = torch.randn(weight.shape, generator=GENERATOR).double()
    rows = learned_rounding.rows_of(error, groups)
    found = float(((rows @ moments) * rows).sum())
    changed = copy.deepcopy(layer).double()
    changed.weight.data, changed.bias.data = error, torch.zeros_like(changed.bias.data)
    assert found == pytest.approx(float((changed(x.double()).detach() ** 2).sum()), rel=1e-5)


def test_a_build_has_packed_weights_and_the_results_of_its_program(tmp_path: Path) -> None:
    options = api.BuildOptions(weights_bits=api.WeightBits.FOUR)
    build = api.build(
        Small().eval(), BATCHES[0], target=TARGET, calibration=BATCHES, options=options, output=tmp_path / "build"
    )
    bundle = image.bundle_of(tmp_path / "build")
    assert sorted((each.int8_bytes, each.bytes) for each in packed_layers(bundle)) == sorted(BYTES.values())
    assert min(output.sqnr for output in build.manifest.quality.outputs) > 15
    samples = [[batch[0].numpy()] for batch in BATCHES]
    executor = HostExecutor(bundle)
    for sample, outputs in zip(samples, api.run_each(tmp_path / "build", samples), strict=True):
        np.testing.assert_array_equal(executor.run(sample)[0], outputs[0])


@pytest.mark.parametrize(
    ("target", "options", "text"),
    [
        (
            "imxrt700",
            {},
            "`--weights-bits 4` is for layers that a Cortex-M runs, and the CPU of `imxrt700` has no such ",
        ),
        ("ethos-u55-128", {}, "hint: use `--weights int4` for an Ethos-U"),
        (TARGET, {"activations": api.Activations.INT16}, "`--weights-bits 4` and `--activations int16` exclude each"),
        (TARGET, {"max_loss": 1.0}, "`--max-loss` limits the loss of `--weights-bits auto`"),
        (TARGET, {"min_sqnr": 60.0}, "`--weights-bits 4` and `--min-sqnr` exclude each other"),
        (
            TARGET,
            {"weights_bits": api.WeightBits.AUTO, "min_sqnr": 60.0, "max_loss": 1.0},
            "`--min-sqnr` and `--max-loss` exclude each other",
        ),
    ],
    ids=["no operators", "ethos-u", "int16", "max loss", "min sqnr", "both limits"],
)
def test_options_that_do_not_fit_are_refused(target: str, options: dict[str, Any], text: str) -> None:
    options = {"weights_bits": api.WeightBits.FOUR, **options}
    found = failure(OptionError, Small(), BATCHES[0], target=target, options=api.BuildOptions(**options))
    assert text in found


def test_a_largest_loss_needs_a_function() -> None:
    options = api.BuildOptions(weights_bits=api.WeightBits.AUTO, max_loss=1.0)
    found = failure(OptionError, Small(), BATCHES[0], target=TARGET, options=options)
    assert "`--max-loss` needs a function that evaluates the model" in found


class Largest(nn.Module):
    """The index of the largest of 4 values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).argmax(1)


ROWS = [(torch.randn(1, 8, generator=GENERATOR),) for _ in range(8)]


@pytest.mark.parametrize(("bits", "least"), [(api.WeightBits.AUTO, 100.0), (api.WeightBits.EIGHT, 20.0)])
def test_integers_alone_have_no_sqnr_to_keep(bits: api.WeightBits, least: float) -> None:
    options = api.BuildOptions(weights_bits=bits, min_sqnr=least)
    found = failure(UnsupportedError, Largest(), ROWS[0], target=TARGET, calibration=ROWS, options=options)
    assert "all outputs of the model are integers, which have no SQNR" in found


def test_integers_alone_are_measured_by_the_users_function() -> None:
    wanted = [int(Largest()(*row)) for row in ROWS]

    def accuracy(model: Callable[..., Any]) -> float:
        return sum(int(model(*row)) == index for row, index in zip(ROWS, wanted, strict=True)) / len(ROWS)

    options = api.BuildOptions(weights_bits=api.WeightBits.AUTO, max_loss=1.0)
    built = api.build(Largest(), ROWS[0], target=TARGET, calibration=ROWS, options=options, evaluate=accuracy)
    assert built.manifest.quality.metrics[0].model == 1.0


@pytest.mark.parametrize("loss", [0.25, 0.75])
def test_the_finished_program_is_measured_against_the_largest_loss(tmp_path: Path, loss: float) -> None:
    """Training changes the weights after the layers have been chosen."""
    after_training: list[float] = []  # numbers of the float model and of the program

    def train(model: fx.GraphModule) -> Iterator[float]:
        after_training.extend([1.0, 1.0 - loss])
        yield float(model(*ROWS[0]).sum())

    def accuracy(model: Callable[..., Any]) -> float:
        model(*ROWS[0])
        return after_training.pop(0) if after_training else 1.0

    layer = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    options = api.BuildOptions(weights_bits=api.WeightBits.AUTO, max_loss=0.5, use_qat=True)
    arguments: dict[str, Any] = {
        "target": TARGET,
        "calibration": ROWS,
        "options": options,
        "output": tmp_path / "build",
    }
    if loss > 0.5:
        found = failure(UnsupportedError, layer, ROWS[0], train=train, evaluate=accuracy, **arguments)
        assert found.startswith("the program loses 0.75, 0.5 are allowed by `--max-loss`: metric: 0.25, of the float")
    else:
        api.build(layer, ROWS[0], train=train, evaluate=accuracy, **arguments)
    assert (tmp_path / "build").exists() == (loss <= 0.5)


@pytest.mark.parametrize("bias", [400.0, 0.01])
def test_a_large_bias_does_not_change_the_weights_by_more_than_a_step(bias: float) -> None:
    """A bias in steps of both scales needs a larger range of the weights; they are rounded for that range."""
    torch.manual_seed(0)
    layer = nn.Linear(8, 4)
    layer.bias.data[1] = bias
    batches = [(1e-5 * row[0],) for row in ROWS]
    model = calibrated(layer, batches)
    floats, layers = without_observers(model), layers_of(model, lambda _: False)
    before = value_of(floats, layers[0].weight).detach().clone()
    Chooser(model, floats, layers, batches).run(Limits(all_layers=True))
    (node,) = (node for node in model.graph.nodes if node.name == layers[0].name)
    observer: Any = model.get_submodule(node.args[1].target)
    step, after = float(observer.calculate_qparams()[0]), value_of(model, layers[0].weight).detach()
    assert (step > 1) == (bias == 400.0)
    whole = after.double() / step
    assert float((whole - whole.round()).abs().max()) < 1e-5
    assert float((after - before).abs().max()) <= step * (0.5 if bias == 400.0 else 2)


def test_a_layer_of_many_inputs_gets_nearest_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments of all pairs of inputs are few; layers whose moments do not fit together are measured in turns."""
    monkeypatch.setattr(learned_rounding, "_MOST", 10**2)
    monkeypatch.setattr(learned_rounding, "_HELD", 60)
    model = calibrated(Small(), BATCHES)
    floats, layers = without_observers(model), layers_of(model, lambda _: False)
    shapes = {each.name: (each.groups, each.elements) for each in layers}
    found = dict(learned_rounding.measured(floats, shapes, BATCHES))
    assert {name: tuple(each.shape) for name, each in found.items()} == {
        "conv2d": (1, 18), "conv2d_1": (6, 9), "conv2d_2": (2, 3, 3), "linear": (1, 10, 10)
    }  # fmt: skip
    rows = learned_rounding.rows_of(value_of(floats, layers[0].weight), 1)
    step = learned_rounding.limits(rows, found["conv2d"], 7, per_channel=True) / 7
    whole = learned_rounding.rounded(rows, step, found["conv2d"], 7)
    assert torch.equal(whole, learned_rounding.nearest(rows, step, 7))
    assert Chooser(model, floats, layers, BATCHES).run(Limits(all_layers=True)) == tuple(layers)


@pytest.mark.full
def test_a_flash_budget_counts_the_constants_of_the_finished_program() -> None:
    """Layers get biases, and no longer share factors, when one of them has four bits."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, bias=False), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8, bias=False))
    batches = [torch.rand(1, 8, 8, 8) for _ in range(2)]
    whole = api.build(net.eval(), batches[0], target="cortex-m55", calibration=batches)
    budget = arena.constant_bytes(whole.pte, whole.manifest)
    options = api.BuildOptions(weights_bits=api.WeightBits.AUTO, memory=MemoryOptions(flash_budget=budget))
    built = api.build(net, batches[0], target="cortex-m55", calibration=batches, options=options)
    assert arena.constant_bytes(built.pte, built.manifest) <= budget


def test_four_bits_without_any_layer_for_them_are_a_warning() -> None:
    options = api.BuildOptions(weights_bits=api.WeightBits.FOUR)
    built = api.build(nn.ReLU(), torch.rand(1, 8), target="cortex-m55", options=options)
    assert PACKS_NOTHING in built.manifest.warnings
