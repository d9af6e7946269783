"""Bad containers: each rule of the format has its sentence, and no bytes raise anything but FormatError."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graphs import random_graph
from tests.npu.neutron.microcode.damaged_containers import randomly_damaged, sealed, with_words, words_of
from tests.npu.neutron.microcode.programs import CONTAINER, PLAN, PROGRAM

from deuteron.errors import FormatError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Call, Fetch, Wait, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.microcode.format import Region
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.planner import plan

FIRST = 24
"""Word of the first command."""


def _starts() -> list[int]:
    """First word of each command."""
    words, at, found = words_of(CONTAINER.microcode), FIRST, []
    while words[at]:
        found.append(at)
        at += int(words[at]) >> 16
    return found


CONV, ADD, POOL, SOFTMAX, COPY, END = _starts()
CONV_PARAMS = CONV + 3 + 6 * 3
COPY_PARAMS = COPY + 3 + 2 * 3


def _fails(container: Container, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode(container)
    assert str(caught.value).split("\n\n")[0] == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({0: 0x64434D6F}, "microcode: not Neutron microcode: word 0 is 0x64434D6F instead of 0x64434D6E"),
        ({1: 0x2A}, "microcode: microcode of another converter: word 1 is 0x0000002A instead of 0x314E5444"),
        ({2: 0x20000}, "microcode: microcode format 2.0, this version reads 1.0 to 1.2"),
        ({2: 0x10003}, "microcode: microcode format 1.3, this version reads 1.0 to 1.2"),
        ({3: 2}, "microcode: flags are 0x2, only bit 0 may be set"),
        ({2: 0x10001, 3: 2}, "microcode: flags are 0x2, only bit 0 may be set"),
        ({2: 0x10002, 3: 4}, "microcode: flags are 0x4, only bits 0 and 1 may be set"),
        ({6: 72}, "microcode: size 72 in the header is no multiple of 16 within 80..16777216"),
        ({7: 24}, "microcode: weights size 24 is no multiple of 16, at least 16"),
        ({9: 17}, "microcode: scratch size 17 is no multiple of 16"),
        ({10: 8}, "microcode: prefetch size 8 is no multiple of 16"),
        ({11: 256}, "microcode: 256 inputs, at most 255 are allowed"),
        ({13: 5}, "microcode: header word 13 is 5 instead of 0"),
        ({19: 1}, "microcode: header word 19 is 1 instead of 0"),
        ({15: 92}, "microcode: first command at byte 92, which is no multiple of 16 within 92..703"),
        ({23: 1}, "microcode: the bytes between the tensor sizes and the first command are not zero"),
        ({4: 0}, "microcode: no commands, at least `end` is required"),
        ({4: 5}, "command 4: the last command is not `end`"),
        ({4: 7}, "command 5: it is `end`, which must be last"),
        ({END + 1: 9}, "microcode: the bytes after `end` are not zero"),
        ({CONV: 0x10105}, "command 0: first word 0x00010105 is no command"),
        ({CONV: 0x10005}, "command 0: first word 0x00010005 is no command"),
        ({CONV: 0xFFFF0001}, "command 0: length 65535 leaves the microcode, 152 words are left"),
        ({CONV: 0x20001}, "command 0: a call takes at least 3 words, found 2"),
        ({CONV + 1: 0x15060063}, "command 0: kernel number 99 is not in the catalogue"),
        (
            {CONV + 1: 0x15050001},
            "command 0 (conv2d_s8): 5 operands and 21 parameter words instead of 6 and 21",
        ),
        ({CONV + 3: 0x10000}, "command 0 (conv2d_s8), operand `input`: first word 0x00010000 names no region"),
        ({CONV + 3: 7}, "command 0 (conv2d_s8), operand `input`: first word 0x00000007 names no region"),
        ({CONV + 3: 0x100}, "command 0 (conv2d_s8), operand `input`: input 1 does not exist, there are 1"),
        ({CONV + 4: 16}, "command 0 (conv2d_s8), operand `input`: bytes 16..48 leave input 0 of 32 bytes"),
        ({CONV + 5: 16}, "command 0 (conv2d_s8), operand `input`: 16 bytes, the parameters give 32"),
        ({CONV + 7: 4}, "command 0 (conv2d_s8), operand `weights`: offset 4 is no multiple of 16"),
        ({CONV + 15: 3, CONV + 16: 0}, "command 0 (conv2d_s8), operand `output`: region weights may not be written"),
        (
            {CONV + 16: 16},
            "command 0 (conv2d_s8), operand `output`: it overlaps operand `workspace`",
        ),
        ({CONV_PARAMS: 0}, "command 0 (conv2d_s8): batches is 0, allowed are 1..65536"),
        ({CONV_PARAMS + 1: 65_537}, "command 0 (conv2d_s8): in_h is 65537, allowed are 1..65536"),
        ({CONV_PARAMS + 13: 3}, "command 0 (conv2d_s8): pad_top is 3, allowed are 0..2"),
        ({CONV_PARAMS + 4: 6}, "command 0 (conv2d_s8): the last window starts at 4, beyond the map of 4"),
        ({CONV_PARAMS + 15: 3}, "command 0 (conv2d_s8): requant_count is 3, allowed are 1 and 2"),
        ({CONV_PARAMS + 16: 128}, "command 0 (conv2d_s8): in_zp is 128, allowed are -128..127"),
        ({CONV_PARAMS + 20: 1}, "command 0 (conv2d_s8): out_pitch 1 is below out_c 2"),
        ({CONV_PARAMS + 20: 3}, "command 0 (conv2d_s8), operand `output`: 32 bytes, the parameters give 47"),
        ({CONV_PARAMS + 18: 5, CONV_PARAMS + 19: 4}, "command 0 (conv2d_s8): act_min 5 is above act_max 4"),
        ({POOL + 9 + 14: 60}, "command 2 (average_pool_s8): the divisor 4 x 2^60 is above 2^61"),
        ({COPY_PARAMS: -1}, "command 4 (copy_s8): in_start is -1, allowed are 0..2147483647"),
        (
            {COPY_PARAMS + 1 + 6 + 5: -1},
            "command 4 (copy_s8): input strides reach 15 bytes back from in_start 0",
        ),
        ({COPY_PARAMS: 1}, "command 4 (copy_s8), operand `input`: 32 bytes, the parameters give 33"),
        ({COPY_PARAMS + 1 + 12 + 5: -1}, "command 4 (copy_s8): out_strides is -1, allowed are 0..2147483647"),
        ({COPY_PARAMS + 1 + 12 + 5: 0}, "command 4 (copy_s8): output stride 0 writes bytes twice"),
        (
            {CONV + 9: 0, CONV + 10: 0},
            "command 0 (conv2d_s8), operand `bias`: it may not lie in an input, which has no alignment",
        ),
    ],
)  # fmt: skip
def test_each_rule_has_its_sentence(changes: dict[int, int], text: str) -> None:
    _fails(with_words(CONTAINER, changes), text)


def test_truncated_microcode() -> None:
    _fails(
        replace(CONTAINER, microcode=CONTAINER.microcode[:79]),
        "microcode: truncated: 79 bytes, the header alone takes 80",
    )
    size = len(CONTAINER.microcode)
    cut = CONTAINER.microcode[: size - 16]
    _fails(replace(CONTAINER, microcode=cut), f"microcode: truncated: {size - 16} bytes of {size}")


def test_truncated_weights() -> None:
    size = len(CONTAINER.weights)
    _fails(replace(CONTAINER, weights=CONTAINER.weights[:-1]), f"weights: truncated: {size - 1} bytes of {size}")


@pytest.mark.parametrize("at", [100, 130, 500])
def test_a_flipped_bit_in_the_microcode(at: int) -> None:
    block = bytearray(CONTAINER.microcode)
    block[at] ^= 4
    with pytest.raises(FormatError, match=r"^microcode: checksum is 0x\w{8}, the bytes give 0x\w{8}\n"):
        decode(replace(CONTAINER, microcode=bytes(block)))


def test_a_flipped_bit_in_the_weights() -> None:
    block = bytearray(CONTAINER.weights)
    block[3] ^= 4
    with pytest.raises(FormatError, match=r"^weights: checksum is 0x\w{8}, the bytes give 0x\w{8}\n"):
        decode(replace(CONTAINER, weights=bytes(block)))


def test_a_requantization_row_out_of_range() -> None:
    requant = decode(CONTAINER).calls[0].operands[3]
    block = bytearray(CONTAINER.weights)
    struct.pack_into("<I", block, requant.offset + 4, 63)
    (multiplier,) = struct.unpack_from("<I", block, requant.offset)
    _fails(
        sealed(replace(CONTAINER, weights=bytes(block))),
        f"command 0 (conv2d_s8), operand `requant`: row 0 is {multiplier} / 2^63, "
        "multipliers are below 2^31 and shifts 1..62",
    )


def test_exponentials_out_of_range() -> None:
    table = decode(CONTAINER).calls[3].operands[1]
    block = bytearray(CONTAINER.weights)
    struct.pack_into("<I", block, table.offset + 40, (1 << 30) + 1)
    _fails(
        sealed(replace(CONTAINER, weights=bytes(block))),
        "command 3 (softmax_s8), operand `table`: the exponentials do not start at 2^30 and stay below",
    )


def test_a_kernels_block_that_lists_others() -> None:
    _fails(
        replace(CONTAINER, kernels=struct.pack("<2I", 1, 1)),
        "kernels: the block does not list the kernels that the commands call: [1, 4, 6, 9, 10]",
    )


# Fetch and wait, which the compiler does not emit yet.


def _with_fetches(*commands: tuple[int, ...], kernels: tuple[int, ...] = (), minor: int = 0) -> Container:
    """A container of version 1.`minor` whose only commands are these and `end`, with a prefetch area of 64 bytes."""
    words = [int(word) for word in words_of(CONTAINER.microcode)[:FIRST]]
    for command in commands:
        words += [command[0] | len(command) << 16, *command[1:]]
    words += [4 | 1 << 16]
    words += [0] * (-len(words) % 4)
    words[2], words[4], words[6], words[10] = 0x10000 | minor, len(commands) + 1, len(words) * 4, 64
    return sealed(
        Container(
            np.array(words, "<u4").tobytes(),
            CONTAINER.weights,
            struct.pack(f"<{1 + len(kernels)}I", len(kernels), *kernels),
        )
    )


def test_fetch_and_wait_are_decoded() -> None:
    decoded = decode(_with_fetches((2, 1, 16, 32, 32), (3, 1)))
    assert decoded.commands == (Fetch(1, 16, 32, 32), Wait(1))


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        (((2, 4, 0, 0, 16), (3, 0)), "command 0: channel 4, allowed are 0..3"),
        (((2, 0, 8, 0, 16), (3, 0)), "command 0: source 8 is no multiple of 16"),
        (((2, 0, 0, 8, 16), (3, 0)), "command 0: target 8 is no multiple of 16"),
        (((2, 0, 0, 0, 0), (3, 0)), "command 0: size is 0, at least 16 is required"),
        (((2, 0, 0, 64, 16), (3, 0)), "command 0: bytes 64..80 leave prefetch of 64 bytes"),
        (((2, 0, 1 << 20, 0, 16), (3, 0)), "command 0: bytes 1048576..1048592 leave weights of 1104 bytes"),
        (((2, 0, 0, 0, 16),), "microcode: channel 0 still fetches at `end`, a `wait` must come before"),
        (((2, 0, 0, 0, 16), (2, 0, 0, 0, 16)), "command 1: channel 0 still fetches, a `wait` must come before"),
        (
            ((2, 0, 0, 16, 32), (2, 3, 32, 32, 16), (3, 0), (3, 3)),
            "command 1: channel 0 still fetches to bytes 16..48 of prefetch, a `wait` must come before",
        ),
        (((3, 0, 0),), "command 0: length 3 instead of 2"),
        (((2, 0, 0, 0),), "command 0: length 4 instead of 5"),
    ],
)  # fmt: skip
def test_bad_fetches(commands: tuple[tuple[int, ...], ...], text: str) -> None:
    _fails(_with_fetches(*commands), text)


SCRATCH_BIT = 0x100
"""The offset of a fetch to scratch, next to its channel."""


def test_a_fetch_to_scratch_is_of_version_1_1() -> None:
    command = (2, SCRATCH_BIT | 3, 16, 32, 48)
    decoded = decode(_with_fetches(command, (3, 3), minor=1))
    assert decoded.commands == (Fetch(3, 16, 32, 48, region=Region.SCRATCH), Wait(3))
    assert decoded.header.minor == 1
    _fails(_with_fetches((2, SCRATCH_BIT | 3, 16, 16, 48), (3, 3)), "command 0: channel 259, allowed are 0..3")


def test_programs_without_fetches_to_scratch_stay_what_they_were() -> None:
    fetch = Fetch(1, 0, 16, 32)
    planned = replace(PLAN, prefetch_bytes=64, transfers={0: (fetch, Wait(1))})
    assert [words_of(encode(PROGRAM, each).microcode)[2] for each in (PLAN, planned)] == [0x10000, 0x10000]
    there = replace(planned, transfers={0: (replace(fetch, region=Region.SCRATCH, target=224), Wait(1))})
    words, before = (words_of(encode(PROGRAM, each).microcode) for each in (there, planned))
    assert words[2] == 0x10001
    assert [int(word) for word in words[FIRST : FIRST + 5]] == [2 | 5 << 16, SCRATCH_BIT | 1, 0, 224, 32]
    assert list(words[FIRST + 5 :]) == list(before[FIRST + 5 :])


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        (((2, 0x100, 0, 280, 16), (3, 0)), "command 0: target 280 is no multiple of 16"),
        (((2, 0x100, 0, 288, 16), (3, 0)), "command 0: bytes 288..304 leave scratch of 288 bytes"),
        (((2, 0x104, 0, 0, 16), (3, 0)), "command 0: channel 4, allowed are 0..3"),
        (((2, 0x300, 0, 0, 16), (3, 0)), "command 0: channel 512, allowed are 0..3"),
        (((2, 0x100, 0, 0, 16), (2, 0, 0, 0, 16)), "command 1: channel 0 still fetches, a `wait` must come before"),
        (
            ((2, 0x100, 0, 16, 32), (2, 0x103, 32, 32, 16), (3, 0), (3, 3)),
            "command 1: channel 0 still fetches to bytes 16..48 of scratch, a `wait` must come before",
        ),
    ],
)  # fmt: skip
def test_bad_fetches_to_scratch(commands: tuple[tuple[int, ...], ...], text: str) -> None:
    _fails(_with_fetches(*commands, minor=1), text)


@pytest.mark.parametrize(
    ("offset", "landed"), [(0, True), (1, False), (16, False), (31, False), (32, True)]
)  # fmt: skip
@pytest.mark.parametrize("writes", [False, True])
def test_a_call_during_a_fetch_to_scratch(offset: int, landed: bool, writes: bool) -> None:
    call = _copy_to(offset) if writes else _copy_from(offset, 2)
    container = _with_fetches((2, 0x102, 0, 16, 16), call, (3, 2), kernels=(10,), minor=1)
    if landed:
        assert [type(command) for command in decode(container).commands] == [Fetch, Call, Wait]
    else:
        _fails(
            container,
            f"command 1 (copy_s8), operand `{'output' if writes else 'input'}`: channel 2 still fetches to bytes "
            "16..32 of scratch, a `wait` must come before",
        )


def _copy_to(offset: int) -> tuple[int, ...]:
    """The words of a call that copies the first 16 bytes of the weights to there in scratch."""
    flat = (1, 1, 1, 1, 1, 16), (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 1)
    words = (value for part in flat for value in part)
    return (1, 10 | 2 << 16 | 19 << 24, 0, 3, 0, 16, 2, offset, 16, 0, *words)


def _copy_from(offset: int, region: int = 4) -> tuple[int, ...]:
    """The words of a call that copies 16 bytes from there in the prefetch area, or a region, to output 1."""
    flat = (1, 1, 1, 1, 1, 16), (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 1)
    return (
        1,
        10 | 2 << 16 | 19 << 24,
        0,
        region,
        offset,
        16,
        0x101,
        0,
        16,
        0,
        *(value for part in flat for value in part),
    )


@pytest.mark.parametrize(
    ("offset", "landed"), [(0, True), (1, False), (16, False), (31, False), (32, True)]
)  # fmt: skip
def test_a_call_during_a_fetch(offset: int, landed: bool) -> None:
    container = _with_fetches((2, 2, 0, 16, 16), _copy_from(offset), (3, 2), kernels=(10,))
    if landed:
        assert [type(command) for command in decode(container).commands] == [Fetch, Call, Wait]
    else:
        _fails(
            container,
            "command 1 (copy_s8), operand `input`: channel 2 still fetches to bytes 16..32 of prefetch, a `wait` must "
            "come before",
        )


def test_after_the_wait_what_was_fetched_may_be_read_and_fetched_again() -> None:
    again = (2, 1, 0, 16, 16)
    container = _with_fetches((2, 2, 0, 16, 16), (3, 2), _copy_from(16), again, (3, 1), kernels=(10,))
    assert [type(command) for command in decode(container).commands] == [Fetch, Wait, Call, Fetch, Wait]


def test_profile_size_follows_from_the_commands() -> None:
    profiled = encode(PROGRAM, PLAN, profiling=True)
    assert decode(profiled).header.profile_bytes == 96
    _fails(with_words(profiled, {10: 80}), "microcode: profile size is 80, 6 commands take 96")
    _fails(with_words(profiled, {11: 8}), "microcode: debug size 8 is no multiple of 16")


# Any bytes.


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=40), st.binary(max_size=40))
def test_random_blocks_are_refused(microcode: bytes, weights: bytes, kernels: bytes) -> None:
    with pytest.raises(FormatError):
        decode(Container(microcode, weights, kernels))


def test_damaged_words_are_refused_or_mean_something() -> None:
    rng = np.random.default_rng(3)
    refused = 0
    for seed in range(40):
        program = select(optimise(random_graph(seed, 5)))
        container = encode(program, plan(program))
        decode(container)
        for _ in range(40):
            try:
                decode(randomly_damaged(container, rng))
            except FormatError:
                refused += 1
    assert 1000 < refused < 1600
