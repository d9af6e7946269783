"""`deuteron inspect` on files: what it prints of each kind, and what it says of files that are damaged."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.npu.neutron.tflite.files import outside_bytes
from tests.npu.neutron.tflite.partitioned_files import Net

from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.payload import Payload, compose
from deuteron.npu.neutron.tflite import neutron_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.tflite.decode import decode

from .conftest import Result

Run = Callable[..., Result]

GRAPH = """\
graph net {
  input %x: i8[1,4,4,2] q(0.5:-3)
  const %w: i8[3,1,1,2] q(0.25:0, 0.5:0, 0.125:0; axis 0) = [1,2,3,4,5,6]
  const %b: i32[3] = [100,-7,3]
  %y: i8[1,4,4,3] q(0.25:0) = conv2d(%x, %w, %b) @[0]
  %z: i8[1,2,2,3] q(0.25:0) = max_pool2d(%y) window=(2,2) stride=(2,2) @[1]
  const %r: i8[1,1,1,3] q(0.25:0) = [1,2,3]
  %s: i8[1,2,2,3] q(0.5:1) = add(%z, %r) @[2]
  output %s
}
"""


@pytest.fixture(scope="module")
def source() -> bytes:
    return emit(parse_graph(GRAPH))


@pytest.fixture(scope="module")
def container(source: bytes) -> Container:
    made = convert(source, "imxrt700").container
    assert made is not None
    return made


@pytest.fixture
def payload(container: Container) -> bytes:
    return compose(Payload(1, (False,), (False,), (0,), (0,), 0, container))


def test_a_plain_tflite_file(deuteron: Run, tmp_path: Path, source: bytes):
    path = tmp_path / "odd-name"
    path.write_bytes(source)
    assert deuteron("inspect", path) == Result(
        0,
        f"""\
{path}: TFLite file, {len(source):,} B
graph net
  input %x: i8[1,4,4,2] q(0.5:-3)
  const %w: i8[3,1,1,2] q(3 channels; axis 0)
  const %b: i32[3]
  const %r: i8[1,1,1,3] q(0.25:0)
  %y: i8[1,4,4,3] q(0.25:0) = conv2d(%x, %w, %b) @[0]
  %z: i8[1,2,2,3] q(0.25:0) = max_pool2d(%y) window=(2,2) stride=(2,2) @[1]
  %s: i8[1,2,2,3] q(0.5:1) = add(%z, %r) @[2]
  output %s
""",
        "",
    )


def test_a_tflite_file_of_which_the_npu_takes_a_part(deuteron: Run, tmp_path: Path):
    net, path = Net(), tmp_path / "net.tflite"
    path.write_bytes(net.data(net.place(net.relu(net.reversed(0)))))
    result = deuteron("inspect", path)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        f"{path}: TFLite file, {path.stat().st_size:,} B\n"
        "graph mixed\n"
        "  input %x: INT8[1,4,4,8]\n"
        "  const %constant1: INT32[1]\n"
        "  const %constant4: INT32[]\n"
        "  %t2: INT8[1,4,4,8] = REVERSE_V2(%x, %constant1)\n"
        "  %t3: INT8[1,4,4,8] = RELU(%t2)\n"
        "  %t5: INT64[1,4,4] = ARG_MAX(%t3, %constant4)\n"
        "  output %t5\n"
    )


MAPS = """\
  weights map        offset      bytes  commands  content
                        0x0          6  0         conv2d_s8 weights
                       0x10         12  0         conv2d_s8 bias
                       0x20         24  0         conv2d_s8 requant
                       0x40          3  2         add_s8 b
  scratch map        offset      bytes  commands  content
                       0x80         48  0-1       conv2d_s8 output
                        0x0        128  0         conv2d_s8 workspace
                        0x0         12  1-2       max_pool_s8 output
