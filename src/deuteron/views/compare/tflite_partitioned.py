"""A TFLite file of which the NPU takes a part, beside LiteRT: each partition, and the file from end to end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.tflite_partitioner import Mixed
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_model import load_part
from deuteron.runtime.tflite_partitioned import MixedProgram
from deuteron.tflite.flat_model import Buffer
from deuteron.views.compare import litert
from deuteron.views.compare.litert import LitertComparison
from deuteron.views.compare.result_counts import Array, BoundedComparison, Progress


@dataclass(slots=True)
class MixedOutput:
    """An output of the file beside LiteRT's.

    There is no bound: what one step of the NPU's becomes in operators that LiteRT runs, nobody knows.

    Attributes:
        name: of the tensor.
        elements: values that were compared.
        mismatches: how many of them differ; NaN is what NaN is.
        infinite: how many of these are NaN or infinite on either side.
        largest: by how much the others differ at most.
    """

    name: str
    elements: int = 0
    mismatches: int = 0
    infinite: int = 0
    largest: float = 0

    def add(self, ours: Array, theirs: Array) -> None:
        """Count the values of one sample."""
        differs = (ours != theirs) & ~(_is_nan(ours) & _is_nan(theirs))
        pair = ours[differs], theirs[differs]
        is_finite = np.isfinite(pair[0]) & np.isfinite(pair[1])
        self.elements += ours.size
        self.mismatches += is_finite.size
        self.infinite += is_finite.size - int(np.count_nonzero(is_finite))
        # As Python's numbers, of which whole ones have any number of bits.
        numbers = (side[is_finite].tolist() for side in pair)
        self.largest = max([self.largest, *(abs(x - y) for x, y in zip(*numbers, strict=True))])

    def text(self) -> str:
        """The result as a line."""
        apart = [f"the largest by {self.largest:g}"] if self.mismatches > self.infinite else []
        apart += [f"{self.infinite:,} where one is NaN or infinite"] if self.infinite else []
        return ", ".join([f"output `{self.name}`: {self.mismatches:,} of {self.elements:,} differ", *apart])


def _is_nan(values: Array) -> npt.NDArray[np.bool_]:
    return np.not_equal(values, values)


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
        lines += [f"  {out.text()}" for out in self.outputs]
        return "\n".join([*lines, *self.verdict()])


def compare(
    source: Buffer, mixed: Mixed, samples: Sequence[Sequence[Array]], progress: Progress | None = None
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
            result.add(values[index], theirs)
        if progress is not None:
            progress(done + 1, len(samples))
    partitions = (litert.compare(load_part(part), read) for part, read in zip(mixed.parts, reads, strict=True))
    return MixedComparison(tuple(partitions), tuple(outputs))
