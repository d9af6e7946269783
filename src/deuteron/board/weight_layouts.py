"""Gives layers operators that read their weights in another layout: the constants and the steps of a bundle change."""

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Step, StepKind

WEIGHTS = 1
"""The index of the weights among the inputs of all these operators."""

Weights = npt.NDArray[np.int8]
Shape = TypeVar("Shape", bound=Hashable)


def with_layout(
    bundle: Bundle,
    functions: dict[str, str],
    shape_of: Callable[[str, Step], Shape | None],
    converted: Callable[[Shape, Weights], Weights | None],
) -> Bundle:
    """Return the bundle with other weights where all steps that read a constant can have them.

    Args:
        bundle: the bundle.
        functions: the operator with the other layout for each operator that may be replaced.
        shape_of: what the layout of a step's weights depends on; None if the step cannot have them.
        converted: the weights in the other layout; None if they stay as they are.
    """
    layers: defaultdict[int, dict[int, Shape]] = defaultdict(dict)
    users: defaultdict[int, set[int]] = defaultdict(set)
    names = [bundle.operators[step.index] if step.kind is StepKind.OPERATOR else "" for step in bundle.steps]
    for at, step in enumerate(bundle.steps):
        for index in (*step.inputs, *step.outputs):
            if (memory := bundle.values[index].memory) >= MEMORY_CONSTANT:
                users[memory].add(at)
        if names[at] in functions and _is_whole_constant(bundle, step.inputs[WEIGHTS]):
            shape = shape_of(names[at], step)
            if shape is not None:
                layers[bundle.values[step.inputs[WEIGHTS]].memory][at] = shape
    values, constants = list(bundle.values), list(bundle.constants)
    for memory, shapes in layers.items():
        own = [index for index, value in enumerate(values) if value.memory == memory]
        if shapes.keys() != users[memory] or len(set(shapes.values())) != 1 or len(own) != 1:
            continue  # another step, or another form of layer, reads the same constant
        weights = np.frombuffer(constants[memory - MEMORY_CONSTANT], np.int8)
        data = converted(next(iter(shapes.values())), weights)
        if data is None:
            continue
        constants[memory - MEMORY_CONSTANT] = data.tobytes()
        order = tuple(range(data.ndim))
        values[own[0]] = replace(
            values[own[0]], bytes=data.nbytes, type=ElementType.S8, shape=data.shape, dim_order=order
        )
        for at in shapes:
            names[at] = functions[names[at]]
    operators = tuple(dict.fromkeys(name for name in names if name))
    steps = tuple(
        replace(step, index=operators.index(name)) if name else step
        for step, name in zip(bundle.steps, names, strict=True)
    )
    return replace(bundle, values=tuple(values), constants=tuple(constants), steps=steps, operators=operators)


def _is_whole_constant(bundle: Bundle, index: int) -> bool:
    value = bundle.values[index]
    return (
        value.memory >= MEMORY_CONSTANT
        and value.offset == 0
        and value.bytes == len(bundle.constants[value.memory - MEMORY_CONSTANT])
    )