"""


def test_a_payload_and_a_converted_file_show_the_same_microcode(
    deuteron: Run, tmp_path: Path, source: bytes, container: Container, payload: bytes
):
    files = {"delegate payload": payload, "converted TFLite file": neutron_graph.wrap(source, container, {})}
    for kind, data in files.items():
        path = tmp_path / "file"
        path.write_bytes(data)
        result = deuteron("inspect", path)
        lines = result.out.splitlines()
        assert (result.code, result.err) == (0, "")
        assert lines[:2] == [f"{path}: {kind}, {len(data):,} B", ""]
        assert lines[2].startswith("npu: 3 kernel calls; microcode ")
        assert lines[3:5] == ["  in0: 32 B", "  out0: 12 B"]
        assert lines[5].startswith("  0  conv2d_s8 [1,4,4,2] -> [1,4,4,3]  input in0+0x0:32, weights weights+0x0:6, ")
        assert " in_zp=-3 out_zp=0 " in lines[5]
        assert [line.split("; ")[-1] for line in lines[5:8]] == ["tflite op 0", "tflite op 1", "tflite op 2"]
        assert lines[8] == "  3  end"
        assert result.out.endswith(MAPS)


def test_microcode_needs_its_weights_and_kernels(deuteron: Run, tmp_path: Path, container: Container):
    path = tmp_path / "npu_0.microcode"
    path.write_bytes(container.microcode)
    for block, data in (("weights", container.weights), ("kernels", container.kernels)):
        assert deuteron("inspect", path) == Result(
            1,
            "",
            f"error: {path}: its {block} `npu_0.{block}` are not next to it\n\n"
            "hint: keep the files of `--intermediates` in one folder\n",
        )
        path.with_suffix(f".{block}").write_bytes(data)
    result = deuteron("inspect", path)
    assert result.out.startswith(f"{path}: microcode, {len(container.microcode)} B\n")
    assert result.out.endswith(MAPS)


def test_json(deuteron: Run, tmp_path: Path, payload: bytes):
    path = tmp_path / "payload"
    path.write_bytes(payload)
    report = json.loads(deuteron("inspect", path, "--json").out)
    assert (report["schema"], report["kind"], report["bytes"]) == (1, "delegate payload", len(payload))
    (partition,) = report["partitions"]
    assert [command["kernel"] for command in partition["commands"]] == ["conv2d_s8", "max_pool_s8", "add_s8"]
    assert partition["scratch_map"][0] == {
        "offset": 128,
        "nbytes": 48,
        "label": "conv2d_s8 output",
        "first": 0,
        "last": 1,
    }


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "it is empty"),
        (b"\x7fELF\2\1\1\0more", "it starts with 7f 45 4c 46 02 01 01 00"),
        (b"x", "it starts with 78"),
    ],
)
def test_a_file_of_another_kind(deuteron: Run, tmp_path: Path, content: bytes, found: str):
    path = tmp_path / "model.pte"
    path.write_bytes(content)
    assert deuteron("inspect", path) == Result(
        1,
        "",
        f"error: {path}: the file cannot be inspected: {found}\n\nhint: give a build directory, a `.pte`, a "
        "`.microcode` file or a TFLite file\n",
    )


def test_a_missing_file(deuteron: Run, tmp_path: Path):
    path = tmp_path / "model.pte"
    assert deuteron("inspect", path) == Result(
        1,
        "",
        f"error: `{path}` does not exist\n\nhint: check its name; paths are relative to the current directory\n",
    )


def test_a_directory_that_is_no_build(deuteron: Run, tmp_path: Path):
    assert deuteron("inspect", tmp_path) == Result(
        1,
        "",
        f"error: `{tmp_path}` has no `build.json`\n\nhint: give a directory that `deuteron build MODEL -o DIR` has "
        "written\n",
    )


def test_a_truncated_payload(deuteron: Run, tmp_path: Path, payload: bytes):
    path = tmp_path / "payload"
    path.write_bytes(payload[:200])
    assert deuteron("inspect", path) == Result(
        1,
        "",
        f"error: {path}, delegate payload: the microcode end at byte 528, the payload has 200\n\n"
        "hint: the file is damaged or truncated: build it again\n",
    )


def test_a_flipped_bit_in_microcode_and_weights(deuteron: Run, tmp_path: Path, payload: bytes):
    path = tmp_path / "payload"
    for at, block in ((300, "microcode"), (len(payload) - 40, "weights")):
        damaged = bytearray(payload)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        result = deuteron("inspect", path)
        assert (result.code, result.out) == (1, "")
        first, _, hint = result.err.splitlines()
        assert first.startswith(f"error: {path}, {block}: checksum is 0x")
        assert hint == "hint: build the model again; the file may be damaged"


def test_a_truncated_tflite_file(deuteron: Run, tmp_path: Path, source: bytes):
    path = tmp_path / "npu_0.tflite"
    path.write_bytes(source[: len(source) // 2])
    result = deuteron("inspect", path)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {path}")


def test_a_tflite_file_with_its_data_behind_the_flatbuffer(deuteron: Run, tmp_path: Path, source: bytes):
    path, outside = tmp_path / "npu_0.tflite", outside_bytes(decode(source))
    path.write_bytes(source)
    inside = deuteron("inspect", path)
    path.write_bytes(outside)
    assert deuteron("inspect", path).out == inside.out.replace(f"{len(source):,} B", f"{len(outside):,} B")
    path.write_bytes(outside[:-16])
    assert deuteron("inspect", path).err.startswith(f"error: {path}: the TFLite file is damaged or cut off: buffer ")


def test_a_truncated_program(deuteron: Run, tmp_path: Path):
    path = tmp_path / "model.pte"
    path.write_bytes(b"\x10\0\0\0ET12" + bytes(8))
    result = deuteron("inspect", path)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"error: {path}, program: ")
