"""The operators of ExecuTorch's Cortex-M backend as firmware has them: the values and parameter words of each call.

This table is the one definition: the header `firmware/include/deuteron/cortex_m.h` is generated from it
(`tools/gen_headers.py`); the lowering to bundles and the registration with ExecuTorch's runtime fill its records. A
value's offset is the number that is added to it: the zero point, negated. Multipliers and shifts are CMSIS-NN's: a
factor is multiplier * 2^(shift - 31).
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.kernels.params import KernelParams


@dataclass(frozen=True, slots=True)
class CpuOperator:
    """One C function, `dtn_cm_<name>`.

    Attributes:
        name: that of the operator in the namespace `cortex_m`, without the suffix of a layout.
        inputs: names of the values that it reads, in order.
        params: the record of its words; its docstring says what the function computes.
        optional: inputs that a call may leave out; they stand last, each has a parameter `has_<input>`.
        scratch: names of the values that it writes before the output.
    """

    name: str
    inputs: tuple[str, ...]
    params: type[KernelParams]
    optional: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The C function that runs it."""
        return f"dtn_cm_{self.name}"


@dataclass(frozen=True, slots=True)
class QuantizedAddParams(KernelParams):
    """Sum of two tensors; the smaller repeats along the larger, whose last dimensions it has.

    Each operand, less its zero point and times 2^20, is multiplied by its factor; the sum of both by the output's. A
    difference has a negative b_multiplier.
    """

    a_zp: int
    a_multiplier: int
    a_shift: int
    b_zp: int
    b_multiplier: int
    b_shift: int
    out_zp: int
    out_multiplier: int
    out_shift: int
    act_min: int
    act_max: int


CPU_OPERATORS: tuple[CpuOperator, ...] = (CpuOperator("quantized_add", ("a", "b"), QuantizedAddParams),)

BY_OPERATOR = MappingProxyType({operator.name: operator for operator in CPU_OPERATORS})
"""The operators by their name."""
