"""`deuteron convert`: what it writes and says, and that a file that cannot be converted leaves nothing behind."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.test_inspect import GRAPH
from tests.npu.neutron.tflite.files import with_float_edges

from deuteron.arch import targets
from deuteron.builds import output as outputs
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels import selection
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode

from .conftest import Result

Run = Callable[..., Result]

FATES = """\
graph fates {
  input %x: i8[1,4] q(0.5:0)
  const %c: i8[4,1] q(0.5:0) = [1,2,3,4]
  %r: i8[4] q(0.5:0) = reshape(%x) @[0]
  %t: i8[1,4] q(0.5:0) = transpose(%c) perm=(1,0) @[1]
  %y: i8[1,4] q(0.5:0) = add(%r, %t) @[2]
  %u: i8[1,4] q(0.5:0) = unary(%x) function=relu @[3]
  %z: i8[4,1] q(0.5:0) = reshape(%y) @[4]
  output %z
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """A TFLite file of three operators."""
    path = tmp_path / "net.tflite"
    path.write_bytes(emit(parse_graph(GRAPH)))
    return path


def test_it_says_where_each_kernel_call_comes_from(deuteron: Run, net: Path, tmp_path: Path):
    out = tmp_path / "out.tflite"
    result = deuteron("convert", net, "-o", out, "--verify-each")
    assert result == Result(
        0,
        """\
npu for imxrt700: 3 kernel calls; microcode 512 B, weights 80 B, kernels 16 B, scratch 176 B (proven optimal)
    0  conv2d_s8                0 CONV_2D
    1  max_pool_s8              1 MAX_POOL_2D
    2  add_s8                   2 ADD
""",
        f"wrote `{out}`\n",
    )
    model = decode(out.read_bytes())
    assert [(op.name, op.custom_code) for op in model.operators] == [("CUSTOM", "NeutronGraph")]
    assert [model.tensors[i].name for i in (*model.inputs, *model.outputs)] == ["x", "s"]
    assert deuteron("inspect", out).out.startswith(f"{out}: converted TFLite file, ")


def test_the_area_that_weights_are_fetched_into_is_told(deuteron: Run, net: Path, tmp_path: Path):
    result = deuteron("convert", net, "-o", tmp_path / "out.tflite", "--fetch-constants-to-sram", "always")
    assert ", weights 80 B, kernels 16 B, prefetch 80 B, scratch 176 B (proven optimal)" in result.out.splitlines()[0]


def test_float_edges_stay_operators_of_the_file(deuteron: Run, net: Path, tmp_path: Path):
    net.write_bytes(with_float_edges(net.read_bytes()))
    result = deuteron("convert", net, "-o", tmp_path / "out.tflite")
    assert result.out.splitlines()[1] == "    0  conv2d_s8                1 CONV_2D"
    assert result.out.splitlines()[-1] == "float edges, left to the CPU: QUANTIZE 0; DEQUANTIZE 4"
    model = decode((tmp_path / "out.tflite").read_bytes())
    assert [op.custom_code or op.name for op in model.operators] == ["QUANTIZE", "NeutronGraph", "DEQUANTIZE"]
    assert {model.tensors[i].dtype for i in (*model.inputs, *model.outputs)} == {"FLOAT32"}


def test_what_became_of_the_other_operators(deuteron: Run, net: Path, tmp_path: Path):
    net.write_bytes(emit(parse_graph(FATES)))
    lines = deuteron("convert", net, "-o", tmp_path / "out.tflite").out.splitlines()
    assert lines[2:] == [
        "computed at compile time: TRANSPOSE 1",
        "free, because they change no byte: RESHAPE 0, 4",
        "removed, because no output depends on them: RELU 3",
    ]


def test_the_copy_of_an_input_comes_from_no_operator(deuteron: Run, net: Path, tmp_path: Path):
    net.write_bytes(emit(parse_graph(GRAPH.replace("output %s", "output %s\n  output %x"))))
    lines = deuteron("convert", net, "-o", tmp_path / "out.tflite").out.splitlines()
    assert lines[-1] == "    3  copy_s8                  copy of an input or a constant that is an output"


def test_json(deuteron: Run, net: Path, tmp_path: Path):
    out = tmp_path / "out.tflite"
    result = deuteron("convert", net, "-o", out, "--json", "-q")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == {
        "schema": 1,
        "files": [str(out)],
        "target": "imxrt700",
        "bytes": {"microcode": 512, "weights": 80, "kernels": 16, "scratch": 176},
        "scratch_proven_optimal": True,
        "kernels": [
            {"index": 0, "kernel": "conv2d_s8", "ops": [0], "stripe": None},
            {"index": 1, "kernel": "max_pool_s8", "ops": [1], "stripe": None},
            {"index": 2, "kernel": "add_s8", "ops": [2], "stripe": None},
        ],
        "ops": [
            {"index": 0, "op": "CONV_2D", "fate": "kernels", "kernels": [0]},
            {"index": 1, "op": "MAX_POOL_2D", "fate": "kernels", "kernels": [1]},
            {"index": 2, "op": "ADD", "fate": "kernels", "kernels": [2]},
        ],
    }


@pytest.mark.parametrize("block", ["microcode", "weights", "kernels"])
def test_intermediates_do_not_take_the_name_of_the_output(deuteron: Run, net: Path, tmp_path: Path, block: str):
    out = tmp_path / f"out.{block}"
    assert deuteron("convert", net, "-o", out, "--intermediates") == Result(
        2,
        "",
        f"error: `{out}` has the name of one of its own intermediate files\n\nhint: name the output `.tflite`\n",
    )
    assert not out.exists()


def test_intermediates_are_the_blocks_that_inspect_reads(deuteron: Run, net: Path, tmp_path: Path):
    out = tmp_path / "out.tflite"
    result = deuteron("convert", net, "-o", out, "--intermediates")
    names = ("out.tflite", "out.microcode", "out.weights", "out.kernels")
    assert result.err == "".join(f"wrote `{tmp_path / name}`\n" for name in names)
    container, _ = neutron_graph.unwrap(out.read_bytes())
    assert (tmp_path / "out.microcode").read_bytes() == container.microcode
    assert (tmp_path / "out.weights").read_bytes() == container.weights
    assert (tmp_path / "out.kernels").read_bytes() == container.kernels
    shown = deuteron("inspect", tmp_path / "out.microcode").out.splitlines()
    assert shown[0] == f"{tmp_path}/out.microcode: microcode, 512 B"
    assert shown[2].startswith("npu: 3 kernel calls; ")


def test_the_kernel_selection_stands_beside_the_file(deuteron: Run, net: Path, tmp_path: Path):
    out, written = tmp_path / "out.npu.tflite", tmp_path / "out.npu_kernel_selection.c"
    args = ("convert", net, "-o", out, "--dump-kernel-selection-code")
    result = deuteron(*args)
    assert (result.code, result.err) == (0, f"wrote `{out}`\nwrote `{written}`\n")
    assert [k.name for k in selection.read(written).kernels] == ["conv2d_s8", "add_s8", "max_pool_s8"]
    out.unlink()
    assert deuteron(*args) == Result(
        2, "", f"error: `{written}` exists\n\nhint: choose another name, or replace it with `--force`\n"
    )
    assert deuteron(*args, "--force").code == 0


def test_profiling_is_an_option_of_the_microcode(deuteron: Run, net: Path, tmp_path: Path):
    deuteron("convert", net, "-o", tmp_path / "out.tflite", "--use-profiling")
    model = decode((tmp_path / "out.tflite").read_bytes())
    assert [model.tensors[i].name for i in model.operators[0].outputs] == ["s", "scratch", "profile", "debug"]


@pytest.mark.parametrize(
    ("option", "err"),
    [
        (
            "--weights-budget=much",
            "`much` is no size for `--weights-budget`\n\n"
            "hint: give bytes, or a number with k, Ki, M, Mi, G or Gi: `512Ki`, `1.5M`",
        ),
        (
            "--target=other",
            f"unknown target `other`\n\nhint: the targets are {', '.join(f'`{name}`' for name in targets.names())}",
        ),
    ],
)
def test_options_that_cannot_be_had(deuteron: Run, net: Path, tmp_path: Path, option: str, err: str):
    assert deuteron("convert", net, "-o", tmp_path / "out.tflite", option) == Result(2, "", f"error: {err}\n")
    assert list(tmp_path.iterdir()) == [net]


def test_nothing_is_overwritten_unless_asked(deuteron: Run, net: Path, tmp_path: Path):
    block = tmp_path / "out.weights"
    block.write_text("mine")
    args = ("convert", net, "-o", tmp_path / "out.tflite", "--intermediates")
    assert deuteron(*args) == Result(
        2, "", f"error: `{block}` exists\n\nhint: choose another name, or replace it with `--force`\n"
    )
    assert (block.read_text(), sorted(tmp_path.iterdir())) == ("mine", [net, block])
    assert deuteron(*args, "--force").code == 0
    assert len(block.read_bytes()) == 80


def test_the_source_is_never_replaced(deuteron: Run, net: Path, tmp_path: Path):
    before = net.read_bytes()
    (tmp_path / "link.tflite").symlink_to(net)
    for name in ("net.tflite", "link.tflite"):
        path = tmp_path / name
        assert deuteron("convert", net, "-o", path, "--force") == Result(
            2, "", f"error: `{path}` is the input file\n\nhint: choose another name for the output\n"
        )
    assert net.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "code", "err"),
    [
        (
            "no/out.tflite",
            1,
            "`{path}` cannot be written: there is no directory `{path.parent}`\n\nhint: create it first\n",
        ),
        ("folder", 2, "`{path}` is a directory\n\nhint: name a file\n"),
    ],
)
def test_an_output_that_cannot_be_written(deuteron: Run, net: Path, tmp_path: Path, name: str, code: int, err: str):
    (tmp_path / "folder").mkdir()
    path = tmp_path / name
    assert deuteron("convert", net, "-o", path, "--force") == Result(code, "", "error: " + err.format(path=path))


