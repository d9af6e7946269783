"""Whole builds of small models: what comes out, and each error with its exact text."""

import hashlib
import importlib.metadata
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import deuteron
from deuteron import api
from deuteron.compare import compare
from deuteron.errors import DeuteronError, FormatError, InputError, MissingToolError, OptionError, UnsupportedError
from deuteron.frontend.build import NO_CALIBRATION, NOTHING_DELEGATED, STEPS
from deuteron.kernels import selection
from deuteron.microcode.decode import decode
from deuteron.sdk import surface
from deuteron.tflite import decode as flat
from deuteron.tflite.encode import encode
from deuteron.tflite.neutron import unwrap

torch.set_num_threads(1)
pytestmark = pytest.mark.slow


class Net(nn.Module):
    """Two inputs, two outputs, a convolution on the way of both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.relu(self.conv(x))
        z = z + y
        return self.pool(z), z


class Applies(nn.Module):
    """One function of one input."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


APPLIES = f"{__file__}:{inspect.getsourcelines(Applies.forward)[1] + 1}"
FC = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
X = torch.linspace(-1, 1, 8).reshape(1, 8)


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


def test_a_build_says_nothing_itself(capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder):
    api.build(FC, X, calibration=[X])
    assert capfd.readouterr() == ("", "")
    assert [str(w.message) for w in recwarn.list] == []


def test_without_calibration_data_there_is_a_warning():
    assert api.build(FC, X).manifest.warnings == (NO_CALIBRATION,)


def test_nothing_to_delegate_is_a_warning_and_the_program_runs(tmp_path: Path):
    build = api.build(Applies(torch.sin), X, calibration=[X], output=tmp_path / "out")
    assert build.manifest.warnings == (NOTHING_DELEGATED,)
    assert build.manifest.partitions == ()
    (y,) = api.run(tmp_path / "out", [X.numpy()])
    assert np.allclose(y, np.sin(X.numpy()), atol=0.01)
    assert compare(tmp_path / "out", [(X.numpy(),)]).passed


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


def test_integers_and_masks_are_not_quantised(tmp_path: Path):
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
        "hint: integer inputs often are indices: give ones that the model allows"
    )


def failure(kind: type[DeuteronError], *args: object, **kwargs: object) -> str:
    with pytest.raises(kind) as caught:
        api.build(*args, **kwargs)
    return str(caught.value)


def test_unknown_target():
    assert failure(OptionError, FC, X, target="imxrt70").startswith("unknown target `imxrt70`")
    with pytest.raises(OptionError) as caught:
        api.build(FC, X, target="imxrt70")
    assert caught.value.hint is not None
    assert "`imxrt700`" in caught.value.hint


def test_not_a_module():
    assert failure(InputError, {"state": 1}, X) == (
        "the model is of type `dict`, not a `torch.nn.Module` object\n\n"
        "hint: pass an instance, for example `MyNet()`; wrap a function in a module with a `forward` method"
    )


def test_calibration_of_another_shape():
    assert failure(InputError, FC, X, calibration=[X, X.reshape(2, 4)]) == (
        "calibration batch 1, input 0 has shape [2, 4], the example input has [1, 8]\n\n"
        "hint: shapes are fixed when compiling; split or reshape the calibration data to the example's shape"
    )


def test_calibration_that_is_not_finite():
    assert failure(InputError, FC, X, calibration=[X * float("nan")]) == (
        "calibration batch 0, input 0 holds 8 of 8 values that are NaN or infinite\n\n"
        "hint: remove or mend these samples; ranges measured from them would be meaningless"
    )


def test_an_operator_that_nothing_can_run():
    assert failure(UnsupportedError, Applies(torch.erfinv), X * 0.9, calibration=[X * 0.9]) == (
        f"{APPLIES}: nothing can run the operator `aten::erfinv`: neither the NPU nor the CPU kernels of ExecuTorch's "
        "runtime, at `return self.function(x)`\n\n"
        "hint: write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
    )


