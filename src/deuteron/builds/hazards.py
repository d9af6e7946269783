"""Describes hazards of a partition's program by operators and source lines of the model."""

from collections.abc import Iterator, Sequence

from deuteron.builds.manifest import Partition
from deuteron.npu.program import NpuProgram
from deuteron.npu.timeline import Hazard


def describe(program: NpuProgram, entry: Partition, hazard: Hazard) -> str:
    """Describe a hazard with the operators of its call, or of the next, and their line of the model."""
    origin = entry.origin(program.calls_before[hazard.command])
    return f"{hazard} ({origin})" if origin else str(hazard)


def warnings(number: int, program: NpuProgram, entry: Partition, hazards: Sequence[Hazard] | None) -> Iterator[str]:
    """Yield the first hazard of partition `number`, the number of others, and advice; nothing if there is none."""
    if hazards:
        more = f", and {len(hazards) - 1} more, which `deuteron sim` lists" if len(hazards) > 1 else ""
        yield f"the commands of npu {number} are wrong: {describe(program, entry, hazards[0])}{more}; {program.advice}"
