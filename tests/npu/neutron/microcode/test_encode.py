"""Decoding reverses encoding, field by field; the header equals the specification."""

import struct
import zlib
from dataclasses import replace

import pytest
from tests.npu.neutron.microcode.programs import CONTAINER, PLAN, PROGRAM

from deuteron.errors import CapacityError
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators.program import Buffer, Program
from deuteron.operators.regions import Region


def test_header_without_profiling() -> None:
    words = struct.unpack_from("<25I", CONTAINER.microcode)
    assert CONTAINER.microcode[:8] == b"nMCdDTN1"
    assert words[2:5] == (0x10000, 0, 6)
    blanked = CONTAINER.microcode[:20] + bytes(4) + CONTAINER.microcode[24:]
    assert words[5] == zlib.crc32(blanked)
    assert words[6:10] == (
        len(CONTAINER.microcode),
        len(CONTAINER.weights),
        zlib.crc32(CONTAINER.weights),
        PLAN.scratch_bytes,
    )
    assert words[10:16] == (0, 1, 2, 0, 0, 96)
    assert words[16:20] == (0, 0, 0, 0)
    assert words[20:25] == (32, 8, 32, 0, 1 | words[24] & 0xFFFF0000)


def test_header_with_profiling() -> None:
    profiled = encode(PROGRAM, PLAN, profiling=True)
    words = struct.unpack_from("<20I", profiled.microcode)
    assert words[3] == 1
    assert words[10:15] == (16 * 6, 0, 0, 1, 2)


def test_the_kernels_block_lists_kernels_ascending() -> None:
    assert struct.unpack("<6I", CONTAINER.kernels) == (5, 1, 4, 6, 9, 10)


def test_decoding_gives_back_every_call() -> None:
    decoded = decode(CONTAINER)
    assert (decoded.input_bytes, decoded.output_bytes) == ((32,), (8, 32))
    assert len(decoded.calls) == len(PROGRAM.calls)
    for call, source in zip(decoded.calls, PROGRAM.calls, strict=True):
        assert (call.kernel, call.params, call.origin) == (source.kernel, source.params, source.origin[0])
        for operand, ref in zip(call.operands, source.operands, strict=True):
            place = PLAN.placements[ref.buffer]
            assert (operand.region, operand.index, operand.offset, operand.nbytes) == (
                place.region,
                place.index,
                place.offset + ref.offset,
                ref.nbytes,
            )


def test_a_call_without_origin() -> None:
    call = replace(PROGRAM.calls[-1], origin=())
    decoded = decode(encode(replace(PROGRAM, calls=(*PROGRAM.calls[:-1], call)), PLAN))
    assert decoded.calls[-1].origin is None


def test_every_constant_is_where_the_plan_says() -> None:
    weights = decode(CONTAINER).calls[0].operands[1]
    assert weights.region is Region.WEIGHTS
    assert CONTAINER.weights[weights.offset :][: weights.nbytes] == next(
        b.data for b in PROGRAM.buffers if b.name == "w"
    )


def test_too_many_tensors_are_refused() -> None:
    names = tuple(f"x{i}" for i in range(256))
    program = Program(tuple(Buffer(name, 1) for name in names), names, (), ())
    with pytest.raises(CapacityError, match="the partition has 256 inputs, the format takes 255"):
        encode(program, PLAN)
