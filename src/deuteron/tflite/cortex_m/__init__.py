"""TFLite operators as calls of C operators on a Cortex-M, bit for bit as LiteRT's reference kernels."""

from deuteron.errors import UnsupportedError
from deuteron.tflite.cortex_m.call import CpuCall
from deuteron.tflite.flat_model import FlatModel


def lower(model: FlatModel, index: int) -> tuple[CpuCall, ...]:
    """Return the calls that compute an operator of a model.

    Raises:
        UnsupportedError: the operator has no C operator.
    """
    op = model.operators[index]
    raise UnsupportedError(
        "no C operator computes it on a Cortex-M",
        where=f"operator {index} ({op.title})",
        hint="write it with other operators, or leave it to the host",
    )
