"""Content of a `.pte` file as frozen values; `deuteron.runtime.pte` reads them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor: `dtype` is numpy's name, `dim_order` lists dimensions from the outermost in memory."""

    shape: tuple[int, ...]
    dtype: str
    dim_order: tuple[int, ...]

    @property
    def channels_last(self) -> bool:
        """Return true if dimension 1 is innermost and the others are in order."""
        rank = len(self.shape)
        return rank > 2 and self.dim_order == (0, *range(2, rank), 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Memory that the planner assigned to a tensor: a byte offset in a memory; memories count from 1."""

    memory: int
    offset: int


@dataclass(frozen=True, slots=True)
class Constant:
    """Content of a tensor: `size` bytes of `source` from `start` on."""

    source: bytes = field(repr=False)
    start: int
    size: int

    @property
    def data(self) -> bytes:
        """Return the bytes."""
        return self.source[self.start : self.start + self.size]


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor of a method.

    Attributes:
        spec: its type and its shape, or the largest shape if it is dynamic.
        bytes: its size.
        place: None for constants and for tensors that get memory at run time.
        constant: its content; the initial one if it also has a place.
        dynamic: true if its shape can change between runs.
        external: true if its content is outside the file.
        name: its name in the model; empty if the file has none.
    """

    spec: TensorSpec
    bytes: int
    place: Place | None
    constant: Constant | None
    dynamic: bool
    external: bool
    name: str = ""

    @property
    def is_state(self) -> bool:
        """Return true if its content lasts from one run to the next; `constant` is then the initial content."""
        return self.place is not None and self.constant is not None


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors: indices of values, None for an omitted optional one."""

    items: tuple[int | None, ...]


Numbers = tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]

Value = TensorValue | TensorList | Numbers | str | bool | int | float | None
"""A value of a method."""


@dataclass(frozen=True, slots=True)
class KernelCall:
    """Runs an operator; arguments, here and below, are indices of values."""

    operator: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """Runs a delegate on its inputs, then outputs."""

    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Copies a value."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class JumpFalse:
    """Jumps to an instruction of the same chain if a value is false."""

    condition: int
    target: int


@dataclass(frozen=True, slots=True)
class Free:
    """Frees the memory of a tensor that got it at run time."""

    value: int


Instruction = KernelCall | DelegateCall | Move | JumpFalse | Free


@dataclass(frozen=True, slots=True)
class Delegate:
    """A delegated partition: its backend's name and the blob for that backend."""

    id: str
    payload: bytes = field(repr=False)


def called(delegate: Delegate) -> str:
    """Return the name of a delegate among CPU operators, for a backend without an NPU."""
    return f"delegate of {delegate.id}"


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        name: `forward` for a module's.
        values: operands of its instructions.
        inputs: indices of values.
        outputs: indices of values.
        operators: `name.overload` of each.
        delegates: its partitions.
        chains: lists of instructions; current programs have one.
        arenas: bytes of each memory; memory 0 is unused.
    """

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[str, ...]
    delegates: tuple[Delegate, ...]
    chains: tuple[tuple[Instruction, ...], ...]
    arenas: tuple[int, ...]

    @property
    def state(self) -> tuple[tuple[int, TensorValue], ...]:
        """Return the tensors that last from one run to the next, with their indices; not their views."""
        tensors = ((i, value) for i, value in enumerate(self.values) if isinstance(value, TensorValue))
        by_place: dict[Place | None, tuple[int, TensorValue]] = {}
        for i, value in tensors:
            if value.is_state:
                by_place.setdefault(value.place, (i, value))
        return tuple(by_place.values())

    @property
    def input_specs(self) -> tuple[TensorSpec | None, ...]:
        """Return the tensors among the inputs, None for other values."""
        return self._specs(self.inputs)

    @property
    def output_specs(self) -> tuple[TensorSpec | None, ...]:
        """Return the tensors among the outputs, None for other values."""
        return self._specs(self.outputs)

    def _specs(self, indices: tuple[int, ...]) -> tuple[TensorSpec | None, ...]:
        values = (self.values[index] for index in indices)
        return tuple(value.spec if isinstance(value, TensorValue) else None for value in values)


@dataclass(frozen=True, slots=True)
class Program:
    """Content of a `.pte` file."""

    methods: tuple[Method, ...]
