"""The account of time: how the frames of each tensor of a model depend on the frames of its input."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from torch import fx


@dataclass(frozen=True, slots=True)
class Frames:
    """A tensor with frames over time.

    Frame i of the window is frame i of the stream. A hop yields `hop / stride` frames of the tensor. The first hop
    begins at frame `-lag`: a negative frame of a stream is one that the window has not.

    Attributes:
        axis: the dimension of time.
        length: the number of frames in the window.
        stride: the number of input frames per frame.
        lag: the number of frames that the tensor is behind the input.
        head: leading frames of the window that depend on padding at its start, or on an initial state.
        inexact: leading frames that a stream does not reproduce, not even from its start.
        tail: trailing frames of the window that depend on padding at its end.
        looks_ahead: the first operator that reads this padding.
    """

    axis: int
    length: int
    stride: int = 1
    lag: int = 0
    head: int = 0
    inexact: int = 0
    tail: int = 0
    looks_ahead: fx.Node | None = None

    def moved(self, axis: int) -> "Frames":
        """Return the account of a tensor with the same frames along another dimension."""
        return replace(self, axis=axis)

    def windows(self, node: fx.Node, length: int, kernel: int, *, stride: int, dilation: int, before: int) -> "Frames":
        """Return the account of the result of an operator that reads `kernel` frames for each result.

        Args:
            node: the operator.
            length: the number of its frames in the window.
            kernel: the number of frames that it reads.
            stride: the distance between first frames that it reads.
            dilation: the distance between frames that it reads.
            before: zeros before the first frame that it reads; a negative number of frames that it skips.
        """
        reach = (kernel - 1) * dilation
        whole = (self.length - self.tail + before - reach - 1) // stride + 1
        """The number of frames that depend on no padding at the end."""
        tail = length - max(0, min(length, whole))
        pads = before > 0
        head = max(0, -(-(self.head + before) // stride)) if self.head or pads else 0
        inexact = max(0, -(-(self.inexact + before) // stride)) if self.inexact or (pads and self.lag > 0) else 0
        return replace(
            self,
            length=length,
            stride=self.stride * stride,
            lag=(self.lag + reach - before) // stride,
            head=min(head, length),
            inexact=min(inexact, length),
            tail=tail,
            looks_ahead=self.looks_ahead or (node if tail else None),
        )


@dataclass(frozen=True, slots=True)
class Whole:
    """A tensor of a whole window.

    Attributes:
        is_steady: whether it is the same for equal windows, whatever came before.
    """

    is_steady: bool = True


Account = Frames | Whole | None
"""The account of a tensor; None for constants, and for inputs without frames."""

Arguments = Mapping[str, Any]


def unchanged(_: int) -> Arguments:
    """Return no changed arguments."""
    return {}


@dataclass(frozen=True, slots=True)
class Step:
    """An operator that computes the new frames of its result from the new frames of its operands and some earlier ones.

    Attributes:
        frames: of the result.
        before: for each operand the number of earlier frames that it reads too; a negative number skips new ones.
        arguments: other values of arguments by name, for a number of new frames of the result.
        is_delay: whether it reads as many frames as it writes: those before the newest.
        is_identity: whether the new frames of the result are those of the operand.
        states: for each operand that is a state of the operator the number of the result that is its next value.
        target: another operator, if the overload does not fit the arguments.
    """

    frames: Frames
    before: Mapping[fx.Node, int] = field(default_factory=dict[fx.Node, int])
    arguments: Callable[[int], Arguments] = unchanged
    is_delay: bool = False
    is_identity: bool = False
    states: Mapping[fx.Node, int] = field(default_factory=dict[fx.Node, int])
    target: Any = None


def shape_of(node: fx.Node) -> tuple[int, ...]:
    """Return the shape of a tensor in the window."""
    return tuple(node.meta["val"].shape)


def dims_of(value: object, count: int) -> tuple[int, ...]:
    """Return dimensions, one or several, as non-negative numbers; all of them for None or an empty list."""
    listed = [value] if isinstance(value, int) else list(cast("Sequence[int]", value or ()))
    return tuple(dim % count for dim in listed) or tuple(range(count))
