"""Runs a bundle in this process: the firmware's executor with all its operators, built for this computer.

No compiler runs: the tables of `deuteron/bundle.h` are made here, and operators and NPUs are found by name in the
native library `deuteron_executor`. A run gives the bytes that a board gives.
"""

import ctypes
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import finalize

from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, VERSION, Bundle, Value
from deuteron.board.tables import Tables
from deuteron.board.tensor_bytes import Array, from_bytes, to_bytes
from deuteron.errors import (
    CapacityError,
    DeuteronError,
    FormatError,
    InputError,
    InternalError,
    MissingToolError,
    UnsupportedError,
    counted,
)
from deuteron.native import build_again, library
from deuteron.native import load as load_native

_UNSUPPORTED, _UCODE, _INVALID = 1, 2, 3
"""Categories of the driver's errors."""
_VALUE, _STEP, _OPERATOR, _DELEGATE, _NPU_RUN, _STATE_LOST = 68, 69, 72, 73, 79, 87
"""Reasons whose detail is a value, a step, or the fault of an Ethos-U."""


class _Constant(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("bytes", ctypes.c_uint32), ("crc", ctypes.c_uint32))


class _Delegate(ctypes.Structure):
    _fields_ = (("npu", ctypes.c_void_p), ("first", ctypes.c_uint32), ("blocks", ctypes.c_uint32))


_COUNTS = ("value", "step", "word", "input", "output", "memory", "operator", "constant", "delegate")


