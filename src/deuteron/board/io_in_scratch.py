"""Inputs and outputs of a program in the working memory of its partition, where that has places for them."""

from collections.abc import Iterator
from dataclasses import replace

from deuteron.board.bundle import ALIGNMENT, CONTEXT_BYTES, MEMORY_CONSTANT, Bundle, StepKind


def is_alone(bundle: Bundle) -> bool:
    """Whether all that a bundle does is one partition, whose inputs and outputs are the program's."""
    if len(bundle.steps) != 1 or bundle.steps[0].kind is not StepKind.DELEGATE:
        return False
    step = bundle.steps[0]
    own = (*step.inputs, *step.outputs)
    once = len(set(own)) == len(own) == len(bundle.values)
    return once and not any(value.memory >= MEMORY_CONSTANT for value in bundle.values)


def placed(bundle: Bundle) -> Bundle:
    """The bundle with inputs and outputs in their places, if all that it does is one partition that has any.

    What has none stays where it was.
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
    """The values that have places, and where in the working memory these are."""
    step = bundle.steps[0]
    places = bundle.delegates[step.index].partition.places
    for index, place in zip((*step.inputs, *step.outputs), places, strict=False):
        if place is not None:
            yield index, CONTEXT_BYTES * len(bundle.delegates) + place
