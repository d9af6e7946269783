"""Completes the Python definitions of operators, with which programs are traced and checked."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

_CONVOLUTIONS = ("quantized_conv2d", "quantized_depthwise_conv2d")
_EXTREMA = ("maximum", "minimum")


@cache
def complete_definitions() -> tuple[object, ...]:
    """Register the missing definitions; they exist as long as the returned libraries.

    Dilated convolutions of integers, which PyTorch lacks, use weights with zeros in the gaps. The masked softmax gets a
    meta function for its shape. Extrema of images get the memory format of the images.
    """
    from executorch.backends.cortex_m.ops import operators

    library: Any = torch.library.Library("cortex_m", "FRAGMENT")
    shapes: Any = torch.library.Library("aten", "IMPL", "Meta")
    shapes.impl("_masked_softmax", _like)
    for name in _CONVOLUTIONS:
        without_gaps: Callable[..., Tensor] = getattr(operators, f"{name}_impl")
        library.impl(name, _dilated(without_gaps), "CPU")
    registry: Any = torch.library
    for name in _EXTREMA:
        registry.register_fake(f"cortex_m::{name}", getattr(torch, name), lib=library, allow_override=True)
    return library, shapes


def _like(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)


def _dilated(without_gaps: Callable[..., Tensor]) -> Callable[..., Tensor]:
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
    """Weights [outputs or 1, height, width, inputs or outputs] with zeros between the elements of each window."""
    first, *sizes, last = weights.shape
    spread = [(size - 1) * step + 1 for size, step in zip(sizes, steps, strict=True)]
    dense = weights.new_zeros((first, *spread, last))
    dense[:, :: steps[0], :: steps[1]] = weights
    return dense
