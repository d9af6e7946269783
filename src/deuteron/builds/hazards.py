"""What is wrong with the program of a partition, in the words of the model that it was built from."""

from collections.abc import Iterator, Sequence

from deuteron.builds.manifest import Partition
from deuteron.npu.program import NpuProgram
from deuteron.npu.timeline import Hazard


def told(program: NpuProgram, entry: Partition, hazard: Hazard) -> str:
    """A hazard with the operators of its call, or of the next, and their line of the model."""
    origin = entry.origin(program.calls_before[hazard.command])
    return f"{hazard} ({origin})" if origin else str(hazard)


def warnings(number: int, program: NpuProgram, entry: Partition, hazards: Sequence[Hazard] | None) -> Iterator[str]:
    """The first hazard of partition `number`, how many there are besides, and what to do; nothing where none is."""
    if hazards:
        more = f", and {len(hazards) - 1} more, which `deuteron sim` lists" if len(hazards) > 1 else ""
        yield f"the commands of npu {number} are unsound: {told(program, entry, hazards[0])}{more}; {program.advice}"
