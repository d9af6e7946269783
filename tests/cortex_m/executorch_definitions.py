"""ExecuTorch's own Python definitions of the operators, on numpy arrays."""

from typing import cast

import numpy as np
import torch
from tests.cortex_m.operator_library import Array

Argument = Array | int | float | bool | list[int] | None


def wheel(operator: str, *arguments: Argument, channels_last: bool = False) -> Array:
    """Return the result of the definition of `cortex_m::<operator>`.

    Args:
        operator: its name.
        arguments: in the definition's order; scratch tensors as empty arrays.
        channels_last: whether arrays of four dimensions are batches, height, width, channels. The definition gets a
            tensor of batches, channels, height, width in this memory, and its result is converted back.
    """

    def given(value: Argument) -> object:
        if not isinstance(value, np.ndarray):
            return value
        tensor = torch.from_numpy(value.copy())  # pyright: ignore[reportUnknownMemberType]
        return tensor.permute(0, 3, 1, 2) if channels_last and value.ndim == 4 else tensor

    result = cast(torch.Tensor, getattr(torch.ops.cortex_m, operator)(*(given(value) for value in arguments)))
    if channels_last and result.dim() == 4:
        result = result.permute(0, 2, 3, 1)
    return np.ascontiguousarray(result.numpy())
