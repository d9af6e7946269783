"""Shape, element type and quantization of a tensor: one frozen value that checks itself."""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from deuteron.errors import VerifyError
from deuteron.tflite.quantization import Quant

MAX_RANK = 32
"""Largest number of dimensions, which every version of numpy supports."""


class DType(Enum):
    """Element type; the value is its name in the text form."""

    INT8 = "i8"
    UINT8 = "u8"
    INT16 = "i16"
    INT32 = "i32"
    INT64 = "i64"
    FLOAT32 = "f32"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """Little-endian numpy dtype of one element."""
        return _NUMPY[self]

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return _NUMPY[self].itemsize


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.INT8: np.dtype("<i1"),
    DType.UINT8: np.dtype("<u1"),
    DType.INT16: np.dtype("<i2"),
    DType.INT32: np.dtype("<i4"),
    DType.INT64: np.dtype("<i8"),
    DType.FLOAT32: np.dtype("<f4"),
    DType.BOOL: np.dtype("?"),
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Static shape (elements per dimension, outermost first), element type and optional quantization."""

    shape: tuple[int, ...]
    dtype: DType
    quant: Quant | None = None

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_RANK:
            raise VerifyError(f"a shape of {len(self.shape)} dimensions; at most {MAX_RANK} are possible")
        if any(dim < 1 for dim in self.shape):
            raise VerifyError(f"shape {list(self.shape)} has a dimension below 1")
        if self.quant is not None and self.quant.axis is not None:
            axis = self.quant.axis
            if not 0 <= axis < len(self.shape) or self.shape[axis] != len(self.quant.scales):
                raise VerifyError(
                    f"{len(self.quant.scales)} channel scales along axis {axis} do not match shape {list(self.shape)}"
                )

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.numel * self.dtype.itemsize

    @property
    def q(self) -> Quant:
        """The quantization, which must exist."""
        if self.quant is None:
            raise VerifyError(f"a quantized tensor is required, found {self.dtype.value}{list(self.shape)}")
        return self.quant


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named value of a graph; `data` holds the row-major little-endian bytes of a constant."""

    name: str
    type: TensorType
    data: bytes | None = None

    def __post_init__(self) -> None:
        if self.data is not None and len(self.data) != self.type.nbytes:
            raise VerifyError(f"constant `{self.name}` holds {len(self.data)} bytes, its type needs {self.type.nbytes}")

    @property
    def is_const(self) -> bool:
        """True if the value is known at compile time."""
        return self.data is not None

    def array(self) -> npt.NDArray[np.generic]:
        """Read-only view of a constant in its shape."""
        if self.data is None:
            raise VerifyError(f"tensor `{self.name}` is not a constant")
        return np.frombuffer(self.data, self.type.dtype.numpy).reshape(self.type.shape)
