"""Our operators in PyTorch's registry, so that graphs can have them and PyTorch can run them."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor

from deuteron.frontend.cortex_m.added import layout
from deuteron.frontend.cortex_m.added.catalogue import DEFINITIONS
from deuteron.frontend.cortex_m.added.lowering_pattern import Definition
from deuteron.operators.added import ADDED, NAMESPACE
from deuteron.operators.cortex_m import CpuOperator


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

    def shaped(*args: object) -> Tensor:
        *tensors, shape, _ = args
        return _empty(definition, cast("Sequence[Tensor]", tensors), cast("Sequence[int]", shape))

    return shaped


def _compute(operator: CpuOperator, definition: Definition, *args: object) -> Tensor:
    *tensors, shape, words = args
    params = operator.params.from_words(tuple(cast("Sequence[int]", words)))
    arrays = [_flat(cast(Tensor, tensor)).numpy() for tensor in tensors]
    values: Any = torch.from_numpy(definition.compute(params, *arrays))  # pyright: ignore[reportUnknownMemberType]
    result = _empty(definition, cast("Sequence[Tensor]", tensors), cast("Sequence[int]", shape))
    result.as_strided((result.numel(),), (1,)).copy_(values.flatten())
    return result


def _flat(x: Tensor) -> Tensor:
    """The elements as they lie in memory."""
    return (x.permute(0, 2, 3, 1) if layout.is_last(x) else x).reshape(-1)


def _empty(definition: Definition, values: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """A tensor for the result: in channels-last memory where an operand of its shape is."""
    if definition.is_last is None:
        last = any(layout.is_last(x) and tuple(x.shape) == tuple(shape) for x in values)
    else:
        last = len(shape) == 4 and definition.is_last(values)
    order = torch.channels_last if last else torch.contiguous_format
    return torch.empty(tuple(shape), dtype=definition.dtype, memory_format=order)
