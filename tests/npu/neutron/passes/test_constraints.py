"""Each constraint of the NPU: the largest op that keeps it, and what users read when it is broken."""

from collections.abc import Callable

import numpy as np
import pytest

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.passes.constraints import CONSTRAINTS, check, sentence
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.tflite.quantization import Quant

Shape = tuple[int, ...]
Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
HALF = Quant((0.5,), (0,))
NAMES = {"inputs": ("x",), "outputs": ("y",)}
PAIR = {"inputs": ("x", "z"), "outputs": ("y",)}
WEIGHTED = {"inputs": ("x", "w", "b"), "outputs": ("y",)}
LIMIT, LONG = 65_536, 65_537  # the second is prime


def graph(op: ops.Op, **tensors: Shape | TensorType | Array) -> Graph:
    """The graph of one op; a shape stands for an i8 tensor, an array for a constant."""
    made = [_tensor(name, value) for name, value in tensors.items()]
    inputs = tuple(tensor.name for tensor in made if not tensor.is_const and tensor.name != "y")
    return Graph("g", tuple(made), inputs, ("y",), (op,))


def _tensor(name: str, value: Shape | TensorType | Array) -> Tensor:
    if isinstance(value, np.ndarray):
        dtype = DType.INT32 if value.dtype == np.int32 else DType.INT8
        return Tensor(name, TensorType(value.shape, dtype, HALF if dtype is DType.INT8 else None), value.tobytes())
    return Tensor(name, value if isinstance(value, TensorType) else TensorType(value, DType.INT8, HALF))


def _scaled(scale: float, *shape: int) -> TensorType:
    return TensorType(shape, DType.INT8, Quant((scale,), (0,)))


def zeros(*shape: int) -> Array:
    """Weights."""
    return np.zeros(shape, np.int8)


def bias(*values: int) -> Array:
    """A bias."""
    return np.array(values, np.int32)


def conv(size: int) -> Graph:
    """A convolution over a map of that many rows."""
    return graph(ops.Conv2D(**WEIGHTED), x=(1, size, 1, 1), w=zeros(1, 1, 1, 1), b=bias(0), y=(1, size, 1, 1))


def dilated(dilation: int) -> Graph:
    """A convolution with that dilation."""
    op = ops.Conv2D(**WEIGHTED, dilation=(dilation, 1))
    return graph(op, x=(1, LIMIT, 1, 1), w=zeros(1, 1, 1, 1), b=bias(0), y=(1, LIMIT, 1, 1))


def connected(rows: int) -> Graph:
    """A fully connected layer over that many rows."""
    return graph(ops.FullyConnected(**WEIGHTED), x=(rows, 1), w=zeros(1, 1), b=bias(0), y=(rows, 1))


def matmul(stack: int, depth: int) -> Graph:
    """A stack of products."""
    return graph(ops.BatchMatMul(**PAIR), x=(stack, 1, depth), z=(stack, depth, 1), y=(stack, 1, 1))


def average(area: int) -> Graph:
    """An average pool over a window of 2^11 columns."""
    op = ops.AveragePool2D(**NAMES, window=(area >> 11, 1 << 11), stride=(1, 1))
    return graph(op, x=(1, area >> 11, 1 << 11, 1), y=(1, 1, 1, 1))


def reduced(rows: int) -> Graph:
    """A sum over that many rows of 2^11."""
    return graph(ops.Sum(**NAMES, axes=(0, 1)), x=(rows, 1 << 11), y=(1, 1))


def kept(outer: int) -> Graph:
    """A maximum over the last dimension."""
    return graph(ops.ReduceMax(**NAMES, axes=(1,)), x=(outer, 2), y=(outer, 1))


def permuted(outer: int) -> Graph:
    """A minimum over the first and the last dimension."""
    return graph(ops.ReduceMin(**NAMES, axes=(0, 2)), x=(2, outer, 2), y=(1, outer, 1))


def softmax(depth: int) -> Graph:
    """A softmax over that many elements."""
    return graph(ops.Softmax(**NAMES), x=(1, depth), y=(1, depth))


def broadcast(*dims: int) -> Graph:
    """A sum that broadcasts every other dimension of its second input."""
    other = tuple(1 if axis % 2 else dim for axis, dim in enumerate(dims))
    return graph(ops.Add(**PAIR), x=dims, z=other, y=dims)


