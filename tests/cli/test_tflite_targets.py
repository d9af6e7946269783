"""TFLite files on a Cortex-M, an Ethos-U and a Neutron with a Cortex-M: run, compared, built, explained, on a board."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.cli.test_inspect import GRAPH
from tests.graph_stripes.networks import random_network
from tests.npu.neutron.tflite import litert
from tests.npu.neutron.tflite.files import with_float_edges
from tests.npu.neutron.tflite.partitioned_files import Net, Q
from tests.tflite.cortex_m.test_dead_channels import random_model
from tests.tflite.stateful import StatefulNet

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.vela import VelaOptions
from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.board.host_executor import HostExecutor, StepResult
from deuteron.builds import manifest as manifests
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime import tflite_model, tflite_nodes, vela_compile
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.quantization import Quant
from deuteron.views.compare.tflite_operators import OperatorComparison

from .conftest import Result

Run = Callable[..., Result]

TARGETS = ("cortex-m55", "cortex-m0plus", "ethos-u55-128", "imxrt700cm")


def layers() -> tuple[Net, int]:
    """A layer, a pool, an activation that no NPU takes, and a RESHAPE."""
    net, rng = Net(), np.random.default_rng(0)
    weights, bias = net.constant(tuple(range(8 * 8)), (8, 1, 1, 8)), net.constant(tuple(range(-400, 400, 100)))
    values = rng.integers(-127, 128, 64, np.int8)
    net.tensors[weights] = replace(
        net.tensors[weights], dtype="INT8", data=values.tobytes(), quant=Quant((2**-7,) * 8, (0,) * 8, 0)
    )
    net.tensors[bias] = replace(net.tensors[bias], quant=Quant((2**-8,) * 8, (0,) * 8, 0))
    options = {"Padding": 1, "StrideW": 1, "StrideH": 1, "FusedActivationFunction": 1,
               "DilationWFactor": 1, "DilationHFactor": 1}  # fmt: skip
    y = net.add("CONV_2D", 0, weights, bias, kind="Conv2DOptions", **options)
    pool = {"Padding": 1, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2, "FusedActivationFunction": 0}
    y = net.add("MAX_POOL_2D", y, shape=(1, 2, 2, 8), kind="Pool2DOptions", **pool)
    y = net.add("MAXIMUM", y, net.add("RELU6", y, shape=(1, 2, 2, 8)), shape=(1, 2, 2, 8), kind="MaximumMinimumOptions")
    return net, net.add("RESHAPE", net.real(y), net.constant((1, 32)), shape=(1, 32), dtype="FLOAT32",
                        kind="ReshapeOptions")  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    net, y = layers()
    file = tmp_path / "net.tflite"
    file.write_bytes(net.data(y))
    return file


@pytest.mark.parametrize("target", full.only(TARGETS, "cortex-m0plus", "ethos-u55-128", "imxrt700cm"))
def test_files_run_on_every_target_as_in_litert(target: str, deuteron: Run, path: Path, tmp_path: Path):
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    samples = np.random.default_rng(1).integers(-128, 128, (3, 1, 4, 4, 8), np.int8)
    np.save(x, samples)
    assert deuteron("run", path, "--target", target, "--input", x, "--output", y).code == 0
    wanted = np.stack([litert.run_bytes(path.read_bytes(), [one])[0] for one in samples])
    step = Q.scale if target == "imxrt700cm" else 0  # a Neutron rounds once
    np.testing.assert_allclose(np.load(y), wanted, rtol=0, atol=step)
    compared = deuteron("run", path, "--target", target, "--input", x, "--compare", "litert")
    assert compared.code == 0
    assert "operator by operator: 0 of " in compared.out
    chained = "chained, they differ from the whole program in 0 values; none may"
    assert (chained in compared.out) == (target in {"ethos-u55-128", "imxrt700cm"})


def test_a_partition_that_computes_something_else_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch):
    """The partition of the whole file is changed, its operators by themselves are not."""
    subject = api.subject(build_directory(path, "ethos-u55-128"))
    values = HostExecutor.values

    def changed(self: HostExecutor, sample: list[np.ndarray]) -> Iterator[StepResult]:
        for result in values(self, sample):
            yield replace(result, outputs=tuple(y ^ 1 if y.dtype == np.int8 else y for y in result.outputs))

    monkeypatch.setattr(HostExecutor, "values", changed)
    comparison = subject.compare(subject.draw(2))
    assert any("whole program, output" in failure for failure in comparison.failures())


def test_the_first_difference_is_told(path: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    """A run whose outputs are changed, each in its last value."""
    build = build_directory(path, "cortex-m55")
    run = HostExecutor.run

    def changed(self: HostExecutor, sample: list[np.ndarray]) -> list[np.ndarray]:
        (y,) = run(self, sample)
        y[..., -1] += 0.5
        return [y]

    monkeypatch.setattr(HostExecutor, "run", changed)
    subject = api.subject(build)
    comparison = subject.compare(subject.draw(2))
    name = api.read_manifest(build).outputs[0].name
    assert comparison.failures() == (
        f"output `{name}`: 2 of 64 values differ from LiteRT's, by up to 0.5; the first in sample 0 at [0, 31]",
    )


@pytest.mark.parametrize("target", ["cortex-m55", "ethos-u55-128"])
def test_a_build_of_a_file_is_a_build(target: str, deuteron: Run, path: Path, tmp_path: Path):
    build = tmp_path / "build"
    assert deuteron("build", path, "--target", target, "-o", build).code == 0
    manifest = api.read_manifest(build)
    assert (manifest.target, manifest.executorch, manifest.model.name) == (target, "", "net")
    assert (build / manifests.TFLITE).read_bytes() == path.read_bytes()
    again = deuteron("build", path, "--target", target, "-o", build)
    assert (again.code, "exists" in again.err) == (2, True)
    assert "all bounds hold" in deuteron("run", build, "--compare").out
    explained = deuteron("explain", build).out
    assert "C operators of the firmware, which compute as LiteRT's reference kernels" in explained
    assert "computed by firmware::" in explained
    (build / manifests.TFLITE).unlink()
    assert deuteron("run", build).code == 0
    assert deuteron("run", build, "--compare", "litert") == Result(
        2, "",
        f"error: `{build}` has no `model.tflite` any more, which it is compared with\n\nhint: build the file again\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--use-qat",), "`--use-qat` is for PyTorch models, and `{}` is a TFLite file"),
        (("--activations", "int16"), "`--activations` is for PyTorch models, and `{}` is a TFLite file"),
        (
            ("--evaluate", "a.py:b"),
            "training and evaluation are for PyTorch models, and `{}` is a TFLite file",
        ),
    ],
)  # fmt: skip
def test_options_for_pytorch_models_are_refused(
    arguments: tuple[str, ...], message: str, deuteron: Run, path: Path, tmp_path: Path
):
    result = deuteron("build", path, "--target", "cortex-m55", "-o", tmp_path / "build", *arguments)
    assert (result.code, result.err.splitlines()[0]) == (2, f"error: {message.format(path)}")
    assert not (tmp_path / "build").exists()


def test_operators_have_their_work_and_reasons(path: Path):
    nodes = {node.op: node for node in api.read_manifest(build_directory(path, "cortex-m55")).nodes}
    assert (nodes["CONV_2D"].macs, nodes["CONV_2D"].why) == (4 * 4 * 8 * 8, "the target `cortex-m55` has no NPU")
    assert nodes["RESHAPE"].work.value == "nothing"
    build = api.read_manifest(build_directory(path, "ethos-u55-128"))
    on_npu = [node.op for node in build.nodes if node.partition is not None]
    assert on_npu[:2] == ["CONV_2D", "MAX_POOL_2D"]
    left = {node.op: node.why for node in build.nodes if node.partition is None}
    assert left["DEQUANTIZE"].startswith("Vela leaves it to the CPU")


def test_commands_are_of_the_operators_of_the_file(tmp_path: Path, deuteron: Run):
    """Those of two partitions, between which the CPU computes ELU."""
    net = Net()
    pool = {"Padding": 1, "StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2, "FusedActivationFunction": 0}
    y = net.add("AVERAGE_POOL_2D", 0, shape=(1, 3, 3, 8), kind="Pool2DOptions", **pool)
    y = net.add("ELU", net.add("RELU", y, shape=(1, 3, 3, 8)), shape=(1, 3, 3, 8))
    y = net.add("MAX_POOL_2D", y, shape=(1, 2, 2, 8), kind="Pool2DOptions", **pool)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data(y))
    manifest = api.read_manifest(build_directory(path, "ethos-u55-128"))
    found = [{part.ops[op].op for kernel in part.kernels for op in kernel.ops} for part in manifest.partitions]
    assert found == [{"AVERAGE_POOL_2D", "RELU"}, {"MAX_POOL_2D"}]
    profiled = deuteron("profile", path, "--target", "ethos-u55-128", "--on", "an547", "-o", tmp_path / "out").out
    assert "MAX_POOL_2D (" in profiled
    assert " ELU (" in profiled
    assert not any(line.endswith((" module", " line")) for line in profiled.splitlines())


def test_operators_beside_a_neutron_keep_the_arithmetic_of_uint8():
    prepared = tflite_model.prepare(encode(random_model(np.random.default_rng(0), "UINT8")))
    restored = tflite_nodes.with_origins(decode(prepared.file, partial=True), prepared.model)
    kept = [op.is_unsigned for op in restored.operators]
    assert any(kept)
    assert kept == [op.is_unsigned for op in prepared.model.operators]


def test_a_change_of_scale_between_operators_of_an_npu_is_not_compared_by_itself(tmp_path: Path, deuteron: Run):
    """A QUANTIZE of uint8 alone runs on the CPU, which rounds as LiteRT does; the NPU rounds once."""
    net = Net()
    pool = {"Padding": 1, "StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2, "FusedActivationFunction": 0}
    y = net.add(
        "QUANTIZE", net.add("MAX_POOL_2D", 0, shape=(1, 3, 3, 8), kind="Pool2DOptions", **pool), shape=(1, 3, 3, 8)
    )
    net.tensors[y] = replace(net.tensors[y], quant=Quant((float(np.float32(0.5 / 0.4229)),), (0,)))
    z = net.add("MAX_POOL_2D", y, shape=(1, 2, 2, 8), kind="Pool2DOptions", **pool)
    net.tensors[z] = replace(net.tensors[z], quant=net.tensors[y].quant)
    for at, tensor in enumerate(net.tensors):
        if tensor.quant is not None:
            point = tensor.quant.zero_points[0] + 128
            net.tensors[at] = replace(tensor, dtype="UINT8", quant=replace(tensor.quant, zero_points=(point,)))
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data(z))
    compared = deuteron("run", path, "--target", "imxrt700cm", "--compare", "litert", "--samples", "20")
    assert (compared.code, "not compared: 1" in compared.out) == (0, True), compared.out


def test_inspect_shows_what_a_file_becomes(path: Path, deuteron: Run):
    shown = json.loads(deuteron("inspect", path, "--target", "cortex-m55", "--json").out)
    assert shown["path"] == str(path)
    assert "firmware::dtn_cm_quantized_conv2d.out" in shown["cpu_operators"]


def test_files_that_vela_compiled_run_with_what_it_left(path: Path, deuteron: Run, tmp_path: Path):
    source = tflite_model.prepare(path.read_bytes()).file
    made = vela_compile.compile_file(source, targets.load("ethos-u55-128").need_ethosu(), VelaOptions())
    compiled = tmp_path / "net_vela.tflite"
    compiled.write_bytes(made.file)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    sample = np.random.default_rng(1).integers(-128, 128, (1, 4, 4, 8), np.int8)
    np.save(x, sample)
    assert deuteron("run", compiled, "--input", x, "--output", y).code == 0
    np.testing.assert_array_equal(np.load(y), litert.run_bytes(path.read_bytes(), [sample])[0])
    other = deuteron("run", compiled, "--target", "ethos-u55-256")
    assert other.err.splitlines()[0] == (
        "error: npu 0: the commands are for `ethos-u55-128`, the target is `ethos-u55-256`"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("target", "board"), [("cortex-m33", "an505"), ("ethos-u55-128", "an547")])
def test_boards_give_the_hosts_bytes(target: str, board: str, path: Path, deuteron: Run):
    result = deuteron("run", path, "--target", target, "--on", board, "--compare", "host")
    assert f"{board} and the host give the same bits for 1 sample" in result.out


def test_float_edges_of_a_file_that_the_npu_takes_run_on_the_cpu(tmp_path: Path, deuteron: Run):
    path = tmp_path / "edges.tflite"
    path.write_bytes(with_float_edges(emit(parse_graph(GRAPH))))
    assert "operator by operator: 0 of " in deuteron("run", path, "--target", "imxrt700cm", "--compare", "litert").out
    nodes = api.read_manifest(build_directory(path, "imxrt700cm")).nodes
    on_cpu = {node.op: node.why for node in nodes if node.partition is None}
    assert set(on_cpu) == {"QUANTIZE", "DEQUANTIZE"}
    assert set(on_cpu.values()) == {"changes between integers and floats, at the inputs and outputs of the file"}


def test_files_of_which_the_npu_takes_nothing_run_on_the_cpu(tmp_path: Path, deuteron: Run):
    net = Net()
    net.tensors[0] = replace(net.tensors[0], dtype="INT16", quant=Quant((2**-8,), (0,)))
    y = net.add("MAXIMUM", 0, 0, dtype="INT16", kind="MaximumMinimumOptions")
    net.tensors[y] = replace(net.tensors[y], quant=net.tensors[0].quant)
    path = tmp_path / "int16.tflite"
    path.write_bytes(net.data(y))
    assert "all bounds hold" in deuteron("run", path, "--target", "imxrt700cm", "--compare", "litert").out
    (node,) = api.read_manifest(build_directory(path, "imxrt700cm")).nodes
    assert node.why == "the NPU takes no operator of the file: graph input `x` is INT16; INT8 is allowed"


def test_a_plan_of_the_files_maker_is_not_velas(path: Path, deuteron: Run):
    """Vela copies the file's metadata and adds its own of the same name."""
    model = tflite_model.prepare(path.read_bytes()).model
    path.write_bytes(encode(replace(model, metadata={"OfflineMemoryAllocation": bytes(16)})))
    assert deuteron("run", path, "--target", "ethos-u55-128").code == 0


