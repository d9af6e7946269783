"""A TFLite file instead of a build: every command for builds takes it, and converts it in memory."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.test_inspect import GRAPH
from tests.npu.neutron.tflite.files import with_float_edges
from tests.npu.neutron.tflite.partitioned_files import SHAPE, Net

from deuteron import api
from deuteron.board.build_directory import build_directory
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime import pte, tflite_calls

from .conftest import Result

Run = Callable[..., Result]


@pytest.fixture(params=[False, True], ids=["int8", "float edges"])
def net(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A TFLite file of three operators, with int8 or with float inputs and outputs."""
    data = emit(parse_graph(GRAPH))
    path = tmp_path / "net.tflite"
    path.write_bytes(with_float_edges(data) if request.param else data)
    return path


def test_each_view_of_a_build(deuteron: Run, net: Path, tmp_path: Path) -> None:
    explained = deuteron("explain", net)
    assert explained.out.startswith(f"{net} on imxrt700: net; on the CPU ExecuTorch's portable operators\n")
    assert "npu 0  CONV_2D  y\nnpu 0  MAX_POOL_2D  z\nnpu 0  ADD  s\n" in explained.out
    assert deuteron("sim", net).out.startswith(f"{net} on imxrt700, simulated: ")
    assert json.loads(deuteron("sim", net, "--json").out)["path"] == str(net)
    assert "CONV_2D" in deuteron("plan", net).out
    profiled = deuteron("profile", net, "--on", "sim", "--by", "operator")
    assert profiled.code == 0
    assert (tmp_path / "net.tflite.profile_sim" / "report.html").is_file()
    assert deuteron("bundle", net, "-o", tmp_path / "bundle").code == 0
    assert "dtn_bundle.c" in {path.name for path in (tmp_path / "bundle").iterdir()}
    assert deuteron("firmware", net, "--board", "an505", "-o", tmp_path / "firmware").code == 0
    assert api.read_manifest(build_directory(net)).partitions[0].ops[-1].op in ("ADD", "DEQUANTIZE")


def test_a_second_view_leaves_the_first_its_files(net: Path) -> None:
    first = build_directory(net)
    (first / "mark").write_text("of whoever reads there")
    assert build_directory(net) == first
    assert (first / "mark").is_file()
    assert build_directory(net, "imxrt700") == first, "its default"
    net.write_bytes(net.read_bytes() + bytes(16))
    changed = build_directory(net)
    assert changed != first
    assert (first / "mark").is_file(), "also once the file is another"


def test_only_profiles_have_kernels_that_record(net: Path) -> None:
    plain, recording = build_directory(net), build_directory(net, profiling=True)
    assert [api.read_manifest(build).options.use_profiling for build in (plain, recording)] == [False, True]
    programs = [(build / "model.pte").read_bytes() for build in (plain, recording)]
    assert programs[0] != programs[1]


def test_a_board_gives_what_the_host_gives(deuteron: Run, net: Path) -> None:
    result = deuteron("run", net, "--on", "an505", "--compare", "host", "--samples", "3", "--target", "imxrt700")
    assert (result.code, result.err) == (0, "")


def test_executorchs_runtime_runs_the_program(net: Path) -> None:
    directory = build_directory(net)
    (info,) = api.read_manifest(directory).inputs
    x = np.random.default_rng(3).integers(-9, 9, info.shape).astype(info.dtype)
    np.testing.assert_array_equal(api.run(directory, [x])[0], api.run(net, [x])[0])