def turned(*dims: int) -> Graph:
    """A transposition that reverses the dimensions."""
    op = ops.Transpose(**NAMES, perm=tuple(reversed(range(len(dims)))))
    return graph(op, x=dims, y=tuple(reversed(dims)))


def mirrored(*dims: int) -> Graph:
    """A mirroring pad before every dimension."""
    op = ops.MirrorPad(**NAMES, paddings=((1, 0),) * len(dims))
    return graph(op, x=dims, y=tuple(dim + 1 for dim in dims))


def nearest(size: int, out: int) -> Graph:
    """A nearest resize of a square map."""
    return graph(ops.ResizeNearest(**NAMES), x=(1, size, size, 1), y=(1, out, out, 1))


def turned_weights(value: TensorType | Array) -> Graph:
    """A transposed convolution with these weights."""
    return graph(ops.TransposeConv(**WEIGHTED), x=(1, 1, 1, 1), w=value, b=bias(0), y=(1, 1, 1, 1))


def summed(start: int) -> Graph:
    """The widest fully connected layer with the largest weights there are, and a bias."""
    weights = np.full((1, LIMIT), -128, np.int8)
    return graph(ops.FullyConnected(**WEIGHTED), x=(1, LIMIT), w=weights, b=bias(start), y=(1, 1))


def unknown(start: int) -> Graph:
    """The same with weights that are computed, which count as the largest there are."""
    return graph(ops.FullyConnected(**WEIGHTED), x=(1, LIMIT), w=(1, LIMIT), b=bias(start), y=(1, 1))


def prelu(scale: float) -> Graph:
    """A parametric relu of an input of that scale."""
    return graph(ops.Prelu(**PAIR), x=_scaled(scale, 1), z=_scaled(0.25, 1), y=_scaled(1.0, 1))


def product(scale: float) -> Graph:
    """A product of two inputs, one of that scale."""
    return graph(ops.Mul(**PAIR), x=_scaled(scale, 1), z=_scaled(4.0, 1), y=_scaled(1.0, 1))


def shared(scale: float) -> Graph:
    """A softmax whose result has that scale."""
    return graph(ops.Softmax(**NAMES), x=(1, 2), y=_scaled(scale, 1, 2))


SIZE = "dimensions, windows, strides and dilations are at most 65,536"
MATRIX = "matrices have at most 65,536 rows and columns, and a stack has at most 65,536 of them"
KEPT = "before and after the reduced dimensions of a tensor are at most 65,536 elements"
ADJACENT = "dimensions of at most 65,536; adjacent ones with one access pattern count as one; found"
COPY = f"a copy takes at most 6 {ADJACENT}"
BROADCAST = f"a broadcast takes at most 5 {ADJACENT}"
SUMS = (
    "for each output channel, 255 times the sum of its weights' magnitudes, plus that of its bias, is below 2^31; "
    "the accumulator of output channel 0 can reach 2147483648; the NPU's is below 2^31"
)
FACTOR = "the factors from input to output steps are below 2^30; found 1.07374e+09"

