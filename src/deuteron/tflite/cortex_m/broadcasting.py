"""Operands of which some repeat, as the dimensions and strides that records have."""

from collections.abc import Sequence

from deuteron.operators.kernel_params import BINARY_RANK, Dims5
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.regions import broadcast_strides, merged


def broadcast_dims(site: Site, *shapes: Sequence[int]) -> tuple[Dims5, tuple[Dims5, ...]]:
    """Return the output's dimensions, as few as need be, and each operand's strides along them."""
    out = site.output().shape
    strides = [broadcast_strides(shape, out) for shape in shapes]
    axes = merged(list(zip(out, *strides, strict=True)))
    if len(axes) > BINARY_RANK:
        raise site.unsupported(
            f"the operands repeat along {len(axes)} dimensions in turns; at most {BINARY_RANK} are allowed",
            "repeat one of them with a TILE or BROADCAST_TO before the operator",
        )
    axes = [(1, *(0 for _ in shapes))] * (BINARY_RANK - len(axes)) + axes
    dims, *rest = (five(column) for column in zip(*axes, strict=True))
    return dims, tuple(rest)


def five(values: Sequence[int]) -> Dims5:
    """Return five numbers as the tuple that records have."""
    a, b, c, d, e = values
    return a, b, c, d, e
