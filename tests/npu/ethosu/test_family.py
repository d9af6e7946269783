"""Command streams of Vela are listed, and run by ExecuTorch's runtime as LiteRT's reference kernels compute."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from tests import full
from tests.exir import BackendDetails, PreprocessResult, to_backend, to_edge
from tests.npu.ethosu.networks import ACCELERATORS, KINDS
from tests.npu.ethosu.vela import block, compiled
from tests.npu.neutron.tflite import cases, litert
from torch import Tensor, nn

from deuteron.errors import DeuteronError, FormatError, UnsupportedError
from deuteron.npu.ethosu import blob
from deuteron.npu.ethosu import program as programs
from deuteron.npu.families import ETHOSU, family_of
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.host import HostRunner
from deuteron.views.inspect import inspect

SEEDS = range(3)


class Filled(nn.Module):
    """A program whose inputs and outputs are a partition's; its backend computes something else."""

    def __init__(self, outputs: tuple[tuple[int, ...], ...]) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        least = sum(x.reshape(-1)[:1] for x in inputs)
        return tuple((least + torch.zeros(shape, dtype=torch.int8)).to(torch.int8) for shape in self.outputs)


class Given(BackendDetails):
    """In the place of ExecuTorch's Ethos-U backend, whose name it must not have: finds the partition `payload` made."""

    payload = b""

    @staticmethod
    def preprocess(edge_program: torch.export.ExportedProgram, compile_specs: object) -> PreprocessResult:
        return PreprocessResult(processed_bytes=Given.payload)


def program(payload: bytes, inputs: tuple[tuple[int, ...], ...], outputs: tuple[tuple[int, ...], ...]) -> bytes:
    """A `.pte` that is the partition."""
    Given.payload = payload
    samples = tuple(torch.zeros(shape, dtype=torch.int8) for shape in inputs)
    exported = torch.export.export(Filled(outputs), samples, strict=False)
    lowered = to_backend(Given.__name__, to_edge(exported).exported_program(), [])
    lowered._backend_id = blob.BACKEND_ID
    return lowered.buffer()


