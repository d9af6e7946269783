"""A TFLite file of which the NPU takes a part, beside LiteRT: each partition, and the file from end to end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.npu.neutron.mixed import Mixed
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_mixed import MixedProgram
from deuteron.runtime.tflite_model import load_part
from deuteron.views.agreement import litert
from deuteron.views.agreement.counting import Array, BoundedComparison, Progress
from deuteron.views.agreement.litert import LitertComparison


@dataclass(slots=True)
class MixedOutput:
    """An output of the file: of `elements` values `mismatches` differ from LiteRT's, by up to `largest`.

    There is no bound: what one step of the NPU's becomes in operators that LiteRT runs, nobody knows.
    """

    name: str
    elements: int = 0
    mismatches: int = 0
    largest: float = 0.0


@dataclass(frozen=True, slots=True)
class MixedComparison(BoundedComparison):
    """The result; `passed` tells whether all bounds of the partitions hold."""

    partitions: tuple[LitertComparison, ...]
    outputs: tuple[MixedOutput, ...]

    def failures(self) -> tuple[str, ...]:
        """One sentence for each bound that is broken."""
        return tuple(
            f"npu {number}, {failure}"
            for number, partition in enumerate(self.partitions)
            for failure in partition.failures()
        )

    def text(self) -> str:
        """The result as lines for a terminal."""
        lines: list[str] = []
        for number, partition in enumerate(self.partitions):
            lines += [f"npu {number}", *(f"  {line}".rstrip() for line in partition.lines()), ""]
        lines += ["the file, LiteRT for all of it beside LiteRT for what the NPU leaves"]
        lines += [
            f"  output `{out.name}`: {out.mismatches:,} of {out.elements:,} differ"
            + (f", the largest by {out.largest:g}" if out.mismatches else "")
            for out in self.outputs
        ]
        return "\n".join([*lines, *self.verdict()])


def compare(
    source: bytes, mixed: Mixed, samples: Sequence[Sequence[Array]], progress: Progress | None = None
) -> MixedComparison:
    """The file on the driver and LiteRT beside LiteRT alone, on these inputs.

    Raises:
        MissingToolError: LiteRT is not installed.
        InputError: LiteRT does not take the file.
    """
    program, whole = MixedProgram(mixed.converted), Litert(source)
    outputs = [MixedOutput(program.model.tensors[i].name) for i in program.model.outputs]
    reads: list[list[list[Array]]] = [[] for _ in mixed.parts]
    for done, sample in enumerate(samples):
        values = program.values(sample)
        for (inputs, _), read in zip(program.partitions, reads, strict=True):
            read.append([values[i] for i in inputs])
        for result, index, theirs in zip(outputs, program.model.outputs, whole.run(sample), strict=True):
            apart = np.abs(values[index].astype(np.float64) - theirs.astype(np.float64))
            result.elements += apart.size
            result.mismatches += int(np.count_nonzero(apart))
            result.largest = max(result.largest, float(apart.max(initial=0)))
        if progress is not None:
            progress(done + 1, len(samples))
    partitions = (litert.compare(load_part(part), read) for part, read in zip(mixed.parts, reads, strict=True))
    return MixedComparison(tuple(partitions), tuple(outputs))