def test_a_disk_that_refuses_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deuteron: Run, net: Path):
    write = Path.write_bytes

    def refuse(path: Path, data: bytes) -> int:
        if path.name == ".out.kernels.new":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(outputs.Path, "write_bytes", refuse)
    assert deuteron("convert", net, "-o", tmp_path / "out.tflite", "--intermediates") == Result(
        1,
        "",
        f"error: `{tmp_path}/out.kernels` cannot be written: No space left on device\n\n"
        "hint: make room there, or choose another place\n",
    )
    assert list(tmp_path.iterdir()) == [net]


def test_every_operator_that_cannot_be_compiled_is_named(deuteron: Run, net: Path, tmp_path: Path):
    model = decode(net.read_bytes())
    named = zip(model.operators, ("GELU", "GELU", "CUMSUM"), strict=True)
    operators = tuple(replace(op, name=name, kind="") for op, name in named)
    net.write_bytes(encode(replace(model, operators=operators)))
    assert deuteron("convert", net, "-o", tmp_path / "out.tflite") == Result(
        1,
        "",
        f"""\
error: `{net}`: 3 operators cannot be compiled:
  op 0 GELU, output `y`: the compiler for the Neutron does not support this operator
  op 1 GELU, output `z`: the compiler for the Neutron does not support this operator
  op 2 CUMSUM, output `s`: the compiler for the Neutron does not support this operator

hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists
""",
    )
    assert list(tmp_path.iterdir()) == [net]


