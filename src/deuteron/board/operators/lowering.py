"""What the lowerings of CPU operators share: the arguments they get, the calls they give, and why they refuse."""

from dataclasses import dataclass

from deuteron.npu.neutron.kernels.params import KernelParams
from deuteron.operators.cortex_m import BY_OPERATOR
from deuteron.runtime.program import Numbers, TensorSpec, TensorValue


class RefusedError(Exception):
    """Why a call cannot run in firmware: the second half of a sentence that starts with the operator."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor among the arguments: its index among the program's values, and the value.

    Constants and scratch memory that a lowering adds are no values of the program: their index is None.
    """

    index: int | None
    value: TensorValue

    @property
    def spec(self) -> TensorSpec:
        """Shape, type and order."""
        return self.value.spec

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.value.bytes


Argument = Tensor | tuple[Tensor, ...] | Numbers | str | bool | int | float | None
"""An argument of an operator; a list that leaves tensors out is None."""


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
    """The call of an operator of `deuteron.operators.cortex_m`."""
    return OperatorCall(BY_OPERATOR[operator].symbol, inputs, outputs, words_of(params))


def words_of(params: KernelParams) -> tuple[int, ...]:
    """The words of a record, unsigned."""
    return tuple(word & 0xFFFFFFFF for word in params.words())


def refuse_arguments() -> RefusedError:
    """For arguments that no known version of the operator has."""
    return RefusedError("has arguments that this version of Deuteron does not know")


def need_type(dtype: str, *tensors: Tensor) -> None:
    """Raise RefusedError unless all tensors are of the type."""
    for tensor in tensors:
        if tensor.spec.dtype != dtype:
            raise RefusedError(f"has a {tensor.spec.dtype} tensor where firmware takes {dtype} only")


def pair(numbers: tuple[Tensor, ...] | Numbers) -> tuple[int, int]:
    """The numbers for height and width, of which there may be one for both."""
    match numbers:
        case [int(both)]:
            return both, both
        case [int(first), int(second)]:
            return first, second
        case _:
            raise refuse_arguments()
