"""Memory layouts of tensors: strides, dimensions that several tensors share, and copies between layouts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deuteron.board.operators.lowering import OperatorCall, RefusedError, Tensor, cortex_m_call
from deuteron.operators.cortex_m import RegionCopyParams
from deuteron.operators.kernel_params import BINARY_RANK, RANK
from deuteron.operators.limits import MAX_DIMENSION
from deuteron.runtime.program import TensorSpec

_NHWC = (0, 2, 3, 1)
_WORTH_WORDS = 8
"""Run length from which copying adjacent elements beats a longer dimension."""


def strides(spec: TensorSpec) -> tuple[int, ...]:
    """Return the stride of each dimension, in elements."""
    of_dimension = [0] * len(spec.shape)
    step = 1
    for dim in reversed(spec.dim_order):
        of_dimension[dim] = step
        step *= spec.shape[dim]
    return tuple(of_dimension)


def is_in_order(spec: TensorSpec, order: Sequence[int]) -> bool:
    """Return true if the elements are in this order of dimensions; dimensions of size 1 are ignored."""
    same = TensorSpec(spec.shape, spec.dtype, tuple(order))
    return all(n == 1 or a == b for n, a, b in zip(spec.shape, strides(spec), strides(same), strict=True))


def is_contiguous(spec: TensorSpec) -> bool:
    """Return true if the elements are in the order of the shape."""
    return is_in_order(spec, range(len(spec.shape)))


def same_memory(x: Tensor, y: Tensor) -> bool:
    """Return true if both have the same elements at the same offsets."""
    return x.spec.shape == y.spec.shape and is_in_order(x.spec, y.spec.dim_order)


def need_same_layout(x: Tensor, y: Tensor) -> None:
    """Raise RefusedError unless both have one shape and the same memory order."""
    if not same_memory(x, y):
        raise RefusedError(
            f"reads a tensor of shape {x.spec.shape} in order {x.spec.dim_order} and writes one of shape "
            f"{y.spec.shape} in order {y.spec.dim_order}, which must be the same"
        )


def nhwc(tensor: Tensor, *, explicit: bool) -> tuple[int, int, int, int]:
    """Return batches, height, width and channels of a map in this memory order; RefusedError for another order.

    Args:
        tensor: the map.
        explicit: true if its shape has this order too; otherwise its shape is batches, channels, height, width.
    """
    shape = tensor.spec.shape
    order = (0, 1, 2, 3) if explicit else _NHWC
    if len(shape) != 4 or not is_in_order(tensor.spec, order):
        raise RefusedError(
            f"has a map of shape {shape} in the order {tensor.spec.dim_order}, firmware supports the order {order}"
        )
    return shape[order[0]], shape[order[1]], shape[order[2]], shape[order[3]]


@dataclass(frozen=True, slots=True)
class Run:
    """A dimension that all tensors of a call share: its size, and the stride of each tensor."""

    size: int
    steps: tuple[int, ...]


def broadcast_runs(output: Tensor, *operands: Tensor) -> tuple[Run, ...]:
    """Return the fewest dimensions of the output, outermost in memory first; a stride of 0 repeats an operand."""
    shape = output.spec.shape
    columns: list[tuple[int, ...]] = []
    for operand in operands:
        missing = len(shape) - len(operand.spec.shape)
        own = (1,) * missing + operand.spec.shape
        if missing < 0 or any(n not in (1, whole) for n, whole in zip(own, shape, strict=True)):
            raise RefusedError(f"does not broadcast {operand.spec.shape} to {shape}")
        steps = (0,) * missing + strides(operand.spec)
        columns.append(tuple(0 if n == 1 else step for n, step in zip(own, steps, strict=True)))
    return merged([Run(shape[dim], tuple(column[dim] for column in columns)) for dim in output.spec.dim_order])


def merged(runs: Sequence[Run], most: int | None = None) -> tuple[Run, ...]:
    """Drop dimensions of size 1 and merge adjacent ones where every tensor allows it, up to the size `most`."""
    kept: list[Run] = []
    for run in runs:
        if run.size == 1:
            continue
        if kept and all(a == b * run.size for a, b in zip(kept[-1].steps, run.steps, strict=True)):
            size = kept[-1].size * run.size
            if most is None or size <= most:
                kept[-1] = Run(size, run.steps)
                continue
        kept.append(run)
    return tuple(kept)


def binary_dims(
    runs: Sequence[Run],
) -> tuple[tuple[int, int, int, int, int], tuple[int, int, int, int, int], tuple[int, int, int, int, int]]:
    """Return dimensions and strides of two operands for a broadcasting kernel."""
    runs = merged(runs, MAX_DIMENSION)
    if len(runs) > BINARY_RANK or any(run.size > MAX_DIMENSION for run in runs):
        raise RefusedError(f"needs {len(runs)} dimensions of its operands, firmware supports {BINARY_RANK}")
    full = (Run(1, (0, 0)),) * (BINARY_RANK - len(runs)) + tuple(runs)
    a, b, c, d, e = full
    return (
        (a.size, b.size, c.size, d.size, e.size),
        (a.steps[0], b.steps[0], c.steps[0], d.steps[0], e.steps[0]),
        (a.steps[1], b.steps[1], c.steps[1], d.steps[1], e.steps[1]),
    )


def copy(
    source: Tensor,
    target: Tensor,
    runs: Sequence[Run],
    *,
    source_start: int = 0,
    target_start: int = 0,
) -> OperatorCall:
    """Return the copy along runs with strides of source and target, in elements.

    Raises:
        RefusedError: the tensors differ in type, or need more dimensions than a copy has.
    """
    if source.spec.dtype != target.spec.dtype:
        raise RefusedError(f"converts {source.spec.dtype} to {target.spec.dtype}, firmware copies within one type")
    item = target.bytes // max(1, math.prod(target.spec.shape))
    bytewise = [Run(run.size, (run.steps[0] * item, run.steps[1] * item)) for run in runs] + [Run(item, (1, 1))]
    # Ascending in the output, so that written runs are as long as possible.
    bytewise.sort(key=lambda run: -run.steps[1])
    walked = merged([part for run in bytewise for part in _split(run)], MAX_DIMENSION)
    if len(walked) > RANK:
        raise RefusedError(f"copies {len(walked)} dimensions, firmware supports {RANK}")
    full = (Run(1, (0, 0)),) * (RANK - len(walked)) + tuple(sorted(walked, key=_worth))
    a, b, c, d, e, f = full
    params = RegionCopyParams(
        out_start=target_start * item,
        in_start=source_start * item,
        dims=(a.size, b.size, c.size, d.size, e.size, f.size),
        in_strides=(a.steps[0], b.steps[0], c.steps[0], d.steps[0], e.steps[0], f.steps[0]),
        out_strides=(a.steps[1], b.steps[1], c.steps[1], d.steps[1], e.steps[1], f.steps[1]),
    )
    return cortex_m_call("copy", (source,), (target,), params)


def _worth(run: Run) -> tuple[bool, int]:
    """Rank a run as the innermost loop, which has set-up cost per run; adjacent elements are copied in words."""
    return run.steps == (1, 1) and run.size >= _WORTH_WORDS, run.size


def _split(run: Run) -> tuple[Run, ...]:
    """Split a run into one or two that kernels support."""
    if run.size <= MAX_DIMENSION:
        return (run,)
    inner = next((n for n in range(MAX_DIMENSION, 1, -1) if run.size % n == 0), 0)
    if inner == 0 or run.size // inner > MAX_DIMENSION:
        raise RefusedError(f"copies a dimension of {run.size}, firmware supports at most {MAX_DIMENSION}")
    outer = Run(run.size // inner, (run.steps[0] * inner, run.steps[1] * inner))
    return outer, Run(inner, run.steps)
