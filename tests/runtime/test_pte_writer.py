"""Programs that are written without ExecuTorch: the memory that their tensors share."""

import math
import random
from pathlib import Path

import numpy as np
import pytest

from deuteron.runtime import host, pte
from deuteron.runtime.program import TensorSpec, TensorValue
from deuteron.runtime.pte_writer import Call, Contents, Ref, write
from deuteron.tflite.flat_model import State


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


def running_sums() -> Contents:
    """Two sums over all runs, one of float32 from 1.5 on, one of int64 from 7 on."""
    specs = {i: TensorSpec((3,), "float32" if i < 3 else "int64", (0,)) for i in range(6)}
    steps: list[Call] = []
    for x in (0, 3):
        steps.append(Call("aten::add.out", (Ref(x + 1), Ref(x), 1, Ref(x + 2), Ref(x + 2))))
        steps.append(Call("aten::view_copy.out", (Ref(x + 2), (3,), Ref(x + 1), Ref(x + 1))))
    states = {
        1: State("of floats", np.full(3, 1.5, np.float32).tobytes()),
        4: State("of integers", np.full(3, 7, np.int64).tobytes()),
    }
    return Contents(specs, {}, [0, 3], [2, 5], steps, states)


def test_states_have_initial_bytes_and_memory_of_their_own() -> None:
    (method,) = pte.read(write(running_sums(), "None"), "the sums").methods
    states = dict(method.state)
    assert [(value.name, value.constant and value.constant.data) for value in states.values()] == [
        (state.name, state.initial) for state in running_sums().states.values()
    ]
    spans = [
        (value.place.offset, value.place.offset + value.bytes, index in states)
        for index, value in enumerate(method.values)
        if isinstance(value, TensorValue) and value.place
    ]
    for start, end, is_state in spans:
        others = [span for span in spans if span != (start, end, is_state)]
        assert not is_state or all(end <= first or last <= start for first, last, _ in others)


def test_executorch_keeps_states_between_runs(tmp_path: Path) -> None:
    path = tmp_path / "sums.pte"
    path.write_bytes(write(running_sums(), "NeutronBackend"))
    runner = host.HostRunner(path)
    for run in range(1, 5):
        floats, integers = runner.run([np.full(3, 0.25, np.float32), np.arange(3)])
        np.testing.assert_array_equal(floats, np.full(3, 1.5 + 0.25 * run, np.float32))
        np.testing.assert_array_equal(integers, 7 + run * np.arange(3))
