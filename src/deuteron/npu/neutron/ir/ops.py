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

    ABS = "abs"
    EXP = "exp"
    HARD_SWISH = "hard_swish"
    LOG = "log"
    LOGISTIC = "logistic"
    RELU = "relu"
    RELU6 = "relu6"
    RELU_0_TO_1 = "relu_0_to_1"
    RELU_N1_TO_1 = "relu_n1_to_1"
    RSQRT = "rsqrt"
    TANH = "tanh"


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """Base of all operators: names of inputs and outputs, and the TFLite operators that it comes from."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origin: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClampedOp(Op):
    """Operators with a clamp of the result."""

    clamp: Clamp = Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryOp(Op):
    """Operators with two inputs that broadcast to one shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOp(Op):
    """Reductions over `axes`, which are sorted and non-negative; the output shape may keep them with size 1."""

    axes: tuple[int, ...]


def clamp_of(op: Op) -> Clamp:
    """Return the limits of the op's result."""
    return op.clamp if isinstance(op, ClampedOp) else Clamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2D(ClampedOp):
    """inputs (x NHWC, weights OHWI, bias i32 [O]); outside the map x has its zero point."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = Pads()


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConv2D(ClampedOp):
    """inputs (x NHWC, weights [1,H,W,C*multiplier], bias i32); output channel c reads input channel c // multiplier."""

    multiplier: int = 1
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pads = Pads()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeConv(ClampedOp):
    """inputs (x NHWC, weights OHWI, bias i32 [O]): element j of x adds to outputs j * stride + k - pad, tap by tap k.

    `pads` crops the full result of (in - 1) * stride + kernel rows; rows below its end are the bias only, so the bottom
    and right pads may be negative.
    """

    stride: Pair = (1, 1)
    pads: Pads = Pads()


@dataclass(frozen=True, slots=True, kw_only=True)
class FullyConnected(ClampedOp):
    """inputs (x [..., I], weights [O, I], bias i32 [O]); x is read as a matrix of rows of I elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMatMul(ClampedOp):
    """inputs (x [..., M, K], y [..., K, N]), leading dimensions equal; `adj_*`: its last two dimensions are swapped."""

    adj_x: bool = False
    adj_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(ClampedOp, BinaryOp):
    """Broadcasting sum of two inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sub(ClampedOp, BinaryOp):
    """Broadcasting difference: the first input less the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mul(ClampedOp, BinaryOp):
    """Broadcasting product of two inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Maximum(BinaryOp):
    """Broadcasting maximum of the real values of two inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Minimum(BinaryOp):
    """Broadcasting minimum of the real values of two inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prelu(BinaryOp):
    """inputs (x, alpha), alpha broadcasts to x: x where its real value is at least 0, else alpha * x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePool2D(ClampedOp):
    """Mean over each window of the elements inside the map (padding is not counted)."""

    window: Pair
    stride: Pair
    pads: Pads = Pads()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool2D(ClampedOp):
    """Maximum over each window of the elements inside the map; input and output share one quantization."""

    window: Pair
    stride: Pair
    pads: Pads = Pads()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean(ReductionOp):
    """Mean over `axes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum(ReductionOp):
    """Sum over `axes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceMax(ReductionOp):
    """Maximum over `axes`; input and output share one quantization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceMin(ReductionOp):
    """Minimum over `axes`; input and output share one quantization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeBilinear(Op):
    """Bilinear interpolation of an NHWC map to the output's size; one quantization.

    Row i of the output is at (i + 1/2) * in / out - 1/2 with half-pixel centers, at i * (in - 1) / (out - 1) with
    aligned corners, else at i * in / out, clamped to 0..in - 1. Columns follow the same rule.
    """

    align_corners: bool = False
    half_pixel_centers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeNearest(Op):
    """Row i of the output is row floor(i * in / out) of an NHWC map, and so are columns; one quantization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPad(Op):
    """Padding with the elements next to the edge, which is not repeated (REFLECT); each pad is below its dimension."""

    paddings: tuple[Pair, ...]


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
    """Inputs joined along `axis` (non-negative); all share the output's quantization."""

    axis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Op):
    """The box at `begin` with the output's shape."""

    begin: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantize(Op):
    """The same real values under the output's quantization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Op):
    """A real function of one input, element by element."""

    function: Function


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakyRelu(Op):
    """x where its real value is at least 0, else alpha * x."""

    alpha: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup(Op):
    """The stored value `entries[x + 128]` for each stored value x: a lookup table."""

    entries: tuple[int, ...]