def test_every_operator_beyond_a_limit_is_named(deuteron: Run, net: Path, tmp_path: Path):
    net.write_bytes(
        emit(
            parse_graph("""\
graph wide {
  input %x: i8[1,70000,1,1] q(0.5:0)
  %y: i8[1,69999,1,1] q(0.5:0) = max_pool2d(%x) window=(2,1) stride=(1,1) @[0]
  %z: i8[1,69998,1,1] q(0.5:0) = average_pool2d(%y) window=(2,1) stride=(1,1) @[1]
  output %z
}
""")
        )
    )
    result = deuteron("convert", net, "-o", tmp_path / "out.tflite")
    assert (result.code, result.out, list(tmp_path.iterdir())) == (1, "", [net])
    first, *ops, _, _ = result.err.splitlines()
    assert first == f"error: `{net}`: 2 operators cannot be compiled:"
    reason = "dimensions, windows, strides and dilations are at most 65,536; "
    assert [op.split(reason)[1].strip() for op in ops] == [
        "`x` has shape [1, 70000, 1, 1]",
        "`y` has shape [1, 69999, 1, 1]",
    ]


def test_a_model_that_is_not_int8(deuteron: Run, net: Path, tmp_path: Path):
    model = decode(net.read_bytes())
    other = "build for `imxrt700cm`, whose CPU takes uint8; or "
    for dtype, problem, hint in (("FLOAT32", "float left in a partition: ", ""), ("UINT8", "", other)):
        tensors = tuple(replace(t, dtype=dtype, quant=None) if t.data is None else t for t in model.tensors)
        net.write_bytes(encode(replace(model, tensors=tensors)))
        assert deuteron("convert", net, "-o", tmp_path / "out.tflite") == Result(
            1,
            "",
            f"error: `{net}`: {problem}graph input `x` is {dtype}; INT8 is allowed\n\n"
            f"hint: {hint}quantize the whole model to int8, inputs and outputs too; TensorFlow's converter has "
            "`inference_input_type` and `inference_output_type` for that\n",
        )


