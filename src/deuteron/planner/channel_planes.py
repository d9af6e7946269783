"""Splits copies that interleave the channel planes of an input into one call per plane.

A single call reads all planes in every stripe of rows. With a call per plane, rows of an input in scratch are dead as
soon as they were read.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from deuteron.operators.kernel_params import CopyParams, Dims6
from deuteron.operators.program import KernelCall, Program, Ref
from deuteron.operators.rules import operand_bytes

MAX_PLANES = 4
"""Largest number of planes: color channels and alpha. The CPU dispatches a call for each."""


def by_planes(program: Program) -> Program:
    """Return the program with one call per plane for copies that read planes of an input in scratch."""
    inputs = program.placed & set(program.inputs)
    return replace(program, calls=tuple(piece for call in program.calls for piece in _pieces(call, inputs)))


def _pieces(call: KernelCall, inputs: frozenset[str]) -> Iterator[KernelCall]:
    """Split a call into one per plane that it reads, or yield it unchanged."""
    params = call.params
    if not isinstance(params, CopyParams) or call.operands[0].buffer not in inputs:
        yield call
        return
    plane = max(range(len(params.dims)), key=lambda at: (params.dims[at] > 1) * params.in_strides[at])
    row = max(range(len(params.dims)), key=lambda at: (params.dims[at] > 1) * params.out_strides[at])
    if plane == row or params.dims[plane] > MAX_PLANES or min(params.in_strides) < 0:
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
