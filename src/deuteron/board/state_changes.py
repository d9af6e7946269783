"""Orders the changes of the state so that a run that fails before them leaves the state as it was.

The copies at the end of a program may write the state. Operators such as SVDF change a tensor of the state in place. If
no step from the first of these on can fail, all of them are the change of the state. Otherwise the tensor gets a
working copy in the state memory, which the planner gives to nothing else. The run starts with a copy of the tensor, all
other steps use the working copy, and the change of the state copies it back.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from deuteron.board.bundle import State, StateTensor, Step, StepKind, Value
from deuteron.board.row_dependencies import COPY
from deuteron.board.state import NO_INSTRUCTION
from deuteron.board.tensor_places import TensorPlaces
from deuteron.operators.cortex_m import whole_copies

Steps = list[Step]

_MAY_FAIL = frozenset({"dtn_cm_gather"})
"""Operators that fail for some inputs; others check all when a program is prepared."""


def at_end(
    steps: Sequence[Step], operators: Sequence[str], places: TensorPlaces, state: State, operator: Callable[[str], int]
) -> tuple[Steps, Steps]:
    """Return the steps that leave the state as it is, and those that change it.

    Args:
        steps: the steps of the program.
        operators: the names of their operators.
        places: gets the values of working copies.
        state: the tensors of the state.
        operator: returns the index of an operator, which it adds if it is new.
    """
    values, at = places.values, len(steps)
    while at and _is_change(steps[at - 1], operators, values, state):
        at -= 1
    before, change = list(steps[:at]), list(steps[at:])
    first_write = next((i for i, step in enumerate(before) if _writes(step, values, state)), at)
    if all(step.kind is StepKind.OPERATOR and operators[step.index] not in _MAY_FAIL for step in before[first_write:]):
        return before[:first_write], [*before[first_write:], *change]
    used = sorted({index for step in before for index in (*step.inputs, *step.outputs)})
    written = [values[index] for step in before for index in step.outputs]
    tensors = [one for one in state.tensors if any(_is_part(value, one, state) for value in written)]
    moved = dict[int, int]()
    first, last = Steps(), Steps()
    for tensor in tensors:
        start = places.working_copy(tensor.bytes)
        for index in used:
            if _is_part(value := values[index], tensor, state):
                moved[index] = places.add(replace(value, offset=value.offset - tensor.offset + start))
        ends = [places.state_part(offset, tensor.bytes, f"state {tensor.name}") for offset in (tensor.offset, start)]
        for found, (source, target) in ((first, ends), (last, ends[::-1])):
            found.extend(_copied(operator(COPY), source, target, tensor))

    def renamed(indices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(moved.get(index, index) for index in indices)

    before = [replace(step, inputs=renamed(step.inputs), outputs=renamed(step.outputs)) for step in before]
    return [*first, *before], [*last, *change]


def _writes(step: Step, values: Sequence[Value], state: State) -> bool:
    return any(values[index].memory == state.memory for index in step.outputs)


def _is_change(step: Step, operators: Sequence[str], values: Sequence[Value], state: State) -> bool:
    """Tell whether a step only copies to the state."""
    is_copy = step.kind is StepKind.OPERATOR and operators[step.index] == COPY
    return is_copy and _writes(step, values, state)


def _is_part(value: Value, tensor: StateTensor, state: State) -> bool:
    is_inside = tensor.offset <= value.offset < tensor.offset + tensor.bytes
    return value.memory == state.memory and is_inside


def _copied(operator: int, source: int, target: int, tensor: StateTensor) -> Steps:
    """Return the steps that copy a whole tensor."""
    title = f"working copy of the state {tensor.name}".rstrip()
    return [
        Step(StepKind.OPERATOR, operator, (source,), (target,), tuple(params.words()), title, "", NO_INSTRUCTION)
        for params in whole_copies(tensor.bytes)
    ]
