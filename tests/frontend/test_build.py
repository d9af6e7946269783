"""Whole builds of small models: what comes out."""

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import full
from tests.frontend.build_helpers import FC, Applies, X, failure
from torch import Tensor, nn
from torch.nn import functional

import deuteron
from deuteron import api
from deuteron.arch import targets
from deuteron.builds.manifest import KEPT
from deuteron.errors import FormatError, InputError, UnsupportedError
from deuteron.frontend.build import NO_CALIBRATION, NOTHING_DELEGATED, STEPS
from deuteron.frontend.cpu import much_in_float
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.tflite.neutron_graph import unwrap
from deuteron.tflite import decode as flat
from deuteron.views.compare.pytorch import compare

torch.set_num_threads(1)
pytestmark = pytest.mark.slow


class Net(nn.Module):
    """Two inputs, two outputs, and a convolution between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.relu(self.conv(x))
        z = z + y
        return self.pool(z), z


def net_inputs(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 2, 6, 6, generator=generator), torch.randn(1, 4, 6, 6, generator=generator)


CALIBRATION = [net_inputs(seed) for seed in range(8)]
SAMPLES = [tuple(x.numpy() for x in net_inputs(seed)) for seed in range(100, 116)]


def line_of(code: str) -> str:
    lines, first = inspect.getsourcelines(Net.forward)
    return f"{__file__}:{first + next(i for i, line in enumerate(lines) if code in line)}"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[api.Build, list[tuple[str, int, int]]]:
    steps: list[tuple[str, int, int]] = []
    options = api.BuildOptions(intermediates=True, verify_each=True)
    output = tmp_path_factory.mktemp("build") / "out"
    build = deuteron.build(
        Net(),
        CALIBRATION[0],
        calibration=CALIBRATION,
        output=output,
        options=options,
        progress=lambda *step: steps.append(step),
    )
    return build, steps


def test_the_manifest_describes_the_program_and_where_it_came_from(built):
    manifest = built[0].manifest
    assert api.read_manifest(built[0].directory) == manifest
    assert (manifest.target, manifest.converter, manifest.model.name) == ("imxrt700", "open", "Net")
    assert (manifest.executorch, manifest.torch.partition("+")[0]) == ("1.5.1", "2.13.0")
    assert [(i.shape, i.dtype) for i in manifest.inputs] == [((1, 2, 6, 6), "float32"), ((1, 4, 6, 6), "float32")]
    assert [(o.shape, o.dtype) for o in manifest.outputs] == [((1, 4, 3, 3), "float32"), ((1, 4, 6, 6), "float32")]
    assert manifest.warnings == ()
    (partition,) = manifest.partitions
    ops = {op.op: op for op in partition.ops}
    assert [(str(s), s.code, s.module) for s in ops["CONV_2D"].source] == [
        (line_of("self.conv(x)"), "z = torch.relu(self.conv(x))", "conv")
    ]
    assert [(str(s), s.code, s.module) for s in ops["ADD"].source] == [(line_of("z + y"), "z = z + y", "")]
    assert ops["ADD"].nodes == ("aten_add_tensor",)
    names = [op.op for op in partition.ops]
    convolution = next(k for k in partition.kernels if k.kernel == "conv2d_s8")
    assert {names[i] for i in convolution.ops} >= {"CONV_2D", "PADV2"}
    assert sorted({op.op for op in manifest.cpu_ops}) == [
        "quantized_decomposed::dequantize_per_tensor",
        "quantized_decomposed::quantize_per_tensor",
    ]


def test_the_directory_holds_what_the_manifest_lists(built):
    build = built[0]
    found = {p.name: p.read_bytes() for p in build.directory.iterdir() if p.name != "build.json"}
    assert found["model.pte"] == build.pte
    assert {name: (hashlib.sha256(data).hexdigest(), len(data)) for name, data in found.items()} == {
        name: (entry.sha256, entry.bytes) for name, entry in build.manifest.files.items()
    }


def test_the_intermediate_files_fit_together(built):
    files = {p.name: p.read_bytes() for p in built[0].directory.iterdir()}
    (partition,) = built[0].manifest.partitions
    container, _ = unwrap(files["npu_0.converted.tflite"])
    blocks = (container.microcode, container.weights, container.kernels)
    assert blocks == (files["npu_0.microcode"], files["npu_0.weights"], files["npu_0.kernels"])
    assert tuple(map(len, blocks)) == (
        partition.microcode_bytes,
        partition.weights_bytes,
        partition.kernels_bytes,
    )
    header = decode(container).header
    assert (header.scratch_bytes, header.prefetch_bytes) == (partition.scratch_bytes, partition.prefetch_bytes)
    assert len(flat.decode(files["npu_0.tflite"]).operators) == len(partition.ops)


def test_progress_tells_the_steps_in_order(built):
    steps = built[1]
    assert list(dict.fromkeys(index for _, index, _ in steps)) == list(range(len(STEPS)))
    assert {count for _, _, count in steps} == {len(STEPS)}
    assert steps[2] == ("calibrate, batch 1 of 8", 1, len(STEPS))
    assert tuple(name for name, _, _ in steps if "batch" not in name) == STEPS


def test_it_runs_and_agrees_with_pytorch(built):
    directory = built[0].directory
    outputs = api.run(directory, SAMPLES[0])
    assert [(y.shape, y.dtype) for y in outputs] == [((1, 4, 3, 3), np.float32), ((1, 4, 6, 6), np.float32)]
    comparison = compare(directory, SAMPLES)
    assert comparison.failures() == ()
    assert [p.calls for p in comparison.partitions] == [len(SAMPLES)]


@pytest.mark.parametrize(
    "options",
    [
        api.BuildOptions(remove_quant_io_ops=True),
        api.BuildOptions(use_profiling=True),
        api.BuildOptions(operators_not_to_delegate=("aten::add",)),
    ],
    ids=["int8 boundary", "profiling", "two partitions"],
)
def test_other_forms_of_a_build_agree_with_pytorch(options: api.BuildOptions, tmp_path: Path):
    build = api.build(Net(), CALIBRATION[0], calibration=CALIBRATION, output=tmp_path / "out", options=options)
    samples = SAMPLES
    if options.remove_quant_io_ops:
        assert {t.dtype for t in (*build.manifest.inputs, *build.manifest.outputs)} == {"int8"}
        assert build.manifest.cpu_ops == ()
        samples = api.seeded_inputs(build.manifest, 16)
    if options.operators_not_to_delegate:
        assert len(build.manifest.partitions) == 2
        assert "aten::add.Tensor" in {op.op for op in build.manifest.cpu_ops}
    comparison = compare(tmp_path / "out", samples)
    assert comparison.failures() == ()
    assert [p.calls for p in comparison.partitions] == [len(samples)] * len(build.manifest.partitions)


class CalledTwice(nn.Module):
    """A convolution whose bias takes two scales, for each of its inputs one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(torch.relu(self.conv(x)))


