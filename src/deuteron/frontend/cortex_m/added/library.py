"""Our operators in PyTorch's registry, so that graphs can have them and PyTorch can run them."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor

from deuteron.board.operators.added import ADDED, NAMESPACE
from deuteron.board.operators.table import CpuOperator
from deuteron.frontend.cortex_m.added.families import DEFINITIONS
from deuteron.frontend.cortex_m.added.form import Definition


@cache
def load() -> Any:
    """The library, which lives as long as Python does: our operators are in `torch.ops.deuteron` from now on."""
    registry: Any = torch.library
    library = registry.Library(NAMESPACE, "DEF")
    for operator in ADDED:
        definition = DEFINITIONS[operator.name]
        tensors = ", ".join(f"Tensor {name}" for name in operator.inputs)
        arguments = f"{tensors}, int[] shape, int[] words"
        library.define(f"{operator.name}({arguments}) -> Tensor")
        library.define(f"{operator.name}.out({arguments}, *, Tensor(a!) out) -> Tensor(a!)")
        library.impl(operator.name, partial(_compute, operator, definition), "CompositeExplicitAutograd")
        registry.register_fake(f"{NAMESPACE}::{operator.name}", _shaped(definition), lib=library)
    return library


def _shaped(definition: Definition) -> Callable[..., Tensor]:
    """A function that gives a tensor like the result, of which only the shape is known."""

    def shaped(x: Tensor, *others: object) -> Tensor:
        return _empty(definition, x, cast("Sequence[int]", others[-2]))

    return shaped


def _compute(operator: CpuOperator, definition: Definition, *args: object) -> Tensor:
    *tensors, shape, words = args
    params = operator.params.from_words(tuple(cast("Sequence[int]", words)))
    result = _empty(definition, cast(Tensor, tensors[0]), cast("Sequence[int]", shape))
    return result.copy_(definition.compute(params, *tensors).reshape(result.shape))


def _empty(definition: Definition, x: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor for the result; of the shape of the operand, it has its order of memory."""
    if tuple(x.shape) == tuple(shape):
        return torch.empty_like(x, dtype=definition.dtype)
    return torch.empty(shape, dtype=definition.dtype)
