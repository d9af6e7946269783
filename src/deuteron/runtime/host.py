"""Runs a `.pte` on this machine in ExecuTorch's runtime with our delegate; numpy arrays in and out."""

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, InputError, InternalError, MissingToolError, UnsupportedError, counted
from deuteron.extras import require
from deuteron.native import CORTEX_M, library, load_cortex_m, stale
from deuteron.native import load as load_native
from deuteron.npu.families import NEUTRON, Family, family_of
from deuteron.operators.catalogue import NAMESPACE
from deuteron.runtime import pte
from deuteron.runtime.observer import DelegateCall, observing
from deuteron.runtime.program import Method as PlannedMethod
from deuteron.runtime.program import Program, TensorSpec

if TYPE_CHECKING:
    import torch
    from executorch.runtime import Method, Runtime

Array = npt.NDArray[np.generic]

_LOG_BYTES = 4096
_DEBUG_BUFFER_BYTES = 16 << 20


class HostRunner:
    """One loaded method of a `.pte`.

    Attributes:
        path: the file.
        inputs: types and shapes of the inputs.
        outputs: types and shapes of the outputs.
    """

    def __init__(
        self, path: Path | str, *, method: str = "forward", etdump: bool = False, debug_bytes: int = _DEBUG_BUFFER_BYTES
    ) -> None:
        self.path = Path(path)
        data = _read(self.path)
        spec = _method(pte.read(data, str(self.path)), method, self.path)
        self.inputs = _tensors(spec.input_specs, "input", self.path)
        self.outputs = _tensors(spec.output_specs, "output", self.path)
        self._etdump, self._debug_bytes = etdump, debug_bytes if etdump else 0
        self._delegate, self._runtime = _runtime()
        self._observed = (self._delegate, *_check_runtime(self._runtime, spec, self.path))
        self._data, self._name, self._keeps_state = data, method, bool(spec.state)
        self._load()

    def _load(self) -> None:
        """Load the method, with the initial values of its state."""
        log: list[str] = []
        self._is_fresh = True
        try:
            with _log_collected(self._delegate, log):
                # A method does not keep its program alive, nor a program its bytes.
                self._program = self._runtime.load_program(  # pyright: ignore[reportUnknownMemberType]
                    self._data, enable_etdump=self._etdump, debug_buffer_size=self._debug_bytes
                )
                self._method = cast("Method", self._program.load_method(self._name))
        except RuntimeError as error:
            message = f"ExecuTorch's runtime rejects the program: {_reason(log, error)}"
            hint = "the file is damaged, or another version of Deuteron or ExecuTorch wrote it: build it again"
            raise FormatError(message, where=str(self.path), hint=hint) from error

    def reset(self) -> None:
        """Give the state of the program its initial values; events of earlier runs are lost then."""
        if self._keeps_state and not self._is_fresh:
            self._load()

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs in their logical shapes, for any dim order; the state lasts from run to run.

        Raises:
            InputError: the inputs do not fit.
        """
        self._is_fresh = False
        if len(inputs) != len(self.inputs):
            self._refuse(f"the program takes {counted(len(self.inputs), 'input')}, found {len(inputs)}")
        tensors = tuple(self._tensor(i, value) for i, value in enumerate(inputs))
        log: list[str] = []
        try:
            with _log_collected(self._delegate, log):
                results = self._method.execute(tensors)
        except RuntimeError as error:
            message = f"ExecuTorch's runtime failed to run the program: {_reason(log, error)}"
            if any(_is_index(spec) for spec in self.inputs):
                hint = "integer inputs are often indices: give values that the model allows"
                raise InputError(message, where=str(self.path), hint=hint) from error
            raise InternalError(message, where=str(self.path)) from error
        return [np.asarray(cast("torch.Tensor", result).numpy(), order="C") for result in results]

    @contextmanager
    def observe(self) -> Generator[list[DelegateCall]]:
        """Yield a list to which the NPU's calls are appended while the context is open."""
        with observing(self._observed) as calls:
            yield calls

    def write_etdump(self, path: Path, debug_path: Path) -> None:
        """Write the events of all runs so far. Requires a runner with `etdump`."""
        if not self._etdump:
            raise InternalError("a runner without `etdump` has no events to write")
        self._program.write_etdump_result_to_file(str(path), str(debug_path))

    def _tensor(self, index: int, value: Array) -> "torch.Tensor":
        import torch

        spec = self.inputs[index]
        if value.shape != spec.shape:
            self._refuse(f"input {index} has the shape {value.shape}, the program takes {spec.shape}")
        if value.dtype != spec.dtype:
            self._refuse(f"input {index} has the dtype {value.dtype}, the program takes {spec.dtype}")
        tensor = torch.from_numpy(  # pyright: ignore[reportUnknownMemberType]
            np.require(value, requirements=["C", "W"])
        )
        if not spec.channels_last:
            return tensor
        rank = len(spec.shape)
        return tensor.permute(0, *range(2, rank), 1).contiguous().permute(0, rank - 1, *range(1, rank - 1))

    def _refuse(self, message: str) -> NoReturn:
        wanted = ", ".join(f"{spec.dtype} {spec.shape}" for spec in self.inputs)
        raise InputError(message, where=str(self.path), hint=f"give arrays of these dtypes and shapes: {wanted}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        hint = "give the `.pte` file that `deuteron build` wrote"
        raise InputError(f"cannot read the program: {error.strerror}", where=str(path), hint=hint) from error


def _method(program: Program, name: str, path: Path) -> PlannedMethod:
    for method in program.methods:
        if method.name == name:
            return method
    names = ", ".join(f"`{method.name}`" for method in program.methods)
    raise InputError(f"the program has no method `{name}`", where=str(path), hint=f"its methods are {names}")


def _tensors(specs: Sequence[TensorSpec | None], side: str, path: Path) -> tuple[TensorSpec, ...]:
    for i, spec in enumerate(specs):
        if spec is None or spec.dtype == "bfloat16":
            problem = "not a tensor" if spec is None else "a bfloat16 tensor"
            hint = "export the model with tensors of numpy's dtypes only"
            raise UnsupportedError(f"{side} {i} of the program is {problem}", where=str(path), hint=hint)
    return cast("tuple[TensorSpec, ...]", tuple(specs))


def _is_index(spec: TensorSpec) -> bool:
    """Return true for integers that are not quantized values."""
    return np.issubdtype(spec.dtype, np.integer) and spec.dtype not in ("int8", "int16")


def _check_runtime(runtime: "Runtime", method: PlannedMethod, path: Path) -> tuple[ctypes.CDLL, ...]:
    """Load the backends that the program needs and return their libraries.

    Raises:
        UnsupportedError: naming all backends and operators that are missing.
    """
    if any(operator.startswith(CORTEX_M) for operator in method.operators):
        load_cortex_m()
    families = list(filter(None, map(family_of, sorted({delegate.id for delegate in method.delegates}))))
    libraries = tuple(_load_backend(family, runtime) for family in families if family is not NEUTRON)
    backends = sorted({d.id for d in method.delegates if not runtime.backend_registry.is_available(d.id)})
    if backends:
        names = ", ".join(f"`{name}`" for name in backends)
        hint = f"this runtime serves {', '.join(sorted(runtime.backend_registry.registered_backend_names))}"
        raise UnsupportedError(
            f"the program needs backends that are not installed: {names}", where=str(path), hint=hint
        )
    missing = sorted(set(method.operators) - runtime.operator_registry.operator_names)
    if ours := [name for name in missing if name.startswith(CORTEX_M)]:
        raise stale(ours)
    if any(name.startswith(f"{NAMESPACE}::") for name in missing):
        raise UnsupportedError(
            "the program calls C operators of the firmware, which ExecuTorch's runtime does not have",
            where=str(path),
            hint="`deuteron run` runs it with the firmware's executor; profile it on a board, such as `--on an547`",
        )
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        hint = "build the model for an NPU that supports these operators, or use other operators"
        raise UnsupportedError(f"ExecuTorch's runtime has no operators {names}", where=str(path), hint=hint)
    return libraries


@cache
def _runtime() -> "tuple[ctypes.CDLL, Runtime]":
    """Load our delegate's library and ExecuTorch's runtime, once per process."""
    require("executorch", "executorch", "a run in ExecuTorch's runtime")
    library("delegate")  # may compile it first, with a message
    with _stderr_dropped():
        try:
            with _without_package_init("executorch.exir"):
                from executorch.runtime import Runtime

            importlib.import_module("executorch.kernels.quantized")  # registers the quantized CPU operators
        except ImportError as error:
            message = f"ExecuTorch's runtime is not installed: {error}"
            raise MissingToolError(message, hint="run `make setup`, or `pip install 'deuteron[executorch]'`") from error
        return _load(), Runtime.get()


@contextmanager
def _without_package_init(name: str) -> Generator[None]:
    """Allow imports of a package's modules without running the package's `__init__`.

    ExecuTorch's runtime imports a decorator from its compiler, which doubles the import time.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        yield
        return
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = spec.submodule_search_locations
    try:
        yield
    finally:
        for module in [module for module in sys.modules if module == name or module.startswith(f"{name}.")]:
            del sys.modules[module]


def _load_backend(family: Family, runtime: "Runtime") -> ctypes.CDLL:
    """Load the library with a family's backend for ExecuTorch's runtime."""
    path = family.host()
    try:
        loaded = ctypes.CDLL(str(path))  # loads once per process
    except OSError as error:
        message = f"the backend `{family.delegate_id}` does not load: {error}"
        raise MissingToolError(message, where=str(path), hint="build or install it again") from error
    if not runtime.backend_registry.is_available(family.delegate_id):
        raise InternalError(f"the delegate did not register as `{family.delegate_id}`", where=str(path))
    return loaded


def _load() -> ctypes.CDLL:
    """Load our delegate's library; the runtime logs once that Python already had a logger."""
    delegate = load_native("delegate")
    delegate.deuteron_keep_log.argtypes = ()
    delegate.deuteron_keep_log.restype = None
    delegate.deuteron_take_log.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    delegate.deuteron_take_log.restype = ctypes.c_size_t
    with _log_collected(delegate, []):
        return delegate


@contextmanager
def _stderr_dropped() -> Generator[None]:
    """Drop warnings that libraries write to standard error while they load."""
    sys.stderr.flush()
    kept = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(sink)


@contextmanager
def _log_collected(delegate: ctypes.CDLL, lines: list[str]) -> Generator[None]:
    """Append the error lines that ExecuTorch's runtime logs on this thread inside the context to `lines`."""
    delegate.deuteron_keep_log()
    try:
        yield
    finally:
        buffer = ctypes.create_string_buffer(_LOG_BYTES)
        delegate.deuteron_take_log(buffer, len(buffer))
        lines += buffer.value.decode(errors="replace").splitlines()


def _reason(log: Sequence[str], error: RuntimeError) -> str:
    """Return the first line that the runtime logged, or its exception's text."""
    return log[0] if log else str(error)