@torch.library.custom_op("deuteron_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_an_operator_without_an_out_variant():
    assert failure(UnsupportedError, Applies(twice), X, calibration=[X]) == (
        f"{APPLIES}: nothing can run the operator `deuteron_tests::twice`: neither the NPU nor the CPU kernels of "
        "ExecuTorch's runtime, at `return self.function(x)`\n\n"
        "hint: write the model with operators that the NPU or ExecuTorch's portable and quantized kernels have"
    )


def test_an_operator_that_the_partitioner_takes_and_the_converter_does_not():
    rows = X.flatten()[:2].repeat(70_000, 1)
    text = failure(UnsupportedError, Applies(lambda x: x.amax(1)), rows, calibration=[rows])
    assert ": op 0 ReduceMax, output `" in text
    assert (
        ": before and after the reduced dimensions of a tensor are at most 65,536 elements; found 70000 and 1" in text
    )
    assert text.endswith("\n\nhint: keep it on the CPU with `--operators-not-to-delegate aten::amax`")
    options = api.BuildOptions(operators_not_to_delegate=("aten::amax",))
    kept = api.build(Applies(lambda x: x.amax(1)), rows, calibration=[rows], options=options)
    assert kept.manifest.partitions == ()


@pytest.mark.parametrize("curve", [torch.sigmoid, torch.tanh])
@pytest.mark.parametrize("kept", [(), ("aten::sigmoid", "aten::tanh")], ids=["on the NPU", "on the CPU"])
def test_a_layer_before_a_curve_has_a_range_of_its_own(
    curve: Callable[[Tensor], Tensor], kept: tuple[str, ...], tmp_path: Path
):
    torch.manual_seed(0)
    batches = [3 * torch.randn(1, 8) for _ in range(8)]
    model = nn.Sequential(nn.Linear(8, 6), Applies(curve), nn.Linear(6, 3), Applies(curve))
    options = api.BuildOptions(operators_not_to_delegate=kept)
    api.build(model, batches[0], calibration=batches, output=tmp_path / "out", options=options)
    found = compare(tmp_path / "out", [(batch.numpy(),) for batch in batches])
    assert found.failures() == ()


def test_float_left_in_a_partition_names_the_line(monkeypatch: pytest.MonkeyPatch):
    real = surface.convert

    def convert_with_float(tflite: bytes, *args: object):
        model = flat.decode(tflite)
        hidden = model.operators[0].outputs[0]
        tensors = tuple(replace(t, dtype="FLOAT32") if i == hidden else t for i, t in enumerate(model.tensors))
        return real(encode(replace(model, tensors=tensors)), *args)

    monkeypatch.setattr(surface, "convert", convert_with_float)
    module = nn.Sequential(Applies(nn.Linear(8, 8)), Applies(nn.ReLU()))
    text = failure(UnsupportedError, module, X, calibration=[X])
    name = text.partition("tensor `")[2].partition("`")[0]
    problem = f"float left in a partition: tensor `{name}` is FLOAT32"
    first, second, third, *hint = text.split("\n")
    assert first == "2 operators cannot be compiled:"
    assert second == f"  {APPLIES}: `return self.function(x)`: op 0 FULLY_CONNECTED, output `{name}`: {problem}"
    assert third.startswith(f"  {APPLIES}: `return self.function(x)`: op 1 RELU, output `")
    assert third.endswith(problem)
    assert hint == ["", "hint: keep it on the CPU with `--operators-not-to-delegate aten::addmm,aten::relu`"]


def test_a_partition_that_computes_nothing_copies():
    built = api.build(nn.MaxPool2d(1), torch.ones(1, 2, 4, 4), calibration=[torch.ones(1, 2, 4, 4)])
    assert [kernel.kernel for kernel in built.manifest.partitions[0].kernels] == ["copy_s8"]


def test_an_existing_directory_is_refused_before_any_work(tmp_path: Path):
    def never(*_: object) -> None:
        raise AssertionError("work began")

    assert failure(OptionError, FC, X, output=tmp_path, progress=never) == (
        f"`{tmp_path}` already exists\n\nhint: choose another output directory, or replace this one with `--force`"
    )


def test_a_build_that_fails_leaves_nothing(tmp_path: Path):
    failure(UnsupportedError, Applies(torch.erfinv), X * 0.9, output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_another_executorch_is_refused(monkeypatch: pytest.MonkeyPatch):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.4.2" if name == "executorch" else real(name))
    assert failure(MissingToolError, FC, X) == (
        "ExecuTorch 1.5.x is required, found 1.4.2\n\n"
        "hint: install the release that Deuteron was tested with: `pip install executorch==1.5.1`"
    )


VENDOR = api.BuildOptions(converter=api.Converter.VENDOR)


def test_the_vendors_converter_when_it_is_not_installed():
    assert failure(MissingToolError, FC, X, options=VENDOR) == (
        "the vendor's converter, package `eiq_neutron_sdk`, is not installed\n\n"
        "hint: install it from NXP, or leave out `--converter vendor` to use Deuteron's own"
    )


FAKE_VENDOR = """
from types import SimpleNamespace

class neutron_converter:
    @staticmethod
    def getNeutronTarget(name):
        return SimpleNamespace(name=name, subsystem=False, numUnits=1, numPipes=8, numMacs=8, hwVersion=2)

    class CompilationContext:
        def __init__(self):
            self.compilationOpts = SimpleNamespace()

    @staticmethod
    def convertModel(model, context):
        from deuteron.convert import convert
        from deuteron.tflite.neutron import wrap

        return wrap(bytes(model), convert(bytes(model), "imxrt700").container, {"made by": b"the vendor"})

class neutron_library_utils:
    @staticmethod
    def isNeutronTarget(name):
        return name == "imxrt700"

    @staticmethod
    def getNeutronTargets():
        return [neutron_converter.getNeutronTarget("imxrt700")]
"""


def test_the_vendors_converter_is_used_when_asked_for_and_ours_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "eiq_neutron_sdk.py").write_text(FAKE_VENDOR)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        options = replace(VENDOR, intermediates=True)
        api.build(FC, X, calibration=[X], options=options, output=tmp_path / "vendor")
        api.build(
            FC, X, calibration=[X], options=replace(options, converter=api.Converter.OPEN), output=tmp_path / "open"
        )
    finally:
        sys.modules.pop("eiq_neutron_sdk", None)
    _, theirs = unwrap((tmp_path / "vendor" / "npu_0.converted.tflite").read_bytes())
    _, ours = unwrap((tmp_path / "open" / "npu_0.converted.tflite").read_bytes())
    assert "made by" in theirs
    assert "deuteron.version" in ours
    assert api.read_manifest(tmp_path / "vendor").partitions[0].kernels == ()


DUMP = api.BuildOptions(dump_kernel_selection_code=True)


def test_each_partition_has_its_kernel_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    module = nn.Sequential(nn.Linear(8, 8), Applies(torch.erf), nn.Sigmoid())
    made = api.build(module, X, calibration=[X], options=DUMP, output=tmp_path / "out")
    assert len(made.manifest.partitions) == 2
    names = [f"npu_{i}_kernel_selection.c" for i in range(len(made.manifest.partitions))]
    assert [name for name in made.manifest.files if name.endswith(".c")] == names
    for name, partition in zip(names, made.manifest.partitions, strict=True):
        selected = [kernel.name for kernel in selection.read(tmp_path / "out" / name).kernels]
        assert set(selected) == {kernel.kernel for kernel in partition.kernels}
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("writes", [True, False])
def test_the_kernel_selection_of_the_vendors_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool):
    write = "open('_kernel_selection.c', 'w').write('theirs')\n        return wrap("
    (tmp_path / "eiq_neutron_sdk.py").write_text(FAKE_VENDOR.replace("return wrap(", write) if writes else FAKE_VENDOR)
    monkeypatch.syspath_prepend(tmp_path)
    options = replace(DUMP, converter=api.Converter.VENDOR)
    try:
        if writes:
            api.build(FC, X, calibration=[X], options=options, output=tmp_path / "out")
            assert (tmp_path / "out" / "npu_0_kernel_selection.c").read_text() == "theirs"
        else:
            assert failure(UnsupportedError, FC, X, options=options, output=tmp_path / "out") == (
                "the converter wrote no kernel selection file for partition 0\n\n"
                "hint: build without `--dump-kernel-selection-code`"
            )
            assert not (tmp_path / "out").exists()
    finally:
        sys.modules.pop("eiq_neutron_sdk", None)


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


