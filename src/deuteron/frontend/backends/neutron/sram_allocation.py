"""Allocates one SRAM to all partitions of a build."""

from deuteron.arch.memory import IoInScratch
from deuteron.arch.targets import Arch
from deuteron.board.cpu_tensor_memory import CpuTensorMemory
from deuteron.builds.error_locations import with_lines
from deuteron.builds.options import BuildOptions, Converter
from deuteron.errors import CapacityError, DeuteronError
from deuteron.frontend.backends.neutron.partition import describe
from deuteron.frontend.backends.neutron.upstream import Recording
from deuteron.npu.neutron import partitions
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.tflite.neutron_graph import unwrap


def needs_joint_plan(recording: Recording, tensors: int, arch: Arch, options: BuildOptions) -> bool:
    """Return True if separately planned partitions do not fit next to `tensors` bytes of ExecuTorch's memory plan.

    Inputs and outputs in scratch always need a joint plan. A vendor's converter plans on its own.
    """
    if options.converter is not Converter.OPEN:
        return False
    programs = [decode(unwrap(partition.converted)[0]) for partition in recording.partitions]
    if options.memory.io_in_scratch is IoInScratch.ALWAYS:
        return True
    usages = [partitions.Usage(p.linked_bytes, p.header.scratch_bytes, p.header.prefetch_bytes) for p in programs]
    return not partitions.fits(usages, tensors, options.memory, arch)


def plan_jointly(
    recording: Recording, program: bytes, tensors: int, arch: Arch, options: BuildOptions
) -> tuple[Conversion, ...]:
    """Convert the partitions so that they fit together, and return the conversions in order.

    ExecuTorch's memory plan of the tensors comes first. If that does not fit, the bundle's memory plan is used.

    Args:
        recording: of the session.
        program: ExecuTorch's program with independently planned partitions.
        tensors: bytes of ExecuTorch's memory plan.
        arch: the target.
        options: of the build.

    Raises:
        CapacityError: the partitions do not fit; the error names lines of the model.
    """

    def placed(number: int, error: CapacityError) -> DeuteronError:
        return with_lines(error, describe(recording.partitions[number]).source_of)

    convert_options = ConvertOptions(
        profiling=options.use_profiling, memory=options.memory, verify_each=options.verify_each
    )
    tflites = [partition.tflite for partition in recording.partitions]
    between = CpuTensorMemory(program, arch, tensors)
    return partitions.convert_together(
        tflites, arch.name, convert_options, between.sizes, placed, is_alone=between.is_alone
    )
