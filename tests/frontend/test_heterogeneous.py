"""NPU and Cortex-M on one model. `test_upstream_failures.py` shows what a plain composition of the backends breaks."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call
from tests.frontend.heterogeneous_models import CHANNELS_LAST, combine
from torch import Tensor, nn
from torch.nn import functional

from deuteron import api
from deuteron.board import image
from deuteron.builds.options import BuildOptions
from deuteron.errors import UnsupportedError
from deuteron.frontend import heterogeneous
from deuteron.runtime import pte
from deuteron.runtime.program import KernelCall, TensorValue
from deuteron.views.compare.pytorch import compare

pytestmark = pytest.mark.slow

NPU, CPU = "imxrt700cm", "cortex-m33"
IMAGE = (1, 3, 8, 8)
EDGES = {"cortex_m::quantize_per_tensor": 1, "cortex_m::dequantize_per_tensor": 1}
"""The quantize of the input and the dequantize of the output, the only float operators."""


class Middle(nn.Module):
    """An activation that is a table on either side, between a convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(functional.gelu(torch.relu(self.conv(x))).flatten(1))


@pytest.mark.full
def test_two_quantizers_on_one_model_leave_nothing_in_float() -> None:
    found = combine(Middle(), IMAGE, target=NPU, keep="gelu")
    assert found.partitions == 2
    assert found.operators == EDGES | {"cortex_m::quantized_activation": 1}
    assert found.steps == 0
    assert all(node.op != "call_module" for node in found.module.graph.nodes)  # export's guards


def test_a_linear_layer_is_one_operator_on_either_side() -> None:
    found = combine(Middle(), IMAGE, target=NPU, keep="addmm")
    assert found.partitions == 1
    assert found.operators["cortex_m::quantized_linear"] == 1
    assert found.steps == 0


class OnNpu(nn.Module):
    """Functions of one number, whole and written out, and changes of scale: all between layers of the NPU."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.gate, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3)
        self.linear, self.out = nn.Linear(64, 12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        x = functional.mish(x * torch.sigmoid(x))
        x = x * functional.hardsigmoid(self.gate(functional.adaptive_avg_pool2d(x, 1)))
        x = functional.silu(self.last(x))
        x = torch.tanh(self.linear(x.flatten(1)))
        return functional.softplus(self.out(x)) * 2 - 1


@pytest.mark.full
def test_functions_of_one_number_and_changes_of_scale_never_leave_the_npu() -> None:
    found = combine(OnNpu(), IMAGE, target=NPU)
    assert (found.partitions, found.operators) == (1, EDGES)
    assert found.steps == 0


class Functions(nn.Module):
    """Functions of one number that ExecuTorch's Cortex-M backend lacks, or gives wrong values for when marked so."""

    def forward(self, x: Tensor) -> Tensor:
        x = functional.leaky_relu(x.abs().neg() + 1.0, 0.2) * 1.5
        return functional.hardswish(functional.relu6(functional.elu(x))) - torch.exp(0.25 * x)


def test_functions_of_one_number_are_tables() -> None:
    found = combine(Functions(), (2, 7), target=CPU)
    assert set(found.operators) == {*EDGES, "cortex_m::quantized_activation", "cortex_m::quantized_add"}
    assert found.steps <= 1


class AnyFunction(nn.Module):
    """Functions of one number that no list names: tables know none of them, PyTorch knows all."""

    FUNCTIONS: tuple[Callable[[Tensor], Tensor], ...] = (
        torch.atan, torch.sinh, torch.cosh, torch.asinh, torch.exp2, torch.erfc, torch.square, torch.trunc, torch.frac,
        torch.sinc, torch.sgn, torch.i0, functional.selu, functional.celu, functional.logsigmoid, functional.hardshrink,
        functional.softshrink, lambda x: x % 0.7, lambda x: torch.fmod(x, 0.5), lambda x: x // 0.3, lambda x: 2.0**x,
        lambda x: torch.rsub(x, 1.0), lambda x: functional.threshold(x, 0.2, -0.1), lambda x: x.logit(0.1),
        lambda x: x.clamp_min(-0.3), lambda x: x.clip(-0.1, 0.2), lambda x: x.round(decimals=1),
    )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([function(x) for function in self.FUNCTIONS], 1)


