"""Plans Neutron partitions again for other memory budgets, from TFLite files that are lowered once."""

from deuteron.arch.memory import MemoryOptions
from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.partitions import together
from deuteron.npu.neutron.program import program_in
from deuteron.npu.program import Replanned, Replanner, ReplanRequest


def replanner(request: ReplanRequest) -> Replanner:
    """Return the function that plans the partitions of a program for given memory options."""
    lowered = together(request.tflites, request.target, ConvertOptions(profiling=request.profiling))

    def replan(memory: MemoryOptions) -> tuple[Replanned, ...]:
        conversions = lowered.within_budget(memory, request.tensors, request.placed, is_alone=request.is_alone)
        return tuple(_replanned(number, conversion) for number, conversion in enumerate(conversions))

    return replan


def _replanned(number: int, conversion: Conversion) -> Replanned:
    if conversion.container is None:
        raise UnsupportedError(
            f"partition {number} computes nothing when it is converted again: all its operators are optimised away",
            hint="build the model again",
        )
    plan = conversion.plan
    return Replanned(
        program_in(conversion.container),
        conversion.provenance.kernels,
        conversion.dataflow,
        plan.scratch_bytes,
        plan.whole_scratch_bytes,
        plan.planned_cycles,
        plan.cycles_bound,
    )