def test_float_layers_run_beside_an_ethosu(tmp_path: Path, deuteron: Run):
    """Vela gives a float layer without a bias one of int32."""
    net = Net()
    net.tensors[0] = replace(net.tensors[0], dtype="FLOAT32", quant=None, shape=(2, 8))
    weights = net.constant(tuple(range(24)), (3, 8))
    values = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    net.tensors[weights] = replace(net.tensors[weights], dtype="FLOAT32", data=values.tobytes())
    options = {"FusedActivationFunction": 0, "WeightsFormat": 0, "KeepNumDims": 0}
    y = net.add(
        "FULLY_CONNECTED", 0, weights, -1, dtype="FLOAT32", shape=(2, 3), kind="FullyConnectedOptions", **options
    )
    path = tmp_path / "float.tflite"
    path.write_bytes(net.data(y))
    assert "all bounds hold" in deuteron("run", path, "--target", "ethos-u55-128", "--compare", "litert").out


def test_a_stream_keeps_the_state_of_a_file(deuteron: Run, tmp_path: Path):
    """Each run adds its input to what a variable has."""
    net, file = StatefulNet(), tmp_path / "net.tflite"
    x, handle = net.input((1, 4), "FLOAT32"), net.variable("sum", np.zeros((1, 4), np.float32))
    new = net.add("ADD", [net.read(handle, (1, 4), "FLOAT32"), x], (1, 4), "FLOAT32", "AddOptions")
    net.assign(handle, new)
    net.outputs.append(new)
    file.write_bytes(net.file())
    given, output = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(given, np.ones((5, 1, 4), np.float32))
    for option, wanted in (((), [1, 1, 1, 1, 1]), (("--stream",), [1, 2, 3, 4, 5])):
        arguments = (*option, file, "--target", "cortex-m33", "--input", given, "--output", output, "--force")
        assert deuteron("run", *arguments).code == 0
        np.testing.assert_array_equal(np.load(output)[:, 0, 0], wanted)
        compared = deuteron("run", *option, file, "--target", "cortex-m33", "--samples", "5", "--compare", "litert")
        assert compared.out.endswith("all bounds hold\n")