def test_any_function_of_one_number_is_a_table() -> None:
    found = combine(AnyFunction(), (2, 7), target=CPU)
    names = ("cortex_m::quantized_activation", "cortex_m::dequantize_per_tensor")  # results of unlike sizes, in float
    tables = dict.fromkeys(names, len(AnyFunction.FUNCTIONS))
    assert found.operators == EDGES | tables | {"aten::cat": 1}
    assert found.steps == 0


class Limited(nn.Module):
    """Functions of one number behind layers: limits that are not their range's, and others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.hardtanh(torch.clamp(self.conv(x), min=0.2) * 2, -0.5, 1.5)
        y = torch.clamp(self.linear(x), min=0.2) * 2 + functional.relu6(4 * self.linear(x))
        return functional.gelu(self.linear(torch.relu(self.linear(y)))) + torch.clamp(self.linear(y), -0.1, 0.1)


@pytest.mark.parametrize("target", full.only([NPU, CPU], CPU))
def test_what_follows_a_layer_is_a_table_where_the_layer_cannot_compute_it(target: str) -> None:
    found = combine(Limited(), IMAGE, target=target)
    assert (found.operators["cortex_m::quantized_activation"] > 0) == (target == CPU)  # the NPU has tables of its own
    assert found.steps <= 2  # one of each layer and sum at the most, which the last sum may add up


class Shared(nn.Module):
    """Operators whose inputs and results have one scale, with inputs of very different ranges."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(self.a(x))
        joined = torch.cat([a, 20 * self.b(a), x], 1)
        return functional.max_pool2d(joined, 2) + functional.avg_pool2d(joined, 2)


@pytest.mark.parametrize("target", full.only([NPU, CPU], NPU))
def test_values_of_different_ranges_are_joined_right(target: str) -> None:
    assert combine(Shared(), IMAGE, target=target).steps <= 1  # one: ties of the average


class Layouts(nn.Module):
    """Everything that a layout can go wrong with: see the comments."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.same, self.even = nn.Conv2d(1, 4, 3, padding="same"), nn.Conv2d(4, 4, 4, padding="same")
        self.gate, self.last = nn.Conv2d(4, 4, 1), nn.Conv2d(5, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.gelu(self.same(x))  # one channel: memory in both orders
        x = functional.max_pool2d(self.even(x), 2, ceil_mode=True)
        x = x * torch.sigmoid(self.gate(functional.adaptive_avg_pool2d(x, 1)))  # stretched along height and width
        x = functional.pad(x, (1, 0, 0, 2, 0, 1), value=0.5)  # channels, too
        x = functional.pad(x.contiguous(memory_format=CHANNELS_LAST), (1, 1, 1, 1), mode="reflect")
        x = functional.interpolate(functional.dropout(x, 0.5, self.training), scale_factor=2.0, mode="nearest")
        return self.last(x).flatten(2)


@pytest.mark.full
def test_groups_whose_pads_are_a_word_are_the_npus() -> None:
    found = combine(nn.Conv1d(8, 8, 3, padding="same", groups=4), (1, 8, 6), target=NPU)
    assert found.partitions == 1
    assert found.operators == EDGES
    assert found.steps <= 1


@pytest.mark.parametrize(("target", "last"), full.first([(NPU, True), (CPU, False)], 1))
def test_images_in_either_order_go_through_pads_pools_and_copies(target: str, last: bool) -> None:
    found = combine(Layouts(), (1, 1, 7, 7), target=target, last=last)
    assert found.operators["cortex_m::quantize_per_tensor"] == found.operators["cortex_m::dequantize_per_tensor"] == 1
    assert found.steps <= 2  # two means, each with ties


class Orders(nn.Module):
    """Operators that reshape an image's memory, join images, or have one channel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.one, self.two = nn.Conv2d(1, 4, 3), nn.Conv2d(8, 1, 3), nn.Conv2d(1, 2, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.gelu(self.first(x))
        padded = functional.pad(y, (1, 0, 0, 2), value=0.5)
        joined = torch.cat([padded, padded.clone(memory_format=CHANNELS_LAST)], 1)
        z = functional.gelu(self.one(joined))
        w = functional.gelu(self.two(z.reshape(1, 1, 3, 10)))
        parts = [w, z, y.unsqueeze(1), y.select(1, 1), y.permute(0, 2, 3, 1), y.flatten(2)]
        return torch.cat([part.flatten(1) for part in parts], 1)


