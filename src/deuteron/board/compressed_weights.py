"""Compresses weights of a bundle without loss: a step writes them to SRAM before the layers that read them.

The results stay the same. `deuteron.operators.compressed_weights` makes the bytes that the step reads.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.row_dependencies import DECOMPRESS, Counted, CpuParams
from deuteron.operators import catalogue
from deuteron.operators.compressed_weights import compressed
from deuteron.operators.cortex_m import DecompressParams
from deuteron.operators.limits import round_up

MAX_RATIO, MIN_SAVED = 0.95, 128
"""The largest share of their bytes that compressed weights may have, and the bytes that they must save: the step and
its values take 72."""

_WEIGHTS = frozenset({"weights", "input_weights", "hidden_weights"})
"""The inputs of operators that are compressed. Other operators may read a constant before the first step runs, as the
initial state is, or a small part of it, as a gather does."""


@dataclass(frozen=True, slots=True)
class CompressedWeights:
    """A constant that a step decompresses.

    Attributes:
        constant: its index in the bundle.
        instruction: number of the program's instruction that reads it first.
        sizes: its bytes, before and after.
        record: parameters of the step.
        stream: the compressed bytes.
        instructions: estimated, of the step; 0 where they are not counted for the core.
    """

    constant: int
    instruction: int
    sizes: tuple[int, int]
    record: DecompressParams
    stream: bytes
    instructions: int

    @property
    def saved(self) -> int:
        """Return the bytes of flash that it saves."""
        return self.sizes[0] - self.sizes[1]

    def to_json(self) -> dict[str, object]:
        """Return what a report says of it, as plain values."""
        return {
            "instruction": self.instruction,
            "form": self.record.text,
            "bytes": self.sizes,
            "instructions": self.instructions,
        }


def candidates(bundle: Bundle, rates: Counted) -> list[CompressedWeights]:
    """Return the constants that get smaller, those first that save the largest share of their bytes."""
    found: list[CompressedWeights] = []
    for index, data in enumerate(bundle.constants):
        if len(data) > MIN_SAVED and (step := _first_reader(bundle, index)) is not None:
            record, stream = compressed(data)
            if len(stream) <= min(MAX_RATIO * len(data), len(data) - MIN_SAVED):
                sizes = (len(stream), len(data))
                work = rates.work(CpuParams(DECOMPRESS, record, sizes, 1))
                found.append(CompressedWeights(index, step.instruction, (len(data), len(stream)), record, stream, work))
    return sorted(found, key=lambda each: each.sizes[1] / each.sizes[0])


def enough(choices: Sequence[CompressedWeights], nbytes: int) -> list[CompressedWeights]:
    """Return the first choices that save so many bytes together, or all."""
    taken: list[CompressedWeights] = []
    for choice in choices:
        if nbytes <= 0:
            break
        taken.append(choice)
        nbytes -= choice.saved
    return taken


def applied(bundle: Bundle, choices: Sequence[CompressedWeights]) -> Bundle:
    """Return the bundle with these constants compressed; they and the tables are in an additional memory."""
    if not choices:
        return bundle
    own, used = len(bundle.memories) - 1, 0
    values = [replace(v, memory=v.memory + (own <= v.memory < MEMORY_CONSTANT)) for v in bundle.values]
    constants, steps = list(bundle.constants), list(bundle.steps)
    operators = bundle.operators if DECOMPRESS in bundle.operators else (*bundle.operators, DECOMPRESS)

    def placed(nbytes: int) -> int:
        nonlocal used
        offset, used = used, used + round_up(nbytes)
        return offset

    for choice in choices:
        constants[choice.constant] = choice.stream
        memory, whole = MEMORY_CONSTANT + choice.constant, placed(choice.sizes[0])
        readers = [index for index, value in enumerate(bundle.values) if value.memory == memory]
        for index in readers:
            values[index] = replace(values[index], memory=own, offset=whole)
        ((size, _),) = catalogue.scratch(catalogue.BY_SYMBOL[DECOMPRESS], choice.record)
        values += [
            _bytes(memory, 0, len(choice.stream), "compressed weights"),
            _bytes(own, placed(size), size, "scratch memory"),
        ]
        at = next(at for at, step in enumerate(steps) if not {*readers}.isdisjoint(step.inputs))
        steps.insert(
            at,
            replace(
                steps[at],
                kind=StepKind.OPERATOR,
                index=operators.index(DECOMPRESS),
                inputs=(len(values) - 2,),
                outputs=(len(values) - 1, readers[0]),
                params=choice.record.words(),
                title=f"{steps[at].title}, decompression of weights",
            ),
        )
    memories = (*bundle.memories[:own], Memory(used, "decompressed weights"), *bundle.memories[own:])
    return replace(
        bundle, values=tuple(values), constants=tuple(constants), steps=tuple(steps), operators=operators,
        memories=memories,
    )  # fmt: skip


def _bytes(memory: int, offset: int, nbytes: int, note: str) -> Value:
    return Value(memory, offset, nbytes, ElementType.U8, (nbytes,), (0,), note)


def _first_reader(bundle: Bundle, index: int) -> Step | None:
    """Return the first step that reads a constant; None unless steps alone read it, as weights, and as a whole."""
    own = {at for at, value in enumerate(bundle.values) if value.memory == MEMORY_CONSTANT + index}
    readers = [step for step in bundle.steps if not own.isdisjoint(step.inputs)]
    parts = [value for at in own if (value := bundle.values[at]).bytes != len(bundle.constants[index]) or value.offset]
    if not readers or parts or not own.isdisjoint((*bundle.inputs, *bundle.outputs)):
        return None
    return readers[0] if all(_reads_weights(bundle, step, own) for step in readers) else None


def _reads_weights(bundle: Bundle, step: Step, own: AbstractSet[int]) -> bool:
    """Return true for an operator that reads some of these values as its weights only."""
    operator = catalogue.BY_SYMBOL.get(bundle.operators[step.index]) if step.kind is StepKind.OPERATOR else None
    names = () if operator is None else (*operator.inputs, *operator.optional)
    return all(at < len(names) and names[at] in _WEIGHTS for at, value in enumerate(step.inputs) if value in own)
