"""`deuteron run FILE.tflite`: on the driver, before and after conversion, compared with LiteRT."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_inspect import GRAPH
from tests.npu.neutron.tflite.files import with_float_edges
from tests.npu.neutron.tflite.partitioned_files import Net

from deuteron.arch import targets
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.views.compare import litert

from .conftest import Result

Run = Callable[..., Result]
DEFAULT = "target `imxrt700`, the default; `--target` chooses another, and `deuteron targets` lists them\n"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A TFLite file of three operators."""
    path = tmp_path / "net.tflite"
    path.write_bytes(emit(parse_graph(GRAPH)))
    return path


@pytest.fixture
def converted(deuteron: Run, net: Path, tmp_path: Path) -> Path:
    """The same file after conversion."""
    path = tmp_path / "converted.tflite"
    assert deuteron("convert", net, "-o", path).code == 0
    return path


def test_random_samples(deuteron: Run, net: Path):
    result = deuteron("run", net, "--samples", "2", "--seed", "7")
    assert (result.code, result.err) == (0, DEFAULT)
    assert deuteron("run", net, "--target", "imxrt700").err == ""
    first, second = result.out.splitlines()
    assert first.startswith("sample 0  output 0  int8 [1, 2, 2, 3]  min ")
    assert second.startswith("sample 1  output 0  int8 [1, 2, 2, 3]  min ")
    assert deuteron("run", net, "--samples", "2", "--seed", "7").out == result.out
    assert deuteron("run", net, "--samples", "2", "--seed", "8").out != result.out


def test_files_in_and_out_are_what_the_interpreter_computes(deuteron: Run, net: Path, converted: Path, tmp_path: Path):
    graph = parse_graph(GRAPH)
    samples = np.random.default_rng(1).integers(-128, 128, (5, 1, 4, 4, 2)).astype(np.int8)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, samples)
    wanted = np.stack([interpret.run(graph, [sample])["s"] for sample in samples])
    for path, note in ((net, DEFAULT), (converted, "")):
        assert deuteron("run", path, "--input", x, "--output", y, "--force").err == f"wrote `{y}`\n{note}"
        np.testing.assert_array_equal(np.load(y), wanted)
    shown = json.loads(deuteron("run", net, "--input", x, "--json").out)
    assert [sample[0]["values"] for sample in shown["samples"]] == wanted.tolist()


def test_outputs_that_cannot_be_written(deuteron: Run, net: Path, tmp_path: Path):
    assert deuteron("run", net, "--output", tmp_path, "--force") == Result(
        2, "", f"error: `{tmp_path}` is a directory\n\nhint: name a file\n"
    )
    net.write_bytes(emit(parse_graph(GRAPH.replace("output %s", "output %s\n  output %z"))))
    y = tmp_path / "y.npy"
    assert deuteron("run", net, "--output", y, "--output", y) == Result(
        2, "", f"error: `--output` names `{y}` 2 times\n\nhint: use one file per output\n"
    )
    assert not y.exists()


def test_float_edges_take_and_give_float32(deuteron: Run, net: Path, tmp_path: Path):
    net.write_bytes(with_float_edges(net.read_bytes()))
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.linspace(-50, 50, 32, dtype=np.float32).reshape(1, 4, 4, 2))
    assert deuteron("run", net, "--input", x, "--output", y).code == 0
    stored = np.clip(np.rint(np.load(x) / 0.5) - 3, -128, 127).astype(np.int8)
    wanted = (interpret.run(parse_graph(GRAPH), [stored])["s"].astype(np.float32) - 1) * 0.5
    np.testing.assert_array_equal(np.load(y), wanted)
    np.save(x, np.zeros((1, 4, 4, 2), np.int8))
    assert deuteron("run", net, "--input", x).err.startswith(
        f"error: {x}: input 0 is int8 [1, 4, 4, 2], the model takes float32 [1, 4, 4, 2]\n\n"
        "hint: these values are quantized, and the program takes floats: "
    )


def test_compare_says_which_bound_holds_for_each_operator(deuteron: Run, net: Path):
    result = deuteron("run", net, "--compare", "litert", "--samples", "3")
    assert (result.code, result.err) == (0, DEFAULT)
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[0] == ["compared", "on", "3", "samples"]
    assert rows[3] == ["operator", "output", "results", "differ", "largest", "allowed"]
    assert [(row[0], row[1], row[2], row[3], row[-1]) for row in rows[4:7]] == [
        ("0", "CONV_2D", "y", "144", "1"),
        ("1", "MAX_POOL_2D", "z", "36", "0"),
        ("2", "ADD", "s", "36", "1"),
    ]
    assert "  output `s`: 0 of 36 results of the NPU differ from the interpreter, " in result.out
    assert rows[-1] == ["all", "bounds", "hold"]
    report = json.loads(deuteron("run", net, "--compare", "litert", "--samples", "3", "--json").out)
    assert (report["schema"], report["passed"], report["failures"], report["samples"]) == (1, True, [], 3)
    assert [op["bound"] for op in report["operators"]] == [1, 0, 1]
    assert (report["outputs"][0]["name"], report["outputs"][0]["elements"]) == ("s", 36)


