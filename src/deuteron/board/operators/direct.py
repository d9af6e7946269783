"""Calls that name a C function of the firmware itself, as programs made from TFLite files have them."""

from collections.abc import Sequence

from deuteron.board.operators.lowering import Argument, OperatorCall, Tensor, refuse_arguments
from deuteron.operators.cortex_m import CpuOperator


def lower(operator: CpuOperator, args: Sequence[Argument]) -> OperatorCall:
    """Return the C call. Arguments: a list of inputs, the words of the record, a list of outputs twice."""
    least = len(operator.inputs)
    match args:
        case [tuple(inputs), tuple(words), tuple(outputs), _]:
            reads = tuple(x for x in inputs if isinstance(x, Tensor))
            writes = tuple(y for y in outputs if isinstance(y, Tensor))
            numbers = tuple(word & 0xFFFFFFFF for word in words if isinstance(word, int))
            is_whole = (len(reads), len(writes)) == (len(inputs), len(outputs))
            has_inputs = least <= len(reads) <= least + len(operator.optional)
            has_outputs = len(writes) > len(operator.scratch) + len(operator.state)
            if is_whole and has_inputs and has_outputs and len(numbers) == operator.params.word_count():
                return OperatorCall(operator.symbol, reads, writes, numbers)
        case _:
            pass
    raise refuse_arguments()
