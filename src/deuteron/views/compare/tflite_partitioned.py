"""Compares a partitioned TFLite file with LiteRT: each partition, and the file end to end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.tflite_partitioner import Mixed
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_model import load_part
from deuteron.runtime.tflite_partitioned import MixedProgram
from deuteron.tflite.flat_model import Buffer
from deuteron.views.compare import litert
from deuteron.views.compare.litert import LitertComparison
from deuteron.views.compare.result_counts import Array, BestScores, BoundedComparison, Progress


@dataclass(slots=True)
class MixedOutput:
    """An output of the file compared with LiteRT's.

    It has no bound: LiteRT's operators may amplify one step of the NPU by any factor.

    Attributes:
        name: name of the tensor.
        elements: values compared.
        mismatches: values that differ; NaN equals NaN.
        infinite: mismatches that are NaN or infinite on either side.
        largest: the largest difference of the others.
        best: best scores.
    """

    name: str
    elements: int = 0
    mismatches: int = 0
    infinite: int = 0
    largest: float = 0
    best: BestScores = field(default_factory=BestScores)

    def add(self, ours: Array, theirs: Array) -> None:
        """Count the values of one sample."""
        differs = (ours != theirs) & ~(_is_nan(ours) & _is_nan(theirs))
        pair = ours[differs], theirs[differs]
        is_finite = np.isfinite(pair[0]) & np.isfinite(pair[1])
        self.elements += ours.size
        self.best.add(ours, theirs)
        self.mismatches += is_finite.size
        self.infinite += is_finite.size - int(np.count_nonzero(is_finite))
        # As Python's integers, which have unlimited range.
        numbers = (side[is_finite].tolist() for side in pair)
        self.largest = max([self.largest, *(abs(x - y) for x, y in zip(*numbers, strict=True))])

    def text(self) -> str:
        """Return the result as a line."""
        apart = [f"the largest by {self.largest:g}"] if self.mismatches > self.infinite else []
        apart += [f"{self.infinite:,} where one is NaN or infinite"] if self.infinite else []
        counts = ", ".join([f"output `{self.name}`: {self.mismatches:,} of {self.elements:,} differ", *apart])
        return counts + (self.best.text if self.mismatches else "")


def _is_nan(values: Array) -> npt.NDArray[np.bool_]:
    return np.not_equal(values, values)


@dataclass(frozen=True, slots=True)
class MixedComparison(BoundedComparison):
    """Result of the comparison; `passed` is true if all bounds of the partitions hold."""

    partitions: tuple[LitertComparison, ...]
    outputs: tuple[MixedOutput, ...]

    def failures(self) -> tuple[str, ...]:
        """Return one sentence for each broken bound."""
        return tuple(
            f"npu {number}, {failure}"
            for number, partition in enumerate(self.partitions)
            for failure in partition.failures()
        )

    def text(self) -> str:
        """Return the result as lines for a terminal."""
        lines: list[str] = []
        for number, partition in enumerate(self.partitions):
            lines += [f"npu {number}", *(f"  {line}".rstrip() for line in partition.lines()), ""]
        lines += ["the file: LiteRT for all operators, against the NPU with LiteRT for the others"]
        lines += [f"  {out.text()}" for out in self.outputs]
        return "\n".join([*lines, *self.verdict()])


def compare(
    source: Buffer, mixed: Mixed, samples: Sequence[Sequence[Array]], progress: Progress | None = None
) -> MixedComparison:
    """Compare the file on the driver and LiteRT with LiteRT alone, for these inputs.

    Raises:
        MissingToolError: LiteRT is not installed.
        InputError: LiteRT rejects the file.
    """
    program, whole = MixedProgram(mixed.converted), Litert(source)
    outputs = [MixedOutput(program.model.tensors[i].name) for i in program.model.outputs]
    reads: list[list[list[Array]]] = [[] for _ in mixed.parts]
    for done, sample in enumerate(samples):
        values = program.values(sample)
        for (inputs, _), read in zip(program.partitions, reads, strict=True):
            read.append([values[i] for i in inputs])
        for result, index, theirs in zip(outputs, program.model.outputs, whole.run(sample), strict=True):
            result.add(values[index], theirs)
        if progress is not None:
            progress(done + 1, len(samples))
    partitions = (litert.compare(load_part(part), read) for part, read in zip(mixed.parts, reads, strict=True))
    return MixedComparison(tuple(partitions), tuple(outputs))
