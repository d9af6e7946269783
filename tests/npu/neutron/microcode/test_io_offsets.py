"""Places of inputs and outputs in scratch: in the header's table, and what the decoder holds against them."""

from dataclasses import replace

import pytest
from tests.npu.neutron.microcode.damaged_containers import with_words, words_of
from tests.npu.neutron.microcode.programs import CONTAINER, PLAN, PROGRAM

from deuteron.errors import FormatError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.disassemble import as_json, disassemble
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.microcode.format import ELSEWHERE
from deuteron.npu.neutron.microcode.io_offsets import in_memory
from deuteron.operators.regions import Place, Region
from deuteron.operators.transfers import Fetch, Wait

PLACED = replace(PLAN, scratch_bytes=352, ends={PROGRAM.inputs[0]: 288, PROGRAM.outputs[1]: 320})
"""The input behind the other blocks of scratch, then output 1."""

TABLE = 23
"""Word of the first place: of the input, then of outputs 0 and 1."""


def _fails(container: Container, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode(container)
    assert str(caught.value).split("\n\n")[0] == text


def test_the_table() -> None:
    placed = encode(PROGRAM, PLACED)
    words = words_of(placed.microcode)
    assert (words[2], words[3]) == (0x10002, 2)
    assert list(words[TABLE : TABLE + 3]) == [288, ELSEWHERE, 320]
    decoded, without = decode(placed), decode(CONTAINER)
    assert decoded.places == {(Region.INPUT, 0): 288, (Region.OUTPUT, 1): 320}
    assert decoded.commands == without.commands
    assert without.places == {}
    assert [words_of(CONTAINER.microcode)[at] for at in (2, 3)] == [0x10000, 0]


def test_listings_say_where_they_lie() -> None:
    placed = decode(encode(PROGRAM, PLACED))
    assert "input in0+0x0:32@scratch+0x120, weights weights+0x0:36" in disassemble(placed)[0]
    assert "output out1+0x0:32@scratch+0x140  " in disassemble(placed)[4]
    assert "output out0+0x0:8  " in disassemble(placed)[3]
    assert as_json(placed)["places"] == {"input 0": 288, "output 1": 320}
    assert as_json(decode(CONTAINER))["places"] == {}


def test_an_operand_lies_in_the_place_of_its_input() -> None:
    places = {(Region.INPUT, 1): 64}
    assert in_memory(Place(Region.INPUT, 1, 5, 7), places) == Place(Region.SCRATCH, 0, 69, 7)
    for other in (Place(Region.INPUT, 0, 5, 7), Place(Region.OUTPUT, 1, 5, 7), Place(Region.SCRATCH, 0, 5, 7)):
        assert in_memory(other, places) == other


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({TABLE: 290}, "microcode, the place of input 0: 290 is no multiple of 16"),
        ({TABLE: 336}, "microcode, the place of input 0: bytes 336..368 leave scratch of 352 bytes"),
        ({TABLE + 1: 352}, "microcode, the place of output 0: bytes 352..360 leave scratch of 352 bytes"),
        ({TABLE + 1: 336}, "microcode, the place of output 1: bytes 320..352 are those of another output, too"),
        ({TABLE + 3: 1}, "microcode: the bytes between the tensor sizes and the first command are not zero"),
    ],
)  # fmt: skip
def test_places_that_none_can_have(changes: dict[int, int], text: str) -> None:
    padded = encode(replace(PROGRAM, outputs=PROGRAM.outputs), PLACED)
    _fails(with_words(padded, changes), text)


def test_an_output_may_have_the_place_of_an_input() -> None:
    both = with_words(encode(PROGRAM, PLACED), {TABLE: 320})
    assert set(decode(both).places.values()) == {320}


def test_a_call_writes_over_no_operand_of_its_own_in_scratch() -> None:
    over = replace(PLACED, ends={PROGRAM.inputs[0]: 16})
    _fails(encode(PROGRAM, over), "command 0 (conv2d_s8), operand `workspace`: it overlaps operand `input`")


def test_no_call_reads_an_input_over_which_weights_are_fetched() -> None:
    fetch = Fetch(1, 0, 304, 16, region=Region.SCRATCH)
    fetching = replace(PLACED, transfers={0: (fetch,), 1: (Wait(1),)})
    _fails(
        encode(PROGRAM, fetching),
        "command 1 (conv2d_s8), operand `input`: channel 1 still fetches to bytes 304..320 of scratch, a `wait` must "
        "come before",
    )
