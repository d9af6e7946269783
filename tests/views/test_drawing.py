"""The peak in a drawing of a memory."""

from deuteron.npu.program import Block, Memory
from deuteron.views.memory.drawing import MemoryDrawing


def peak(*blocks: Block) -> str:
    return MemoryDrawing("scratch", Memory("scratch", 300, 300, blocks), 8, {}).peak()


def test_a_result_in_the_place_of_an_operand_counts_once() -> None:
    before, onto = Block("x", 0, 100, 0, 3), Block("y", 0, 100, 3, 6)
    beside, later = Block("z", 100, 80, 0, 3), Block("w", 100, 120, 5, 6)
    assert peak(before, beside, onto, later) == "peak at command 5: d 120 B, c 100 B"


def test_what_begins_where_another_ends_counts_where_it_lies_apart() -> None:
    blocks = Block("x", 0, 100, 0, 3), Block("y", 100, 100, 3, 6), Block("z", 200, 50, 4, 5)
    assert peak(*blocks) == "peak at command 3: a 100 B, b 100 B"


def test_a_part_of_the_place_counts_once() -> None:
    blocks = Block("x", 0, 100, 0, 3), Block("y", 60, 100, 3, 6), Block("z", 160, 70, 4, 5)
    assert peak(*blocks) == "peak at command 4: b 100 B, c 70 B"