def test_compare_needs_no_value_wherever_it_stands(deuteron: Run, net: Path):
    wanted = deuteron("run", net, "--compare", "litert")
    assert wanted.out.startswith("compared on 1 sample\n")
    for args in (["--compare", net], [net, "--compare"], [net, "--compare", "--seed", "0"], ["--compare=litert", net]):
        assert deuteron("run", *args) == wanted


def test_a_broken_bound_is_exit_code_1(deuteron: Run, net: Path, monkeypatch: pytest.MonkeyPatch):
    right = litert.run_op
    monkeypatch.setattr(litert, "run_op", lambda graph, op, values: right(graph, op, values) ^ 1)
    result = deuteron("run", net, "--compare")
    assert result.code == 1
    assert "\nbounds broken:\n" in result.out
    assert "  op 1 MAX_POOL_2D: up to 1 steps from LiteRT, at most 0 are allowed\n" in result.out


def test_litert_that_is_not_installed(deuteron: Run, net: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert deuteron("run", net, "--compare") == Result(
        2, "", "error: LiteRT is not installed\n\nhint: install it with `pip install 'deuteron[litert]'`\n"
    )
    assert deuteron("run", net).code == 0


def test_comparisons_that_there_are_not(deuteron: Run, net: Path, converted: Path):
    assert deuteron("run", net, "--compare", "pytorch") == Result(
        2,
        "",
        "error: a TFLite file is compared with LiteRT, not with PyTorch\n\nhint: use `--compare litert`\n",
    )
    assert deuteron("run", converted, "--compare") == Result(
        1,
        "",
        "error: LiteRT does not run the NPU operators of a converted file\n\nhint: compare the original file\n",
    )
    assert deuteron("run", net, "--compare=vela") == Result(
        2,
        "",
        "error: invalid value for `--compare`: `vela` is not one of `reference`, `pytorch`, `litert`, `host`, `float`\n"
        "\n"
        "hint: `deuteron run --help` lists the options\n",
    )


def test_the_target_is_for_files_that_are_not_converted_yet(deuteron: Run, net: Path, converted: Path):
    assert deuteron("run", net, "--target", "imxrt700").code == 0
    known = ", ".join(f"`{name}`" for name in targets.names())
    assert known.startswith("`cortex-m0plus`, ")
    assert known.endswith(", `imxrt700`, `imxrt700cm`, `mcxn947`")
    err = f"error: unknown target `x`\n\nhint: the targets are {known}\n"
    assert deuteron("run", net, "--target", "x").err == err
    assert deuteron("run", converted, "--target", "imxrt700") == Result(
        2, "", f"error: `{converted}` is already compiled for a target\n\nhint: leave out `--target`\n"
    )


def test_operators_that_the_npu_does_not_take_are_named_not_skipped(deuteron: Run, net: Path):
    model = decode(net.read_bytes())
    (op, *_) = model.operators
    (output,) = op.outputs
    alone = replace(model, operators=(replace(op, name="GELU", kind=""),), outputs=(output,))
    net.write_bytes(encode(alone))
    assert deuteron("run", net) == Result(
        1,
        "",
        "error: op 0 GELU, output `y`, for the default target `imxrt700`: the compiler for the Neutron does not "
        "support this operator\n\n"
        "hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists\n",
    )


def test_what_the_npu_does_not_take_runs_in_litert(deuteron: Run, tmp_path: Path):
    net = Net()
    path, converted, y = tmp_path / "net.tflite", tmp_path / "npu.tflite", tmp_path / "y.npy"
    path.write_bytes(net.data(net.place(net.relu(net.reversed(net.relu(0))))))
    result = deuteron("convert", path, "-o", converted, "--dump-kernel-selection-code", "--intermediates")
    assert result.code == 0
    assert result.out.splitlines() == [
        "npu 0 for imxrt700: 1 kernel calls; microcode 160 B, weights 256 B, kernels 8 B, scratch 0 B (proven optimal)",
        "    0  lut_s8                   0 RELU",
        "npu 1 for imxrt700: 1 kernel calls; microcode 160 B, weights 256 B, kernels 8 B, scratch 0 B (proven optimal)",
        "    0  lut_s8                   2 RELU",
        "left to TFLite: 2 operators",
        "    1  REVERSE_V2               the compiler for the Neutron does not support this operator",
        "    3  ARG_MAX                  tensor `t6` is INT64; INT8 is allowed",
    ]
    assert {file.name for file in tmp_path.iterdir()} >= {"npu_0.microcode", "npu_1.weights", "npu_kernel_selection.c"}
    shown = deuteron("inspect", converted).out
    assert "\nnpu 1: 1 " in shown
    assert shown.endswith("cpu operators: REVERSE_V2, ARG_MAX\n")
    assert deuteron("run", converted, "--output", y).code == 0
    first = deuteron("run", path, "--output", tmp_path / "again.npy")
    assert first.code == 0
    np.testing.assert_array_equal(np.load(y), np.load(tmp_path / "again.npy"))
    compared = deuteron("run", path, "--target", "imxrt700", "--compare", "--samples", "3").out.splitlines()
    assert compared[-4:] == [
        "the file: LiteRT for all operators, against the NPU with LiteRT for the others",
        "  output `t6`: 0 of 48 differ",
        "",
        "all bounds hold",
    ]
    assert json.loads(deuteron("convert", path, "-o", converted, "--force", "--json").out)["left"][0] == {
        "index": 1,
        "op": "REVERSE_V2",
        "why": "the compiler for the Neutron does not support this operator",
    }


def test_a_converted_file_whose_inputs_are_not_its_microcodes(deuteron: Run, converted: Path):
    model = decode(converted.read_bytes())
    large = replace(model.tensors[model.inputs[0]], shape=(1, 4, 1 << 28, 2))
    tensors = tuple(large if i == model.inputs[0] else t for i, t in enumerate(model.tensors))
    converted.write_bytes(encode(replace(model, tensors=tensors)))
    assert deuteron("run", converted) == Result(
        1,
        "",
        f"error: `{converted}`: the file's inputs hold 2,147,483,648 bytes, those of its microcode 32\n\n"
        "hint: the file is damaged: convert the model again\n",
    )


def test_long_tensor_names_show_that_they_are_cut(deuteron: Run, net: Path):
    name = "block_17/project/Conv2D;and/what/was/fused/with/it"
    model = decode(net.read_bytes())
    tensors = tuple(replace(t, name=name) if t.name == "y" else t for t in model.tensors)
    net.write_bytes(encode(replace(model, tensors=tensors)))
    assert f" ...{name[-27:]}  " in deuteron("run", net, "--compare").out


def test_inputs_that_are_no_numbers_are_a_warning(deuteron: Run, net: Path, tmp_path: Path):
    net.write_bytes(with_float_edges(net.read_bytes()))
    np.save(tmp_path / "x.npy", np.full((2, 1, 4, 4, 2), [[[[[0.0]]]], [[[[np.nan]]]]], np.float32))
    warning = "warning: 1 of 2 samples hold NaN or infinite values, the first is sample 1\n"
    assert deuteron("run", net, "--input", tmp_path / "x.npy").err.startswith(warning)


def test_files_of_another_kind_say_what_to_do(deuteron: Run, tmp_path: Path):
    program, empty, source = tmp_path / "model.pte", tmp_path / "empty.tflite", tmp_path / "net.py"
    program.write_bytes(b"\x20\0\0\0ET12" + bytes(64))
    empty.write_bytes(b"")
    source.write_text("")
    for path, problem, hint in (
        (
            program,
            f"`{program}`: not a TFLite model but an ExecuTorch program",
            "give `deuteron run` or `deuteron inspect` the build directory that the program is in",
        ),
        (
            empty,
            f"`{empty}`: not a TFLite model: it is empty",
            "make the file again; it is not what a TFLite exporter writes",
        ),
        (
            source,
            f"`{source}` is a Python file, not a TFLite model",
            f"build it first: `deuteron build {source}:FUNCTION -o DIR`",
        ),
    ):
        wanted = Result(1, "", f"error: {problem}\n\nhint: {hint}\n")
        assert deuteron("convert", path, "-o", tmp_path / "out.tflite") == wanted
        if path != program:
            assert deuteron("run", path) == wanted
    assert deuteron("run", program) == Result(
        1,
        "",
        f"error: {program}: the program has no method\n\nhint: the file is damaged or truncated: build it again\n",
    )


def test_a_converted_file_that_is_damaged(deuteron: Run, converted: Path):
    model = decode(converted.read_bytes())
    (weights,) = (t for t in model.tensors if t.name == "weights")
    damaged = replace(weights, data=bytes([weights.data[0] ^ 1, *weights.data[1:]]))
    tensors = tuple(damaged if t is weights else t for t in model.tensors)
    converted.write_bytes(encode(replace(model, tensors=tensors)))
    assert deuteron("run", converted) == Result(
        1,
        "",
        "error: the driver rejected the microcode: the weights are damaged: their CRC-32 does not match\n\nhint: "
        "convert the model again; damaged or foreign microcode does not run\n",
    )


def test_an_etrecord_that_nothing_reads_is_refused(deuteron: Run, net: Path, tmp_path: Path) -> None:
    program = tmp_path / "m.pte"
    program.write_bytes(b"")
    assert deuteron("run", program, "--etrecord", "none") == Result(
        2,
        "",
        "error: `--etrecord` is used only with `--compare` and for boards\n\nhint: leave it out, or add `--compare`\n",
    )
    refusal = Result(
        2,
        "",
        f"error: `--etrecord` is for a program without its build, but `{net}` is not one\n\nhint: leave it out, or "
        "give the `.pte` file\n",
    )
    assert deuteron("run", net, "--etrecord", "none") == refusal
    assert deuteron("run", net, "--etrecord", "none", "--on", "an505") == refusal
