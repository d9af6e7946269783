"""Where the tensors of a bundle lie: the plan of the program, and places of our own for what it leaves open."""

from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, ElementType, Memory, Value
from deuteron.errors import UnsupportedError
from deuteron.runtime.program import Constant, Method, TensorSpec, TensorValue

_TYPES = {
    "uint8": ElementType.U8,
    "int8": ElementType.S8,
    "int16": ElementType.S16,
    "int32": ElementType.S32,
    "int64": ElementType.S64,
    "float32": ElementType.F32,
    "float64": ElementType.F64,
    "bool": ElementType.BOOL,
}
_STATIC = "export the model with fixed shapes, without state, and with its weights in the file"


def padded(size: int) -> int:
    """`size` rounded up to the alignment of values."""
    return size + -size % ALIGNMENT


class TensorPlaces:
    """The values of a bundle while it is made; indices count in the order in which values are first asked for.

    Memories are those of the program's plan, then one for what has no place there.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._indices: dict[int, int] = {}
        self._values: list[Value] = []
        self._constants: dict[Constant, int] = {}
        self._arenas = method.arenas[1:]
        self._unplanned = 0
        self._temporary = 0
        self._most = 0

    def tensor(self, index: int, what: str) -> TensorValue:
        """The tensor with this index in the method; UnsupportedError if it is something else."""
        value = self._method.values[index]
        match value:
            case TensorValue():
                return value
            case None:
                kind = "nothing"
            case int() | float():
                kind = "a number"
            case str():
                kind = "a text"
            case _:
                kind = "a list"
        raise UnsupportedError(f"{what} is {kind}, not a tensor", hint="export the model with tensors only")

    def value(self, index: int, what: str, *, may_be_unplanned: bool = False) -> int:
        """The index in the bundle of a tensor of the method.

        Args:
            index: in the method.
            what: what the tensor is, for messages and readers.
            may_be_unplanned: whether it may lack a place in the plan; it gets one of its own then.

        Raises:
            UnsupportedError: for tensors that firmware cannot hold.
        """
        if index not in self._indices:
            tensor = self.tensor(index, what)
            memory, offset = self._place(tensor, what, may_be_unplanned)
            self._indices[index] = self._add(memory, offset, tensor.bytes, tensor.spec, what)
        return self._indices[index]

    def prepared(self, tensor: TensorValue, what: str) -> int:
        """The index in the bundle of a constant of our own."""
        memory, offset = self._place(tensor, what, may_be_unplanned=False)
        return self._add(memory, offset, tensor.bytes, tensor.spec, what)

    def temporary(self, spec: TensorSpec, size: int, what: str) -> int:
        """The index in the bundle of a tensor of our own, which lives until `end_of_step`.

        The inputs and outputs of the method must have their places by then.
        """
        offset = self._unplanned + self._temporary
        self._temporary += padded(size)
        self._most = max(self._most, self._temporary)
        return self._add(len(self._arenas), offset, size, spec, what)

    def end_of_step(self) -> None:
        """Let later temporary tensors lie where those so far do."""
        self._temporary = 0

    @property
    def values(self) -> tuple[Value, ...]:
        """All values so far."""
        return tuple(self._values)

    @property
    def constants(self) -> tuple[bytes, ...]:
        """The constants that values lie in."""
        return tuple(constant.data for constant in self._constants)

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The memories that values lie in."""
        memories = [Memory(padded(size), f"memory {i} of the program's plan") for i, size in enumerate(self._arenas, 1)]
        if own := self._unplanned + self._most:
            memories.append(Memory(own, "inputs and outputs that the plan leaves out, and what single steps need"))
        return tuple(memories)

    def _add(self, memory: int, offset: int, size: int, spec: TensorSpec, note: str) -> int:
        if spec.dtype not in _TYPES:
            message = f"{note} is a {spec.dtype} tensor, firmware has {', '.join(_TYPES)}"
            raise UnsupportedError(message, hint="export the model with tensors of one of these types")
        self._values.append(Value(memory, offset, size, _TYPES[spec.dtype], spec.shape, spec.dim_order, note))
        return len(self._values) - 1

    def _place(self, tensor: TensorValue, what: str, may_be_unplanned: bool) -> tuple[int, int]:
        """Memory and offset."""
        place, constant = tensor.place, tensor.constant
        if tensor.dynamic:
            raise UnsupportedError(f"{what} changes its shape from run to run", hint=_STATIC)
        if tensor.external:
            raise UnsupportedError(f"the content of {what} is in another file", hint=_STATIC)
        if place and constant:
            raise UnsupportedError(f"{what} keeps state from run to run", hint=_STATIC)
        if constant is not None:
            return MEMORY_CONSTANT + self._constants.setdefault(constant, len(self._constants)), 0
        if place is None:
            if not may_be_unplanned:
                raise UnsupportedError(f"{what} has no place in the program's memory plan", hint=_STATIC)
            offset = self._unplanned
            self._unplanned += padded(tensor.bytes)
            return len(self._arenas), offset
        if place.offset % ALIGNMENT:
            message = f"{what} starts at byte {place.offset} of its memory, which is no multiple of {ALIGNMENT}"
            raise UnsupportedError(message, hint="plan the program's memory with ExecuTorch's default alignment")
        return place.memory - 1, place.offset
