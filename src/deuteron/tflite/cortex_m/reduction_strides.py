"""Dimensions and strides of reductions in their records: those that stay and those that are reduced."""

from deuteron.operators.kernel_params import BINARY_RANK, Dims5
from deuteron.tflite.cortex_m.broadcasting import five
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.regions import contiguous, merged


def reduced_axes(site: Site) -> tuple[int, ...]:
    """Return the dimensions that the operator reduces, in ascending order."""
    rank = len(site.input().shape)
    axes = sorted({axis % rank for axis in site.integers(1)}) if rank else []
    return tuple(axes)


def along(site: Site, axes: tuple[int, ...], kind: str) -> tuple[Dims5, Dims5]:
    """Return dimensions and strides along some axes of the input."""
    shape, strides = site.input().shape, contiguous(site.input().shape)
    runs = merged([(shape[axis], strides[axis]) for axis in axes])
    if len(runs) > BINARY_RANK:
        raise site.unsupported(
            f"it {kind} {len(runs)} dimensions that do not lie side by side; at most {BINARY_RANK} are allowed",
            "put a RESHAPE before it that joins dimensions",
        )
    runs = [(1, 0)] * (BINARY_RANK - len(runs)) + runs
    return five([count for count, _ in runs]), five([stride for _, stride in runs])
