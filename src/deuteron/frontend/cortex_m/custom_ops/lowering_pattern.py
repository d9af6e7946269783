"""Defines how operators of PyTorch become our operators, and what our operators compute."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.operators.kernel_params import KernelParams

Array = npt.NDArray[np.generic]

INT16_MOST = 32767
"""The largest magnitude of an int16 activation with either sign."""


class Result(Enum):
    """The quantization of a result."""

    MEASURED = auto()
    """It has its own range."""
    SHARED = auto()
    """It is that of all operands."""
    INTEGER = auto()
    """There is none: the result is integers or bools; operands share one."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A stored number q stands for scale * (q - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Site:
    """An operator of the edge program that becomes one of ours.

    Attributes:
        node: the operator.
        operands: the quantization of each operand, in order.
        result: the quantization of the result; for integer results, that of the first operand.
        constant: returns the value of a constant that the operator reads.
        stored: the nodes of the operands' stored values.
        ends: the nodes that quantize the result; for integer results, the operator itself.
        limits: of the stored values of the result.
        is_channels_last: whether the result, or a single operand, is an image in channels-last memory.
        dtype: of the stored values.
    """

    node: fx.Node
    operands: tuple[Affine, ...]
    result: Affine
    constant: Callable[[fx.Node], Tensor]
    stored: tuple[fx.Node, ...] = ()
    ends: tuple[fx.Node, ...] = ()
    limits: tuple[int, int] = (-128, 127)
    is_channels_last: bool = False
    dtype: torch.dtype = torch.int8

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first operand."""
        return tuple(value_of(self.stored[0]).shape)

    def argument(self, index: int, name: str, default: object) -> object:
        """An argument of the operator, by index or name."""
        return self.node.args[index] if index < len(self.node.args) else self.node.kwargs.get(name, default)

    def weights(self, node: fx.Node) -> tuple[Tensor, Tensor]:
        """The stored weights of a node that dequantizes per channel, and the channels' scales."""
        values, scales = cast("tuple[fx.Node, fx.Node]", node.args[:2])
        return self.constant(values), self.constant(scales)


@dataclass(frozen=True, slots=True)
class LoweredCall:
    """A call of one of our operators: its name, its parameter record, and the constants after its operands.

    `inputs` are nodes that it reads instead of the operands.
    """

    operator: str
    params: KernelParams
    constants: tuple[Tensor, ...] = ()
    inputs: tuple[fx.Node, ...] | None = None


def _activations(node: fx.Node) -> list[fx.Node]:
    """The float tensors that a node reads, without constants of the model."""
    return [arg for arg in node.all_input_nodes if arg.op != "get_attr" and value_of(arg).is_floating_point()]


def _always(_: fx.Node) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class LoweringPattern:
    """How an operator of PyTorch becomes one of ours.

    Attributes:
        call: makes the call for an operator between quantizations; None if its numbers do not fit the record.
        result: the quantization of its result.
        takes: whether the pattern applies to a node of the float model.
        operands: the operands of a node of the float model that are quantized.
        whole: whether PyTorch would decompose it in an edge program.
        any_order: whether it supports images in channels-last memory.
    """

    call: Callable[[Site], LoweredCall | None]
    result: Result = Result.MEASURED
    takes: Callable[[fx.Node], bool] = _always
    operands: Callable[[fx.Node], list[fx.Node]] = _activations
    whole: bool = False
    any_order: bool = False


Patterns = Mapping[torch.dtype, Mapping[object, LoweringPattern]]
"""Lowering patterns by the dtype of stored values and the operator of PyTorch."""


def first_operand(node: fx.Node) -> list[fx.Node]:
    """The first argument of a node, in a list."""
    return [cast(fx.Node, node.args[0])]


@dataclass(frozen=True, slots=True)
class Definition:
    """The arithmetic of one of our operators in Python, equal to its C function.

    Attributes:
        compute: computes the result from the record and the tensors; all are flat, in the order of memory.
        rounds: whether the result may be one step off PyTorch's float32 result.
        dtype: of the result.
        is_last: whether a result of rank 4 is an image in channels-last memory; by default, if an operand of its shape
            is.
        scratch: computes the shapes and dtypes of the values that a call writes before the output, if there are any;
            `compute` returns these, too.
    """

    compute: Callable[..., Array | tuple[Array, ...]]
    rounds: bool
    dtype: torch.dtype = torch.int8
    is_last: Callable[[Sequence[Tensor]], bool] | None = None
    scratch: Callable[..., Sequence[tuple[Sequence[int], torch.dtype]]] | None = None


def value_of(node: fx.Node) -> Tensor:
    """The tensor of a node."""
    return cast(Tensor, node.meta["val"])


def stored(steps: npt.NDArray[np.int64]) -> Array:
    """Saturate steps to int8."""
    return steps.clip(-128, 127).astype(np.int8)


def clipped(steps: npt.NDArray[np.int64], low: int = -INT16_MOST - 1, high: int = INT16_MOST) -> Array:
    """Saturate steps to int16, within limits."""
    return steps.clip(low, high).astype(np.int16)
