"""`deuteron run` and `inspect` of files that other tools made for an Ethos-U: Vela's TFLite, ExecuTorch's `.pte`."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.frontend.ethosu import networks
from tests.npu.ethosu.vela import compiled as compile_tflite
from tests.npu.neutron.tflite import cases, litert
from tests.npu.neutron.tflite.files import with_float_edges

from deuteron.npu.neutron.tflite.emit import emit
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

from .conftest import Result

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a layer as it is and with float edges, and what Vela makes of both."""
    folder = tmp_path_factory.mktemp("vela")
    layer = emit(cases.conv_2d(np.random.default_rng(1)))
    for name, data in (("edges", with_float_edges(layer)), ("model", layer)):
        (folder / f"{name}.tflite").write_bytes(data)
        compile_tflite(data, "ethos-u55-128", folder)
        (folder / "vela/model_vela.tflite").rename(folder / f"{name}_vela.tflite")
    return folder


@pytest.mark.parametrize("name", ["model", "edges"])
def test_a_file_that_vela_compiled_gives_what_litert_gives_for_its_source(
    name: str, compiled: Path, deuteron: Run, tmp_path: Path
) -> None:
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    dtype = np.int8 if name == "model" else np.float32
    source = (compiled / f"{name}.tflite").read_bytes()
    model = decode(source)
    samples = np.random.default_rng(2).integers(-100, 100, (3, *model.tensors[model.inputs[0]].shape)).astype(dtype)
    np.save(x, samples)
    result = deuteron("run", compiled / f"{name}_vela.tflite", "--input", x, "--output", y)
    assert (result.code, result.err) == (0, f"wrote `{y}`\n")
    np.testing.assert_array_equal(np.load(y), np.stack([litert.run_bytes(source, [one])[0] for one in samples]))


@pytest.mark.parametrize(
    ("dtype", "has_edges"), [("uint8", False), ("uint8", True), ("int16", False), ("int16", True), ("int32", False)]
)
def test_tensors_of_every_type_are_what_litert_gives(
    dtype: str, has_edges: bool, deuteron: Run, tmp_path: Path
) -> None:
    """Values that no int8 has, and reals beyond what the type holds where the file quantizes them."""
    quant = None if dtype == "int32" else Quant((2**-8,), (0,))
    tensors = tuple(FlatTensor(name, (1, 4, 4, 2), dtype.upper(), quant) for name in "xy")
    options = {"FusedActivationFunction": 0, "PotScaleInt16": 0}
    source = encode(FlatModel("m", tensors, (0,), (1,), (FlatOperator("ADD", (0, 0), (1,), "AddOptions", options),)))
    source = with_float_edges(source) if has_edges else source
    compile_tflite(source, "ethos-u55-128", tmp_path)
    limits = np.iinfo(dtype)
    spread = np.linspace(limits.min // 2, limits.max // 2, 32).reshape(1, 4, 4, 2)
    sample = (spread * 2**-6).astype(np.float32) if has_edges else spread.astype(dtype)
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, sample)
    result = deuteron("run", tmp_path / "vela/model_vela.tflite", "--input", x, "--output", y)
    assert (result.code, result.err) == (0, f"wrote `{y}`\n")
    (wanted,) = litert.run_bytes(source, [sample])
    assert np.load(y).dtype == wanted.dtype
    np.testing.assert_array_equal(np.load(y), wanted)


def test_a_file_that_vela_compiled_is_listed(compiled: Path, deuteron: Run) -> None:
    path = compiled / "edges_vela.tflite"
    result = deuteron("inspect", path)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == f"{path}: TFLite file that Vela compiled, {path.stat().st_size:,} B"
    assert lines[2].startswith("npu 0: ethos-u55-128; 5 operations, 1 copy; ")
    assert lines[-1] == "cpu operators: none"
    assert json.loads(deuteron("inspect", path, "--json").out)["partitions"][0]["accelerator"] == "ethos-u55-128"


def test_it_is_compared_with_nothing(compiled: Path, deuteron: Run) -> None:
    assert deuteron("run", compiled / "model_vela.tflite", "--compare", "litert") == Result(
        2, "",
        "error: LiteRT does not run files that Vela compiled\n\n"
        "hint: write outputs with `--output`, and compare them with those of the file before Vela\n",
    )  # fmt: skip