def errors_of(function, tmp_path: Path) -> float:
    """The largest error of a quantised function of a convolution's result; the build agrees with its reference."""
    torch.manual_seed(1)
    batches = [torch.randn(1, 3, 8, 8) for _ in range(4)]
    model = nn.Sequential(nn.Conv2d(3, 8, 3), Applies(function)).eval()
    api.build(model, batches[0], calibration=batches, output=tmp_path / "out")
    assert compare(tmp_path / "out", [(batch.numpy(),) for batch in batches]).passed
    with torch.no_grad():
        return max(float(np.abs(api.run(tmp_path / "out", [x.numpy()])[0] - model(x).numpy()).max()) for x in batches)


@pytest.mark.parametrize(
    ("function", "allowed"),
    [
        (lambda y: torch.tanh(y)[:, 2:6], 0.03),
        (lambda y: torch.cat([torch.tanh(y), nn.functional.hardswish(y)], 1), 0.03),
        (lambda y: -torch.sigmoid(y), 0.01),
        (lambda y: torch.exp(torch.sigmoid(y)), 0.03),
        (lambda y: torch.maximum(torch.sigmoid(y), y * 3), 0.1),
        (lambda y: y * y, 0.1),
    ],
    ids=["slice of tanh", "concat with tanh", "minus sigmoid", "exp of sigmoid", "maximum", "square"],
)
def test_no_range_is_cut_off_by_a_quantisation_that_it_has_to_share(function, allowed: float, tmp_path: Path):
    assert errors_of(function, tmp_path) < allowed


class Cuts(nn.Module):
    """A slice of something whose range is fixed."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)[:, 2:6]


def test_an_operator_that_the_wheel_quantised_and_cannot_convert(monkeypatch: pytest.MonkeyPatch):
    from deuteron.frontend import annotations

    monkeypatch.setattr(annotations, "mend", lambda model, *_, **__: model)
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3), Cuts()), torch.ones(1, 3, 8, 8)
    assert failure(UnsupportedError, model, x, calibration=[x]) == (
        f"{__file__}:{inspect.getsourcelines(Cuts.forward)[1] + 1}: ExecuTorch's NXP backend quantised "
        "`aten::slice_copy.Tensor` in a way that it cannot convert, at `return torch.tanh(x)[:, 2:6]`\n\n"
        "hint: keep it on the CPU with `--operators-not-to-delegate aten::slice_copy`"
    )


def test_an_operator_to_keep_that_the_model_does_not_have():
    options = api.BuildOptions(operators_not_to_delegate=("aten::adddmm", "aten::relu"))
    assert api.build(FC, X, calibration=[X], options=options).manifest.warnings == (
        "`--operators-not-to-delegate aten::adddmm` keeps nothing on the CPU; "
        "the NPU has `aten::addmm`, `aten::permute_copy`",
    )