def test_a_layer_may_be_called_twice(tmp_path: Path):
    torch.manual_seed(0)
    batches = [torch.randn(1, 4, 6, 6) for _ in range(4)]
    build = api.build(CalledTwice(), batches[0], calibration=batches, output=tmp_path / "out")
    assert [op.op for p in build.manifest.partitions for op in p.ops].count("CONV_2D") == 2
    assert compare(tmp_path / "out", [(x.numpy(),) for x in batches]).failures() == ()


def test_a_build_says_nothing_itself_and_warns_when_there_is_no_calibration_data(
    capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
):
    assert api.build(FC, X).manifest.warnings == (NO_CALIBRATION,)
    assert capfd.readouterr() == ("", "")
    assert [str(w.message) for w in recwarn.list] == []


def test_nothing_to_delegate_is_a_warning_and_the_program_runs(tmp_path: Path):
    build = api.build(Applies(lambda x: x.cumsum(-1)), X, calibration=[X, X / 2], output=tmp_path / "out")
    assert build.manifest.warnings == (NOTHING_DELEGATED,)
    assert build.manifest.partitions == ()
    (y,) = api.run(tmp_path / "out", [X.numpy()])
    assert np.allclose(y, np.cumsum(X.numpy(), -1), atol=0.1)
    assert compare(tmp_path / "out", [(X.numpy(),)]).passed


