"""The values of a program, as a record of its own that outlives it."""

from collections.abc import Mapping

from deuteron.npu.dataflow import Constant, Dataflow, Use
from deuteron.npu.neutron.kernels.program import Program


def dataflow(program: Program, weights: Mapping[str, int]) -> Dataflow:
    """The values of `program`, whose constants lie at these offsets of the weights block."""
    return Dataflow(
        program.inputs,
        program.outputs,
        tuple(Constant(b.name, weights[b.name], b.nbytes) for b in program.buffers if b.name in weights),
        tuple(tuple(str(Use(ref.buffer, ref.offset)) for ref in call.operands) for call in program.calls),
    )
