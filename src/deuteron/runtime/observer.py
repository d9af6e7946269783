"""Observes the delegate: input and output bytes of each NPU call."""

import ctypes
import hashlib
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class DelegateCall:
    """One run of a partition.

    Attributes:
        payload_sha256: digest of the partition's payload, as `build.json` lists it.
        inputs: per NPU input, the bytes that the NPU reads, flat and in its memory order.
        outputs: per NPU output, the bytes that it wrote.
    """

    payload_sha256: str
    inputs: tuple[Int8Array, ...]
    outputs: tuple[Int8Array, ...]


_Pointers = ctypes.POINTER(ctypes.c_void_p)
_Sizes = ctypes.POINTER(ctypes.c_size_t)


class _Call(ctypes.Structure):
    """`struct deuteron_delegate_call` of `firmware/executorch/observer.h`."""

    _fields_ = (
        ("payload", ctypes.c_void_p),
        ("payload_bytes", ctypes.c_size_t),
        ("microcode", ctypes.c_void_p),
        ("microcode_bytes", ctypes.c_size_t),
        ("inputs", ctypes.c_size_t),
        ("input_data", _Pointers),
        ("input_bytes", _Sizes),
        ("outputs", ctypes.c_size_t),
        ("output_data", _Pointers),
        ("output_bytes", _Sizes),
    )


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@contextmanager
def observing(delegates: Iterable[ctypes.CDLL]) -> Generator[list[DelegateCall]]:
    """Yield a list to which calls of these delegates' libraries are appended while the context is open.

    Only one context may be open in a process at a time.
    """
    calls: list[DelegateCall] = []
    digests: dict[tuple[int, int], str] = {}

    def record(_: int | None, address: int) -> None:
        call = _Call.from_address(address)
        payload = call.payload, call.payload_bytes
        if payload not in digests:
            digests[payload] = hashlib.sha256(ctypes.string_at(*payload)).hexdigest()
        inputs = tuple(_values(call.input_data[i], call.input_bytes[i]) for i in range(call.inputs))
        outputs = tuple(_values(call.output_data[i], call.output_bytes[i]) for i in range(call.outputs))
        calls.append(DelegateCall(digests[payload], inputs, outputs))

    callback = _Callback(record)
    observed = [delegate for delegate in delegates if hasattr(delegate, "deuteron_set_observer")]
    for delegate in observed:
        delegate.deuteron_set_observer.argtypes = (_Callback, ctypes.c_void_p)
        delegate.deuteron_set_observer(callback, None)
    try:
        yield calls
    finally:
        for delegate in observed:
            delegate.deuteron_set_observer(_Callback(), None)


def _values(address: int | None, size: int) -> Int8Array:
    return np.frombuffer(ctypes.string_at(address or 0, size), np.int8)
