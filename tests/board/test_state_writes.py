"""Copies to the state that are left out: programs drawn at random compute the same, and what must stay stays."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest
from tests.board.programs import ADD, Maker, payload

from deuteron.board import state
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.runtime.program import Place, Program, TensorList, TensorValue

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


def copies(bundle: Bundle) -> int:
    """The number of copies that a bundle has."""
    names = (bundle.operators[step.index] for step in bundle.steps if step.kind is StepKind.OPERATOR)
    return sum(name == "dtn_cm_copy" for name in names)


def test_random_programs_compute_the_same() -> None:
    rng = np.random.default_rng(37)
    asked = left = 0
    for number in range(300):
        drawn = Drawn.of(rng)
        bundle = translate(drawn.program(), name="drawn")
        asked += sum(out < 0 for *_, out in drawn.sums)
        left += copies(bundle)
        executor = HostExecutor(bundle)
        states = {value: drawn.initial(i) for i, value in enumerate(drawn.states)}
        for _ in range(4):
            x = rng.integers(-9, 9, SHAPE).astype(np.float32)
            for y, wanted in zip(executor.run([x]), drawn.run(x, states), strict=True):
                np.testing.assert_array_equal(y, wanted, err_msg=f"program {number}")
    assert 20 < asked - left < left


def moving(*, reads_old: bool = False, is_output: bool = False, writes_twice: bool = False) -> Bundle:
    """`t = x + x; y = t + t; a = t`, and more that keeps the copy."""
    make = Maker()
    x, t, y, z = (make.tensor(SHAPE, "float32") for _ in range(4))
    a = make.state(SHAPE, bytes(16), "float32")
    for left, right, out in ((x, x, t), (t, a if reads_old else t, y), (y, y, z)):
        make.call("aten::add.out", left, right, make.value(1), out, out)
    make.copy_into(a, t)
    if writes_twice:
        make.copy_into(a, z)
    return translate(make.program((x,), (t if is_output else z,)), name="moving")


def test_a_step_writes_the_state_in_place_of_a_copy() -> None:
    bundle = moving()
    assert [bundle.operators[step.index] for step in bundle.steps] == [state.BEGIN, *["dtn_op_add"] * 3, state.END]
    assert bundle.state is not None
    assert bundle.values[bundle.steps[1].outputs[0]].memory == bundle.state.memory
    executor = HostExecutor(bundle)
    x = np.array([[1, 2, 3, 4]], np.float32)
    np.testing.assert_array_equal(executor.run([x])[0], 8 * x)
    assert executor.save_state()[16:] == (2 * x).tobytes()


@pytest.mark.parametrize(
    ("case", "count"), [({"reads_old": True}, 1), ({"is_output": True}, 1), ({"writes_twice": True}, 2)]
)
def test_copies_that_stay(case: dict[str, bool], count: int) -> None:
    """The old content is read later, the source is an output, or another copy follows."""
    assert copies(moving(**case)) == count


def test_all_writers_of_a_part_write_the_state() -> None:
    """A cache that moves on by an element: `a = cat(a[1:], x)`."""
    make = Maker()
    x, rest, new = make.tensor((1,)), make.tensor((3,)), make.tensor((4,))
    a = make.state((4,), bytes([1, 2, 3, 4]))
    numbers = [make.value(number) for number in (0, 1, 4, 1)]
    make.call("aten::slice_copy.Tensor_out", a, *numbers, rest, rest)
    parts = make.value(TensorList((rest, x)))
    make.call("aten::cat.out", parts, make.value(0), new, new)
    make.copy_into(a, new)
    bundle = translate(make.program((x,), (rest,)), name="cache")
    assert copies(bundle) == 3  # the slice, and two parts that are the state's
    executor = HostExecutor(bundle)
    for number in range(5, 9):
        executor.run([np.array([number], np.int8)])
        assert executor.save_state()[16:20] == bytes(range(number - 3, number + 1))


def test_an_npu_writes_the_state() -> None:
    make = Maker()
    shape = (1, 3, 5, 4)
    b, c = make.tensor(shape), make.tensor(shape)
    a = make.state(shape, bytes(60))
    s, m = make.tensor(shape), make.tensor(shape)
    make.partition(payload(ADD, (0, 0)), b, c, s, m)
    make.copy_into(a, s)
    bundle = translate(make.program((b, c), (m,)), name="partition")
    assert copies(bundle) == 0
    assert bundle.state is not None
    (step,) = (step for step in bundle.steps if step.kind is StepKind.DELEGATE)
    assert [bundle.values[output].memory for output in step.outputs] == [bundle.state.memory, 0]
    executor = HostExecutor(bundle)
    rng = np.random.default_rng(0)
    for _ in range(3):
        inputs = [rng.integers(-128, 128, shape, np.int8) for _ in range(2)]
        executor.run(inputs)
        plain = Maker()
        values = [plain.tensor(shape) for _ in range(4)]
        plain.partition(payload(ADD, (0, 0)), *values)
        wanted = HostExecutor(translate(plain.program(tuple(values[:2]), tuple(values[2:])), name="plain")).run(inputs)
        assert executor.save_state()[16:76] == wanted[0].tobytes()


def test_a_tensor_is_a_value_with_a_place() -> None:
    """The drawn programs reuse memory."""
    drawn = [Drawn.of(np.random.default_rng(seed)) for seed in range(50)]
    placed = [{v.place for v in each.make.values if isinstance(v, TensorValue)} for each in drawn]
    tensors = [sum(isinstance(v, TensorValue) for v in each.make.values) - len(each.views) for each in drawn]
    assert sum(len(places) < count for places, count in zip(placed, tensors, strict=True)) > 20
