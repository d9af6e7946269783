"""Calls of C operators that a TFLite operator becomes on a Cortex-M."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.kernel_params import KernelParams


@dataclass(frozen=True, slots=True)
class FileTensor:
    """A tensor of the TFLite file, by its index in `FlatModel.tensors`."""

    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An array that the lowering prepares, such as multipliers, weights in another order, or a table."""

    array: npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, eq=False)
class Temporary:
    """A tensor between two calls of one operator; the same object names the same tensor."""

    shape: tuple[int, ...]
    dtype: str
    """As numpy spells it: `int8`, `int16`, `int32`, `float32`."""


Operand = FileTensor | Constant | Temporary


@dataclass(frozen=True, slots=True)
class CpuCall:
    """One call of a C function.

    Attributes:
        operator: the C function; scratch memory that it declares is not listed here, the writer of the program adds it.
        inputs: in the order of `operator.inputs`, optional ones left out as the `has_...` words say.
        outputs: the results.
        params: the words of its record.
    """

    operator: CpuOperator
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    params: KernelParams
