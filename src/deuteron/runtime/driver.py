"""The driver on this machine, without ExecuTorch and torch: runs containers on input bytes."""

import ctypes
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import TracebackType
from typing import Literal, Self

from deuteron.errors import DeuteronError, FormatError, InputError, InternalError, UnsupportedError, counted
from deuteron.native import load as load_native
from deuteron.npu.neutron.kernels.catalogue import BY_KIND
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.format import (
    HEADER_WORDS,
    PROFILE_RECORD_BYTES,
    WORD_BYTES,
)
from deuteron.npu.neutron.microcode.layout import HeaderFields, read_header

_CATEGORY_UNSUPPORTED = 1
_CATEGORY_UCODE = 2
_FIRST_COMMAND_REASON = 32
_KERNEL_ABSENT = 39
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """One record of `spec/microcode.md` section 7; times are the port's ticks, nanoseconds on a host, modulo 2^32."""

    opcode: int
    function: int
    start: int
    stop: int


class _ModelConfig(ctypes.Structure):
    _fields_ = (
        ("microcode", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("kernels", ctypes.c_void_p),
        ("timeoutSeconds", ctypes.c_uint32),
    )


class _DataConfig(ctypes.Structure):
    _fields_ = (
        ("inputs", ctypes.POINTER(ctypes.c_void_p)),
        ("outputs", ctypes.POINTER(ctypes.c_void_p)),
        ("scratch", ctypes.c_void_p),
        ("scratchWeights", ctypes.c_void_p),
    )


class _Block:
    """Memory at a multiple of 16 that lives as long as this object."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, size: int, content: bytes = b"") -> None:
        # Pages of zeros that exist once they are used; scratch may be large.
        self._memory = ctypes.c_char.from_buffer(mmap.mmap(-1, max(size, 1), access=mmap.ACCESS_COPY))
        self.address = ctypes.addressof(self._memory)
        self.size = size
        self.fill(content)

    def fill(self, content: bytes) -> None:
        """Overwrites the block from its start."""
        ctypes.memmove(self.address, content, len(content))

    def read(self) -> bytes:
        """Return all bytes."""
        return ctypes.string_at(self.address, self.size)


def _pointers(*blocks: _Block) -> "ctypes.Array[ctypes.c_void_p]":
    """Return the blocks' addresses in an array that the structure pointing at it keeps alive."""
    return (ctypes.c_void_p * max(1, len(blocks)))(*(block.address for block in blocks))


class Driver:
    """One build of the driver: `driver` has the fast kernels, `driver_ref` the reference ones."""

    def __init__(self, name: Literal["driver", "driver_ref"] = "driver") -> None:
        self.name = name
        self.library = _load(name)

    def load(self, container: Container) -> "Model":
        """Return the container, checked by the driver and ready to run.

        Raises FormatError with the driver's error text for microcode that it rejects, UnsupportedError for kernels
        that it does not have.
        """
        return Model(self, container)

    def run(self, container: Container, inputs: Sequence[bytes]) -> list[bytes]:
        """Return the outputs of one run."""
        with self.load(container) as model:
            return model.run(inputs)

    def levels(self) -> tuple[str, ...]:
        """Return the levels of vector instructions that the fast kernels have on this processor, the lowest first."""
        self.library.dtn_has_level.restype = ctypes.c_bool
        return tuple(name for level, name in enumerate(self._level_names()) if self.library.dtn_has_level(level))

    def level(self) -> str:
        """Return the level in use: the highest, unless another was chosen."""
        return self._level_names()[int(self.library.dtn_level())]

    def use_level(self, name: str) -> None:
        """Use a level from the next run on, in the whole process. InputError if this processor does not have it."""
        if name not in self.levels():
            message = f"the kernels have no level `{name}` on this processor"
            raise InputError(message, hint=f"use one of: {', '.join(self.levels())}")
        self.library.dtn_use_level(self._level_names().index(name))

    def _level_names(self) -> list[str]:
        # A driver linked with a selection of kernels has no levels.
        self.library.dtn_level_name.restype = ctypes.c_char_p
        names: list[str] = []
        name: bytes | None
        while (name := self.library.dtn_level_name(len(names))) is not None:
            names.append(name.decode())
        return names

    def error(self, code: int, doing: str) -> DeuteronError:
        """Return the exception for a driver's error code."""
        text = self.library.dtn_error_string(code).decode()
        reason, detail, category = code >> 8 & 0xFF, code >> 16, code >> 3 & 0x1F
        if reason == _KERNEL_ABSENT:
            text += f" (kernel {detail}, {BY_KIND[detail].name})"
        elif reason >= _FIRST_COMMAND_REASON:
            text += f" (command {detail})"
        message = f"{doing}: {text}"
        match category:
            case _ if category == _CATEGORY_UCODE:
                return FormatError(message, hint="convert the model again; damaged or foreign microcode does not run")
            case _ if category == _CATEGORY_UNSUPPORTED:
                return UnsupportedError(message, hint="run `make native` to build a driver with every kernel")
            case _:
                return InternalError(message)


class Model:
    """A prepared container; a context manager, and to be closed otherwise."""

    def __init__(self, driver: Driver, container: Container) -> None:
        self._driver = driver
        header = _header(container)
        self._blocks = tuple(
            _Block(len(data), data) for data in (container.microcode, container.weights, container.kernels)
        )
        self._context = _Block(driver.library.neutronGetModelContextSize())
        self._handle = ctypes.c_void_p(self._context.address)
        config = _ModelConfig(*(block.address for block in self._blocks), _TIMEOUT_SECONDS)
        code = driver.library.neutronModelPrepare(ctypes.byref(config), ctypes.byref(self._handle))
        if code:
            raise driver.error(code, "the driver rejected the microcode")
        self._panels = self._use_panels(driver)
        count = header.inputs + header.outputs
        sizes = struct.unpack_from(f"<{count}I", container.microcode, WORD_BYTES * HEADER_WORDS)
        self.input_bytes = sizes[: header.inputs]
        self.output_bytes = sizes[header.inputs :]
        self._inputs = tuple(_Block(size) for size in self.input_bytes)
        self._outputs = tuple(_Block(size) for size in self.output_bytes)
        self._scratch = _Block(header.scratch_bytes)
        self._prefetch = _Block(header.prefetch_bytes)
        self._profile = _Block(header.profile_bytes)
        self._debug = _Block(header.debug_bytes)
        self._data = _DataConfig(
            _pointers(*self._inputs),
            _pointers(*self._outputs, self._scratch, self._profile, self._debug),
            self._scratch.address,
            self._prefetch.address,
        )
        self._run = partial(driver.library.neutronRunBlocking, self._handle, ctypes.byref(self._data))

    def run(self, inputs: Sequence[bytes]) -> list[bytes]:
        """Return the outputs of one run; InputError if an input has the wrong size."""
        self.fill(inputs)
        self.invoke()
        return [block.read() for block in self._outputs]

    def run_profiled(self, inputs: Sequence[bytes]) -> tuple[list[bytes], tuple[ProfileRecord, ...]]:
        """Return outputs, and one record per command plus the closing one; none without profiling in the microcode."""
        outputs = self.run(inputs)
        data = self._profile.read()
        records = (struct.unpack_from("<BBBBIBBBBI", data, at) for at in range(0, len(data), PROFILE_RECORD_BYTES))
        return outputs, tuple(ProfileRecord(r[6], r[7], r[4], r[9]) for r in records)

    def _use_panels(self, driver: Driver) -> _Block | None:
        """Give the driver memory for repacked weights of the fast kernels; a reference driver needs none."""
        if driver.name == "driver_ref":
            return None
        driver.library.dtn_panel_bytes.restype = ctypes.c_size_t
        block = _Block(driver.library.dtn_panel_bytes(self._handle))
        code = driver.library.dtn_use_panels(self._handle, ctypes.c_void_p(block.address), ctypes.c_size_t(block.size))
        if code:
            raise driver.error(code, "the driver rejected the memory for repacked weights")
        return block

    def close(self) -> None:
        """Release the model."""
        if self._handle.value is not None:
            self._driver.library.neutronModelUnprepare(self._handle)
            self._handle.value = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def fill(self, inputs: Sequence[bytes]) -> None:
        """Set the inputs of the next `invoke`. InputError if one has the wrong size."""
        if len(inputs) != len(self._inputs):
            message = f"the microcode takes {counted(len(self._inputs), 'input')}, found {len(inputs)}"
            raise InputError(message, hint="give one buffer per input of the partition")
        for i, (block, data) in enumerate(zip(self._inputs, inputs, strict=True)):
            if len(data) != block.size:
                message = f"input {i} has {len(data)} bytes, the microcode takes {block.size}"
                raise InputError(message, hint="give int8 data in the shape of the partition's input")
            block.fill(data)

    def invoke(self) -> None:
        """Run once on the inputs last set; benches time this call."""
        code = self._run()
        if code:
            raise self._driver.error(code, "the run failed")


def _header(container: Container) -> HeaderFields:
    """Return the header after a check that all its sizes are inside the blocks.

    The driver gets pointers and reads sizes from the header; it checks everything else.
    """
    header = read_header(container.microcode)
    if header.microcode_bytes > len(container.microcode):
        raise _truncated("the microcode", header.microcode_bytes, len(container.microcode))
    if header.weights_bytes > len(container.weights):
        raise _truncated("the weights", header.weights_bytes, len(container.weights))
    count = struct.unpack_from("<I", container.kernels)[0] if len(container.kernels) >= WORD_BYTES else 0
    if WORD_BYTES * (count + 1) > len(container.kernels):
        raise _truncated("the kernel list", WORD_BYTES * (count + 1), len(container.kernels))
    return header


def _truncated(what: str, needed: int, size: int) -> FormatError:
    return FormatError(f"{what} should have {needed} bytes, there are {size}", hint="convert the model again")


@cache
def _load(name: Literal["driver", "driver_ref"]) -> ctypes.CDLL:
    loaded = load_native(name)
    loaded.dtn_error_string.restype = ctypes.c_char_p
    loaded.neutronGetModelContextSize.restype = ctypes.c_size_t
    for function in ("neutronModelPrepare", "neutronModelUnprepare", "neutronRunBlocking"):
        getattr(loaded, function).restype = ctypes.c_int32
    loaded.neutronModelPrepare.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    loaded.neutronModelUnprepare.argtypes = (ctypes.c_void_p,)
    loaded.neutronRunBlocking.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    code = int(loaded.neutronInit())
    if code:
        raise InternalError(f"the driver `{name}` did not start: {loaded.dtn_error_string(code).decode()}")
    return loaded
