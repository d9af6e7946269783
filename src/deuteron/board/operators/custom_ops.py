"""Lowers the operators that Deuteron adds to ExecuTorch's Cortex-M backend."""

from collections.abc import Sequence

from deuteron.board.operators.lowering import Argument, OperatorCall, Tensor, refuse_arguments
from deuteron.operators.cortex_m import CpuOperator


def lower(operator: CpuOperator, args: Sequence[Argument]) -> OperatorCall:
    """Return the C call.

    Arguments: the inputs, the shape of the output, the words of its record, the written values, and these again.
    """
    count = len(operator.inputs)
    inputs = tuple(arg for arg in args[:count] if isinstance(arg, Tensor))
    match args[count:]:
        case [tuple(), tuple(words), *written, _] if len(inputs) == count:
            numbers = tuple(word & 0xFFFFFFFF for word in words if isinstance(word, int))
            outputs = tuple(arg for arg in written if isinstance(arg, Tensor))
            is_whole = len(outputs) == len(written) == len(operator.scratch) + 1
            if is_whole and len(numbers) == operator.params.word_count():
                return OperatorCall(operator.symbol, inputs, outputs, numbers)
        case _:
            pass
    raise refuse_arguments()