def test_the_program_says_what_the_file_says(net: Path) -> None:
    (method,) = pte.read((build_directory(net) / "model.pte").read_bytes()).methods
    manifest = api.read_manifest(build_directory(net))
    sides = [[method.values[i] for i in side] for side in (method.inputs, method.outputs)]
    for values, infos in zip(sides, (manifest.inputs, manifest.outputs), strict=True):
        assert [(v.spec.shape, v.spec.dtype) for v in values] == [(i.shape, i.dtype) for i in infos]
    called = [i for op in manifest.cpu_ops for i in op.instructions]
    assert called == [i for i, step in enumerate(method.chains[0]) if type(step).__name__ == "KernelCall"]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A file with each form of operator that boards have for what the NPU does not take."""
    net = Net()
    a, b = net.real(net.relu(0)), net.real(0)
    plain = {"dtype": "FLOAT32"}
    for name in ("ADD", "SUB", "MUL"):
        a = net.add(name, a, b, kind=f"{name.title()}Options", FusedActivationFunction=0, **plain)
    a = net.add(
        "DIV", net.add("RELU", a, **plain), net.scalar(2.0), kind="DivOptions", FusedActivationFunction=0, **plain
    )
    a = net.add("RELU_N1_TO_1", net.add("RELU6", a, **plain), **plain)
    smaller = net.add("LESS", a, b, dtype="BOOL", kind="LessOptions")
    equal = net.add("GREATER_EQUAL", a, b, dtype="BOOL", kind="GreaterEqualOptions")
    turned = net.add("TRANSPOSE", a, net.constant((0, 3, 1, 2)), shape=(1, 8, 4, 4), kind="TransposeOptions", **plain)
    flat = net.add("RESHAPE", turned, net.constant((1, 128)), shape=(1, 128), kind="ReshapeOptions", **plain)
    joined = net.add("CONCATENATION", flat, flat, shape=(1, 256), kind="ConcatenationOptions", Axis=1, **plain,
                     FusedActivationFunction=0)  # fmt: skip
    stored = net.maximum(net.relu(net.add("QUANTIZE", a, kind="QuantizeOptions")), 0)
    path = tmp_path / "mixed.tflite"
    path.write_bytes(net.data(smaller, equal, joined, stored, *moved(net, a, b)))
    return path


def moved(net: Net, a: int, b: int) -> Iterator[int]:
    """Operators that only move or compare values of two tensors of one type."""
    kept: dict[str, Any] = {"dtype": net.tensors[a].dtype}
    whole, half, three = SHAPE, (*SHAPE[:3], 4), (*SHAPE[:3], 3)
    yield net.add("BROADCAST_TO", a, net.constant((2, 3, *whole[1:])), shape=(2, 3, *whole[1:]),
                  kind="BroadcastToOptions", **kept)  # fmt: skip
    yield net.add("EMBEDDING_LOOKUP", net.constant((0, 0)), a, shape=(2, *whole[1:]), **kept)
    yield net.add("GATHER", a, net.constant((7, 0, 2)), shape=three, kind="GatherOptions", Axis=3, BatchDims=0, **kept)
    yield net.add("PACK", a, b, shape=(1, 4, 2, 4, 8), kind="PackOptions", ValuesCount=2, Axis=2, **kept)
    yield net.add("SLICE", a, net.constant((0, 1, 0, 0)), net.constant((1, 2, -1, -1)), shape=(1, 2, 4, 8),
                  kind="SliceOptions", **kept)  # fmt: skip
    yield net.parts("SPLIT", net.constant((3,), ()), a, sizes=(4, 4), kind="SplitOptions", NumSplits=2, **kept)
    last = net.parts("SPLIT_V", a, net.constant((1, 4, 3)), net.constant((3,), ()), sizes=(1, 4, 3),
                     kind="SplitVOptions", NumSplits=3, **kept)  # fmt: skip
    yield from (last - 2, last - 1, last)
    yield net.add("STRIDED_SLICE", a, net.constant((0, 0, 0, -7)), net.constant((1, 4, 4, 9)),
                  net.constant((1, 1, 1, 2)), shape=half, kind="StridedSliceOptions", BeginMask=0, EndMask=8,
                  EllipsisMask=0, NewAxisMask=0, ShrinkAxisMask=0, Offset=0, **kept)  # fmt: skip
    yield net.add("REDUCE_MAX", a, net.constant((1, -2)), shape=(1, 8), kind="ReducerOptions", KeepDims=0, **kept)
    yield net.add("GREATER", a, b, dtype="BOOL", kind="GreaterOptions")


def test_a_file_that_the_npu_takes_in_part_is_a_build_too(deuteron: Run, mixed: Path, tmp_path: Path) -> None:
    explained = deuteron("explain", mixed).out
    assert "npu 0  RELU  t1\nnpu 1  RELU  t20\nnpu 1  MAXIMUM  t21\ncpu    ADD  t4\n" in explained
    assert "cpu    ADD  t4\n       tensor `t2` is FLOAT32; INT8 is allowed\n       computed by aten::add\n" in explained
    assert "npu 1: " in deuteron("sim", mixed).out
    assert "npu 1: 128 B scratch + 256 B linked weights" in deuteron("plan", mixed).out
    result = deuteron("run", mixed, "--on", "an505", "--compare", "host", "--samples", "2")
    assert (result.code, result.out) == (0, "an505 and the host give the same bits for 2 samples\n")
    need_the_same(mixed)


def need_the_same(path: Path) -> None:
    """Check that a file gives the same in LiteRT and as a program in ExecuTorch's runtime."""
    x = np.random.default_rng(1).integers(-128, 128, SHAPE, np.int8)
    for in_litert, in_executorch in zip(api.run(path, [x]), api.run(build_directory(path), [x]), strict=True):
        np.testing.assert_array_equal(in_litert, in_executorch)