def test_operators_that_vela_left_to_the_cpu_run(compiled: Path, deuteron: Run, tmp_path: Path) -> None:
    model = decode((compiled / "model_vela.tflite").read_bytes())
    (y,) = model.operators[0].outputs
    op = replace(model.operators[0], name="ABS", custom_code="", inputs=(y,), outputs=(len(model.tensors),), kind="")
    tensors = (*model.tensors, replace(model.tensors[y], name="abs"))
    path = tmp_path / "both.tflite"
    changed = replace(model, tensors=tensors, operators=(*model.operators, op), outputs=(len(model.tensors),))
    path.write_bytes(encode(changed))
    x, plain, absolute = (tmp_path / name for name in ("x.npy", "plain.npy", "absolute.npy"))
    np.save(x, np.random.default_rng(2).integers(-100, 100, model.tensors[model.inputs[0]].shape).astype(np.int8))
    assert deuteron("run", compiled / "model_vela.tflite", "--input", x, "--output", plain).code == 0
    assert deuteron("run", path, "--input", x, "--output", absolute).code == 0
    zero = tensors[y].quant.zero_point
    wanted = np.clip(np.abs(np.load(plain).astype(int) - zero) + zero, -128, 127)
    np.testing.assert_array_equal(np.load(absolute), wanted)
    assert deuteron("inspect", path).out.endswith("\ncpu operators: ABS\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda model: replace(model, metadata={}),
            "tensor `x` of a partition has no place",
        ),
        (
            lambda model: replace(model, operators=(replace(model.operators[0], inputs=(0, 1)),)),
            "operator `ethos-u` has no commands and memories among its inputs",
        ),
        (
            lambda model: replace(model, tensors=(replace(model.tensors[0], data=None), *model.tensors[1:])),
            "the commands `ethos_u_command_stream` are not a constant",
        ),
        (
            lambda model: replace(model, tensors=(*model.tensors[:4], replace(model.tensors[4], dtype="FLOAT32"))),
            "tensor `y` of a partition has no type that an Ethos-U has, but FLOAT32",
        ),
    ],
    ids=["places", "inputs", "commands", "type"],
)
def test_a_damaged_file_is_refused(
    change: Callable[..., object], message: str, compiled: Path, deuteron: Run, tmp_path: Path
) -> None:
    path = tmp_path / "damaged.tflite"
    path.write_bytes(encode(change(decode((compiled / "model_vela.tflite").read_bytes()))))  # type: ignore[arg-type]
    hint = "\n\nhint: the file is damaged: compile the model again\n"
    assert deuteron("run", path) == Result(1, "", f"error: `{path}`: {message}{hint}")
    assert deuteron("inspect", path) == Result(1, "", f"error: {path}: {message}{hint}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `.pte` without its build, as ExecuTorch's own scripts leave one."""
    path = tmp_path_factory.mktemp("pte") / "layer.pte"
    shutil.copy(networks.built(networks.layer) / "model.pte", path)
    return path


def test_a_program_without_its_build_runs(program: Path, deuteron: Run, tmp_path: Path) -> None:
    (x,) = networks.layer()[1]
    a, b = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(a, x.numpy())
    assert deuteron("run", program, "--input", a, "--output", b).code == 0
    wanted = networks.layer()[0](x).detach().numpy()
    np.testing.assert_allclose(np.load(b), wanted, atol=0.02)
    result = deuteron("run", program, "--samples", "2")
    assert (result.code, len(result.out.splitlines())) == (0, 2)
    assert deuteron("inspect", program).out.splitlines()[2].startswith("npu 0: ethos-u55-")


def test_a_program_without_its_build_is_compared_with_nothing(
    program: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes before ExecuTorch's runtime is loaded, which takes seconds."""
    monkeypatch.setitem(sys.modules, "deuteron.runtime.host", None)
    assert deuteron("run", program, "--compare") == Result(
        2, "",
        f"error: `{program}` is a program without its build and has no reference\n\n"
        "hint: give its ETRecord with `--etrecord`, or the directory that `deuteron build` wrote\n",
    )  # fmt: skip