@pytest.mark.parametrize(("target", "last"), full.only([(NPU, False), (CPU, True)], (CPU, True)))
def test_programs_see_images_as_they_lie_in_memory(target: str, last: bool, tmp_path: Path) -> None:
    torch.manual_seed(1)
    x = torch.randn(1, 1, 8, 8)
    x = x.contiguous(memory_format=CHANNELS_LAST) if last else x
    built = api.build(Orders(), x, target=target, calibration=[x], output=tmp_path / "built")
    module = torch.export.load(tmp_path / "built" / "reference.pt2").module()
    (found,) = api.run(tmp_path / "built", [x.numpy()])
    wanted = module(x).detach().numpy()
    assert (found != wanted).mean() < 0.04  # a convolution's rounding, here and there
    assert image.bundle_of(tmp_path / "built").operators
    (method,) = (method for method in pte.read(built.pte, "").methods if method.name == "forward")
    tensors = [
        method.values[index]
        for call in method.chains[0]
        if isinstance(call, KernelCall) and method.operators[call.operator].startswith("aten::cat")
        for index in call.args
    ]
    orders = {t.spec.dim_order for t in tensors if isinstance(t, TensorValue) and len(t.spec.shape) == 4}
    assert orders <= {(0, 1, 2, 3)}


class Positions(nn.Module):
    """Constants of an image's height and width, and of its whole size, with an image; extrema between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows, self.least = nn.Parameter(torch.randn(8, 8)), nn.Parameter(torch.randn(1, 3, 8, 8))
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(torch.maximum(x + self.rows, self.least) * self.rows)


@pytest.mark.parametrize("last", full.first([False, True], 1))
def test_constants_of_an_images_size_lie_as_the_image_does(last: bool, tmp_path: Path) -> None:
    x = torch.randn(IMAGE)
    x = x.contiguous(memory_format=CHANNELS_LAST) if last else x
    model = Positions()
    build = api.build(model, (x,), target=CPU, calibration=[(x,)], output=tmp_path / "build")
    names = [op.op for op in build.manifest.cpu_ops if op.instructions]
    assert "cortex_m::maximum" in names
    assert names.count("dim_order_ops::_clone_dim_order") == (0 if last else 2)  # of the input and the result
    assert compare(tmp_path / "build", [[x.numpy()]]).passed


def _train(prepared: nn.Module) -> Iterator[float]:
    """A step towards zero, with the inputs of the test."""
    optimiser = torch.optim.SGD(prepared.parameters(), lr=1e-3)
    loss = prepared(torch.randn(IMAGE)).square().mean()
    loss.backward()
    optimiser.step()
    yield loss.item()


# `tests/views/test_costs.py` has them by PTQ for both processors.
@pytest.mark.parametrize(("target", "qat"), full.first([(NPU, True), (CPU, True)], 1))
@pytest.mark.full
def test_options_about_edges_and_places_go_together(target: str, qat: bool, tmp_path: Path) -> None:
    """Images in channels-last memory, int8 at the edges, and an operator that is kept from the NPU."""
    torch.manual_seed(1)
    x = torch.randn(IMAGE).contiguous(memory_format=CHANNELS_LAST)
    kept = ("aten::addmm",) if target == NPU else ()
    options = api.BuildOptions(remove_quant_io_ops=True, operators_not_to_delegate=kept, use_qat=qat)
    manifest = api.build(
        Middle(),
        x,
        target=target,
        calibration=[x],
        train=_train if qat else None,
        output=tmp_path / "built",
        options=options,
    ).manifest
    assert {t.dtype for t in (*manifest.inputs, *manifest.outputs)} == {"int8"}
    assert len(manifest.partitions) == (target == NPU)
    assert "cortex_m::quantized_linear" in "".join(op.op for op in manifest.cpu_ops)
    assert not {op.op for op in manifest.cpu_ops} & EDGES.keys()
    comparison = compare(tmp_path / "built", api.seeded_inputs(manifest, 8))
    assert comparison.failures() == ()
    assert max(output.largest for output in comparison.outputs) <= 1


class Grouped(nn.Module):
    """A convolution of two groups, which the NPU's backend makes two of; the CPU's operator takes groups."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(4, 6, 3, groups=2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.conv(x))