class ByItsOwn(nn.Module):
    """A convolution whose weights are an input, which no NPU takes, between two that it has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor, weights: Tensor) -> Tensor:
        between = functional.conv2d(torch.relu(self.first(x)), weights)
        return self.last(between)


def test_much_work_in_float_on_the_cpu_is_a_warning(tmp_path: Path) -> None:
    batches = [(torch.randn(1, 2, 12, 12), torch.randn(4, 4, 3, 3)) for _ in range(4)]
    built = api.build(ByItsOwn(), batches[0], calibration=batches, output=tmp_path / "out").manifest
    line = inspect.getsourcelines(ByItsOwn.forward)[1] + 1
    assert built.warnings == (
        f"43% of the multiply-accumulates stay on the CPU in float: `aten::convolution` at test_build.py:{line}; "
        "`deuteron explain` says why the NPU leaves each; the CPU of `imxrt700cm` computes in int8 what the NPU leaves",
    )
    assert compare(tmp_path / "out", [tuple(x.numpy() for x in batches[0])]).passed
    nodes = built.nodes
    neutron, int8, alone = map(targets.load, ("mcxn947", "imxrt700cm", "cortex-m55"))
    assert not list(much_in_float(int8, nodes)) + list(much_in_float(alone, nodes))
    assert not list(much_in_float(neutron, [replace(node, why=f"{KEPT} `--partition cost`") for node in nodes]))
    several = [
        replace(node, partition=None, why="no", source=node.source[: i % 2], op=f"{node.op}{i % 6}")
        for i, node in enumerate([node for node in nodes if node.macs] * 3)
    ]
    assert list(much_in_float(neutron, several)) == [
        "100% of the multiply-accumulates stay on the CPU in float: "
        f"`aten::convolution1` at test_build.py:{line} x2, `aten::convolution4`, `aten::convolution0` x2, "
        f"`aten::convolution3` at test_build.py:{line} and 2 others; `deuteron explain` says why the NPU leaves each"
    ]


class SpreadByItsOwn(nn.Module):
    """A transposed convolution whose weights are an input."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.conv_transpose2d(x, weight)


@pytest.mark.parametrize(
    "target", full.only(["cortex-m33", "imxrt700cm", "ethos-u55-128"], "cortex-m33", "ethos-u55-128")
)
def test_weights_that_are_an_input_are_refused_where_nothing_computes_in_float(target: str) -> None:
    inputs = torch.randn(1, 2, 12, 12), torch.randn(2, 4, 3, 3)
    code, first = inspect.getsourcelines(SpreadByItsOwn.forward)
    assert failure(UnsupportedError, SpreadByItsOwn(), inputs, target=target, calibration=[inputs]) == (
        f"{__file__}:{first + 1}: `aten::conv_transpose2d.input` has weights that depend on the model's inputs, at "
        f"`{code[1].strip()}`\n\nhint: make them a parameter or a buffer of the module, or build for a target with "
        "float operators and a Neutron, such as `imxrt700`"
    )


