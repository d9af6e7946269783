"""Copies that take the channels of an input from planes apart, one call for each plane.

As one call they read from the first plane to the last in every stripe of rows; plane by plane, rows that were read are
free for something else, where the input lies in scratch.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from deuteron.npu.neutron.kernels.params import CopyParams, Dims6
from deuteron.npu.neutron.kernels.program import KernelCall, Program, Ref
from deuteron.npu.neutron.kernels.rules import operand_bytes

MOST_PLANES = 4
"""Calls instead of one: colours, and what lies beside them. Each is dispatched by the CPU."""


def by_planes(program: Program) -> Program:
    """The program with a call for each plane where a copy reads some from an input that lies in scratch."""
    inputs = program.placed & set(program.inputs)
    return replace(program, calls=tuple(piece for call in program.calls for piece in _pieces(call, inputs)))


def _pieces(call: KernelCall, inputs: frozenset[str]) -> Iterator[KernelCall]:
    """A call as one for each plane that it reads, or as it is."""
    params = call.params
    if not isinstance(params, CopyParams) or call.operands[0].buffer not in inputs:
        yield call
        return
    plane = max(range(len(params.dims)), key=lambda at: (params.dims[at] > 1) * params.in_strides[at])
    row = max(range(len(params.dims)), key=lambda at: (params.dims[at] > 1) * params.out_strides[at])
    if plane == row or params.dims[plane] > MOST_PLANES or min(params.in_strides) < 0:
        yield call
        return
    dims = cast("Dims6", (*params.dims[:plane], 1, *params.dims[plane + 1 :]))
    for number in range(params.dims[plane]):
        own = replace(params, dims=dims, in_start=0)
        sizes = operand_bytes(own)
        starts = params.in_start + number * params.in_strides[plane], number * params.out_strides[plane]
        operands = (
            Ref(ref.buffer, ref.offset + start, nbytes)
            for ref, start, nbytes in zip(call.operands, starts, sizes, strict=True)
        )
        yield replace(call, operands=tuple(operands), params=own)
