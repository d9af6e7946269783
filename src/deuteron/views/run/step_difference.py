"""The first step whose result on a board differs from the host's: what is known, and its usual causes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np


class Finding(Enum):
    """Classification of a difference; the value describes it."""

    CONSTANT = "a constant that the step reads has other bytes on the board"
    INPUT = "an input of the step was right when it was written, and has changed since"
    STEP = "the inputs of the step are right, and its result is not"
    RESULT = "the result of the step is wrong; whether all its inputs are right is unknown"
    UNSTABLE = "a tensor was wrong, and changed between two reads while no step ran"
    SOMETIMES = "step by step all results are right; without a pause between steps a tensor is wrong in some runs"
    UNINTERRUPTED = "step by step all results are right; they differ in runs without a pause between steps"
    NOT_AGAIN = "step by step, and in another run, all results are right"
    HOST = "the results of all steps are those of the host's executor, whose outputs differ from the reference's"


_RACES = (
    "a DMA or the NPU has not ended when the next step starts: check the waits of the port",
    "a line of the data cache is not cleaned or invalidated in time: check `dtn_port_cache_clean` and "
    "`dtn_port_cache_invalidate`",
)
_CAUSES: Mapping[Finding, Sequence[str]] = {
    Finding.CONSTANT: (
        "the image is not completely loaded, or its flash or external memory is damaged",
        "the memory of the weights is read too fast: wait states, clock of the external flash",
    ),
    Finding.INPUT: (
        "a DMA or another master writes to this memory, or a DMA ended later than its wait said",
        "a line of the data cache was invalidated before it was cleaned, or not invalidated after a DMA",
        "the stack or another buffer overlaps the arena: see `deuteron firmware` for its map",
    ),
    Finding.UNSTABLE: (
        "a DMA or another master wrote to this memory after the step: its wait returns too early",
        "the memory is read too fast: wait states, clock, or supply",
    ),
    Finding.SOMETIMES: _RACES,
    Finding.UNINTERRUPTED: _RACES,
    Finding.NOT_AGAIN: (
        "an unstable clock or supply, an interrupt that changes registers, or a DMA with a race",
        "run more samples to see how often it happens",
    ),
    Finding.HOST: ("a defect of Deuteron: please report the build",),
}
_NPU_CAUSES = (
    "the data cache is not cleaned before the NPU reads, or not invalidated after it wrote",
    "weights were still being fetched: the port's wait for a fetch returns too early",
    "the clock or the configuration of the NPU, or another version of it",
)
_FLOAT_CAUSES = (
    "compiler options that change floating point: `-ffast-math`, contraction, flush-to-zero, another C library",
    "FPU flags of the core that differ between the library and the image",
)
_CPU_CAUSES = (
    "compiler options or core flags of the image, or a kernel that was replaced or changed",
    "an interrupt handler that does not save the FPU's or the vector registers",
)


@dataclass(frozen=True, slots=True)
class StepDifference:
    """The first difference of a sample.

    Attributes:
        sample: its number.
        finding: what is known.
        step: number of the step, -1 without one.
        title: description of the step.
        source: the model's line, empty if unknown.
        value: description of the tensor that differs.
        elements, of: number of elements that differ, and of all.
        index: of the first one that differs.
        board, host: its values; scalars of NumPy keep the precision of their type.
        written_by: number of the step that wrote the tensor, -1 for an input of the program, the state or a constant.
        fills_lines: whether all differing bytes are in whole data cache lines.
        is_npu: whether the step runs on an NPU.
        is_float: whether its tensors are floating point.
    """

    sample: int
    finding: Finding
    step: int = -1
    title: str = ""
    source: str = ""
    value: str = ""
    elements: int = 0
    of: int = 0
    index: tuple[int, ...] = ()
    board: "float | np.generic" = 0
    host: "float | np.generic" = 0
    written_by: int = -1
    fills_lines: bool = False
    is_npu: bool = False
    is_float: bool = False

    @property
    def causes(self) -> tuple[str, ...]:
        """Return the usual causes, the likeliest first."""
        if self.finding not in (Finding.STEP, Finding.RESULT):
            return tuple(_CAUSES[self.finding])
        kind = _NPU_CAUSES if self.is_npu else _FLOAT_CAUSES if self.is_float else _CPU_CAUSES
        cache = ("whole cache lines differ: one was not cleaned or not invalidated",) if self.fills_lines else ()
        return (*cache, *kind)

    def text(self) -> str:
        """Return the report."""
        return "\n".join(self._text())

    def _text(self) -> Iterator[str]:
        if self.step < 0:
            yield f"sample {self.sample}: {self.finding.value}"
        else:
            yield f"first difference of sample {self.sample}: step {self.step}, {self.title}"
            if self.source:
                yield f"  {self.source}"
            yield f"  {self.finding.value}"
            if self.finding in (Finding.UNSTABLE, Finding.SOMETIMES):
                yield f"  {self.value}"
            else:
                board, host = _shown(self.board, self.host)
                yield (
                    f"  {self.value}: {self.elements} of {self.of} elements differ, first at {list(self.index)}: "
                    f"{board} on the board, {host} on the host"
                )
            if self.finding is Finding.INPUT:
                yield "  it was written " + (
                    f"by step {self.written_by}" if self.written_by >= 0 else "by the host or an earlier run"
                )
        yield "  usual causes:"
        yield from (f"    {cause}" for cause in self.causes)

    def to_json(self) -> dict[str, object]:
        """Return the difference as plain values."""
        return {
            "sample": self.sample,
            "finding": self.finding.name.lower(),
            "step": self.step,
            "title": self.title,
            "source": self.source,
            "value": self.value,
            "elements": self.elements,
            "of": self.of,
            "index": list(self.index),
            "board": _json_number(self.board),
            "host": _json_number(self.host),
            "written_by": self.written_by,
            "causes": list(self.causes),
        }


def _shown(board: "float | np.generic", host: "float | np.generic") -> tuple[str, str]:
    """Return two values in the fewest digits that tell their type's values apart, with the bits if that is not enough.

    The bits of two NaN may differ, for example.
    """
    texts = str(board), str(host)
    if texts[0] != texts[1] or not isinstance(board, np.generic) or not isinstance(host, np.generic):
        return texts
    ours, theirs = (
        f"{text} (0x{value.tobytes()[::-1].hex()})" for text, value in zip(texts, (board, host), strict=True)
    )
    return ours, theirs


def _json_number(value: "float | np.generic") -> float | str:
    """Return a number of JSON; text for NaN and infinities, which JSON has not."""
    number: float = value.item() if isinstance(value, np.generic) else value
    return number if math.isfinite(number) else str(number)
