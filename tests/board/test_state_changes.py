"""A run changes the state at its end only: random programs compute the same, and stop at any step before."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from tests.board.programs import ADD, Maker, payload

from deuteron.arch.memory import MemoryOptions
from deuteron.board import state
from deuteron.board.arena import planned
from deuteron.board.bundle import Bundle
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.runtime.program import Place, Program, TensorValue

Floats = npt.NDArray[np.float32]

SHAPE, BYTES = (1, 4), 16


@dataclass(slots=True)
class Drawn:
    """A program of sums and of copies to its state, and what it computes.

    Attributes:
        sums: the operands and the result of each call in order; a copy has its target, its source and -1.
        views: values that are views, by the value that they show.
    """

    make: Maker = field(default_factory=Maker)
    sums: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])
    states: list[int] = field(default_factory=list[int])
    views: dict[int, int] = field(default_factory=dict[int, int])
    x: int = 0
    outputs: tuple[int, ...] = ()

    @classmethod
    def of(cls, rng: np.random.Generator) -> "Drawn":
        """Draw a program."""
        drawn = cls()
        make = drawn.make
        drawn.x = make.tensor(SHAPE, "float32")
        for number in range(rng.integers(1, 4)):
            drawn.states.append(make.state(SHAPE, drawn.initial(number).tobytes(), "float32"))
        known = [drawn.x, *drawn.states]
        for _ in range(rng.integers(3, 10)):
            if rng.random() < 0.4 and len(known) > len(drawn.states) + 1:
                source = known[rng.integers(1 + len(drawn.states), len(known))]
                drawn.sums.append((int(rng.choice(drawn.states)), source, -1))
                continue
            out = make.tensor(SHAPE, "float32")
            drawn.sums.append((int(rng.choice(known)), int(rng.choice(known)), out))
            known.append(out)
            if rng.random() < 0.3:
                known.append(make.value(make.values[out]))
                drawn.views[known[-1]] = out
        temporary = known[1 + len(drawn.states) :] or [drawn.x]
        drawn.outputs = (int(rng.choice(temporary)),)
        drawn.place(rng)
        return drawn

    def initial(self, number: int) -> Floats:
        """The initial content of a state."""
        return np.arange(4, dtype=np.float32).reshape(SHAPE) * number

    def place(self, rng: np.random.Generator) -> None:
        """Let tensors reuse the memory of others that nothing reads any more."""
        lives: dict[int, tuple[int, int]] = {self.x: (-1, 0)}
        for at, (a, b, out) in enumerate(self.sums):
            for value in (self.views.get(each, each) for each in (a, b, out) if each >= 0):
                if value not in self.states:
                    lives[value] = lives.get(value, (at, at))[0], at
        for output in self.outputs:
            shown = self.views.get(output, output)
            lives[shown] = lives[shown][0], len(self.sums)
        base = self.make.used
        slots: list[list[int]] = []
        for value in rng.permutation(list(lives)).tolist():
            first, last = lives[value]
            free = [
                number
                for number, used in enumerate(slots)
                if all(lives[each][1] < first or last < lives[each][0] for each in used)
            ]
            slot = free[0] if free else len(slots)
            slots[slot:] = slots[slot:] or [[]]
            slots[slot].append(value)
            for each in (value, *(view for view, shown in self.views.items() if shown == value)):
                self.make.change(each, place=Place(1, base + BYTES * slot))
        self.make.used = base + BYTES * len(slots)

    def program(self) -> Program:
        """The program."""
        for a, b, out in self.sums:
            if out < 0:
                self.make.copy_into(a, b)
            else:
                self.make.call("aten::add.out", a, b, self.make.value(1), out, out)
        return self.make.program((self.x,), self.outputs)

    def run(self, x: Floats, states: dict[int, Floats]) -> list[Floats]:
        """The outputs; changes the state."""
        values = {self.x: x}

        def read(value: int) -> Floats:
            return states[value] if value in states else values[self.views.get(value, value)]

        for a, b, out in self.sums:
            if out < 0:
                states[a] = read(b)
            else:
                values[out] = read(a) + read(b)
        return [read(output) for output in self.outputs]


def change(bundle: Bundle) -> tuple[int, int]:
    """The first and the last step of the change of the state, before which no step writes it."""
    begin, end = state.changes(bundle)
    assert end == len(bundle.steps) - 1
    assert bundle.state is not None
    written = {bundle.values[index].memory for step in bundle.steps[:begin] for index in step.outputs}
    assert bundle.state.memory not in written
    return begin, end


@pytest.mark.parametrize("memory", [None, MemoryOptions()], ids=["executorch", "planned"])
def test_random_programs_stop_at_each_step_and_go_on(memory: MemoryOptions | None) -> None:
    rng = np.random.default_rng(37)
    early = 0
    for number in range(150):
        drawn = Drawn.of(rng)
        bundle = translate(drawn.program(), name="drawn")
        if memory is not None:
            bundle = planned(bundle, memory, "cortex-m55").bundle
        begin, end = change(bundle)
        early += any(bundle.operators[step.index] != "dtn_cm_copy" for step in bundle.steps[begin + 1 : end])
        assert bundle.state_bytes == bundle.saved_bytes
        executor = HostExecutor(bundle)
        states = {value: drawn.initial(i) for i, value in enumerate(drawn.states)}
        for _ in range(4):
            x = rng.integers(-9, 9, SHAPE).astype(np.float32)
            abandoned = executor.values([x])
            for _ in range(int(rng.integers(begin + 1))):
                next(abandoned)
            for y, wanted in zip(executor.run([x]), drawn.run(x, states), strict=True):
                np.testing.assert_array_equal(y, wanted, err_msg=f"program {number}")
    assert 20 < early < 140


def test_operators_change_a_state_in_place_from_the_first_such_step_on() -> None:
    """`a = a + x`, `y = a + a`: the sum writes the state itself."""
    make = Maker()
    x, y, t = (make.tensor(SHAPE, "float32") for _ in range(3))
    a = _incremented(make, x, t)
    make.call("aten::add.out", a, a, make.value(1), y, y)
    bundle = translate(make.program((x,), (y,)), name="in_place")
    assert bundle.state_bytes == bundle.saved_bytes == 32
    assert [bundle.operators[step.index] for step in bundle.steps] == [
        "dtn_op_add", state.BEGIN, *["dtn_op_add"] * 2, state.END
    ]  # fmt: skip
    executor, total, one = HostExecutor(bundle), np.ones(SHAPE, np.float32), np.ones(SHAPE, np.float32)
    for _ in range(3):
        for _ in range(2):
            next(executor.values([one]))
        total = total + 2 * one
        np.testing.assert_array_equal(executor.run([one])[0], 2 * total)


def test_before_an_npu_a_state_that_is_written_in_place_has_a_working_copy() -> None:
    make = Maker()
    x, t = (make.tensor(SHAPE, "float32") for _ in range(2))
    shape = (1, 3, 5, 4)
    b, c, s, m = (make.tensor(shape) for _ in range(4))
    _incremented(make, x, t)
    make.partition(payload(ADD, (0, 0)), b, c, s, m)
    bundle = translate(make.program((x, b, c), (m,)), name="working_copy")
    assert (bundle.state_bytes, bundle.saved_bytes) == (48, 32)
    assert state.changes(bundle) == (4, 6)


def test_a_working_copy_is_longer_than_a_dimension() -> None:
    make, long = Maker(), (1, 20_000)
    x, t = (make.tensor(long, "float32") for _ in range(2))
    shape = (1, 3, 5, 4)
    b, c, s, m = (make.tensor(shape) for _ in range(4))
    a = _incremented(make, x, t, long)
    y = make.tensor(long, "float32")
    make.call("aten::add.out", a, a, make.value(1), y, y)
    make.partition(payload(ADD, (0, 0)), b, c, s, m)
    bundle = translate(make.program((x, b, c), (m, y)), name="long_working_copy")
    assert bundle.state_bytes > bundle.saved_bytes > 80_000
    executor, one = HostExecutor(bundle), np.ones(long, np.float32)
    for run in range(3):
        _, found = executor.run([one, np.zeros(shape, np.int8), np.zeros(shape, np.int8)])
        np.testing.assert_array_equal(found, 2 * (1 + 2 * (run + 1)) * one)


def _incremented(make: Maker, x: int, total: int, shape: tuple[int, ...] = SHAPE) -> int:
    """Return a state of ones to which a program adds twice the input, in place."""
    a = make.state(shape, np.ones(shape, np.float32).tobytes(), "float32", "a")
    make.call("aten::add.out", a, x, make.value(1), total, total)
    make.call("aten::add.out", total, x, make.value(1), a, a)
    return a


def test_an_npu_leaves_the_state_until_the_end() -> None:
    make = Maker()
    shape = (1, 3, 5, 4)
    b, c = make.tensor(shape), make.tensor(shape)
    a = make.state(shape, bytes(60))
    s, m = make.tensor(shape), make.tensor(shape)
    make.partition(payload(ADD, (0, 0)), b, c, s, m)
    make.copy_into(a, s)
    bundle = translate(make.program((b, c), (m,)), name="partition")
    begin, end = change(bundle)
    assert (begin, end) == (1, 3)
    assert bundle.state_bytes == bundle.saved_bytes


def test_a_tensor_is_a_value_with_a_place() -> None:
    """The drawn programs reuse memory."""
    drawn = [Drawn.of(np.random.default_rng(seed)) for seed in range(50)]
    placed = [{v.place for v in each.make.values if isinstance(v, TensorValue)} for each in drawn]
    tensors = [sum(isinstance(v, TensorValue) for v in each.make.values) - len(each.views) for each in drawn]
    assert sum(len(places) < count for places, count in zip(placed, tensors, strict=True)) > 20