class _Bundle(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("counts_crc", ctypes.c_uint32),
        ("crc", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("values", ctypes.c_void_p),
        ("steps", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("memory_bytes", ctypes.c_void_p),
        ("operators", ctypes.c_void_p),
        ("constants", ctypes.c_void_p),
        ("delegates", ctypes.c_void_p),
        *((f"{name}_count", ctypes.c_uint32) for name in _COUNTS),
    )


_LAYOUT = (
    16,
    24,
    ctypes.sizeof(_Constant),
    _Constant.bytes.offset,
    ctypes.sizeof(_Delegate),
    _Delegate.first.offset,
    ctypes.sizeof(_Bundle),
    _Bundle.values.offset,
    _Bundle.value_count.offset,
)
"""Sizes and offsets of the structures above, in the order of `dtn_host_layout`."""


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """The results of one step.

    Attributes:
        index: of the step in the bundle.
        outputs: the values that it has written, scratch memory included.
    """

    index: int
    outputs: tuple[Array, ...]


class HostExecutor:
    """A bundle that is ready to run.

    Raises:
        FormatError: the executor refuses the bundle.
        UnsupportedError: an operator or an NPU is not in the library.
        CapacityError: this computer has no memory for it.
        MissingToolError: the library is not built.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._library = _load()
        self._own: list[object] = []
        tables = self._tables(Tables.of(bundle))
        self._own.append(tables)
        host = self._library.dtn_host_create(ctypes.byref(tables))
        if not host:
            needed = sum(memory.bytes for memory in bundle.memories)
            raise CapacityError(f"this computer has no {needed:,} bytes left to run `{bundle.name}`")
        self._host = ctypes.c_void_p(host)
        finalize(self, self._library.dtn_host_destroy, self._host)
        self._check(self._library.dtn_host_prepare(self._host), "the executor refuses the program")

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of one run, which changes the state if there is one.

        Raises:
            InputError: the arrays have other shapes or types than the program's inputs.
        """
        given = self._given(inputs)
        values = [self._bundle.values[index] for index in self._bundle.outputs]
        taken = [ctypes.create_string_buffer(value.bytes) for value in values]
        code = self._library.dtn_host_run(self._host, _addresses(given), _addresses(taken))
        self._check(code, "the run failed")
        return [from_bytes(value, buffer.raw) for value, buffer in zip(values, taken, strict=True)]

    def run_from_reset(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs of one run from the initial state."""
        self.reset()
        return self.run(inputs)

    def reset(self) -> None:
        """Set the initial state; programs without state have nothing to set."""
        self._check(self._library.dtn_executor_reset(self._host), "the reset failed")

    def save_state(self) -> bytes:
        """Return the state, which another executor of the same bundle can load, also on a board.

        Raises:
            FormatError: the program has no state.
        """
        saved = ctypes.create_string_buffer(max(1, self._bundle.saved_bytes))
        code = self._library.dtn_executor_save_state(self._host, saved, self._bundle.saved_bytes)
        self._check(code, "the state cannot be saved")
        return saved.raw

    def load_state(self, saved: bytes) -> None:
        """Load a saved state; FormatError, and no change, if it is damaged or another program's."""
        code = self._library.dtn_executor_load_state(self._host, saved, len(saved))
        self._check(code, "the state cannot be loaded")

    def state_memory(self) -> bytes:
        """Return the state memory as it is, empty for a program without state."""
        state = self._bundle.state
        if state is None:
            return b""
        return ctypes.string_at(self._library.dtn_host_memory(self._host, state.memory), self._bundle.state_bytes)

    def values(self, inputs: Sequence[Array]) -> Iterator[StepResult]:
        """Run step by step, and yield the results of each step."""
        given = self._given(inputs)
        self._check(self._library.dtn_executor_start(self._host, _addresses(given)), "the run failed")
        for index, step in enumerate(self._bundle.steps):
            if self._library.dtn_host_steps(self._host) == index:  # a change of the state is one step
                self._check(self._library.dtn_host_step(self._host), "the run failed")
            yield StepResult(index, tuple(self._read(self._bundle.values[output]) for output in step.outputs))

    def outputs(self) -> list[Array]:
        """Return the outputs after the last of `values`."""
        return [self._read(self._bundle.values[index]) for index in self._bundle.outputs]

    def _given(self, inputs: Sequence[Array]) -> "list[ctypes.Array[ctypes.c_char]]":
        values = [self._bundle.values[index] for index in self._bundle.inputs]
        if len(inputs) != len(values):
            message = f"the program has {counted(len(values), 'input')}, {len(inputs)} were given"
            raise InputError(message, hint="give one array per input")
        data = [to_bytes(value, array) for value, array in zip(values, inputs, strict=True)]
        return [ctypes.create_string_buffer(each, len(each)) for each in data]

    def _read(self, value: Value) -> Array:
        if value.memory >= MEMORY_CONSTANT:
            return from_bytes(value, self._bundle.constants[value.memory - MEMORY_CONSTANT][: value.bytes])
        start = self._library.dtn_host_memory(self._host, value.memory)
        return from_bytes(value, ctypes.string_at(start + value.offset, value.bytes))

    def _tables(self, tables: Tables) -> _Bundle:
        """The bundle as C has it; what it points to is kept by this object."""
        bundle, words = self._bundle, self._words
        contents = [(content, zlib.crc32(content)) for content in bundle.constants]
        contents += ((block.data, block.crc) for each in bundle.delegates for block in each.partition.blocks)
        constants = (_Constant * max(1, len(contents)))()
        for row, (data, crc) in zip(constants, contents, strict=False):
            row.data, row.bytes, row.crc = self._aligned(data), len(data), crc
        delegates = (_Delegate * max(1, len(bundle.delegates)))()
        for row, delegate, (first, count) in zip(delegates, bundle.delegates, tables.delegates, strict=False):
            row.npu, row.first, row.blocks = self._symbol(delegate.firmware.symbol), first, count
        functions = (ctypes.c_void_p * max(1, len(bundle.operators)))(*map(self._symbol, bundle.operators))
        self._own += [constants, delegates, functions]
        return _Bundle(
            VERSION,
            tables.counts_crc,
            tables.crc,
            bundle.name.encode(),
            *(words([word for row in table for word in row]) for table in (tables.values, tables.steps, tables.words)),
            *(words(row) for row in (bundle.inputs, bundle.outputs, [memory.bytes for memory in bundle.memories])),
            ctypes.addressof(functions),
            ctypes.addressof(constants),
            ctypes.addressof(delegates),
            *tables.counts,
        )

    def _words(self, words: Sequence[int]) -> int:
        """The address of a table."""
        table = (ctypes.c_uint32 * max(1, len(words)))(*words)
        self._own.append(table)
        return ctypes.addressof(table)

    def _aligned(self, data: bytes) -> int:
        """The address of a copy that starts at a multiple of 16."""
        memory = ctypes.create_string_buffer(len(data) + ALIGNMENT)
        self._own.append(memory)
        start = ctypes.addressof(memory)
        start += -start % ALIGNMENT
        ctypes.memmove(start, data, len(data))
        return start

    def _symbol(self, name: str) -> int:
        """The address of an operator or NPU."""
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self._library, name))
        except ValueError:
            raise UnsupportedError(
                f"`{name}` of `{self._bundle.name}` is not in the executor of this computer",
                hint=build_again(library("executor")),
            ) from None

    def _check(self, code: int, doing: str) -> None:
        if code:
            raise self._error(code, doing)

    def _error(self, code: int, doing: str) -> DeuteronError:
        """The exception for an error of the executor."""
        text = self._library.dtn_error_string(code).decode()
        reason, detail, category = code >> 8 & 0xFF, code >> 16, code >> 3 & 0x1F
        where = None
        if reason == _NPU_RUN:
            text += f": {self._library.dtn_ethosu_message(detail).decode()}"
            where = self._step(self._library.dtn_host_steps(self._host))
        elif reason in (_STEP, _OPERATOR, _DELEGATE, _STATE_LOST):
            where = self._step(detail)
        elif reason == _VALUE and detail < len(self._bundle.values):
            where = self._bundle.values[detail].note
        elif detail:
            text += f" ({detail})"
        message, hint = f"{doing}: {text}", "build the model again"
        if category == _UNSUPPORTED:
            return UnsupportedError(message, where=where, hint=hint)
        if category in (_UCODE, _INVALID) or reason == _NPU_RUN:
            return FormatError(message, where=where, hint=hint)
        return InternalError(message, where=where)

    def _step(self, index: int) -> str | None:
        if index >= len(self._bundle.steps):
            return None
        step = self._bundle.steps[index]
        return f"step {index}, {step.title}" + (f", {step.source}" if step.source else "")


def _addresses(buffers: "Sequence[ctypes.Array[ctypes.c_char]]") -> "ctypes.Array[ctypes.c_void_p]":
    """Where the buffers are, which the caller keeps."""
    return (ctypes.c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers))