class Indexed(nn.Module):
    """Indices that are computed with, a mask, and floats."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rows = nn.Embedding(10, 4)
        self.layer = nn.Linear(4, 3)

    def forward(self, index: Tensor, mask: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        index = torch.cat([index, index + 1], 1)
        return torch.relu(self.layer(self.rows(index)) * mask.float() + x), index * 2


def test_integers_and_masks_are_not_quantized(tmp_path: Path):
    batches = [(torch.full((1, 5), i), torch.rand(1, 10, 3) > 0.5, torch.randn(1, 10, 3)) for i in range(8)]
    built = api.build(Indexed(), batches[0], calibration=batches, output=tmp_path / "out")
    assert [info.dtype for info in built.manifest.inputs] == ["int64", "bool", "float32"]
    assert "aten::embedding" in {op.op for op in built.manifest.cpu_ops}
    assert {op.op for part in built.manifest.partitions for op in part.ops} >= {"FULLY_CONNECTED", "MUL", "ADD"}
    for samples in ([tuple(x.numpy() for x in batch) for batch in batches], api.seeded_inputs(built.manifest, 2)):
        assert compare(tmp_path / "out", samples).passed
    with pytest.raises(InputError) as caught:
        api.run(tmp_path / "out", (np.full((1, 5), 10), *(x.numpy() for x in batches[0][1:])))
    assert str(caught.value) == (
        f"{tmp_path / 'out' / 'model.pte'}: ExecuTorch's runtime failed to run the program: Check failed "
        "(indices_ptr[i] < weight_height): indices_ptr[0] 10 >= weight.size(0) 10\n\n"
        "hint: integer inputs are often indices: give values that the model allows"
    )


@pytest.mark.parametrize("kept", [(), ("aten::sigmoid", "aten::tanh")], ids=["on the NPU", "on the CPU"])
def test_a_layer_before_a_curve_has_a_range_of_its_own(kept: tuple[str, ...], tmp_path: Path):
    torch.manual_seed(0)
    batches = [3 * torch.randn(1, 8) for _ in range(8)]
    model = nn.Sequential(nn.Linear(8, 6), Applies(torch.sigmoid), nn.Linear(6, 3), Applies(torch.tanh))
    options = api.BuildOptions(operators_not_to_delegate=kept)
    api.build(model, batches[0], calibration=batches, output=tmp_path / "out", options=options)
    found = compare(tmp_path / "out", [(batch.numpy(),) for batch in batches])
    assert found.failures() == ()


def test_a_partition_that_computes_nothing_copies():
    built = api.build(nn.MaxPool2d(1), torch.ones(1, 2, 4, 4), calibration=[torch.ones(1, 2, 4, 4)])
    assert [kernel.kernel for kernel in built.manifest.partitions[0].kernels] == ["copy_s8"]


def test_run_checks_its_inputs_and_the_directory(built, tmp_path: Path):
    directory = built[0].directory
    with pytest.raises(InputError) as caught:
        api.run(directory, SAMPLES[0][:1])
    assert str(caught.value) == "the model takes 2 inputs, found 1"
    with pytest.raises(InputError) as caught:
        api.run(directory, (SAMPLES[0][1], SAMPLES[0][1]))
    assert str(caught.value) == "input 0 is float32 [1, 4, 6, 6], the model takes float32 [1, 2, 6, 6]"
    for name in ("model.pte", "build.json"):
        (tmp_path / name).write_bytes((directory / name).read_bytes())
    (tmp_path / "model.pte").write_bytes(b"other")
    with pytest.raises(FormatError, match=r"`model\.pte` is not the file that `build\.json` describes"):
        api.run(tmp_path, SAMPLES[0])


def test_seeded_inputs_are_the_models_and_repeat(built):
    manifest = built[0].manifest
    one, two, other = (api.seeded_inputs(manifest, 2, seed) for seed in (1, 1, 2))
    assert [[x.shape for x in s] for s in one] == [[(1, 2, 6, 6), (1, 4, 6, 6)]] * 2
    assert all((a == b).all() for x, y in zip(one, two, strict=True) for a, b in zip(x, y, strict=True))
    assert not (one[0][0] == one[1][0]).all()
    assert not (one[0][0] == other[0][0]).all()


CUT_OFF: Mapping[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "slice of tanh": (lambda y: torch.tanh(y)[:, 2:6], 0.03),
    "concat with tanh": (lambda y: torch.cat([torch.tanh(y), nn.functional.hardswish(y)], 1), 0.03),
    "minus sigmoid": (lambda y: -torch.sigmoid(y), 0.01),
    "exp of sigmoid": (lambda y: torch.exp(torch.sigmoid(y)), 0.03),
    "maximum": (lambda y: torch.maximum(torch.sigmoid(y), y * 3), 0.1),
    "square": (lambda y: y * y, 0.1),
}
"""Functions whose range would be cut off by a quantization that they have to share, and the error that is allowed."""


class Branches(nn.Module):
    """All kinds of outputs, each from a separate convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3, 8, 3) for _ in CUT_OFF)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(layer(x)) for layer, (function, _) in zip(self.layers, CUT_OFF.values(), strict=True))


def test_no_range_is_cut_off_by_a_quantization_that_it_has_to_share(tmp_path: Path):
    torch.manual_seed(1)
    batches = [torch.randn(1, 3, 8, 8) for _ in range(4)]
    model = Branches().eval()
    api.build(model, batches[0], calibration=batches, output=tmp_path / "out")
    assert compare(tmp_path / "out", [(batch.numpy(),) for batch in batches]).passed
    errors = dict.fromkeys(CUT_OFF, 0.0)
    for x in batches:
        with torch.no_grad():
            wanted = model(x)
        for name, ours, theirs in zip(CUT_OFF, api.run(tmp_path / "out", [x.numpy()]), wanted, strict=True):
            errors[name] = max(errors[name], float(np.abs(ours - theirs.numpy()).max()))
    assert {name: error for name, error in errors.items() if error >= CUT_OFF[name][1]} == {}


def test_an_operator_to_keep_that_the_model_does_not_have():
    options = api.BuildOptions(operators_not_to_delegate=("aten::adddmm", "aten::relu"))
    assert api.build(FC, X, calibration=[X, X / 2], options=options).manifest.warnings == (
        "`--operators-not-to-delegate aten::adddmm` keeps nothing on the CPU; "
        "the NPU has `aten::addmm`, `aten::permute_copy`",
    )


class Expanded(nn.Module):
    """Has a buffer and a parameter of one element with strides of 0."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.offset = nn.Buffer(torch.tensor(0.5).expand(1, 1))
        self.factor = nn.Parameter(torch.tensor(0.8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        return y + self.offset, self.factor * y[:1, :1]


def test_numbers_that_were_expanded(tmp_path: Path) -> None:
    batches = [(torch.randn(4, 8),) for _ in range(4)]
    made = api.build(Expanded(), batches[0], target="cortex-m55", calibration=batches, output=tmp_path / "build")
    assert min(output.sqnr for output in made.manifest.quality.outputs) > 25
