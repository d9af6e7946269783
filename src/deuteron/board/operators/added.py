"""The operators that Deuteron adds to ExecuTorch's Cortex-M backend, and their calls in bundles.

All have one form, in the namespace `deuteron` of PyTorch's registry: tensors, the shape of the result, and the words of
a parameter record. So this table alone says what their C functions, the header, the registration with ExecuTorch's
runtime and the calls in bundles have in common; `deuteron.frontend.cortex_m.added` says what becomes such a call.
CONTRIBUTING.md says how to add one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from deuteron.board.operators.call import Argument, OperatorCall, Tensor, refuse_arguments
from deuteron.board.operators.table import CpuOperator
from deuteron.npu.neutron.kernels.params import (
    KernelParams,
    ReduceExtremumParams,
    ReduceSumParams,
    ResizeBilinearParams,
)

NAMESPACE = "deuteron"
"""That of the operators, in PyTorch's registry and in programs."""


@dataclass(frozen=True, slots=True)
class MaskedSoftmaxParams(KernelParams):
    """As SoftmaxParams, over the elements whose mask is not 0; the others get the zero point.

    Row r has row r % mask_rows of the mask. The table is that of the NPU's softmax.
    """

    rows: int
    depth: int
    mask_rows: int
    mult: int
    shift: int
    out_zp: int


ADDED: tuple[CpuOperator, ...] = (
    CpuOperator("reduce_sum", ("input",), ReduceSumParams),
    CpuOperator("reduce_extremum", ("input",), ReduceExtremumParams),
    CpuOperator("resize_bilinear", ("input",), ResizeBilinearParams),
    CpuOperator("masked_softmax", ("input", "table", "mask"), MaskedSoftmaxParams),
)

BY_NAME = MappingProxyType({f"{NAMESPACE}::{operator.name}.out": operator for operator in ADDED})
"""The operators by their names in programs."""


def lower(operator: CpuOperator, args: Sequence[Argument]) -> OperatorCall:
    """The C call. Arguments: the inputs, the shape of the output, the words of its record, output twice."""
    count = len(operator.inputs)
    inputs = tuple(arg for arg in args[:count] if isinstance(arg, Tensor))
    match args[count:]:
        case [tuple(), tuple(words), Tensor() as y, _] if len(inputs) == count:
            numbers = tuple(word & 0xFFFFFFFF for word in words if isinstance(word, int))
            if len(numbers) == operator.params.word_count():
                return OperatorCall(operator.symbol, inputs, (y,), numbers)
        case _:
            pass
    raise refuse_arguments()
