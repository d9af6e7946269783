"""Handwritten command streams, decoded: commands that only an Ethos-U85 has."""

import struct

from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.isa import CONFIGS, Long, Op, Short
from deuteron.npu.ethosu.program import EthosUProgram
from deuteron.npu.ethosu.stream import Branch, FeatureMap, Operation, Span, decode

Words = list[tuple[int, int] | tuple[int, int, int]]


def command_data(words: Words) -> bytes:
    """A driver's words for an Ethos-U85-256: commands as (number, parameter), and (number, above, payload)."""
    (config,) = (c for c in CONFIGS if c.name == "ethos-u85-256")
    stream = b"".join(
        struct.pack("<I", w[0] | w[1] << 16) if len(w) == 2 else struct.pack("<II", w[0] | 1 << 14 | w[1] << 16, w[2])
        for w in words
    )
    return (
        b"COP1"
        + struct.pack("<6I", 1, config.word, 0, 5, 5, 5)
        + struct.pack("<I", 2 | len(stream) // 4 << 16)
        + stream
    )


def sizes(height: int, width: int, depth: int) -> Words:
    """The registers of an output of these sizes, and of an activation that does nothing."""
    return [
        (Short.OFM_HEIGHT_M1, height - 1), (Short.OFM_WIDTH_M1, width - 1), (Short.OFM_DEPTH_M1, depth - 1),
        (Short.OFM_ZERO_POINT, 0), (Short.IFM_ZERO_POINT, 3), (Short.IFM2_ZERO_POINT, 0), (Short.ACTIVATION, 0),
    ]  # fmt: skip


def test_an_ethos_u85_chains_and_turns() -> None:
    """An int8 map is resized into a chain, a number is taken from that, and the result turned into a table's values."""
    stream = decode(
        command_data([
            *sizes(4, 6, 16),
            (Short.IFM_REGION, 1), (Short.IFM_PRECISION, 1), (Long.IFM_BASE0, 0, 0x40),
            (Short.KERNEL_HEIGHT_M1, 1), (Short.KERNEL_WIDTH_M1, 2), (Short.IFM_DEPTH_M1, 15),
            (Short.OFM_REGION, 2), (Short.OFM_PRECISION, 1 | 1 << 1 | 2 << 14),
            (Op.RESIZE, 2),
            (Short.IFM_REGION, 2), (Short.IFM_PRECISION, 1 | 1 << 2 | 2 << 14), (Short.IFM_BROADCAST, 0),
            (Short.IFM2_BROADCAST, 8), (Long.OP_SCALAR, 0, 0xFFFF_FFFE),
            (Short.OFM_REGION, 1), (Short.OFM_PRECISION, 1 | 6 << 11), (Long.OFM_BASE0, 0, 0x100),
            (Short.ACTIVATION, 4 | 3 << 5),
            (Op.ELEMENTWISE, 2),
            (Short.DMA0_SRC_REGION, 1 << 9), (Short.DMA0_DST_REGION, 1), (Short.DMA0_SIZE0, 3),
            (Long.DMA0_SRC, 0, 0x10), (Long.DMA0_DST, 0, 0x20), (Long.DMA0_LEN, 0, 4),
            (Long.DMA0_SRC_STRIDE0, 0, 16), (Long.DMA0_DST_STRIDE0, 0, 4),
            (Op.DMA_START, 0),
            (Op.STOP, 0xFFFF),
        ]),
        "npu 0",
    )  # fmt: skip
    between = FeatureMap("chain 2", 0, (4, 6, 16), "int16", in_bricks=False, zero_point=0)
    source = FeatureMap("scratch", 0x40, (2, 3, 16), "int8", in_bricks=False, zero_point=3)
    result = FeatureMap("scratch", 0x100, (4, 6, 16), "int8", in_bricks=False, zero_point=0)
    resized, less, copied = stream.operations
    assert (resized.kind, resized.inputs, resized.output) == ("resize_nearest", (source,), between)
    assert less == Operation(
        less.offset, "sub", (FeatureMap("chain 2", 0, (4, 6, 16), "int16", in_bricks=False, zero_point=3),), result,
        scalar=-2, table=3, turn="CHW",
    )  # fmt: skip
    assert (copied.source, copied.target) == (Span("weights", 0x10, 36), Span("scratch", 0x20, 12))


def test_an_ethos_u85_copies_one_row_without_a_number_of_rows() -> None:
    """Older releases of Vela leave the number unset then."""
    stream = decode(
        command_data([
            (Short.DMA0_SRC_REGION, 0), (Short.DMA0_DST_REGION, 1),
            (Long.DMA0_SRC, 0, 0x10), (Long.DMA0_DST, 0, 0x20), (Long.DMA0_LEN, 0, 4),
            (Op.DMA_START, 0),
            (Op.STOP, 0xFFFF),
        ]),
        "npu 0",
    )  # fmt: skip
    (copied,) = stream.operations
    assert (copied.source, copied.target) == (Span("weights", 0x10, 4), Span("scratch", 0x20, 4))


def test_an_ethos_u85_branches() -> None:
    """Branches are no operations; listings have them between those."""
    stream = decode(
        command_data([
            *sizes(1, 1, 1),
            (Short.OFM_REGION, 1), (Short.OFM_PRECISION, 1), (Long.OFM_BASE0, 0, 0x100),
            (Short.IFM_REGION, 1), (Short.IFM_PRECISION, 1), (Long.IFM_BASE0, 0, 0x40), (Short.IFM_BROADCAST, 0),
            (Short.IFM2_BROADCAST, 8), (Long.OP_SCALAR, 0, 1),
            (Op.ELEMENTWISE, 2),
            (Long.BRANCH, 1, 0x0),
            (Long.BRANCH, 0, 0x60),
            (Op.STOP, 0xFFFF),
        ]),
        "npu 0",
    )  # fmt: skip
    assert [operation.kind for operation in stream.operations] == ["sub"]
    assert stream.branches == (Branch(0x50, 0, is_conditional=True), Branch(0x58, 0x60, is_conditional=False))
    program = EthosUProgram(Blob(command_data=b"", weights=b"", scratch_bytes=0, inputs=(), outputs=()), stream)
    assert [*program.lines("npu 0", ())][-2:] == [
        "  0x00050  branch to 0x00000 if the result before it is not 0",
        "  0x00058  branch to 0x00060",
    ]
    assert program.has_branches
