"""Flattens and compares the outputs of modules."""

import dataclasses
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from deuteron.errors import InputError
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import value_of

Leaves = tuple[Tensor, ...]


def leaves(outputs: object) -> Leaves:
    """Return the tensors of an output structure in PyTorch's order, without None.

    They are copies: a later run may write to a tensor that the module keeps and returns.

    Raises:
        InputError: an output is neither a tensor nor None.
    """
    found: list[Tensor] = []
    for value in _parts(outputs):
        if isinstance(value, Tensor):
            found.append(value.detach().clone())
        elif value is not None and not _is_dataclass(value):
            raise InputError(
                f"the model returns a `{type(value).__name__}`",
                hint="return tensors: one, or a tuple, list, dict or named tuple of them",
            )
    if not found:
        raise InputError("the model returns no tensor", hint="return at least one")
    return tuple(found)


def tensors(outputs: object) -> list[Tensor]:
    """Return the tensors of an output structure, which may be symbolic, as `leaves` orders them."""
    return [value for value in _parts(outputs) if isinstance(value, Tensor)]


def unregistered(outputs: object) -> frozenset[type]:
    """Return the dataclasses of an output structure that PyTorch does not know."""
    found: list[object] = [value for value in _parts(outputs) if _is_dataclass(value)]
    return frozenset(map(type, found))


@contextmanager
def registered(kinds: Iterable[type]) -> Generator[None]:
    """Let PyTorch know dataclasses in this context, as `torch.export` requires of the outputs of a model.

    Afterwards the user may register them, or have them as leaves, as before.
    """
    with ExitStack() as stack:
        for kind in kinds:
            name = (
                f"{kind.__module__}.{kind.__qualname__}.{id(kind)}"  # PyTorch forgets only what has a name of its own
            )
            torch.export.register_dataclass(kind, serialized_type_name=name)
            stack.callback(value_of(private_apis.DEREGISTER), kind)
        yield


def _parts(outputs: object) -> Iterator[object]:
    """Yield the leaves of a structure; after a dataclass that PyTorch does not know, the leaves of its fields."""
    for value in pytree.tree_leaves(outputs):
        yield value
        if _is_dataclass(value):
            yield from _parts([getattr(value, one.name) for one in dataclasses.fields(value) if one.init])


def _is_dataclass(value: object) -> TypeGuard[Any]:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def equal(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    """True for equal values, dtypes and shapes; NaNs are equal."""
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(ours: Tensor, theirs: Tensor) -> bool:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        return False
    if ours.is_floating_point():
        return torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True)
    return torch.equal(ours, theirs)


LEAST = 1e-6
"""A difference of floats that is always allowed, for outputs whose largest magnitude is near 0."""


def difference(ours: Tensor, wanted: Tensor, tolerance: float, least: float = LEAST) -> str:
    """Describe how a tensor differs from the expected one; empty if it does not.

    Floats may differ by `least` and `tolerance` times the largest finite magnitude; integers, bools, dtypes and shapes
    may not.
    """
    if ours.dtype != wanted.dtype:
        return f"is {_named(ours.dtype)} in place of {_named(wanted.dtype)}"
    if ours.shape != wanted.shape:
        return f"has shape {list(ours.shape)} in place of {list(wanted.shape)}"
    if not wanted.numel():
        return ""
    if not (wanted.is_floating_point() or wanted.is_complex()):
        count = int((ours != wanted).sum())
        return f"has {count} of {wanted.numel()} values that are others" if count else ""
    if wanted.is_complex():
        ours, wanted = torch.view_as_real(ours), torch.view_as_real(wanted)
    finite = wanted[wanted.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    close = torch.isclose(ours.double(), wanted.double(), rtol=0, atol=tolerance * largest + least, equal_nan=True)
    if close.all():
        return ""
    off = (ours.double() - wanted.double()).abs()[~close]
    return f"differs by {float(off.max()):.3g}, and its largest magnitude is {largest:.3g}"


def _named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