def test_a_tensor_that_is_two_outputs(deuteron: Run, net: Path, tmp_path: Path):
    model = decode(with_float_edges(net.read_bytes()))
    last, (output,) = model.operators[-1], model.outputs
    again = replace(last, outputs=(len(model.tensors),))
    tensors = (*model.tensors, replace(model.tensors[output], name="again"))
    outputs_ = (output, len(model.tensors))
    net.write_bytes(encode(replace(model, tensors=tensors, outputs=outputs_, operators=(*model.operators, again))))
    lines = deuteron("convert", net, "-o", tmp_path / "out.tflite").out.splitlines()
    assert lines[-4:] == [
        "left to TFLite: 3 operators",
        "    0  QUANTIZE                 tensor `x_float` is FLOAT32; INT8 is allowed",
        "    4  DEQUANTIZE               tensor `s_float` is FLOAT32; INT8 is allowed",
        "    5  DEQUANTIZE               tensor `again` is FLOAT32; INT8 is allowed",
    ]


def test_a_model_that_has_been_converted(deuteron: Run, net: Path, tmp_path: Path):
    once = tmp_path / "once.tflite"
    deuteron("convert", net, "-o", once)
    assert deuteron("convert", once, "-o", tmp_path / "twice.tflite") == Result(
        1,
        "",
        f"error: `{once}`: the model has been converted already\n\n"
        "hint: run it as it is, or convert the file that it was made from\n",
    )


def test_a_model_that_computes_nothing(deuteron: Run, net: Path, tmp_path: Path):
    graph = "graph g {\n input %x: i8[4] q(0.5:0)\n %y: i8[4] q(0.5:0) = reshape(%x) @[0]\n output %y\n}"
    net.write_bytes(emit(parse_graph(graph)))
    assert deuteron("convert", net, "-o", tmp_path / "out.tflite") == Result(
        1,
        "",
        f"error: `{net}`: the model computes nothing: each of its outputs is an input\n\n"
        "hint: run it without the NPU\n",
    )
    assert list(tmp_path.iterdir()) == [net]


def test_files_that_are_no_tflite_model(deuteron: Run, tmp_path: Path):
    path = tmp_path / "net.tflite"
    assert deuteron("convert", path, "-o", tmp_path / "out.tflite") == Result(
        1, "", f"error: `{path}` cannot be read: No such file or directory\n\nhint: check its name and its folder\n"
    )
    path.write_bytes(b"%PDF-1.7 and so on")
    assert deuteron("convert", path, "-o", tmp_path / "out.tflite") == Result(
        1,
        "",
        f"error: `{path}`: not a TFLite model: 18 bytes, of which 4 to 8 are b'-1.7' instead of b'TFL3'\n\n"
        "hint: make the file again; it is not what a TFLite exporter writes\n",
    )


def test_an_output_must_be_named(deuteron: Run, net: Path):
    assert deuteron("convert", net) == Result(
        2, "", "error: missing option `-o` / `--output`\n\nhint: `deuteron convert --help` lists the options\n"
    )


@pytest.mark.parametrize("command", ["convert", "run", "ops", "--help"])
def test_it_works_without_torch_and_litert(command: str, net: Path, tmp_path: Path):
    args = {"convert": [net, "-o", tmp_path / "out.tflite"], "run": [net, "--target", "imxrt700"]}.get(command, [])
    code = (
        "import sys\nfrom deuteron.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit as e:\n"
        "    heavy = {'torch', 'executorch', 'ai_edge_litert'} & set(sys.modules)\n"
        "    sys.exit(f'imported {heavy}' if heavy else e.code)"
    )
    done = subprocess.run([sys.executable, "-c", code, command, *args], capture_output=True, text=True)
    assert (done.returncode, done.stderr.replace(f"wrote `{tmp_path}/out.tflite`\n", "")) == (0, "")
