"""Gives tensors of a program the contiguous order of memory where theirs differs in dimensions of size 1 alone.

ExecuTorch's delegates and kernels compare orders of memory, and do not know that such orders are the same.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from deuteron.frontend.upstream import access, private_apis

_CHANNELS_LAST = (0, 2, 3, 1)


@contextmanager
def plain() -> Generator[None]:
    """Emit programs with these orders in this context."""

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def emit(emitter: Any, spec: Any, *args: Any, **kwargs: Any) -> Any:
            contiguous = tuple(range(len(spec.shape)))
            order = tuple(spec.dim_order)
            large = [dim for dim in order if spec.shape[dim] != 1]
            if order not in (contiguous, _CHANNELS_LAST) and large == sorted(large):
                spec.dim_order = contiguous
            return original(emitter, spec, *args, **kwargs)

        return emit

    with access.replaced(private_apis.EMIT_TENSOR, wrapped):
        yield
