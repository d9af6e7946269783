"""Calls of the operators that Deuteron adds, for `cpu_costs.py`."""

from collections.abc import Iterator

import numpy as np
from cortex_m import Array, Call

from deuteron.arch.cores import Work
from deuteron.numerics import softmax_table
from deuteron.operators.custom_ops import (
    ArgmaxArgminParams,
    CompareParams,
    CumsumParams,
    LogSoftmaxParams,
    MaskedSoftmaxParams,
    NormaliseParams,
    WhereParams,
)
from deuteron.operators.int16 import (
    AddS16Params,
    ConvolutionS16Params,
    InterpolateS16Params,
    MulS16Params,
    PoolS16Params,
    RequantizeParams,
)
from deuteron.operators.kernel_params import KernelParams, ReduceSumParams, ResizeBilinearParams

Row = tuple[str, Work, int, int, Call]
"""A call: what it is, its work, elements and terms."""

DEPTH = 16


def elementwise(size: int) -> Iterator[Row]:
    """Calls over `size` elements, in rows of 16 where there are rows."""
    rows, half = size // DEPTH, size // 2
    x, y = np.arange(size, dtype=np.int8), np.arange(size, dtype=np.int16)
    mask, table = np.ones((1, DEPTH), np.int8), softmax_table(0.05, 1.0).astype(np.int32)
    runs, flat, along = (rows, DEPTH, 1), (1, 1, 1, 1, size), (0, 0, 0, 0, 1)
    norm = NormaliseParams(rows, 1, DEPTH, 1, DEPTH, DEPTH, 1, 1, 1, 3, 100, 0, 20, 28, 1, 0, 50, 0)
    weights = np.full(DEPTH, 1 << 20, np.int32)
    lines = np.arange(129, dtype=np.int32)
    pair, ends = (flat, along, along), (-32767, 32767)
    image = x.reshape(1, half, 2, 1)[:, : half // 2]
    masked = MaskedSoftmaxParams(rows, DEPTH, 1, 1 << 24, 16, 0)
    resize = ResizeBilinearParams(1, half // 2, 2, 1, half, 2, -1, 2, 4, 0, 1, 1, 0)
    total, product = AddS16Params(*pair, 1 << 30, 1 << 29, 31, *ends), MulS16Params(*pair, 1 << 30, 45, *ends)
    pieces = InterpolateS16Params(size, -32768, 32767, 9)
    calls: tuple[tuple[str, Work, int, str, tuple[Array, ...], KernelParams, Array], ...] = (
        ("reduce_sum", Work.TOTAL, size, "sum", (x,), ReduceSumParams(*runs, DEPTH, 3, 1 << 30, 32, 0), x[:rows]),
        ("argmax_argmin", Work.PLACE, size, "place", (x,), ArgmaxArgminParams(*runs, 1), np.zeros(rows, np.int64)),
        ("cumsum", Work.RUNNING, 0, "sums", (x,), CumsumParams(*runs, 3, 1 << 30, 34, 0), x),
        ("normalise", Work.NORM, 0, "norm", (x, weights, weights), norm, x),
        ("log_softmax", Work.SHARE, 0, "log", (x, table), LogSoftmaxParams(*runs, 1 << 30, 32, 1 << 30, 34, 0), x),
        ("masked_softmax", Work.MASKED, 0, "masked", (x, table, mask), masked, x),
        ("compare", Work.COMPARE, 0, "compare", (x, x), CompareParams(*pair, 0), np.zeros(size, np.bool_)),
        ("where", Work.CHOICE, 0, "where", (x > 0, x, x), WhereParams(flat, along, along, along), x),
        ("resize_bilinear", Work.RESIZE, 0, "resize", (image,), resize, x),
        ("broadcast_add_s16", Work.INT16_SUM, 0, "sum", (y, y), total, y),
        ("broadcast_mul_s16", Work.INT16_PRODUCT, 0, "product", (y, y), product, y),
        ("interpolate_s16", Work.INT16_TABLE, 0, "lines", (y, lines), pieces, y),
        ("requantize_s8", Work.REQUANTIZE, 0, "8 bits", (y,), RequantizeParams(size, 0, 1 << 30, 38, 0), x),
        ("requantize_s16", Work.REQUANTIZE, 0, "16 bits", (x,), RequantizeParams(size, 0, 1 << 30, 23, 0), y),
    )  # fmt: skip
    for function, work, terms, name, inputs, params, like in calls:
        yield f"{name} of {size:,}", work, like.size, terms, Call(f"dtn_cm_{function}", inputs, params, None, like, 0)


def layers() -> Iterator[Row]:
    """Layers and pools of 16 bits: a stem, a plain one, points, linear ones, depthwise ones."""
    shapes = ((32, 3, 16, 3, 1), (16, 16, 16, 3, 1), (12, 64, 64, 1, 1), (1, 128, 128, 1, 1), (1, 640, 32, 1, 1),
              (16, 32, 32, 3, 32), (12, 16, 16, 5, 16))  # fmt: skip
    for side, in_c, out_c, kernel, groups in shapes:
        sizes = (1, side, side, in_c, side, side, out_c, groups, kernel, kernel, 1, 1, kernel // 2, kernel // 2, 1, 1)
        weights = np.ones((out_c, kernel, kernel, in_c // groups), np.int8)
        factors = (np.full(out_c, n, np.int32) for n in (3 << 20, 35, 1000))
        x, y = np.arange(side * side * in_c, dtype=np.int16), np.zeros(side * side * out_c, np.int16)
        call = Call(
            "dtn_cm_convolution_s16", (x, weights, *factors), ConvolutionS16Params(*sizes, -32767, 32767), None, y, 0
        )
        work = Work.INT16_DEPTHWISE if groups > 1 else Work.INT16_LAYER
        yield f"16 bits {kernel}x{kernel} {in_c}->{out_c}, {side}x{side}", work, y.size, y.size * weights[0].size, call
    for side, channels, window in ((16, 16, 2), (16, 16, 4), (8, 32, 8)):
        for maximum in (0, 1):
            out = side // window
            params = PoolS16Params(1, side, side, channels, out, out, window, window, window, window, 0, 0, maximum, 0)
            x, y = np.arange(side * side * channels, dtype=np.int16), np.zeros(out * out * channels, np.int16)
            call = Call("dtn_cm_pool_s16", (x,), params, None, y, 0)
            yield (
                f"16 bits pool {window}x{window} {maximum}, {side}x{side}x{channels}",
                Work.INT16_POOL,
                y.size,
                x.size,
                call,
            )
