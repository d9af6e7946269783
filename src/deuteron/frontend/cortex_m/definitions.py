"""What PyTorch's definitions of operators lack, beside which programs are checked and with which they are traced."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

_CONVOLUTIONS = ("quantized_conv2d", "quantized_depthwise_conv2d")
_EXTREMA = ("maximum", "minimum")


@cache
def complete() -> tuple[object, ...]:
    """What completes definitions as long as it lives.

    Convolutions with gaps in their windows get one, for PyTorch has none for integers: that of weights with zeros in
    the gaps. Operators keep the wheel's definitions for all else. The masked softmax gets the shape of its result, and
    extrema of images the order of memory that the images have.
    """
    from executorch.backends.cortex_m.ops import operators

    library: Any = torch.library.Library("cortex_m", "FRAGMENT")
    shapes: Any = torch.library.Library("aten", "IMPL", "Meta")
    shapes.impl("_masked_softmax", _like)
    for name in _CONVOLUTIONS:
        without_gaps: Callable[..., Tensor] = getattr(operators, f"{name}_impl")
        library.impl(name, _with_gaps(without_gaps), "CPU")
    registry: Any = torch.library
    for name in _EXTREMA:
        registry.register_fake(f"cortex_m::{name}", getattr(torch, name), lib=library, allow_override=True)
    return library, shapes


def _like(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)


def _with_gaps(without_gaps: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def convolution(
        x: Tensor,
        weights: Tensor,
        bias: Tensor | None,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        *others: Any,
    ) -> Tensor:
        return without_gaps(x, _dense(weights, dilation), bias, stride, padding, [1, 1], *others)

    return convolution


def _dense(weights: Tensor, steps: Sequence[int]) -> Tensor:
    """Weights [outputs or 1, height, width, inputs or outputs] with the zeros."""
    first, *sizes, last = weights.shape
    wide = [(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True)]
    dense = weights.new_zeros((first, *wide, last))
    dense[:, :: steps[0], :: steps[1]] = weights
    return dense
