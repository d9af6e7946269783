"""Neutron partitions in another memory budget: compiled again from their TFLite files."""

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.partitions import convert_together
from deuteron.npu.neutron.program import program_in
from deuteron.npu.program import Replanned, ReplanRequest


def replanned(request: ReplanRequest) -> tuple[Replanned, ...]:
    """The partitions of a program in the memory that is asked for.

    Raises:
        CapacityError: they do not fit.
        UnsupportedError: nothing is left of one, as its build's compiler saw more in it than this one.
    """
    options = ConvertOptions(profiling=request.profiling, memory=request.memory)
    conversions = convert_together(request.tflites, request.target, options, request.tensors, request.placed)
    return tuple(_replanned(number, conversion) for number, conversion in enumerate(conversions))


def _replanned(number: int, conversion: Conversion) -> Replanned:
    if conversion.container is None:
        raise UnsupportedError(
            f"partition {number} computes nothing when it is converted again: all its operators are optimised away",
            hint="build the model again",
        )
    return Replanned(program_in(conversion.container), conversion.provenance.kernels, conversion.dataflow)
