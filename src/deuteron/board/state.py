"""The state of a bundle: places and initial values of its tensors, and the steps that begin and end a change.

The state memory starts with a status. Tensors whose initial bytes are all equal follow, then the others, whose initial
bytes are a constant, then working copies. `firmware/src/executor/state.c` has the two operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from deuteron.board.bundle import ALIGNMENT, Bundle, Step, StepKind
from deuteron.runtime.program import Method, Place, TensorValue

BEGIN, END = "dtn_op_state_begin", "dtn_op_state_end"
STATUS_BYTES = 16
"""`DTN_STATE_STATUS_BYTES` of deuteron/operators.h."""

NOTE = "state, which lasts from one run to the next"
"""Description of the state memory."""

NO_INSTRUCTION = -1
"""Instruction of a step that the program does not have."""


@dataclass(frozen=True)
class StateLayout:
    """The state memory of a method.

    Attributes:
        tensors: the tensors of the state by their place in the program's plan, in the order of the memory. Views have
            the place of their tensor.
    """

    tensors: Mapping[Place, TensorValue]

    @classmethod
    def of(cls, method: Method) -> "StateLayout":
        """Return the layout of the method's state."""
        tensors = [(value.place, value) for _, value in method.state if value.place is not None]
        return cls(dict(sorted(tensors, key=lambda item: len(set(_initial(item[1]))) > 1)))

    @cached_property
    def offsets(self) -> Mapping[Place, int]:
        """Return the offset of each tensor by its place in the program's plan."""
        offsets: dict[Place, int] = {}
        at = STATUS_BYTES
        for place, tensor in self.tensors.items():
            offsets[place] = at
            at += padded(tensor.bytes)
        return offsets

    @property
    def nbytes(self) -> int:
        """Return the size of the memory."""
        return STATUS_BYTES + sum(padded(tensor.bytes) for tensor in self.tensors.values())

    @property
    def filled(self) -> tuple[int, ...]:
        """Return the parameters of `BEGIN`: pairs of a number of bytes and their initial value."""
        contents = [_initial(tensor) for tensor in self.tensors.values()]
        uniform = [(content[0], padded(len(content))) for content in contents if len(set(content)) == 1]
        groups = groupby(uniform, key=lambda item: item[0])
        return tuple(word for value, items in groups for word in (sum(size for _, size in items), value))

    @property
    def constant(self) -> bytes:
        """Return the initial bytes after the filled ones."""
        contents = [_initial(tensor) for tensor in self.tensors.values()]
        return b"".join(each.ljust(padded(len(each)), b"\0") for each in contents if len(set(each)) > 1)


def padded(size: int) -> int:
    """Return `size` rounded up to the alignment of values."""
    return size + -size % ALIGNMENT


def changes(bundle: Bundle) -> tuple[int, int]:
    """Return the first step of the change of the state, and its last; 0 and 0 for a program without state."""
    names = [bundle.operators[step.index] if step.kind is StepKind.OPERATOR else "" for step in bundle.steps]
    return (names.index(BEGIN), names.index(END)) if bundle.state else (0, 0)


def begin(operator: int, constant: Sequence[int], status: int, tensors: int, filled: tuple[int, ...]) -> Step:
    """Return the step that begins a change; arguments after the operator's index are values, then the parameters."""
    title, outputs = "change of the state: begin", (status, tensors)
    return Step(StepKind.OPERATOR, operator, tuple(constant), outputs, filled, title, "", NO_INSTRUCTION)


def end(operator: int, status: int, tensors: int) -> Step:
    """Return the step that ends a change."""
    return Step(StepKind.OPERATOR, operator, (tensors,), (status,), (), "change of the state: end", "", NO_INSTRUCTION)


def _initial(tensor: TensorValue) -> bytes:
    return b"" if tensor.constant is None else tensor.constant.data
