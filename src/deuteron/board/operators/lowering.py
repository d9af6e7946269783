"""Shared types of CPU operator lowerings: arguments, calls, and the reason for a refusal."""

from dataclasses import dataclass

from deuteron.operators.cortex_m import BY_OPERATOR
from deuteron.operators.kernel_params import KernelParams
from deuteron.runtime.program import Numbers, TensorSpec, TensorValue


class RefusedError(Exception):
    """Reason why firmware cannot run a call: the second half of a sentence that starts with the operator."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor among the arguments: its index among the program's values, and the value.

    Constants and scratch memory that a lowering adds are not values of the program; their index is None.
    """

    index: int | None
    value: TensorValue

    @property
    def spec(self) -> TensorSpec:
        """Return shape, type and memory order."""
        return self.value.spec

    @property
    def bytes(self) -> int:
        """Return its size."""
        return self.value.bytes


Argument = Tensor | tuple[Tensor, ...] | Numbers | str | bool | int | float | None
"""An argument of an operator; a list with omitted tensors is None."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call of a C function: the tensors that it reads and writes, and its parameter words."""

    function: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    params: tuple[int, ...]


def cortex_m_call(
    operator: str, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...], params: KernelParams
) -> OperatorCall:
    """Return the call of an operator of `deuteron.operators.cortex_m`."""
    return OperatorCall(BY_OPERATOR[operator].symbol, inputs, outputs, words_of(params))


def words_of(params: KernelParams) -> tuple[int, ...]:
    """Return the words of a record, unsigned."""
    return tuple(word & 0xFFFFFFFF for word in params.words())


def refuse_arguments() -> RefusedError:
    """Return the error for arguments that no known version of the operator has."""
    return RefusedError("has arguments that this version of Deuteron does not know")


def need_type(dtype: str, *tensors: Tensor) -> None:
    """Raise RefusedError unless all tensors are of the type."""
    for tensor in tensors:
        if tensor.spec.dtype != dtype:
            raise RefusedError(f"has a {tensor.spec.dtype} tensor, firmware supports {dtype} only")


def pair(numbers: tuple[Tensor, ...] | Numbers) -> tuple[int, int]:
    """Return the numbers for height and width; one number applies to both."""
    match numbers:
        case [int(both)]:
            return both, both
        case [int(first), int(second)]:
            return first, second
        case _:
            raise refuse_arguments()
