"""Lowers operators of ExecuTorch's runtime that only move elements: strided copies, of any type."""

import math
from collections.abc import Iterator, Sequence

from deuteron.board.operators.layout import Run, broadcast_runs, copy, is_contiguous, same_memory, strides
from deuteron.board.operators.lowering import (
    Argument,
    OperatorCall,
    RefusedError,
    Tensor,
    cortex_m_call,
    refuse_arguments,
)
from deuteron.operators.cortex_m import GatherParams


def view(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, shape, output twice."""
    match args:
        case [Tensor() as x, tuple(), Tensor() as y, _]:
            return (_reshaped(x, y),)
        case _:
            raise refuse_arguments()


def clone(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, memory order of the output, output twice."""
    match args:
        case [Tensor() as x, *_, Tensor() as y, Tensor()]:
            return (_same_elements(x, y, range(len(x.spec.shape))),)
        case _:
            raise refuse_arguments()


def copy_into(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: output, input, whether the copy may be asynchronous, output."""
    match args:
        case [Tensor() as y, Tensor() as x, bool(), Tensor()]:
            return (copy(x, y, broadcast_runs(y, x, y)),)
        case _:
            raise refuse_arguments()


def permute(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, the input's dimension for each dimension of the output, output twice."""
    match args:
        case [Tensor() as x, tuple(perm), Tensor() as y, _]:
            dims = [int(dim) % len(x.spec.shape) for dim in perm if not isinstance(dim, Tensor)]
            return (_same_elements(x, y, dims),)
        case _:
            raise refuse_arguments()


def squeeze(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, dimensions, output twice; unsqueeze has the same."""
    match args:
        case [Tensor() as x, int() | tuple(), Tensor() as y, _]:
            return (_reshaped(x, y),)
        case _:
            raise refuse_arguments()


def expand(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, shape, implicit or not, output twice."""
    match args:
        case [Tensor() as x, tuple(), bool(), Tensor() as y, _]:
            missing = len(y.spec.shape) - len(x.spec.shape)
            own = (1,) * missing + x.spec.shape
            steps = (0,) * missing + strides(x.spec)
            to = strides(y.spec)
            runs = [
                Run(n, (0 if own[i] == 1 else steps[i], to[i])) for i, n in enumerate(y.spec.shape)
            ]  # fmt: skip
            return (copy(x, y, runs),)
        case _:
            raise refuse_arguments()


def slice_copy(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, dimension, start and end or none, step, output twice."""
    match args:
        case [Tensor() as x, int(dim), None | int() as start, None | int(), int(step), Tensor() as y, _]:
            dim %= len(x.spec.shape)
            size = x.spec.shape[dim]
            first = 0 if start is None else max(0, min(size, start + size if start < 0 else start))
            return (_part(x, y, dim, first, step),)
        case _:
            raise refuse_arguments()


def select(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, dimension, index, output twice."""
    match args:
        case [Tensor() as x, int(dim), int(index), Tensor() as y, _]:
            dim %= len(x.spec.shape)
            from_steps, to_steps = list(strides(x.spec)), strides(y.spec)
            start = index % x.spec.shape[dim] * from_steps.pop(dim)
            runs = [Run(n, (from_steps[i], to_steps[i])) for i, n in enumerate(y.spec.shape)]
            return (copy(x, y, runs, source_start=start),)
        case _:
            raise refuse_arguments()


def cat(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: tensors, dimension, output twice; one copy for each tensor."""
    match args:
        case [tuple(parts), int(dim), Tensor() as y, _]:
            calls: list[OperatorCall] = []
            dim %= len(y.spec.shape)
            to = strides(y.spec)
            start = 0
            for part in parts:
                if not isinstance(part, Tensor):
                    raise refuse_arguments()
                if part.bytes == 0:
                    continue
                steps = strides(part.spec)
                runs = [Run(n, (steps[i], to[i])) for i, n in enumerate(part.spec.shape)]
                calls.append(copy(part, y, runs, target_start=start * to[dim]))
                start += part.spec.shape[dim]
            return tuple(calls)
        case _:
            raise refuse_arguments()


def stack(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: tensors, the new dimension of the output, output twice; one copy for each tensor."""
    match args:
        case [tuple(parts), int(dim), Tensor() as y, _]:
            calls: list[OperatorCall] = []
            to = list(strides(y.spec))
            distance = to.pop(dim % len(y.spec.shape))
            for i, part in enumerate(parts):
                if not isinstance(part, Tensor):
                    raise refuse_arguments()
                steps = strides(part.spec)
                runs = [Run(n, (steps[j], to[j])) for j, n in enumerate(part.spec.shape)]
                calls.append(copy(part, y, runs, target_start=i * distance))
            return tuple(calls)
        case _:
            raise refuse_arguments()


def split(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, sizes, dimension, list of outputs (twice, or once and none)."""
    match args:
        case [Tensor() as x, tuple() | int(), int(dim), tuple(parts), *_]:
            calls: list[OperatorCall] = []
            dim %= len(x.spec.shape)
            start = 0
            for part in parts:
                if not isinstance(part, Tensor):
                    raise refuse_arguments()
                calls.append(_part(x, part, dim, start, 1))
                start += part.spec.shape[dim]
            return tuple(calls)
        case _:
            raise refuse_arguments()


def index_select(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, dimension, indices, output twice; constant indices become copies."""
    match args:
        case [Tensor() as x, int(dim), Tensor() as indices, Tensor() as y, _]:
            dim %= len(x.spec.shape)
            if indices.value.constant is None:
                return (_gathered(x, dim, indices, y),)
            steps, to = strides(x.spec), strides(y.spec)
            calls: list[OperatorCall] = []
            done = 0
            for first, step, count in _progressions(_numbers(indices)):
                sizes = [count if i == dim else n for i, n in enumerate(y.spec.shape)]
                runs = [Run(n, (steps[i] * (step if i == dim else 1), to[i])) for i, n in enumerate(sizes)]
                start = done * to[dim]
                calls.append(copy(x, y, runs, source_start=first * steps[dim], target_start=start))
                done += count
            return tuple(calls)
        case _:
            raise refuse_arguments()


def _gathered(x: Tensor, dim: int, indices: Tensor, y: Tensor) -> OperatorCall:
    """Return the gather of rows by indices that are known at run time."""
    if not is_contiguous(x.spec) or not is_contiguous(y.spec):
        raise RefusedError(
            "gathers from a tensor in channels-last memory, firmware supports only the order of the shape"
        )
    count, rows = math.prod(indices.spec.shape), x.spec.shape[dim]
    outer = math.prod(x.spec.shape[:dim])
    size = y.bytes // max(1, outer * count)
    return cortex_m_call("gather", (x, indices), (y,), GatherParams(outer, rows, size, count))


def _numbers(indices: Tensor) -> list[int]:
    """Return the numbers of a constant tensor of integers."""
    constant = indices.value.constant
    data = constant.data if constant else b""
    size = len(data) // max(1, math.prod(indices.spec.shape))
    return [int.from_bytes(data[i : i + size], "little", signed=True) for i in range(0, len(data), max(1, size))]


def _progressions(numbers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Split the numbers into arithmetic progressions: first number, step and count of each."""
    start = 0
    while start < len(numbers):
        step = numbers[start + 1] - numbers[start] if start + 1 < len(numbers) else 1
        end = start + 1
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        yield numbers[start], step, end - start
        start = end


def upsample_nearest(args: Sequence[Argument]) -> tuple[OperatorCall, ...]:
    """Arguments: input, size, scales, output twice; integer factors only."""
    match args:
        case [Tensor() as x, _, _, Tensor() as y, _] if len(x.spec.shape) == 4:
            runs: list[Run] = []
            steps, to = strides(x.spec), strides(y.spec)
            for i, (n, whole) in enumerate(zip(x.spec.shape, y.spec.shape, strict=True)):
                if whole % n:
                    raise RefusedError(
                        f"resizes {x.spec.shape} to {y.spec.shape}, firmware supports integer factors only"
                    )
                times = whole // n
                runs += [Run(n, (steps[i], to[i] * times)), Run(times, (0, to[i]))]
            return (copy(x, y, runs),)
        case _:
            raise refuse_arguments()


def _part(x: Tensor, y: Tensor, dim: int, first: int, step: int) -> OperatorCall:
    """Return the copy of every `step`-th element of a dimension from `first` on."""
    from_steps, to_steps = strides(x.spec), strides(y.spec)
    runs = [
        Run(n, (from_steps[i] * (step if i == dim else 1), to_steps[i])) for i, n in enumerate(y.spec.shape)
    ]  # fmt: skip
    return copy(x, y, runs, source_start=first * from_steps[dim])


def _same_elements(x: Tensor, y: Tensor, dims: Sequence[int]) -> OperatorCall:
    """Return the copy whose output dimension i is the input's dimension `dims[i]`."""
    if tuple(x.spec.shape[dim] for dim in dims) != y.spec.shape:
        raise RefusedError(f"makes {y.spec.shape} of {x.spec.shape}")
    steps, to = strides(x.spec), strides(y.spec)
    return copy(x, y, [Run(n, (steps[dims[i]], to[i])) for i, n in enumerate(y.spec.shape)])


def _reshaped(x: Tensor, y: Tensor) -> OperatorCall:
    """Return the copy of all elements in the order of the shapes."""
    if math.prod(x.spec.shape) != math.prod(y.spec.shape):
        raise RefusedError(f"makes {y.spec.shape} of {x.spec.shape}")
    if same_memory(x, y) or (is_contiguous(x.spec) and is_contiguous(y.spec)):
        return copy(x, y, [Run(math.prod(y.spec.shape), (1, 1))])
    for shaped, flat, turned in ((x, y, False), (y, x, True)):
        if is_contiguous(flat.spec):
            plain = _row_major(shaped.spec.shape)
            runs = zip(shaped.spec.shape, strides(shaped.spec), plain, strict=True)
            return copy(x, y, [Run(n, (b, a) if turned else (a, b)) for n, a, b in runs])
    raise RefusedError(
        f"reshapes {x.spec.shape} in order {x.spec.dim_order} to {y.spec.shape} in order {y.spec.dim_order}: one side "
        "must be contiguous"
    )


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of the order of the shape."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
