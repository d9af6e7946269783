"""The dataflow record of a program."""

from collections.abc import Mapping

from deuteron.npu.dataflow import Constant, Dataflow, Use, ValuePart
from deuteron.operators.program import Program


def dataflow(program: Program, weights: Mapping[str, int]) -> Dataflow:
    """Return the dataflow of `program`, whose constants are at these offsets of the weights block.

    Constants at the same offset are one value.
    """
    constants: dict[int, Constant] = {}
    parts = [ValuePart(b.name, b.part_of.buffer, b.part_of.offset) for b in program.buffers if b.part_of is not None]
    for buffer in program.buffers:
        if buffer.name in weights:
            constant = Constant(buffer.name, weights[buffer.name], buffer.nbytes)
            first = constants.setdefault(constant.offset, constant)
            if first is not constant:
                parts.append(ValuePart(buffer.name, first.name, 0))
    return Dataflow(
        program.inputs,
        program.outputs,
        tuple(constants.values()),
        tuple(tuple(str(Use(ref.buffer, ref.offset)) for ref in call.operands) for call in program.calls),
        tuple(parts),
    )
