"""Gives the calls of C operators that a TFLite operator becomes."""

from collections.abc import Callable, Mapping

from deuteron.errors import UnsupportedError
from deuteron.tflite.cortex_m.call import CpuCall
from deuteron.tflite.flat_model import FlatModel

LOWERINGS: Mapping[str, Callable[[FlatModel, int], tuple[CpuCall, ...]]] = {}
"""By the operator's name in the schema."""


def lower(model: FlatModel, index: int) -> tuple[CpuCall, ...]:
    """Return the calls of an operator of a file, in order.

    Raises:
        UnsupportedError: there are none for it.
    """
    op = model.operators[index]
    if op.name not in LOWERINGS:
        output = f", output `{model.tensors[op.outputs[0]].name}`" if op.outputs else ""
        raise UnsupportedError(
            f"`{op.title}` has no operator on a Cortex-M",
            where=f"op {index} {op.title}{output}",
            hint="write the model with other operators",
        )
    return LOWERINGS[op.name](model, index)
