"""Memory of a bundle's tensors: the program's plan, and our own places for tensors that it leaves out."""

from deuteron.board import state
from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, ElementType, Memory, State, StateTensor, Value
from deuteron.board.state import StateLayout, padded
from deuteron.errors import UnsupportedError
from deuteron.runtime.program import Constant, Method, Place, TensorSpec, TensorValue

_TYPES = {
    "uint8": ElementType.U8,
    "int8": ElementType.S8,
    "int16": ElementType.S16,
    "int32": ElementType.S32,
    "int64": ElementType.S64,
    "float32": ElementType.F32,
    "float64": ElementType.F64,
    "bool": ElementType.BOOL,
    "uint32": ElementType.U32,
    "uint64": ElementType.U64,
}
_STATIC = "export the model with fixed shapes, and with its weights in the file"


class TensorPlaces:
    """The values of a bundle during translation; indices count in the order of the first request.

    Memories are those of the program's plan, that of the state if there is one, then one for tensors without a place in
    the plan.
    """

    def __init__(self, method: Method) -> None:
        self._method = method
        self._indices: dict[int, int] = {}
        self._values: list[Value] = []
        self._constants: dict[Constant, int] = {}
        self.layout = StateLayout.of(method)
        self._removed = tuple(
            (place.memory, place.offset, padded(tensor.bytes)) for place, tensor in self.layout.tensors.items()
        )
        self._arenas = tuple(self._kept(Place(at, size)) for at, size in enumerate(method.arenas[1:], 1))
        self._unplanned = 0
        self._temporary = 0
        self._most = 0
        self._working = 0

    def tensor(self, index: int, what: str) -> TensorValue:
        """Return the tensor with this index in the method; UnsupportedError if it is something else."""
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
        """Return the index in the bundle of a tensor of the method.

        Args:
            index: index in the method.
            what: description of the tensor, for messages and comments.
            may_be_unplanned: true if it may lack a place in the plan; it then gets its own.

        Raises:
            UnsupportedError: firmware cannot hold the tensor.
        """
        if index not in self._indices:
            tensor = self.tensor(index, what)
            memory, offset = self._place(tensor, what, may_be_unplanned)
            self._indices[index] = self._add(memory, offset, tensor.bytes, tensor.spec, what)
        return self._indices[index]

    def state_part(self, offset: int, size: int, what: str) -> int:
        """Return the index in the bundle of bytes of the state memory."""
        return self._add(self._state_memory, offset, size, TensorSpec((size,), "uint8", (0,)), what)

    def working_copy(self, size: int) -> int:
        """Return the offset of new memory behind the tensors of the state."""
        offset = self.layout.nbytes + self._working
        self._working += padded(size)
        return offset

    def add(self, value: Value) -> int:
        """Return the index in the bundle of a new value."""
        self._values.append(value)
        return len(self._values) - 1

    def prepared(self, tensor: TensorValue, what: str) -> int:
        """Return the index in the bundle of a precomputed constant."""
        memory, offset = self._place(tensor, what, may_be_unplanned=False)
        return self._add(memory, offset, tensor.bytes, tensor.spec, what)

    def temporary(self, spec: TensorSpec, size: int, what: str) -> int:
        """Return the index in the bundle of a temporary tensor, which is live until `end_of_step`.

        The inputs and outputs of the method must have their places before.
        """
        offset = self._unplanned + self._temporary
        self._temporary += padded(size)
        self._most = max(self._most, self._temporary)
        return self._add(self._own_memory, offset, size, spec, what)

    def end_of_step(self) -> None:
        """Let later temporary tensors reuse the memory of the current ones."""
        self._temporary = 0

    @property
    def values(self) -> tuple[Value, ...]:
        """Return all values."""
        return tuple(self._values)

    @property
    def constants(self) -> tuple[bytes, ...]:
        """Return the constants of values."""
        return tuple(constant.data for constant in self._constants)

    @property
    def memories(self) -> tuple[Memory, ...]:
        """Return the memories of values."""
        memories = [Memory(padded(size), f"memory {i} of the program's plan") for i, size in enumerate(self._arenas, 1)]
        if self.layout.tensors:
            memories.append(Memory(self.layout.nbytes + self._working, state.NOTE))
        if own := self._unplanned + self._most:
            memories.append(Memory(own, "inputs and outputs outside the plan, and scratch of single steps"))
        return tuple(memories)

    @property
    def planned_bytes(self) -> int:
        """Return the bytes of the program's plan without the state."""
        return sum(self._arenas)

    @property
    def state(self) -> State | None:
        """Return the state, None without any."""
        tensors = tuple(
            StateTensor(tensor.name, self.layout.offsets[place], tensor.bytes)
            for place, tensor in self.layout.tensors.items()
        )
        return State(self._state_memory, tensors) if tensors else None

    @property
    def _state_memory(self) -> int:
        return len(self._arenas)

    @property
    def _own_memory(self) -> int:
        """Return the index of the memory for tensors without a place in the plan."""
        return len(self._arenas) + bool(self.layout.tensors)

    def _kept(self, place: Place) -> int:
        """Return an offset, or the size, of a memory of the plan after the state's tensors have left it."""
        gone = (size for memory, start, size in self._removed if memory == place.memory and start < place.offset)
        return max(0, place.offset - sum(gone))

    def _add(self, memory: int, offset: int, size: int, spec: TensorSpec, note: str) -> int:
        if spec.dtype not in _TYPES:
            message = f"{note} is a {spec.dtype} tensor, firmware supports {', '.join(_TYPES)}"
            raise UnsupportedError(message, hint="export the model with tensors of one of these types")
        return self.add(Value(memory, offset, size, _TYPES[spec.dtype], spec.shape, spec.dim_order, note))

    def _place(self, tensor: TensorValue, what: str, may_be_unplanned: bool) -> tuple[int, int]:
        """Return memory and offset."""
        place, constant = tensor.place, tensor.constant
        if tensor.dynamic:
            raise UnsupportedError(f"{what} has a dynamic shape", hint=_STATIC)
        if tensor.external:
            raise UnsupportedError(f"the content of {what} is in another file", hint=_STATIC)
        if constant is not None and place is None:
            return MEMORY_CONSTANT + self._constants.setdefault(constant, len(self._constants)), 0
        if place is None:
            if not may_be_unplanned:
                raise UnsupportedError(f"{what} has no place in the program's memory plan", hint=_STATIC)
            offset = self._unplanned
            self._unplanned += padded(tensor.bytes)
            return self._own_memory, offset
        if tensor.is_state:
            return self._state_memory, self.layout.offsets[place]
        if place.offset % ALIGNMENT:
            message = f"{what} starts at byte {place.offset} of its memory, which is not a multiple of {ALIGNMENT}"
            raise UnsupportedError(message, hint="plan the program's memory with ExecuTorch's default alignment")
        return place.memory - 1, self._kept(place)
