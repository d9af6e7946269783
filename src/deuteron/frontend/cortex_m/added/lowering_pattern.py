"""What an operator of PyTorch that becomes one of ours says of itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, fx

from deuteron.npu.neutron.kernels.params import KernelParams

Array = npt.NDArray[np.generic]


class Result(Enum):
    """Where the quantisation of a result comes from."""

    MEASURED = auto()
    """It has a range of its own."""
    SHARED = auto()
    """It is that of the operands, which all have one."""
    INTEGER = auto()
    """There is none: the result is integers or bools; operands share theirs."""


@dataclass(frozen=True, slots=True)
class Affine:
    """A stored number q stands for scale * (q - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Site:
    """An operator of the edge program that is to become one of ours.

    Attributes:
        node: it.
        operands: the quantisation of each operand, in order.
        result: that of the result; of integers, that of the first operand.
        constant: gives the value of a constant that the operator reads beside its operands.
        stored: the nodes of the operands' stored values.
        ends: the nodes that quantise the result; of integers, the operator itself.
        limits: of the stored values of the result.
        is_channels_last: whether the result, or a single operand, is an image in channels-last memory.
    """

    node: fx.Node
    operands: tuple[Affine, ...]
    result: Affine
    constant: Callable[[fx.Node], Tensor]
    stored: tuple[fx.Node, ...] = ()
    ends: tuple[fx.Node, ...] = ()
    limits: tuple[int, int] = (-128, 127)
    is_channels_last: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first operand."""
        return tuple(value_of(self.stored[0]).shape)

    def argument(self, index: int, name: str, default: object) -> object:
        """An argument of the operator, by place or name."""
        return self.node.args[index] if index < len(self.node.args) else self.node.kwargs.get(name, default)

    def weights(self, node: fx.Node) -> tuple[Tensor, Tensor]:
        """The stored values of weights that a node dequantises channel by channel, and the channels' scales."""
        values, scales = cast("tuple[fx.Node, fx.Node]", node.args[:2])
        return self.constant(values), self.constant(scales)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one of our operators: its name, its record, and constants that it reads after its operands.

    `inputs` are nodes that it reads instead of the operands.
    """

    operator: str
    params: KernelParams
    constants: tuple[Tensor, ...] = ()
    inputs: tuple[fx.Node, ...] | None = None


def _activations(node: fx.Node) -> list[fx.Node]:
    """The float tensors that a node reads and that are no constants of the model."""
    return [arg for arg in node.all_input_nodes if arg.op != "get_attr" and value_of(arg).is_floating_point()]


def _always(_: fx.Node) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Form:
    """How an operator of PyTorch becomes one of ours.

    Attributes:
        call: the call, for an operator between quantisations; None where its numbers do not fit.
        result: where the quantisation of its result comes from.
        takes: whether it takes a node of the float model.
        operands: what is quantised of that which a node of the float model reads.
        whole: whether PyTorch would decompose it on the way to an edge program.
        any_order: whether it takes images in channels-last memory, too.
    """

    call: Callable[[Site], Call | None]
    result: Result = Result.MEASURED
    takes: Callable[[fx.Node], bool] = _always
    operands: Callable[[fx.Node], list[fx.Node]] = _activations
    whole: bool = False
    any_order: bool = False


@dataclass(frozen=True, slots=True)
class Definition:
    """What one of our operators computes, in Python: the arithmetic of its C function.

    Attributes:
        compute: its result, from its record and its tensors; all are flat, as they lie in memory.
        rounds: whether the result may be one step off what PyTorch computes in float32.
        dtype: of the result.
        is_last: whether a result of four dimensions is an image in channels-last memory; else it is where an operand of
            its shape is.
    """

    compute: Callable[..., Array]
    rounds: bool
    dtype: torch.dtype = torch.int8
    is_last: Callable[[Sequence[Tensor]], bool] | None = None


def value_of(node: fx.Node) -> Tensor:
    """The tensor that a node stands for."""
    return cast(Tensor, node.meta["val"])


def stored(steps: npt.NDArray[np.int64]) -> Array:
    """Numbers of steps as int8, which holds the nearest that it can."""
    return steps.clip(-128, 127).astype(np.int8)