CASES: list[tuple[Callable[[], Graph], Callable[[], Graph], str]] = [
    (lambda: conv(LIMIT), lambda: conv(LONG), f"{SIZE}; `x` has shape [1, 65537, 1, 1]"),
    (lambda: dilated(LIMIT), lambda: dilated(LONG), f"{SIZE}; dilation is (65537, 1)"),
    (lambda: connected(LIMIT), lambda: connected(LONG), f"{MATRIX}; found 1 x 65537 x 1"),
    (lambda: matmul(LIMIT, 1), lambda: matmul(LONG, 1), f"{MATRIX}; found 65537 x 1 x 1"),
    (
        lambda: matmul(1, 32_768),
        lambda: matmul(1, 32_769),
        "a sum of a matrix product has at most 32,768 terms; found 32769",
    ),
    (
        lambda: average(1 << 23),
        lambda: average((1 << 23) + (1 << 11)),
        "the window of an average pool has at most 8,388,608 elements; found 8390656",
    ),
    (
        lambda: reduced(1 << 12),
        lambda: reduced((1 << 12) + 1),
        "a reduction covers at most 8,388,608 elements; found 8390656",
    ),
    (lambda: kept(LIMIT), lambda: kept(LONG), f"{KEPT}; found 65537 and 1"),
    (lambda: permuted(LIMIT), lambda: permuted(LONG), f"{KEPT}; found 65537 and 1"),
    (
        lambda: softmax(LIMIT),
        lambda: softmax(LONG),
        "a softmax has at most 65,536 rows of at most 65,536 elements; found 1 rows of 65537",
    ),
    (lambda: broadcast(2, 3, 2, 3, 2), lambda: broadcast(2, 3, 2, 3, 2, 3), f"{BROADCAST} [2, 3, 2, 3, 2, 3]"),
    (lambda: broadcast(LIMIT), lambda: broadcast(LONG), f"{BROADCAST} [65537]"),
    (lambda: turned(2, 3, 2, 3, 2, 3), lambda: turned(2, 3, 2, 3, 2, 3, 2), f"{COPY} [2, 3, 2, 3, 2, 3, 2]"),
    (lambda: turned(2, 2 * LIMIT), lambda: turned(2, LONG), f"{COPY} [65537, 2]"),
    (lambda: mirrored(2, 3, 2, 3, 2, 3), lambda: mirrored(2, 3, 2, 3, 2, 3, 2), f"{COPY} [2, 3, 2, 3, 2, 3, 2]"),
    (
        lambda: nearest(16, 17),
        lambda: nearest(17, 18),
        "a nearest resize takes at most 256 copies: one per row and column between which its pattern repeats; "
        "17x17 to 18x18 takes 289",
    ),
    (
        lambda: turned_weights(zeros(1, 1, 1, 1)),
        lambda: turned_weights(_scaled(0.5, 1, 1, 1, 1)),
        "the weights of a transposed convolution are constants, which are turned round before the model runs; "
        "`w` is computed",
    ),
    (lambda: summed((1 << 23) - 1), lambda: summed(1 << 23), SUMS),
    (lambda: unknown((1 << 23) - 1), lambda: unknown(1 << 23), SUMS),
    (lambda: prelu(2.0**29), lambda: prelu(2.0**30), FACTOR),
    (lambda: product(2.0**27), lambda: product(2.0**28), FACTOR),
    (
        lambda: shared(2.0**-14),
        lambda: shared(2.0**-32),
        "the scale of a softmax's result is within 2^-31..2^16; found 2.32831e-10",
    ),
]


@pytest.mark.parametrize(("good", "bad", "text"), CASES, ids=lambda value: value[:40] if isinstance(value, str) else "")
def test_each_constraint_has_its_sentence(good: Callable[[], Graph], bad: Callable[[], Graph], text: str) -> None:
    within, beyond = good(), bad()
    assert select(within).calls
    with pytest.raises(UnsupportedError) as caught:
        check(beyond.ops[0], beyond)
    assert caught.value.message == text


def test_a_bias_is_a_constant() -> None:
    kind = TensorType((1,), DType.INT32)
    broken = graph(ops.FullyConnected(**WEIGHTED, origin=(2,)), x=(1, 1), w=zeros(1, 1), b=kind, y=(1, 1))
    with pytest.raises(UnsupportedError) as caught:
        select(broken)
    assert str(caught.value) == (
        "op 2 FullyConnected, output `y`: a bias is a constant, whose values bound the sums; `b` is computed\n\n"
        "hint: change the model, or keep this operator on the CPU with `--operators-not-to-delegate`"
    )


def test_hints_that_know_more() -> None:
    with pytest.raises(UnsupportedError) as caught:
        select(product(2.0**28))
    assert str(caught.value) == (
        f"Mul, output `y`: {FACTOR}\n\n"
        "hint: check the scales of this operator's tensors; the calibration data may be degenerate"
    )


def test_every_constraint_is_broken_here() -> None:
    texts = [text for *_, text in CASES] + ["a bias is a constant, whose values bound the sums; `b` is computed"]
    for _, rule in CONSTRAINTS:
        start = sentence(rule).rstrip(".")
        assert any(text.startswith(start[0].lower() + start[1:]) for text in texts), start


def test_what_no_constraint_foresees_names_the_kernel() -> None:
    """A copy to a model output, of a length that no kernel dimension divides."""
    with pytest.raises(UnsupportedError) as caught:
        select(graph(ops.Reshape(**NAMES), x=(LONG,), y=(LONG, 1)))
    assert caught.value.message == "kernel copy_s8 cannot take it: dims is 65537, allowed are 1..65536"
