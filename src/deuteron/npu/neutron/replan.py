"""Neutron partitions in another memory budget: compiled again from their TFLite files."""

from deuteron.npu.neutron.convert import ConvertOptions
from deuteron.npu.neutron.partitions import convert_together
from deuteron.npu.neutron.program import program_in
from deuteron.npu.program import Replanned, ReplanRequest


def replanned(request: ReplanRequest) -> tuple[Replanned, ...]:
    """The partitions of a program in the memory that is asked for; CapacityError when they do not fit."""
    options = ConvertOptions(profiling=request.profiling, memory=request.memory)
    conversions = convert_together(request.tflites, request.target, options, request.tensors, request.placed)
    return tuple(
        Replanned(program_in(conversion.container), conversion.provenance.kernels, conversion.dataflow)
        for conversion in conversions
        if conversion.container is not None
    )