def error_text(code: int) -> str:
    """Return the text of a NeutronError with its numbers; only the numbers if the library is not built."""
    numbers = f"reason {code >> 8 & 0xFF}, detail {code >> 16}"
    try:
        return f"{_load().dtn_error_string(code).decode()} ({numbers})"
    except MissingToolError:
        return numbers


@cache
def _load() -> Any:
    """The library, with the types of its functions, once it is known to have these structures."""
    loaded = load_native("executor")
    count = ctypes.c_uint32.in_dll(loaded, "dtn_host_layout_count").value
    layout = (ctypes.c_uint32 * count).in_dll(loaded, "dtn_host_layout")
    if tuple(layout) != _LAYOUT:
        path = library("executor")
        message = f"the native library `{path.name}` was built from other sources"
        raise MissingToolError(message, where=str(path), hint=build_again(path))
    pointer, code = ctypes.c_void_p, ctypes.c_int32
    for name, result, arguments in (
        ("dtn_host_create", pointer, (pointer,)),
        ("dtn_host_prepare", code, (pointer,)),
        ("dtn_host_run", code, (pointer, pointer, pointer)),
        ("dtn_host_step", code, (pointer,)),
        ("dtn_host_steps", ctypes.c_uint32, (pointer,)),
        ("dtn_host_memory", pointer, (pointer, ctypes.c_uint32)),
        ("dtn_host_destroy", None, (pointer,)),
        ("dtn_executor_start", code, (pointer, pointer)),
        ("dtn_executor_reset", code, (pointer,)),
        ("dtn_executor_save_state", code, (pointer, pointer, ctypes.c_size_t)),
        ("dtn_executor_load_state", code, (pointer, pointer, ctypes.c_size_t)),
        ("dtn_error_string", ctypes.c_char_p, (code,)),
        ("dtn_ethosu_message", ctypes.c_char_p, (ctypes.c_int,)),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded
