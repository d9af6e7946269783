"""Disassembly: one line per command, and every field in the JSON form."""

import json
from dataclasses import astuple

import pytest
from tests.npu.neutron.microcode.programs import CONTAINER, PROGRAM

from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Decoded, Fetch, Wait, decode
from deuteron.npu.neutron.microcode.disassemble import as_json, disassemble, shape
from deuteron.operators import kernel_params as p
from deuteron.operators.regions import Region

LINES = [
    "0  conv2d_s8 [1,4,4,2] -> [1,4,4,2]  input in0+0x0:32, weights weights+0x0:36, bias weights+0x30:8, "
    "requant weights+0x40:8, output scratch+0x100:32, workspace scratch+0x0:256  kernel_h=3 kernel_w=3 stride_h=1 "
    "stride_w=1 dilation_h=1 dilation_w=1 pad_top=1 pad_left=1 requant_count=1 in_zp=3 out_zp=-5 act_min=-128 "
    "act_max=127 out_pitch=2  ; tflite op 0",
    "1  add_s8 [32]  a scratch+0x100:32, b scratch+0x100:32, output scratch+0x100:32  a_strides=[1] b_strides=[1] "
    "a_zp=-5 b_zp=-5 a_mult=1073741824 b_mult=1073741824 shift=30 out_zp=-5 act_min=-5 act_max=100  ; tflite op 2",
    "2  average_pool_s8 [1,4,4,2] -> [1,2,2,2]  input scratch+0x100:32, output scratch+0x0:8  kernel_h=2 "
    "kernel_w=2 stride_h=2 stride_w=2 pad_top=0 pad_left=0 in_zp=-5 mult=1073741824 shift=30 out_zp=-5 act_min=-128 "
    "act_max=127  ; tflite op 3",
    "3  softmax_s8 [1,8]  input scratch+0x0:8, table weights+0x50:1024, output out0+0x0:8  mult=16777216 shift=16 "
    "out_zp=-128  ; tflite op 5",
    "4  copy_s8 [2,16]  input scratch+0x100:32, output out1+0x0:32  in_start=0 in_strides=[1,2] out_strides=[16,1]  "
    "; tflite op 6",
    "5  end",
]


def test_one_line_per_command() -> None:
    assert disassemble(decode(CONTAINER)) == LINES


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (p.ReduceSumParams(2, 3, 5, 3, 0, 1, 30, 0), "[2,3,5] -> [2,5]"),
        (p.ReduceExtremumParams(2, 3, 5, 1), "[2,3,5] -> [2,5]"),
        (p.ExtremumParams((1, 1, 1, 2, 3), (0,) * 5, (0,) * 5, 1), "[2,3]"),
        (p.MatMulParams(2, 3, 4, 5, 0, 0, 1, 30, 0, -128, 127), "[2,3,4] x [2,4,5]"),
        (p.ResizeBilinearParams(1, 2, 3, 4, 5, 6, 0, 1, 2, 0, 1, 2, 0), "[1,2,3,4] -> [1,5,6,4]"),
        (p.PreluParams((1, 1, 1, 1, 3), (0,) * 5, (0,) * 5, 0, 0, 1, 30, 1, 30, 0), "[3]"),
    ],
)  # fmt: skip
def test_shapes_of_calls(params: p.KernelParams, text: str) -> None:
    assert shape(params) == text


def test_origins_of_the_callers_choice() -> None:
    lines = disassemble(decode(CONTAINER), [f"model.py:{i}" for i in range(4)])
    assert [line.rpartition("; ")[2] for line in lines] == [
        *(f"model.py:{i}" for i in range(4)),
        "tflite op 6",
        "5  end",
    ]


def test_fetches() -> None:
    decoded = decode(CONTAINER)
    commands = (Fetch(1, 16, 32, 48), Wait(1), Fetch(2, 0, 64, 16, region=Region.SCRATCH))
    moved = Decoded(Container(b"", b"", b""), decoded.header, (), (), commands)
    assert disassemble(moved) == [
        "0  fetch weights+0x10 -> prefetch+0x20 48 B on channel 1",
        "1  wait for channel 1",
        "2  fetch weights+0x0 -> scratch+0x40 16 B on channel 2",
        "3  end",
    ]
    assert as_json(moved)["commands"] == [
        {"command": "fetch", "channel": 1, "weights_offset": 16, "prefetch_offset": 32, "bytes": 48},
        {"command": "wait", "channel": 1},
        {"command": "fetch", "channel": 2, "weights_offset": 0, "scratch_offset": 64, "bytes": 16},
    ]


def test_json_has_every_parameter() -> None:
    data = json.loads(json.dumps(as_json(decode(CONTAINER))))
    assert data["header"]["scratch_bytes"] == 288
    assert data["input_bytes"] == [32]
    for command, call in zip(data["commands"], PROGRAM.calls, strict=True):
        assert command["kernel"] == call.kernel.name
        assert list(command["operands"]) == list(call.kernel.operands)
        assert tuple(map(_tuple, command["params"].values())) == astuple(call.params)


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