@pytest.mark.parametrize("target", full.first([NPU, CPU], 1))
def test_convolutions_of_groups_run_on_either_side(target: str) -> None:
    found = combine(Grouped(), (1, 4, 6, 6), target=target)
    assert found.steps <= 1
    assert found.operators["cortex_m::quantized_conv2d"] == (0 if target == NPU else 1)
    assert found.partitions == (1 if target == NPU else 0)


def test_convolutions_of_groups_are_built_from_exports_that_are_not_strict() -> None:
    inputs = (torch.randn(1, 4, 6, 6),)
    exported = torch.export.export(Grouped().eval(), inputs, strict=False)
    assert len(api.build(exported, inputs, target=NPU, calibration=[inputs]).manifest.partitions) == 1


@pytest.mark.full
def test_the_npu_is_asked_by_trials_only_where_quantizing_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    rejects_more = heterogeneous._rejects_more
    monkeypatch.setattr(heterogeneous, "_rejects_more", lambda *args: tried.append(args) or rejects_more(*args))
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(8, 8), nn.Softmax(1)), torch.randn(1, 8)
    programs: list[bytes] = []
    for least in (None, 1):
        options = BuildOptions(operators_not_to_delegate=("aten::_softmax",), min_sqnr=least)
        built = api.build(module, x, target=NPU, calibration=[x], options=options)
        assert [node.op for node in built.manifest.nodes if node.is_kept] == ["aten::_softmax"]
        assert bool(tried) == (least is not None)
        programs.append(built.pte)
    assert programs[0] == programs[1]


def test_slices_with_a_step_of_one_are_the_npus() -> None:
    x = torch.randn(1, 8, 16)
    call = Call(lambda x: torch.ops.aten.slice.Tensor(x, 2, 0, 8, 1).tanh())
    built = api.build(call, x, target=NPU, calibration=[x])
    assert all(node.partition is not None for node in built.manifest.nodes)


def test_slices_with_a_step_are_the_cpus_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The NPU rejects them, which would cost a second lowering."""
    rejected: list[bool] = []
    add = heterogeneous.RejectedNodes.add
    monkeypatch.setattr(heterogeneous.RejectedNodes, "add", lambda *args: rejected.append(add(*args)) or rejected[-1])
    x = torch.randn(1, 8, 16)
    built = api.build(Call(lambda x: x[:, :, ::2].tanh() - x[:, :, 1::2].sigmoid()), x, target=NPU, calibration=[x])
    assert {node.op for node in built.manifest.nodes if node.partition is None} == {"aten::slice_copy.Tensor"}
    assert rejected == [False]


class Kept(nn.Module):
    """A histogram, which neither processor has."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x).histc(4, 0, 1)


