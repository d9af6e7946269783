"""The partitions of a build in one SRAM: whether they fit as they were converted, and what does if they do not."""

from deuteron.arch.memory import IoInScratch
from deuteron.arch.targets import Arch
from deuteron.board.cpu_tensor_memory import CpuTensorMemory
from deuteron.builds.error_locations import with_lines
from deuteron.builds.options import BuildOptions, Converter
from deuteron.errors import CapacityError, DeuteronError
from deuteron.frontend.neutron.partition import describe
from deuteron.frontend.neutron.upstream import Recording
from deuteron.npu.neutron import partitions
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.tflite.neutron_graph import unwrap


def needs_sharing(recording: Recording, tensors: int, arch: Arch, options: BuildOptions) -> bool:
    """Whether partitions that each have what they want do not fit beside `tensors` bytes that ExecuTorch plans.

    Where inputs and outputs are to lie in scratch, partitions are planned for that. A vendor plans by itself.
    """
    if options.converter is not Converter.OPEN or arch.npu is None:
        return False
    programs = [decode(unwrap(partition.converted)[0]) for partition in recording.partitions]
    if options.memory.io_in_scratch is IoInScratch.ALWAYS:
        return True
    usages = [partitions.Usage(p.linked_bytes, p.header.scratch_bytes, p.header.prefetch_bytes) for p in programs]
    return not partitions.fits(usages, tensors, options.memory, arch)


def shared(
    recording: Recording, program: bytes, tensors: int, arch: Arch, options: BuildOptions
) -> tuple[Conversion, ...]:
    """Conversions of the partitions, in their order, that fit together.

    They are beside the tensors as ExecuTorch plans them; where that does not do, as the bundle of firmware has them.

    Args:
        recording: of the session.
        program: ExecuTorch's, whose partitions have what each wants.
        tensors: bytes that ExecuTorch plans.
        arch: the target.
        options: of the build.

    Raises:
        CapacityError: there are none; lines of the model are named.
    """

    def placed(number: int, error: CapacityError) -> DeuteronError:
        return with_lines(error, describe(recording.partitions[number]).source_of)

    asked = ConvertOptions(profiling=options.use_profiling, memory=options.memory, verify_each=options.verify_each)
    tflites = [partition.tflite for partition in recording.partitions]
    between = CpuTensorMemory(program, arch, tensors)
    return partitions.convert_together(tflites, arch.name, asked, between.sizes, placed, is_alone=between.is_alone)
