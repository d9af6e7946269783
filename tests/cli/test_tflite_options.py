"""Options of TFLite files on the commands that take one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests import full
from tests.tflite.cortex_m.test_dead_channels import conv, window
from tests.tflite.subgraphs import file_of
from tests.tflite.test_control_flow import body
from tests.tflite.test_normalize import Net, flattened

from deuteron.builds.options import parse_shapes
from deuteron.errors import OptionError
from deuteron.tflite.encode import encode

from .conftest import Result

Run = Callable[..., Result]
HINT = "\n\nhint: give the sizes of the model's inputs, as in `--shape INPUT=1,96,96,3`"


@pytest.fixture
def open_shape(tmp_path: Path) -> Path:
    """A file whose input has an unknown batch."""
    model = flattened()
    tensors = [replace(model.tensors[0], shape=(-1, 2, 3, 4)), *model.tensors[1:]]
    path = tmp_path / "net.tflite"
    path.write_bytes(encode(replace(model, tensors=tuple(tensors))))
    return path


@pytest.mark.parametrize(
    "target", full.only(["cortex-m55", "imxrt700", "imxrt700cm", "ethos-u55-128"], "imxrt700", "ethos-u55-128")
)
def test_an_unknown_size_is_given_by_an_option(target: str, open_shape: Path, deuteron: Run) -> None:
    refused = deuteron("run", open_shape, "--target", target)
    assert (refused.code, refused.err) == (
        1,
        f"error: `{open_shape}`: the shape of tensor `t0` is not known before the model runs{HINT}\n",
    )
    taken = deuteron("run", open_shape, "--target", target, "--shape", "t0=1,2,3,4")
    assert taken.code == 0
    assert "output 0  int8 [1, 24]" in taken.out


def test_each_command_takes_a_shape(open_shape: Path, deuteron: Run, tmp_path: Path) -> None:
    target = ("--target", "cortex-m33", "--shape", "2,2,3,4")
    assert deuteron("build", open_shape, *target, "-o", tmp_path / "build").code == 0
    assert deuteron("run", tmp_path / "build", "--compare", "litert").code == 0
    for command in ("explain", "plan", "inspect"):
        assert deuteron(command, open_shape, *target).code == 0
    assert deuteron("bundle", open_shape, *target, "-o", tmp_path / "bundle").code == 0
    assert deuteron("firmware", open_shape, *target, "--board", "an505", "-o", tmp_path / "firmware").code == 0


def test_options_of_files_are_for_files(open_shape: Path, deuteron: Run, tmp_path: Path) -> None:
    deuteron("build", open_shape, "--target", "cortex-m55", "--shape", "1,2,3,4", "-o", tmp_path / "build")
    for command in ("run", "explain", "plan"):
        build = tmp_path / "build"
        refused = deuteron(command, build, "--shape", "1,2,3,4", "--keep-dead-channels")
        assert (refused.code, refused.err) == (
            2,
            f"error: `--shape` and `--keep-dead-channels` are for TFLite files, and `{build}` is not one\n\n"
            "hint: leave it out\n",
        )


def test_a_signature_is_chosen(deuteron: Run, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(file_of(body("TANH"), body("RELU"), signatures={"first": 0, "second": 1}))
    assert "RELU" in deuteron("explain", path, "--target", "cortex-m55", "--signature", "second").out
    assert "TANH" in deuteron("explain", path, "--target", "cortex-m55").out
    refused = deuteron("explain", path, "--target", "cortex-m55", "--signature", "third")
    assert refused.err == ("error: the file has no signature `third`\n\nhint: its signatures are `first`, `second`\n")


def test_explain_lists_dead_channels(deuteron: Run, tmp_path: Path) -> None:
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    weights = window(3, 2)
    weights[1] = 0
    model = net.model([x], [conv(net, conv(net, x, weights, [5, 7, -9]), window(2, 3), [10, 20])])
    path = tmp_path / "net.tflite"
    path.write_bytes(encode(model))
    a, b = (model.tensors[op.outputs[0]].name for op in model.operators)
    for target in ("cortex-m55", "imxrt700", "ethos-u55-128"):
        lines = deuteron("explain", path, "--target", target).out.splitlines()
        at = lines.index("dead channels, removed; 64 of 192 MACs of these layers; results stay the same:")
        assert lines[at + 1 : at + 3] == [
            f"  CONV_2D {a}: 1 of 3 channels: 1 constant for every input; 96 MACs become 64",
            f"  CONV_2D {b}: input channels; 96 MACs become 64",
        ]
        kept = deuteron("explain", path, "--target", target, "--keep-dead-channels").out
        assert "dead channels" not in kept
        assert deuteron("run", path, "--target", target, "--compare", "litert").code == 0


def test_shapes_as_users_write_them() -> None:
    assert parse_shapes(["a=1,2,3", "4,5"]) == {"a": (1, 2, 3), "": (4, 5)}
    for text in ("a=0,1", "a=x", "a=-1", "a="):
        with pytest.raises(OptionError) as caught:
            parse_shapes([text])
        assert caught.value.message == f"`--shape {text}` names no shape"
        assert caught.value.hint == "write it as INPUT=1,96,96,3, once for each input"


def test_convert_takes_a_shape(open_shape: Path, deuteron: Run, tmp_path: Path) -> None:
    converted = tmp_path / "converted.tflite"
    assert deuteron("convert", open_shape, "--shape", "2,2,3,4", "-o", converted).code == 0
    assert "int8 [2, 24]" in deuteron("run", converted).out
