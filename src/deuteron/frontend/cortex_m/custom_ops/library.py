"""Registers our operators with PyTorch, so that graphs can contain them and PyTorch can run them."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, cast

import torch
from torch import Tensor

from deuteron.frontend.cortex_m.custom_ops import layout
from deuteron.frontend.cortex_m.custom_ops.catalogue import DEFINITIONS
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Array, Definition
from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.custom_ops import ADDED, NAMESPACE
from deuteron.operators.kernel_params import KernelParams


@cache
def load() -> Any:
    """Register the operators as `torch.ops.deuteron`; the library exists until Python ends."""
    registry: Any = torch.library
    library = registry.Library(NAMESPACE, "DEF")
    for operator in ADDED:
        definition = DEFINITIONS[operator.name]
        tensors = ", ".join(f"Tensor {name}" for name in operator.inputs)
        arguments = f"{tensors}, int[] shape, int[] words"
        names = [*operator.scratch, "out"]
        marked = [f"Tensor({chr(ord('a') + i)}!)" for i in range(len(names))]
        written = ", ".join(f"{mark} {name}" for mark, name in zip(marked, names, strict=True))
        library.define(f"{operator.name}({arguments}) -> {_results(['Tensor'] * len(names))}")
        library.define(f"{operator.name}.out({arguments}, *, {written}) -> {_results(marked)}")
        library.impl(operator.name, partial(_compute, operator, definition), "CompositeExplicitAutograd")
        registry.register_fake(f"{NAMESPACE}::{operator.name}", partial(_shaped, operator, definition), lib=library)
    return library


def _results(types: Sequence[str]) -> str:
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def _shaped(operator: CpuOperator, definition: Definition, *args: object) -> Any:
    """The results of an operator's meta function, which have only shapes."""
    *tensors, shape, words = args
    values = [
        torch.empty(tuple(size), dtype=dtype)
        for size, dtype in (definition.scratch(_record(operator, words)) if definition.scratch else ())
    ]
    output = _empty(definition, cast("Sequence[Tensor]", tensors), cast("Sequence[int]", shape))
    return (*values, output) if values else output


def _record(operator: CpuOperator, words: object) -> KernelParams:
    return operator.params.from_words(tuple(cast("Sequence[int]", words)))


def _compute(operator: CpuOperator, definition: Definition, *args: object) -> Any:
    *tensors, _, words = args
    arrays = [_flat(cast(Tensor, tensor)).numpy() for tensor in tensors]
    computed = definition.compute(_record(operator, words), *arrays)
    results = _shaped(operator, definition, *args)
    if not isinstance(computed, tuple):
        return _filled(results, computed)
    return tuple(_filled(result, values) for result, values in zip(results, computed, strict=True))


def _filled(result: Tensor, values: Array) -> Tensor:
    """A result with the values, which are in the order of memory."""
    given: Any = torch.from_numpy(values)  # pyright: ignore[reportUnknownMemberType]
    result.as_strided((result.numel(),), (1,)).copy_(given.flatten())
    return result


def _flat(x: Tensor) -> Tensor:
    """The elements in the order of memory."""
    return (x.permute(0, 2, 3, 1) if layout.is_last(x) else x).reshape(-1)


def _empty(definition: Definition, values: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """An empty result, in channels-last memory if an operand of its shape is."""
    if definition.is_last is None:
        last = any(layout.is_last(x) and tuple(x.shape) == tuple(shape) for x in values)
    else:
        last = len(shape) == 4 and definition.is_last(values)
    order = torch.channels_last if last else torch.contiguous_format
    return torch.empty(tuple(shape), dtype=definition.dtype, memory_format=order)