def test_int8_values_that_the_npu_does_not_move(tmp_path: Path) -> None:
    net, path = Net(), tmp_path / "moves.tflite"
    path.write_bytes(net.data(*moved(net, net.relu(0), 0)))
    assert {"aten::index_select", "aten::stack", "aten::split_with_sizes_copy", "aten::gt"} <= {
        op.op for op in api.read_manifest(build_directory(path)).cpu_ops
    }
    need_the_same(path)


def test_an_operator_that_boards_lack_is_named(deuteron: Run, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    net = Net()
    path.write_bytes(net.data(net.reversed(net.relu(net.through_float(0)))))
    assert deuteron("sim", path).code == 0
    refused = deuteron("firmware", path, "--board", "an505", "-o", tmp_path / "out").err.splitlines()
    known = ", ".join(f"`{name}`" for name in tflite_calls.on_boards())
    assert refused == [
        "error: 2 operators cannot be compiled:",
        "  tensor `t2`: firmware does not support `FLOOR` with its types and options",
        "  tensor `t6`: firmware does not support `REVERSE_V2` with its types and options",
        "",
        f"hint: for TFLite operators that the NPU leaves to the CPU, boards support {known}, with some types: "
        "build for a target whose CPU has C operators, such as `imxrt700cm`, or use these",
    ]


def test_a_dimension_that_the_signature_leaves_open_has_the_size_of_the_file(deuteron: Run, tmp_path: Path) -> None:
    net, path = Net(), tmp_path / "net.tflite"
    y = net.reversed(net.relu(0))
    path.write_bytes(net.data(y, dynamic=y))
    assert deuteron("sim", path).code == 0
    assert deuteron("run", path).code == 0


def test_what_has_been_compiled_is_refused(deuteron: Run, tmp_path: Path) -> None:
    source, converted = tmp_path / "net.tflite", tmp_path / "npu.tflite"
    source.write_bytes(emit(parse_graph(GRAPH)))
    assert deuteron("convert", source, "-o", converted).code == 0
    assert deuteron("sim", converted) == Result(
        1,
        "",
        f"error: `{converted}`, for the default target `imxrt700`: the file has been converted or compiled already\n\n"
        "hint: give the file that it was made from\n",
    )
    directory = build_directory(source)
    assert deuteron("plan", directory, "--target", "imxrt700") == Result(
        2, "", f"error: `{directory}` is already compiled for a target\n\nhint: leave out `--target`\n"
    )


@pytest.mark.parametrize("command", ["run", "explain", "sim", "plan"])
def test_what_is_given_in_the_place_of_a_build_is_named(deuteron: Run, command: str, tmp_path: Path) -> None:
    for name in ("net.tflite", "net.pte"):
        assert deuteron(command, tmp_path / name) == Result(
            1,
            "",
            f"error: `{tmp_path / name}` does not exist\n\n"
            "hint: check its name; paths are relative to the current directory\n",
        )
    assert deuteron(command, tmp_path / "net.py") == Result(
        1,
        "",
        f"error: `{tmp_path / 'net.py'}` is a Python file, not a TFLite model\n\n"
        f"hint: build it first: `deuteron build {tmp_path / 'net.py'}:FUNCTION -o DIR`\n",
    )


def test_an_array_of_another_width_or_shape_has_its_remedy(deuteron: Run, tmp_path: Path) -> None:
    net, file = tmp_path / "net.tflite", tmp_path / "x.npy"
    net.write_bytes(with_float_edges(emit(parse_graph(GRAPH))))
    (info,) = api.read_manifest(build_directory(net)).inputs
    np.save(file, np.zeros(info.shape))
    refused = deuteron("run", net, "--input", file).err
    assert refused.startswith(
        f"error: {file}: input 0 is float64 {list(info.shape)}, the model takes float32 {list(info.shape)}\n"
    )
    assert refused.endswith("hint: give `x.astype(numpy.float32)`\n")
    np.save(file, np.zeros(info.shape[1:], np.float32))
    assert f"hint: give `x.reshape({', '.join(map(str, info.shape))})`" in deuteron("run", net, "--input", file).err
