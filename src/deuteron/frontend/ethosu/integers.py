"""Keeps integer arithmetic exact beside an Ethos-U: ExecuTorch's Arm passes make int64 int32, and divide in int8.

Divisions of integers stay on the CPU, which computes them in integers; indices stay int64 where operators want it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import called

aten = torch.ops.aten

KEPT = "integers are divided on the CPU: the NPU has no exact division"

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
"""Operators whose indices have to be int64, and where these stand among the arguments."""


_MARK = "_mark_node_as_quantized"
"""The wheel's function through which each of its quantisers annotates a node."""


def is_division(node: fx.Node) -> bool:
    """True for an operator that divides integers and gives integers."""
    values = [one.meta.get("val") for one in (node, *node.all_input_nodes)]
    return called(node) in _DIVISIONS and all(
        isinstance(value, Tensor) and not value.is_floating_point() for value in values
    )


def stays_on_cpu(node: fx.Node) -> bool:
    """True for a division of integers, and for the tensors that the wheel's passes make of the numbers in one."""
    value: object = node.meta.get("val")
    is_number = called(node) == "full_like" and isinstance(value, Tensor) and not value.is_floating_point()
    return is_number or is_division(node)


@contextmanager
def exact() -> Generator[None]:
    """A context in which the wheel quantises no division of integers, and casts indices back to int64."""
    from executorch.backends.arm._passes import InsertInt32CastsAfterInt64PlaceholdersPass as Casts
    from executorch.backends.arm.quantizer import arm_quantizer_utils as utils

    positions: dict[Any, tuple[int, ...]] = Casts.I64_INPUT_ARG_POSITIONS
    original: Any = vars(utils)[_MARK]

    def mark(node: fx.Node, inputs: Any, output: Any, is_quantized: bool) -> None:
        if is_division(node):
            inputs, output, is_quantized = {}, None, False
        original(node, inputs, output, is_quantized)

    added = {target: places for target, places in _INDICES.items() if target not in positions}
    positions.update(added)
    setattr(utils, _MARK, mark)
    try:
        yield
    finally:
        setattr(utils, _MARK, original)
        for target in added:
            del positions[target]
