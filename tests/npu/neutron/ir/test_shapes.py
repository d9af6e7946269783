"""Shape inference: the arithmetic of windows, and what operators refuse."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.shapes import broadcast, extent, output_shape, resize_positions, same_padding, window_count


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "dilation", "pads"),
    [(224, 3, 2, 1, (0, 1)), (49, 10, 2, 1, (4, 5)), (10, 4, 2, 1, (1, 1)), (5, 1, 3, 1, (0, 0)), (7, 3, 1, 2, (2, 2))],
)
def test_same_padding(size: int, kernel: int, stride: int, dilation: int, pads: tuple[int, int]) -> None:
    assert same_padding(size, kernel, stride, dilation) == pads


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_same_padding_gives_one_window_per_stride(size: int, kernel: int, stride: int, dilation: int) -> None:
    pads = same_padding(size, kernel, stride, dilation)
    assert 0 <= pads[0] <= pads[1] <= pads[0] + 1
    assert pads[1] < extent(kernel, dilation) or pads == (0, 0)
    assert window_count(size, kernel, stride, dilation, pads) == -(-size // stride)


@given(
    st.integers(1, 30), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(0, 9), st.integers(0, 9)
)
def test_window_count_counts(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> None:
    last_tap = range((kernel - 1) * dilation, before + size + after, stride)
    assert max(window_count(size, kernel, stride, dilation, (before, after)), 0) == len(last_tap)


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [((2, 3), (2, 3), (2, 3)), ((2, 1), (3,), (2, 3)), ((), (4,), (4,)), ((1, 5, 1), (2, 1, 7), (2, 5, 7))],
)
def test_broadcast(a: tuple[int, ...], b: tuple[int, ...], common: tuple[int, ...]) -> None:
    assert broadcast(a, b) == broadcast(b, a) == common


@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from(["half-pixel centres", "aligned corners", "neither"]))
def test_resize_positions(size: int, out: int, form: str) -> None:
    start, step, unit = resize_positions(
        size, out, align_corners=form == "aligned corners", half_pixel_centers=form == "half-pixel centres"
    )
    assert math.gcd(start, step, unit) == 1
    found = [Fraction(start + i * step, unit) for i in range(out)]
    match form:
        case "half-pixel centres":
            assert found == [(i + Fraction(1, 2)) * size / out - Fraction(1, 2) for i in range(out)]
        case "aligned corners":
            assert found[0] == 0
            assert out == 1 or found[-1] == size - 1
            assert all(b - a == found[-1] / (out - 1) for a, b in itertools.pairwise(found))
        case _:
            assert found == [Fraction(i * size, out) for i in range(out)]


@pytest.mark.parametrize(
    ("sizes", "corners", "centres", "positions"),
    [
        ((4, 8), False, True, (-1, 2, 4)),
        ((4, 32), False, True, (-7, 2, 16)),
        ((5, 9), True, False, (0, 1, 2)),
        ((5, 1), True, False, (0, 0, 1)),
        ((1, 6), True, False, (0, 0, 1)),
        ((3, 6), False, False, (0, 1, 2)),
        ((7, 7), False, True, (0, 1, 1)),
    ],
)
def test_resize_positions_in_lowest_terms(
    sizes: tuple[int, int], corners: bool, centres: bool, positions: tuple[int, int, int]
) -> None:
    assert resize_positions(*sizes, align_corners=corners, half_pixel_centers=centres) == positions


OUT = {"outputs": ("y",)}
CONV = ops.Conv2D(inputs=("x", "w", "b"), outputs=("y",))
DEPTHWISE = ops.DepthwiseConv2D(inputs=("x", "w", "b"), outputs=("y",), multiplier=2)
DENSE = ops.FullyConnected(inputs=("x", "w", "b"), outputs=("y",))
SPREAD = ops.TransposeConv(inputs=("x", "w", "b"), outputs=("y",), stride=(2, 2), pads=ops.Pads(0, 9, 0, 0))
PRODUCT = ops.BatchMatMul(inputs=("x", "z"), outputs=("y",), adj_y=True)
RESIZE = ops.ResizeBilinear(inputs=("x",), outputs=("y",))
POOL = ops.MaxPool2D(inputs=("x",), outputs=("y",), window=(3, 3), stride=(1, 1))


@pytest.mark.parametrize(
    ("op", "inputs", "declared", "message"),
    [
        (CONV, ((4, 4, 2), (3, 1, 1, 2), (3,)), (), "input has shape [4, 4, 2], NHWC is required"),
        (CONV, ((1, 4, 4, 2), (3, 2), (3,)), (), "weights have shape [3, 2], rank 4 is required"),
        (CONV, ((1, 4, 4, 2), (3, 1, 1, 4), (3,)), (), "weights [3, 1, 1, 4] do not fit 2 input channels"),
        (CONV, ((1, 4, 4, 2), (3, 1, 1, 2), (2,)), (), "bias has shape [2], [3] is required"),
        (CONV, ((1, 4, 2, 2), (3, 1, 3, 2), (3,)), (), "a 1x3 window does not fit the padded 4x2 map"),
        (DEPTHWISE, ((1, 4, 4, 2), (1, 1, 1, 2), (2,)), (), "weights [1, 1, 1, 2] do not fit 2 input channels times 2"),
        (DENSE, ((2, 3), (4, 1, 3), (4,)), (), "weights have shape [4, 1, 3], rank 2 is required"),
        (DENSE, ((2, 3), (4, 3), (3,)), (), "bias has shape [3], [4] is required"),
        (DENSE, ((2, 3), (4, 4), (4,)), (), "input [2, 3] is not made of rows of 4 elements"),
        (SPREAD, ((4, 4, 2), (3, 1, 1, 2), (3,)), (), "input has shape [4, 4, 2], NHWC is required"),
        (SPREAD, ((1, 4, 4, 2), (3, 2), (3,)), (), "weights have shape [3, 2], rank 4 is required"),
        (SPREAD, ((1, 4, 4, 2), (3, 1, 1, 4), (3,)), (), "weights [3, 1, 1, 4] do not fit 2 input channels"),
        (SPREAD, ((1, 4, 4, 2), (3, 1, 1, 2), (2,)), (), "bias has shape [2], [3] is required"),
        (SPREAD, ((1, 4, 4, 2), (3, 2, 3, 2), (3,)), (), "pads leave -1x9 of the map"),
        (PRODUCT, ((2, 3, 4), (3, 5, 4)), (), "[2, 3, 4] and [3, 5, 4] are not stacks of equally many matrices"),
        (PRODUCT, ((3, 4), (1, 5, 4)), (), "[3, 4] and [1, 5, 4] are not stacks of equally many matrices"),
        (PRODUCT, ((4,), (4,)), (), "[4] and [4] are not stacks of equally many matrices"),
        (PRODUCT, ((2, 3, 4), (2, 4, 5)), (), "rows of 4 elements do not meet columns of 5"),
        *(
            (kind(inputs=("x", "z"), **OUT), ((2, 3), (2,)), (), "shapes [2, 3] and [2] do not broadcast")
            for kind in (ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum)
        ),
        (ops.Prelu(inputs=("x", "z"), **OUT), ((2, 3), (2,)), (), "shapes [2, 3] and [2] do not broadcast"),
        (ops.Prelu(inputs=("x", "z"), **OUT), ((2, 1), (3,)), (), "alpha [3] does not broadcast to [2, 1]"),
        (ops.Prelu(inputs=("x", "z"), **OUT), ((3,), (1, 3)), (), "alpha [1, 3] does not broadcast to [3]"),
        (POOL, ((1, 2, 5, 1),), (), "a 3x3 window does not fit the padded 2x5 map"),
        (ops.Mean(inputs=("x",), axes=(), **OUT), ((2,),), (), "axes [] are not sorted, distinct axes of [2]"),
        (ops.Mean(inputs=("x",), axes=(1,), **OUT), ((2,),), (), "axes [1] are not sorted, distinct axes of [2]"),
        *(
            (
                kind(inputs=("x",), axes=(0, 2), **OUT),
                ((2, 3),),
                (),
                "axes [0, 2] are not sorted, distinct axes of [2, 3]",
            )
            for kind in (ops.Sum, ops.ReduceMax, ops.ReduceMin)
        ),
        (RESIZE, ((4, 4, 2),), (8, 8, 2), "input has shape [4, 4, 2], NHWC is required"),
        (RESIZE, ((1, 4, 4, 2),), (1, 8, 8, 3), "[1, 4, 4, 2] has other batches or channels"),
        (
            ops.ResizeNearest(inputs=("x",), **OUT),
            ((1, 4, 4, 2),),
            (8, 8, 2),
            "[1, 4, 4, 2] has other batches or channels",
        ),
        (
            ops.MirrorPad(inputs=("x",), paddings=((0, 1), (2, 0)), **OUT),
            ((2, 2),),
            (),
            "a padding reaches beyond the far edge of [2, 2]",
        ),
        (ops.MirrorPad(inputs=("x",), paddings=((0, 1),), **OUT), ((2, 2),), (), "1 paddings do not fit [2, 2]"),
        (ops.MirrorPad(inputs=("x",), paddings=((-1, 0),), **OUT), ((2,),), (), "a padding is negative"),
        (ops.Pad(inputs=("x",), paddings=((0, 1),), value=0, **OUT), ((2, 2),), (), "1 paddings do not fit [2, 2]"),
        (ops.Pad(inputs=("x",), paddings=((0, -1),), value=0, **OUT), ((2,),), (), "a padding is negative"),
        (ops.Reshape(inputs=("x",), **OUT), ((2, 3),), (5,), "[2, 3] has another number of elements"),
        (ops.Transpose(inputs=("x",), perm=(0, 0), **OUT), ((2, 3),), (), "[0, 0] does not permute [2, 3]"),
        (ops.Concat(inputs=("x", "z"), axis=2, **OUT), ((2, 3), (2, 3)), (), "axis 2 is outside [2, 3]"),
        (
            ops.Concat(inputs=("x", "z"), axis=1, **OUT),
            ((2, 3), (3, 3)),
            (),
            "[2, 3] and [3, 3] differ outside axis 1",
        ),
        (ops.Slice(inputs=("x",), begin=(1,), **OUT), ((2,),), (2,), "the box of [2] at [1] leaves [2]"),
        (ops.Softmax(inputs=("x",), **OUT), ((),), (), "a scalar has no innermost dimension"),
    ],
)
def test_refusals(op: ops.Op, inputs: tuple[tuple[int, ...], ...], declared: tuple[int, ...], message: str) -> None:
    with pytest.raises(VerifyError) as error:
        output_shape(op, inputs, declared)
    assert str(error.value) == message


@pytest.mark.parametrize("declared", [(6, 4), (2, 3, 4), (1, 6, 4)])
def test_fully_connected_takes_any_shape_of_rows(declared: tuple[int, ...]) -> None:
    assert output_shape(DENSE, ((2, 3, 5), (4, 5), (4,)), declared) == declared


def test_fully_connected_prefers_a_matrix() -> None:
    assert output_shape(DENSE, ((2, 3, 5), (4, 5), (4,)), (4, 6)) == (6, 4)
