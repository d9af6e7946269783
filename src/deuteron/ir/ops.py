"""The operators of the IR. Each is a frozen value; `interpret.py` defines what it computes.

Activations are NHWC where an operator has spatial dimensions. `origin` names the TFLite operators (indices in the
source flatbuffer) that an op stands for: passes merge it when they fuse and copy it when they split.
"""

from dataclasses import dataclass
from enum import Enum

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pads:
    """Rows and columns of padding around a feature map, in elements."""

    top: int = 0
    bottom: int = 0
    left: int = 0
    right: int = 0


@dataclass(frozen=True, slots=True)
class Clamp:
    """Inclusive limits of the stored int8 output."""

    lo: int = -128
    hi: int = 127


class Function(Enum):
    """Real function of a unary operator; the value is its spelling in the text form."""

    RELU = "relu"
    RELU6 = "relu6"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """What every operator has: tensor names in and out, and the TFLite operators it came from."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2D(Op):
    """inputs (x NHWC, weights OHWI, bias i32 [O]); outside the map x has its zero point."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = Pads()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConv2D(Op):
    """inputs (x NHWC, weights [1,H,W,C*multiplier], bias i32); output channel c reads input channel c // multiplier."""

    multiplier: int = 1
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = Pads()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected(Op):
    """inputs (x [..., I], weights [O, I], bias i32 [O]); x is read as a matrix of rows of I elements."""

    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Op):
    """Broadcasting sum of two inputs."""

    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul(Op):
    """Broadcasting product of two inputs."""

    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePool2D(Op):
    """Mean over each window of the elements inside the map (padding is not counted)."""

    window: Pair
    stride: Pair
    pads: Pads = Pads()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool2D(Op):
    """Maximum over each window of the elements inside the map; input and output share one quantisation."""

    window: Pair
    stride: Pair
    pads: Pads = Pads()
    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(Op):
    """Mean over `axes`, which are sorted and non-negative; the output shape says whether they are kept."""

    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Op):
    """Constant padding with the stored int8 `value`; one (before, after) pair per dimension."""

    paddings: tuple[Pair, ...]
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reshape(Op):
    """The same elements in row-major order under the output's shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax(Op):
    """Softmax of beta * x over the innermost dimension."""

    beta: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transpose(Op):
    """Output dimension i is input dimension perm[i]."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat(Op):
    """Inputs joined along `axis` (non-negative); all share the output's quantisation."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Op):
    """The box that starts at `begin` and has the output's shape."""

    begin: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize(Op):
    """The same real values under the output's quantisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Op):
    """A real function of one input, element by element."""

    function: Function
