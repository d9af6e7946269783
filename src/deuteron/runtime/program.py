"""What stands in a `.pte` file, as frozen values; `deuteron.runtime.pte` reads them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor: `dtype` in numpy's spelling, `dim_order` from the outermost dimension in memory inwards."""

    shape: tuple[int, ...]
    dtype: str
    dim_order: tuple[int, ...]

    @property
    def channels_last(self) -> bool:
        """Whether dimension 1 lies innermost and the others in order."""
        rank = len(self.shape)
        return rank > 2 and self.dim_order == (0, *range(2, rank), 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where memory planning put a tensor: bytes from the start of a memory; memories count from 1."""

    memory: int
    offset: int


@dataclass(frozen=True, slots=True)
class Constant:
    """Bytes of a tensor with content: `size` bytes of `source` from `start` on."""

    source: bytes = field(repr=False)
    start: int
    size: int

    @property
    def data(self) -> bytes:
        """The bytes."""
        return self.source[self.start : self.start + self.size]


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor of a method.

    Attributes:
        spec: its shape, or the largest that it can have.
        bytes: its size.
        place: None for constants and for tensors that get their memory at run time.
        constant: its content, the initial one if it has a place, too.
        dynamic: whether its shape can change between runs.
        external: whether its content is outside the file.
    """

    spec: TensorSpec
    bytes: int
    place: Place | None
    constant: Constant | None
    dynamic: bool
    external: bool


@dataclass(frozen=True, slots=True)
class TensorList:
    """A list of tensors: indices of values, None where an optional one is left out."""

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
    """Goes to an instruction of the same chain when a value is false."""

    condition: int
    target: int


@dataclass(frozen=True, slots=True)
class Free:
    """Gives back the memory of a tensor that got it at run time."""

    value: int


Instruction = KernelCall | DelegateCall | Move | JumpFalse | Free


@dataclass(frozen=True, slots=True)
class Delegate:
    """A delegated partition: the backend it is for and the blob that the backend gets."""

    id: str
    payload: bytes = field(repr=False)


def called(delegate: Delegate) -> str:
    """What a delegate is called among the operators on the CPU, where no NPU runs it."""
    return f"delegate of {delegate.id}"


@dataclass(frozen=True, slots=True)
class Method:
    """One method.

    Attributes:
        name: `forward` for a module's.
        values: what its instructions work on.
        inputs: indices of values.
        outputs: the same.
        operators: `name.overload` of each.
        delegates: its partitions.
        chains: lists of instructions; programs of today have one.
        arenas: bytes of each memory; memory 0 is not used.
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
    def input_specs(self) -> tuple[TensorSpec | None, ...]:
        """The tensors among the inputs, None for others."""
        return self._specs(self.inputs)

    @property
    def output_specs(self) -> tuple[TensorSpec | None, ...]:
        """The tensors among the outputs, None for others."""
        return self._specs(self.outputs)

    def _specs(self, indices: tuple[int, ...]) -> tuple[TensorSpec | None, ...]:
        values = (self.values[index] for index in indices)
        return tuple(value.spec if isinstance(value, TensorValue) else None for value in values)


@dataclass(frozen=True, slots=True)
class Program:
    """What a `.pte` file holds."""

    methods: tuple[Method, ...]
