"""Keeps integer arithmetic exact: ExecuTorch's Arm passes convert int64 to int32 and divide in int8.

Integer divisions stay on the CPU. Indices stay int64 for operators that require it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import called
from deuteron.frontend.upstream import names
from deuteron.frontend.upstream.access import replaced, value_of

aten = torch.ops.aten

KEPT = "integers are divided on the CPU: the NPU has no exact division"

_NEW = frozenset({"full", "full_like", "scalar_tensor", "arange"})

_DIVISIONS = frozenset({"div", "floor_divide", "remainder", "fmod"})

_INDICES: dict[Any, tuple[int, ...]] = {
    aten.take.default: (1,),
    aten.take_along_dim.default: (1,),
    aten.put.default: (1,),
    aten.gather.default: (2,),
    aten.scatter.src: (2,),
    aten.scatter.value: (2,),
    aten.scatter.reduce: (2,),
    aten.scatter.value_reduce: (2,),
    aten.scatter_add.default: (2,),
    aten.scatter_reduce.two: (2,),
    aten.index_fill.int_Scalar: (2,),
    aten.index_fill.int_Tensor: (2,),
    aten.index_copy.default: (2,),
}
"""Operators that require int64 indices, with the positions of these arguments."""


def is_division(node: fx.Node) -> bool:
    """True for an integer division with an integer result."""
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return called(node) in _DIVISIONS and all(
        isinstance(value, Tensor) and not value.is_floating_point() for value in values
    )


def stays_on_cpu(node: fx.Node) -> bool:
    """True for an integer division, and for new tensors of integers, which Arm's passes make of numbers."""
    value: object = node.meta.get("val")
    is_new = called(node) in _NEW and isinstance(value, Tensor) and not value.is_floating_point()
    return is_new or is_division(node)


@contextmanager
def exact() -> Generator[None]:
    """Annotate no integer divisions, and cast indices back to int64, in this context."""
    positions: dict[Any, tuple[int, ...]] = value_of(names.ARM_INT64)

    def marking(original: Any) -> object:
        def mark(node: fx.Node, inputs: Any, output: Any, is_quantized: bool) -> None:
            if is_division(node):
                inputs, output, is_quantized = {}, None, False
            original(node, inputs, output, is_quantized)

        return mark

    added = {target: places for target, places in _INDICES.items() if target not in positions}
    positions.update(added)
    try:
        with replaced(names.ARM_MARK, marking):
            yield
    finally:
        for target in added:
            del positions[target]