@pytest.mark.parametrize(
    ("module", "target", "operator", "why"),
    [
        (Kept(), CPU, "aten::histc", ""),
        (Kept(), NPU, "aten::histc", "`aten::histc`"),
    ],
)
def test_what_has_no_int8_kernel_is_an_error_with_its_line(
    module: nn.Module, target: str, operator: str, why: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        combine(module, (2, 7), target=target)
    forward = module.forward
    line = inspect.getsourcelines(forward)[1] + 1
    code = inspect.getsource(forward).splitlines()[1].strip()
    npu = f"; ExecuTorch's NXP backend has no converter for {why}" if why else ""
    assert str(caught.value) == (
        f"{__file__}:{line}: `{operator}` has no int8 kernel on the CPU{npu}, at `{code}`\n\n"
        "hint: write it with other operators, or build for a target whose CPU runs "
        "portable operators, such as `imxrt700` and `ethos-u55-128`"
    )


class Mixed(nn.Module):
    """Adds integers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(7, 7)

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        return self.linear(torch.relu(x)) + i


def built_quality(module: nn.Module, target: str, batches: Sequence[tuple[Tensor, ...]]) -> float:
    """Signal to noise of the output in dB."""
    built = api.build(module, batches[0], target=target, calibration=batches)
    (output,) = built.manifest.quality.outputs
    assert output.sqnr is not None
    return output.sqnr


def test_integers_are_added_to_quantized_values() -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(2, 7), torch.randint(-3, 4, (2, 7))) for _ in range(16)]
    assert built_quality(Mixed(), NPU, batches) > 30


class Counted(nn.Module):
    """Takes integers."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x.float() * 0.1)


def test_a_model_takes_integers() -> None:
    torch.manual_seed(0)
    batches = [(torch.randint(0, 256, (1, 4), dtype=torch.uint8),) for _ in range(16)]
    assert built_quality(Counted(), CPU, batches) > 30


class Cut(nn.Module):
    """A slice of a layer's function whose range is fixed for the NPU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.conv(x))[:, 2:6]


def test_what_the_npu_quantizes_and_cannot_convert_is_the_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    from deuteron.frontend.quantize import annotations

    monkeypatch.setattr(annotations, "correct_annotations", lambda model, *_, **__: model)
    torch.manual_seed(0)
    batches = [(torch.randn(IMAGE),) for _ in range(16)]
    built = api.build(Cut(), batches[0], target=NPU, calibration=batches)
    assert built.manifest.quality.outputs[0].sqnr > 25
    why = "the NPU's backend cannot convert its quantization, which neighbours share"
    assert why in {node.why for node in built.manifest.nodes}


class Peak(nn.Module):
    """A maximum on the NPU of values that reshapes on the CPU give it with another scale."""

    def forward(self, x: Tensor) -> Tensor:
        peak = torch.maximum(x.amin().view(1) * 0.9, x.abs().amax().view(1))
        return x / torch.maximum(peak * 0.9, (x * 0.5).abs().amax().view(1))


def test_changes_of_scale_between_both_processors_run() -> None:
    torch.manual_seed(0)
    batches = [torch.randn(1, 4, 16) for _ in range(16)]
    build = api.build(Peak(), batches[0], target="imxrt700cm", calibration=batches)
    assert build.manifest.quality.outputs[0].sqnr > 30


class Peaks(nn.Module):
    """A value of the NPU whose readers, a product and a comparison, have scales of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        heat = self.conv(x).sigmoid()
        return heat * (functional.max_pool2d(heat, 3, 1, 1) == heat).float()


def test_a_value_is_quantized_for_each_reader_from_its_own_scale() -> None:
    generator = torch.Generator().manual_seed(2)
    samples = [(x,) for x in torch.randn(64, 1, 3, 16, 16, generator=generator)]
    built = api.build(Peaks(), samples[0], target=NPU, calibration=samples)
    assert built.manifest.quality.outputs[0].sqnr > 12  # 5 with the scale of the product between