def test_commands_name_the_default_target(deuteron: Run, path: Path, tmp_path: Path):
    said = "target `imxrt700`, the default; `--target` chooses another, and `deuteron targets` lists them\n"
    for command, *args in (("plan",), ("sim",), ("explain",), ("bundle", "-o", tmp_path / "c")):
        assert said in deuteron(command, path, *args).err
    assert not deuteron("plan", path, "--target", "cortex-m55").err


def test_c_operators_have_no_profile_on_the_host(deuteron: Run, path: Path):
    assert deuteron("profile", path, "--target", "cortex-m33").err == (
        f"error: `{path}`: the program calls C operators of the firmware, which `profile` does not measure on the host"
        "\n\nhint: profile it on an emulated board: `--on an505`\n"
    )


@pytest.mark.parametrize("command", [("explain",), ("build", "-o", "m"), ("run",)])
def test_an_error_names_the_default_target(
    deuteron: Run, tmp_path: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    net, file = StatefulNet(), tmp_path / "net.tflite"
    x = net.input((1, 4))
    net.outputs.append(net.add("RANDOM_UNIFORM", [x], (1, 4)))
    file.write_bytes(net.file())
    monkeypatch.chdir(tmp_path)
    name, *options = command
    assert "for the default target `imxrt700`: " in deuteron(name, file, *options).err
    assert "default" not in deuteron(name, file, *options, "--target", "imxrt700").err


@pytest.mark.parametrize("target", ["imxrt700cm", "ethos-u55-128"])
def test_a_file_of_which_nothing_is_on_the_npu_has_the_plan_of_its_bundle(deuteron: Run, tmp_path: Path, target: str):
    net, file = StatefulNet(), tmp_path / "net.tflite"
    x = net.input((1, 4), "FLOAT32")
    net.outputs.append(net.add("ADD", [x, x], (1, 4), "FLOAT32", "AddOptions"))
    file.write_bytes(net.file())
    built = deuteron("build", file, "--target", target, "-o", tmp_path / "m")
    assert built.out.splitlines()[-1] == "SRAM: 32 B; nothing depth first"
    assert sum(memory.bytes for memory in image.bundle_of(tmp_path / "m").memories) == 32
    planned = deuteron("plan", file, "--target", target)
    assert "SRAM: 32 B, at most 32 B live at once" in planned.out
    assert planned.out.splitlines()[1:] == deuteron("plan", file, "--target", "cortex-m55").out.splitlines()[1:]
    assert deuteron("sim", file, "--target", target).err == (
        f"error: nothing of `{file}` runs on an NPU\n\n"
        "hint: `deuteron plan` shows its memory in firmware, `deuteron explain` gives the reasons\n"
    )


def test_a_budget_includes_inputs_and_outputs_next_to_a_neutron(deuteron: Run, tmp_path: Path):
    file, budget = tmp_path / "net.tflite", ("--target", "imxrt700", "--sram-budget", "24Ki")
    file.write_bytes(encode(random_network(1)))
    built = deuteron("build", file, *budget, "-o", tmp_path / "built")
    assert int(built.out.rpartition("= ")[2].split()[0].replace(",", "")) <= 24 * 1024
    assert manifests.read(tmp_path / "built").options.memory.sram_budget == 24 * 1024
    file.write_bytes(encode(random_network(2)))
    refused = deuteron("build", file, *budget, "-o", tmp_path / "other")
    assert refused.code == 1
    assert "inputs, outputs and CPU tensors take 40,464 of 24,576 bytes" in refused.err


def test_the_cpu_alone_is_estimated_in_instructions(deuteron: Run, path: Path):
    explained = deuteron("explain", path, "--target", "cortex-m55").out
    assert " instructions\n" in explained
    assert "cycles" not in explained


def test_a_comparison_without_operators_on_the_cpu_says_so():
    text = OperatorComparison(1, (), ()).text()
    assert "operator by operator: all operators are in partitions of the NPU" in text


def test_outputs_are_checked_before_a_file_is_read(deuteron: Run, tmp_path: Path):
    """The damaged file is not what the error is about."""
    file, output = tmp_path / "net.tflite", tmp_path / "no" / "out"
    file.write_bytes(b"damaged")
    for command, option in (("plan", "--svg"), ("sim", "--trace"), ("bundle", "-o")):
        assert f"{tmp_path / 'no'}`" in deuteron(command, file, option, output).err
