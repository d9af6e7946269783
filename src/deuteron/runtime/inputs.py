"""Inputs of a model: random arrays, and checks of given arrays."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from deuteron.builds.manifest import REFERENCE, Manifest, TensorInfo
from deuteron.errors import InputError, counted

Array = npt.NDArray[np.generic]
Sample = tuple[Array, ...]
"""One array per input or output of a model."""


class Signature(Protocol):
    """Inputs of a model, from a build's manifest or a TFLite file."""

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """Return shape, dtype and name of each input, in order."""
        ...


def seeded_inputs(model: Signature, count: int, seed: int = 0) -> list[Sample]:
    """Return `count` random inputs: normal float32 values, uniform int8 and int16, 0 and 1 for wider integers.

    Wider integers are mostly indices, and nearly all tables have a row 1.
    """
    generator = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        if dtype.kind == "f":
            return generator.standard_normal(shape).astype(dtype)
        low, high = {"int8": (-128, 128), "int16": (-(1 << 15), 1 << 15)}.get(dtype.name, (0, 2))
        return generator.integers(low, high, shape, dtype.name)

    return [tuple(draw(i.shape, np.dtype(i.dtype)) for i in model.inputs) for _ in range(count)]


_MANY = 8
"""Number of samples from which each element is drawn at its own position."""


def drawn_inputs(model: Signature, count: int, seed: int, like: Sequence[Sample]) -> list[Sample]:
    """Return `count` inputs like these samples: some of them, then mixtures; `seeded_inputs` if there are none.

    Each element of a mixture comes from a random sample at the same position, or at any position if samples are few, so
    that values stay in the calibrated ranges.
    """
    if not like:
        return seeded_inputs(model, count, seed)
    generator = np.random.default_rng(seed)

    def mixed(values: Array) -> Array:
        if len(like) < _MANY:
            return generator.choice(values.reshape(-1), values.shape[1:])
        rows = generator.integers(len(like), size=values.shape[1:])
        return np.take_along_axis(values, rows[None], 0)[0]

    order = generator.permutation(len(like))[:count]
    columns = [np.stack(column) for column in zip(*like, strict=True)]
    mixtures = [tuple(map(mixed, columns)) for _ in range(count - len(order))]
    return [*(like[i] for i in order), *mixtures]


def check_inputs(model: Signature, inputs: Sequence[Array]) -> None:
    """Check number, shape and dtype of one set of inputs against the model's, and quantized builds' inputs for NaN.

    Raises:
        InputError: naming the input that differs.
    """
    _check_arrays(inputs)
    if len(inputs) != len(model.inputs):
        raise InputError(f"the model takes {counted(len(model.inputs), 'input')}, found {len(inputs)}")
    for i, value in enumerate(inputs):
        check_input(model, value, i)


def check_input(model: Signature, value: Array, i: int, *, prefix: str = "") -> None:
    """Check one input as `check_inputs` does; `prefix` begins a hint.

    Raises:
        InputError: it does not fit; the hint converts the array where that is possible.
    """
    wanted = model.inputs[i]
    if value.shape != wanted.shape or value.dtype != np.dtype(wanted.dtype):
        hint = "; ".join(filter(None, (_shape_hint(value.shape, wanted.shape), _dtype_hint(value, wanted.dtype))))
        raise InputError(
            f"input {i} is {value.dtype} {list(value.shape)}, the model takes {wanted.dtype} {list(wanted.shape)}",
            hint=f"{prefix}{hint}" if hint else None,
        )
    is_quantized = isinstance(model, Manifest) and REFERENCE in model.files
    if is_quantized and value.dtype.kind == "f" and (count := int(np.isnan(value).sum())):
        raise InputError(
            f"input {i} has {counted(count, 'value')} that {'is' if count == 1 else 'are'} NaN: integers have no "
            "NaN, and each processor makes another number of it",
            hint="replace it before a run: `numpy.nan_to_num(x)`",
        )


def _shape_hint(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str | None:
    """Return a hint that gives an array the wanted shape; a permutation of axes is tried before a new shape."""
    if shape == wanted:
        return None
    is_same_rank = len(shape) == len(wanted)
    if is_same_rank and sorted(shape[1:]) == sorted(wanted[1:]) and shape[0] > wanted[0] > 0 == shape[0] % wanted[0]:
        count = shape[0] // wanted[0]
        order = [0, *(axis + 1 for axis in _permutation(shape[1:], wanted[1:]))]
        moved = "" if order == sorted(order) else f".transpose({_listed(order)})"
        return (
            f"these are {count} samples: a file holds them as `x{moved}.reshape({_listed((count, *wanted))})`, with "
            "one more dimension; `deuteron.run_each` takes one after the other"
        )
    squeezed, target = (tuple(dim for dim in dims if dim != 1) for dims in (shape, wanted))
    if squeezed != target and sorted(squeezed) == sorted(target):
        if is_same_rank:
            return f"give `x.transpose({_listed(_permutation(shape, wanted))})`"
        order = _listed(_permutation(squeezed, target))
        return f"give `x.squeeze().transpose({order}).reshape({_listed(wanted)})`"
    if np.prod(shape) == np.prod(wanted):
        return f"give `x.reshape({_listed(wanted)})`, if its elements are in that order"
    return None


def _permutation(shape: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """Return the permutation of axes to the wanted shape that keeps the order of axes of one size."""
    axes = {dim: iter([axis for axis, size in enumerate(shape) if size == dim]) for dim in shape}
    return [next(axes[dim]) for dim in wanted]


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


_QUANTIZED = ("int8", "int16")


def _dtype_hint(value: Array, wanted: str) -> str | None:
    """Return a hint that gives an array the wanted dtype, if that loses no value, or says where such values are."""
    dtype, kind = np.dtype(wanted), value.dtype.kind
    if value.dtype == dtype:
        return None
    if dtype.kind == "f" and value.dtype.name in _QUANTIZED:
        return (
            "these values are quantized, and the program takes floats: give the data before quantization "
            f"(a build of a PyTorch model with `--remove-quant-io-ops` takes {value.dtype})"
        )
    if kind == "f" and wanted in _QUANTIZED:
        return (
            "the program takes quantized values: give `round(x / scale) + zero_point` of its input "
            "(a build of a PyTorch model without `--remove-quant-io-ops` takes floats)"
        )
    if kind not in "fiub" or dtype.kind not in "fiub":
        return None
    if dtype.kind in "iu" and not np.array_equal(value.astype(dtype), value):
        return f"its values are from {value.min()} to {value.max()}: {dtype} cannot represent all of them"
    scaled = ", scaled as in training" if dtype.kind == "f" and kind in "iu" else ""
    return f"give `x.astype(numpy.{wanted})`{scaled}"


def _check_arrays(inputs: object) -> None:
    """Reject wrong types that a static type checker would find: one array for a list, and tensors."""
    if isinstance(inputs, np.ndarray):
        raise InputError("the inputs are one array", hint="give a list with one array per input")
    for i, value in enumerate(cast("Iterable[object]", inputs)):
        if not isinstance(value, np.ndarray):
            raise InputError(
                f"input {i} is a {type(value).__name__}", hint="give a NumPy array; of a tensor that is `x.numpy()`"
            )


def checked(model: Signature, samples: Iterable[Sequence[Array]]) -> Iterator[Sample]:
    """Yield the samples, each checked against the model's inputs when it is requested.

    Raises:
        InputError: naming the input that differs.
    """
    for inputs in samples:
        check_inputs(model, inputs)
        yield tuple(inputs)
