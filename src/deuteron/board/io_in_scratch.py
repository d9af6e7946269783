"""Places a program's inputs and outputs in the working memory of its partition, where the partition has places."""

from collections.abc import Iterator
from dataclasses import replace

from deuteron.board.bundle import ALIGNMENT, CONTEXT_BYTES, MEMORY_CONSTANT, Bundle, StepKind


def is_alone(bundle: Bundle) -> bool:
    """Return true if a bundle is a single partition with the program's inputs and outputs."""
    if len(bundle.steps) != 1 or bundle.steps[0].kind is not StepKind.DELEGATE:
        return False
    step = bundle.steps[0]
    own = (*step.inputs, *step.outputs)
    once = len(set(own)) == len(own) == len(bundle.values)
    return once and not any(value.memory >= MEMORY_CONSTANT for value in bundle.values)


def placed(bundle: Bundle) -> Bundle:
    """Return the bundle with inputs and outputs at the partition's places, if it is a single partition that has any.

    Inputs and outputs without a place keep their memory.
    """
    offsets = dict(_places(bundle)) if is_alone(bundle) else {}
    if not offsets:
        return bundle
    stay = [value for index, value in enumerate(bundle.values) if index not in offsets]
    ends = [max((v.offset + v.bytes for v in stay if v.memory == at), default=0) for at in range(len(bundle.memories))]
    kept = [at for at, end in enumerate(ends[:-1]) if end]
    memories = [replace(bundle.memories[at], bytes=ends[at] + -ends[at] % ALIGNMENT) for at in kept]
    values = (
        replace(value, memory=len(kept), offset=offsets[index])
        if index in offsets
        else replace(value, memory=kept.index(value.memory))
        for index, value in enumerate(bundle.values)
    )
    return replace(bundle, values=tuple(values), memories=(*memories, bundle.memories[-1]))


def _places(bundle: Bundle) -> Iterator[tuple[int, int]]:
    """Yield the values with places, and their offsets in the working memory."""
    step = bundle.steps[0]
    places = bundle.delegates[step.index].partition.places
    for index, place in zip((*step.inputs, *step.outputs), places, strict=False):
        if place is not None:
            yield index, CONTEXT_BYTES * len(bundle.delegates) + place
