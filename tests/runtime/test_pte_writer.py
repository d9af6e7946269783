"""Programs that are written without ExecuTorch: the memory that their tensors share."""

import math
import random

import pytest

from deuteron.runtime import pte
from deuteron.runtime.program import TensorSpec, TensorValue
from deuteron.runtime.pte_writer import Call, Contents, Ref, write


def contents(steps: list[Call], sizes: dict[int, int], inputs: list[int], outputs: list[int]) -> Contents:
    specs = {number: TensorSpec((size,), "int8", (0,)) for number, size in sizes.items()}
    return Contents(specs, {}, inputs, outputs, steps)


def call(*tensors: int) -> Call:
    """A call that writes its last tensor, which it also returns, as ExecuTorch's calls do."""
    return Call("test::op.out", tuple(map(Ref, (*tensors, tensors[-1]))))


def test_a_chain_takes_what_two_of_its_tensors_take() -> None:
    steps = [call(i, i + 1) for i in range(20)]
    program = pte.read(write(contents(steps, dict.fromkeys(range(21), 100), [0], [20]), "None"), "the chain")
    assert program.methods[0].arenas == (0, 2 * 112)


@pytest.mark.parametrize("seed", range(30))
def test_what_lives_together_lies_apart(seed: int) -> None:
    draw = random.Random(seed)
    sizes = {i: draw.choice((0, 1, 16, 100, 333)) for i in range(24)}
    steps = [call(*{draw.randrange(i) for _ in range(3)}, i) for i in range(4, 24)]
    inputs, outputs = [0, 1, 2, 3], [draw.randrange(4, 24), 23]
    method = pte.read(write(contents(steps, sizes, inputs, outputs), "None"), "the program").methods[0]
    used = [[0, 1, 2, 3], *([ref.tensor for ref in step.args if isinstance(ref, Ref)] for step in steps), outputs]
    lives = {i: [at for at, tensors in enumerate(used) if i in tensors] for i in range(24)}
    places = [value.place for value in method.values if isinstance(value, TensorValue)]
    for i, place in enumerate(places):
        for j, other in enumerate(places[:i]):
            together = min(lives[i]) <= max(lives[j]) and min(lives[j]) <= max(lives[i])
            apart = place.offset + sizes[i] <= other.offset or other.offset + sizes[j] <= place.offset
            assert apart or not together, (i, j)
    assert sum(method.arenas) < sum(math.ceil(size / 16) * 16 for size in sizes.values())