def types(graph: Graph, names: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(graph.type(name).shape for name in names)


def layer(seed: int = 3) -> bytes:
    """A convolution in TFLite: 6x5x3 to 3x3x9, per channel."""
    rng = np.random.default_rng(seed)
    x = cases.quant(rng)
    weights, bias, y = cases.weighted_operands(rng, x, (9, 3, 2, 3), 0, 18)
    op = ops.Conv2D(
        inputs=("x", "w", "b"), outputs=("y",), origin=cases.ORIGIN, stride=(2, 2), dilation=(1, 1),
        pads=ops.Pads(0, 0, 1, 1), clamp=cases.clamp(rng, y),
    )  # fmt: skip
    return emit(cases.one_op(op, cases.act("x", (1, 6, 5, 3), x), weights, bias, cases.act("y", (1, 3, 3, 9), y)))


@pytest.mark.parametrize("kind", full.only(KINDS, *[*KINDS][::3]))
def test_it_computes_what_tflite_defines(kind: str, tmp_path: Path) -> None:
    computed = 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        graph = KINDS[kind](rng)
        folder = tmp_path / str(seed)
        folder.mkdir()
        accelerator = ACCELERATORS[(seed + len(kind)) % len(ACCELERATORS)]
        payload = compiled(emit(graph), accelerator, folder)
        if payload is None:
            continue
        inputs, outputs = types(graph, graph.inputs), types(graph, graph.outputs)
        path = folder / "model.pte"
        path.write_bytes(program(payload, inputs, outputs))
        values = [rng.integers(-128, 128, shape).astype(np.int8) for shape in inputs]
        (expected,) = litert.run_bytes(emit(graph), cast("list[npt.NDArray[np.int8]]", values))
        (result,) = HostRunner(path).run(values)
        np.testing.assert_array_equal(result, expected, err_msg=f"{kind}, seed {seed}, {accelerator}")
        computed += 1
    assert computed >= len(SEEDS) - 1


def test_its_partitions_are_listed(tmp_path: Path) -> None:
    payload = compiled(layer(), "ethos-u55-128", tmp_path)
    assert payload is not None
    path = tmp_path / "model.pte"
    path.write_bytes(program(payload, ((1, 6, 5, 3),), ((1, 3, 3, 9),)))
    assert list(inspect(path).lines())[2:6] == [
        "npu 0: ethos-u55-128; 1 operation, 0 copies; commands 296 B, weights 368 B, scratch 192 B",
        "  in0: 90 B, scratch+0x60",
        "  out0: 81 B, scratch+0x0",
        "  0x00120  conv 3x2 stride 2x2 pads 0,1,1,0 int8 6x5x3 zp -83 scratch+0x60 -> "
        "int8 3x3x9 zp 46 scratch+0x0, weights weights+0x60 272 B, weights+0x0 96 B",
    ]
    (listed,) = cast("list[dict[str, Any]]", inspect(path).to_json()["partitions"])
    (operation,) = listed["operations"]
    assert (listed["accelerator"], operation["kind"], operation["macs"]) == ("ethos-u55-128", "conv", 9 * 9 * 18)
    assert family_of("EthosUBackend") is ETHOSU


def test_those_of_an_ethos_u85_are_listed(tmp_path: Path) -> None:
    """It has up to four streams of weights, and one of scales."""
    payload = compiled(layer(), "ethos-u85-512", tmp_path)
    assert payload is not None
    assert list(programs.program_of(payload, "npu 0").lines("npu 0", ("model.py:1",)))[3:] == [
        "  0x00134  conv 3x2 stride 2x2 pads 0,1,1,0 int8 6x5x3 zp -83 scratch+0x60 -> int8 3x3x9 zp 46 scratch+0x0, "
        "weights weights+0xa0 208 B, weights+0x170 160 B, weights+0x0 160 B  ; model.py:1",
    ]


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = compiled(layer(), "ethos-u65-256", tmp_path_factory.mktemp("layer"))
    assert made is not None
    return made


def replaced(payload: bytes, name: str, change: Callable[[bytearray], None]) -> bytes:
    """The payload with the content of a block changed."""
    at = payload.index(name.encode().ljust(16, b"\0"))
    size = int.from_bytes(payload[at + 16 : at + 20], "little")
    content = bytearray(payload[at + 32 : at + 32 + size])
    change(content)
    return payload[:at] + block(name, bytes(content)) + payload[at + 32 + size + -size % 16 :]


def put(at: int, word: int) -> Callable[[bytearray], None]:
    """Writes a word."""

    def change(content: bytearray) -> None:
        content[at : at + 4] = struct.pack("<I", word)

    return change


def cut(content: bytearray) -> None:
    """Drops the last command."""
    del content[-4:]
    content[28:32] = struct.pack("<I", 2 | (len(content) // 4 - 8) << 16)


def doubled(content: bytearray) -> None:
    """Adds a second tensor like the first."""
    content[:4] = struct.pack("<I", 2)
    content += content[4:]


LOWER = "\n\nhint: lower the model again with ExecuTorch's Ethos-U backend"
AGAIN = "\n\nhint: lower the model again"
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], type[DeuteronError], str]] = {
    "another backend's": (
        lambda payload: bytes(64),
        FormatError,
        "npu 0: the partition is none of ExecuTorch's Ethos-U backend",
    ),
    "cut": (
        lambda payload: payload[:-32],
        FormatError,
        "npu 0: the partition ends at byte {cut}, before its last block" + LOWER,
    ),
    "a strange name": (
        lambda payload: payload[:32] + struct.pack("<16sI12x", b"\x1b[2J\xff\n`", 1 << 20) + payload[64:],
        FormatError,
        "npu 0: block `\\x1b[2J\\xff\\n`` leaves the partition: 1,048,576 B" + LOWER,
    ),
    "no magic": (
        lambda payload: replaced(payload, "cmd_data", put(0, 0)),
        FormatError,
        "npu 0: the commands do not start with `COP1`" + AGAIN,
    ),
    "another accelerator": (
        lambda payload: replaced(payload, "cmd_data", put(8, 0x20000008)),
        UnsupportedError,
        "npu 0: the commands are for an accelerator with the configuration 0x20000008\n\n"
        f"hint: lower the model for one of {', '.join(ACCELERATORS)}",
    ),
    "no stop": (
        lambda payload: replaced(payload, "cmd_data", cut),
        FormatError,
        "npu 0: the commands end without a stop" + AGAIN,
    ),
    "no command": (
        lambda payload: replaced(payload, "cmd_data", put(32, 0x3FF)),
        FormatError,
        "npu 0: 0x000003ff at byte 0x0 is no command" + AGAIN,
    ),
    "a tensor outside": (
        lambda payload: replaced(payload, "inputs", put(4 + 7 * 4, 1 << 20)),
        FormatError,
        "npu 0: tensor 0 of block `inputs` leaves the scratch memory of {scratch:,} B" + LOWER,
    ),
    "two inputs in one place": (
        lambda payload: replaced(payload, "inputs", doubled),
        FormatError,
        "npu 0: two inputs share byte {input} of the scratch memory" + LOWER,
    ),
    "too many tensors": (
        lambda payload: replaced(payload, "outputs", put(0, 256)),
        FormatError,
        "npu 0: block `outputs` has 256 tensors, at most 255 are possible" + LOWER,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_is_damaged_is_said(name: str, payload: bytes, tmp_path: Path) -> None:
    damage, error, message = DAMAGES[name]
    at = payload.index(b"scratch_size")
    scratch = int.from_bytes(payload[at + 32 : at + 36], "little")
    with pytest.raises(error) as raised:
        programs.program_of(damage(payload), "npu 0")
    first = payload.index(b"inputs".ljust(16, b"\0")) + 32 + 4 + 7 * 4
    place = int.from_bytes(payload[first : first + 4], "little")
    assert str(raised.value) == message.format(cut=len(payload) - 32, scratch=scratch, input=place)
    path = tmp_path / "model.pte"
    path.write_bytes(program(damage(payload), ((1, 6, 5, 3),), ((1, 3, 3, 9),)))
    with pytest.raises(FormatError, match="ExecuTorch's runtime rejects the program"):
        HostRunner(path)
