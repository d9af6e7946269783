"""Shapes of the tensors that TFLite operators write, from the shapes and constants that they read.

Each rule follows the operator's definition in LiteRT's reference kernels (`tensorflow/lite/kernels`, `Prepare`).
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.errors import UnsupportedError
from deuteron.tflite.custom_options import DETECTION, options_of
from deuteron.tflite.operands import NotConstantError, Operands, Shape, ShapeError
from deuteron.tflite.signal_library import RULES as SIGNAL_RULES

SAME = 0
"""`Padding` of the schema."""

_MOST_RESIZED = 1 << 16
"""Limit of the height and the width of a resized map."""


Rule = Callable[[Operands], list[Shape]]


def shapes_of(operands: Operands) -> list[Shape] | None:
    """The shapes of the outputs; None for operators without a rule.

    Raises:
        ShapeError: the inputs contradict each other.
        NotConstantError: the shapes depend on the values of an input that is no constant.
    """
    rule = RULES.get(operands.op.title)
    return None if rule is None else rule(operands)


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which these are broadcast, as numpy does it."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except (RuntimeError, ValueError) as error:
        raise ShapeError(f"{' and '.join(str(list(shape)) for shape in shapes)} are not broadcast together") from error


def _same(operands: Operands) -> list[Shape]:
    return [operands.shapes[0]] * len(operands.op.outputs)


def _elementwise(operands: Operands) -> list[Shape]:
    return [broadcast(*operands.shapes)]


def _window(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Positions of a window along one dimension."""
    reach = (kernel - 1) * dilation + 1
    if stride < 1:
        raise ShapeError(f"a stride of {stride}")
    positions = -(-size // stride) if padding == SAME else (size - reach + stride) // stride
    if positions < 1:
        raise ShapeError(f"a window of {reach} over {size} elements")
    return positions


def _image(operands: Operands, kernel: Shape, channels: int) -> list[Shape]:
    batch, height, width, _ = _ranked(operands.shapes[0], 4)
    padding = operands.option("Padding")
    rows, columns = (
        _window(size, reach, operands.option(f"Stride{side}"), operands.option(f"Dilation{side}Factor") or 1, padding)
        for size, reach, side in ((height, kernel[0], "H"), (width, kernel[1], "W"))
    )
    return [(batch, rows, columns, channels)]


def _ranked(shape: Shape, rank: int) -> Shape:
    if len(shape) != rank:
        raise ShapeError(f"{list(shape)} where {rank} dimensions are wanted")
    return shape


def _conv(operands: Operands) -> list[Shape]:
    out_channels, height, width, channels = _ranked(operands.shapes[1], 4)
    if channels == 0 or _ranked(operands.shapes[0], 4)[3] % channels:
        raise ShapeError(f"{operands.shapes[0][3]} channels and filters of {channels}")
    return _image(operands, (height, width), out_channels)


def _depthwise(operands: Operands) -> list[Shape]:
    _, height, width, channels = _ranked(operands.shapes[1], 4)
    return _image(operands, (height, width), channels)


def _pool(operands: Operands) -> list[Shape]:
    kernel = operands.option("FilterHeight"), operands.option("FilterWidth")
    return _image(operands, kernel, _ranked(operands.shapes[0], 4)[3])


def _fully_connected(operands: Operands) -> list[Shape]:
    shape, (features, depth) = operands.shapes[0], _ranked(operands.shapes[1], 2)
    if depth == 0 or math.prod(shape) % depth:
        raise ShapeError(f"{math.prod(shape)} elements for rows of {depth}")
    if operands.option("KeepNumDims"):
        if shape[-1:] != (depth,):
            raise ShapeError(f"{list(shape)} for rows of {depth}")
        return [(*shape[:-1], features)]
    return [(math.prod(shape) // depth, features)]


def _transpose_conv(operands: Operands) -> list[Shape]:
    shape = _ranked(tuple(operands.numbers(0)), 4)
    filters, source = _ranked(operands.shapes[1], 4), _ranked(operands.shapes[2], 4)
    if (source[0], source[3], filters[0]) != (shape[0], filters[3], shape[3]):
        raise ShapeError(f"{list(source)} by filters of {list(filters)} to {list(shape)}")
    read = tuple(
        _window(size, reach, operands.option(f"Stride{side}"), 1, operands.option("Padding"))
        for size, reach, side in ((shape[1], filters[1], "H"), (shape[2], filters[2], "W"))
    )
    if read != source[1:3]:
        raise ShapeError(f"{list(shape)} from {list(source)}; it takes {list(read)} rows and columns")
    return [shape]


def _reshape(operands: Operands) -> list[Shape]:
    total = math.prod(operands.shapes[0])
    if len(operands.shapes) > 1:
        wanted = operands.numbers(1)
        if wanted == [0] and operands.recorded[0] == ():  # how old exporters write a scalar
            wanted = []
    else:
        wanted = [*(operands.vector("NewShape") or operands.recorded[0])]
    others = math.prod(n for n in wanted if n != -1)
    shape = tuple(total // others if n == -1 and others else n for n in wanted)
    if wanted.count(-1) > 1 or math.prod(shape) != total:
        raise ShapeError(f"{list(operands.shapes[0])} is not reshaped to {wanted}")
    return [shape]


def _squeeze(operands: Operands) -> list[Shape]:
    shape, dims = operands.shapes[0], operands.vector("SqueezeDims")
    chosen = {operands.axis(dim, len(shape)) for dim in dims} if dims else None
    if chosen is not None and any(shape[dim] != 1 for dim in chosen):
        raise ShapeError(f"dimensions {sorted(chosen)} of {list(shape)} are not 1")
    return [tuple(n for dim, n in enumerate(shape) if (n != 1 if chosen is None else dim not in chosen))]


def _expand_dims(operands: Operands) -> list[Shape]:
    shape = operands.shapes[0]
    (number,) = operands.numbers(1) or [0]
    dim = operands.axis(number, len(shape) + 1)
    return [(*shape[:dim], 1, *shape[dim:])]


def _concatenation(operands: Operands) -> list[Shape]:
    first = operands.shapes[0]
    dim = operands.axis(operands.option("Axis"), len(first))
    for shape in operands.shapes:
        if len(shape) != len(first) or (*shape[:dim], *shape[dim + 1 :]) != (*first[:dim], *first[dim + 1 :]):
            raise ShapeError(f"{list(first)} and {list(shape)} along dimension {dim}")
    return [(*first[:dim], sum(shape[dim] for shape in operands.shapes), *first[dim + 1 :])]


def _pack(operands: Operands) -> list[Shape]:
    first = operands.shapes[0]
    dim = operands.axis(operands.option("Axis"), len(first) + 1)
    if any(shape != first for shape in operands.shapes):
        raise ShapeError("inputs of unequal shapes")
    return [(*first[:dim], len(operands.shapes), *first[dim:])]


def _unpack(operands: Operands) -> list[Shape]:
    shape = operands.shapes[0]
    dim = operands.axis(operands.option("Axis"), len(shape))
    if shape[dim] != len(operands.op.outputs):
        raise ShapeError(f"{len(operands.op.outputs)} outputs of {list(shape)} along dimension {dim}")
    return [(*shape[:dim], *shape[dim + 1 :])] * shape[dim]


def _pad(operands: Operands) -> list[Shape]:
    shape, pads = operands.shapes[0], operands.numbers(1)
    if len(pads) != 2 * len(shape) or min(pads, default=0) < 0:
        raise ShapeError(f"{pads} around {list(shape)}")
    return [tuple(n + before + after for n, before, after in zip(shape, pads[::2], pads[1::2], strict=True))]


def _reduce(operands: Operands) -> list[Shape]:
    shape = operands.shapes[0]
    dims = {operands.axis(number, len(shape)) for number in operands.numbers(1)}
    if operands.option("KeepDims"):
        return [tuple(1 if dim in dims else n for dim, n in enumerate(shape))]
    return [tuple(n for dim, n in enumerate(shape) if dim not in dims)]


def _argument(operands: Operands) -> list[Shape]:
    shape = operands.shapes[0]
    dim = operands.axis(operands.numbers(1)[0], len(shape))
    return [(*shape[:dim], *shape[dim + 1 :])]


def _resize(operands: Operands) -> list[Shape]:
    batch, _, _, channels = _ranked(operands.shapes[0], 4)
    height, width = operands.numbers(1)
    if not 0 < height <= _MOST_RESIZED or not 0 < width <= _MOST_RESIZED:
        raise ShapeError(f"{height} x {width} elements, which are not from 1 to {_MOST_RESIZED:,}")
    return [(batch, height, width, channels)]


def _transpose(operands: Operands) -> list[Shape]:
    shape = operands.shapes[0]
    order = [operands.axis(number, len(shape)) for number in operands.numbers(1)]
    if sorted(order) != [*range(len(shape))]:
        raise ShapeError(f"{order} is no order of {len(shape)} dimensions")
    return [tuple(shape[dim] for dim in order)]


def strided_slices(operands: Operands) -> tuple[list[int | slice | None], list[int]]:
    """Index of STRIDED_SLICE as numpy takes it, and the shape of the result.

    Dimensions are counted in the order of `begin`: an ellipsis stands for all that are not named.
    """
    shape, numbers = operands.shapes[0], [operands.numbers(position) for position in (1, 2, 3)]
    count = len(numbers[0])
    begin, end, ellipsis, new, shrink = (
        operands.option(f"{name}Mask") for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")
    )
    if any(len(each) != count for each in numbers):
        raise ShapeError(f"{[len(each) for each in numbers]} begins, ends and strides")
    named = sum(not (new >> i & 1 or ellipsis >> i & 1) for i in range(count))
    index: list[int | slice | None] = []
    dim = 0
    for i, (first, last, step) in enumerate(zip(*numbers, strict=True)):
        if ellipsis >> i & 1:
            whole = len(shape) - named
            index += [slice(None)] * whole
            dim += whole
        elif new >> i & 1:
            index.append(None)
        elif dim >= len(shape) or step == 0:
            raise ShapeError(f"{count} slices of {list(shape)}")
        elif shrink >> i & 1:
            if not -shape[dim] <= first < shape[dim]:
                raise ShapeError(f"element {first} of {shape[dim]}")
            index.append(first)
            dim += 1
        else:
            stop = first + last if operands.option("Offset") else last
            index.append(slice(None if begin >> i & 1 else first, None if end >> i & 1 else stop, step))
            dim += 1
    result: list[int] = []
    dim = 0
    for each in index:
        if each is None:
            result.append(1)
        else:
            if isinstance(each, slice):
                result.append(len(range(shape[dim])[each]))
            dim += 1
    return index, [*result, *shape[dim:]]


def _strided_slice(operands: Operands) -> list[Shape]:
    return [tuple(strided_slices(operands)[1])]


def _slice(operands: Operands) -> list[Shape]:
    shape, begins, sizes = operands.shapes[0], operands.numbers(1), operands.numbers(2)
    if not len(begins) == len(sizes) == len(shape):
        raise ShapeError(f"{len(begins)} begins and {len(sizes)} sizes for {len(shape)} dimensions")
    result = tuple(n - first if size == -1 else size for n, first, size in zip(shape, begins, sizes, strict=True))
    if any(first < 0 or size < 0 or first + size > n for n, first, size in zip(shape, begins, result, strict=True)):
        raise ShapeError(f"{sizes} elements from {begins} on of {list(shape)}")
    return [result]


def _split(operands: Operands) -> list[Shape]:
    shape, count = operands.shapes[1], len(operands.op.outputs)
    dim = operands.axis(operands.numbers(0)[0], len(shape))
    if shape[dim] % count:
        raise ShapeError(f"{count} equal parts of {shape[dim]}")
    return [(*shape[:dim], shape[dim] // count, *shape[dim + 1 :])] * count


def _split_v(operands: Operands) -> list[Shape]:
    shape, sizes = operands.shapes[0], operands.numbers(1)
    dim = operands.axis(operands.numbers(2)[0], len(shape))
    rest = shape[dim] - sum(size for size in sizes if size != -1)
    sizes = [rest if size == -1 else size for size in sizes]
    if min(sizes, default=0) < 0 or sum(sizes) != shape[dim] or len(sizes) != len(operands.op.outputs):
        raise ShapeError(f"parts of {sizes} of {shape[dim]}")
    return [(*shape[:dim], size, *shape[dim + 1 :]) for size in sizes]


def _gather(operands: Operands) -> list[Shape]:
    shape, indices, batch = operands.shapes[0], operands.shapes[1], operands.option("BatchDims")
    dim = operands.axis(operands.option("Axis"), len(shape))
    return [(*shape[:dim], *indices[batch:], *shape[dim + 1 :])]


def _gather_nd(operands: Operands) -> list[Shape]:
    shape, indices = operands.shapes
    if not indices or not 1 <= indices[-1] <= len(shape):
        raise ShapeError(f"indices {list(indices)} into {list(shape)}")
    return [(*indices[:-1], *shape[indices[-1] :])]


def _batch_matmul(operands: Operands) -> list[Shape]:
    left, right = operands.shapes
    if min(len(left), len(right)) < 2:
        raise ShapeError(f"{list(left)} and {list(right)} are no matrices")
    (rows, depth), (other, columns) = left[-2:], right[-2:]
    if operands.option("AdjX"):
        rows, depth = depth, rows
    if operands.option("AdjY"):
        other, columns = columns, other
    if depth != other:
        raise ShapeError(f"rows of {depth} and columns of {other}")
    return [(*broadcast(left[:-2], right[:-2]), rows, columns)]


def _space_to_depth(operands: Operands) -> list[Shape]:
    batch, height, width, channels = _ranked(operands.shapes[0], 4)
    block = operands.option("BlockSize")
    if block < 1 or height % block or width % block:
        raise ShapeError(f"blocks of {block} of {list(operands.shapes[0])}")
    return [(batch, height // block, width // block, channels * block * block)]


def _depth_to_space(operands: Operands) -> list[Shape]:
    batch, height, width, channels = _ranked(operands.shapes[0], 4)
    block = operands.option("BlockSize")
    if block < 1 or channels % (block * block):
        raise ShapeError(f"blocks of {block} of {list(operands.shapes[0])}")
    return [(batch, height * block, width * block, channels // (block * block))]


def _space_to_batch(operands: Operands) -> list[Shape]:
    (batch, *rest), blocks, pads = operands.shapes[0], operands.numbers(1), operands.numbers(2)
    padded = [n + a + b for n, a, b in zip(rest, pads[::2], pads[1::2], strict=False)]
    if len(padded) != len(blocks) or any(b < 1 or n % b for n, b in zip(padded, blocks, strict=True)):
        raise ShapeError(f"blocks of {blocks} of {list(operands.shapes[0])}")
    inner = [n // b for n, b in zip(padded, blocks, strict=True)]
    return [(batch * math.prod(blocks), *inner, *rest[len(blocks) :])]


def _batch_to_space(operands: Operands) -> list[Shape]:
    (batch, *rest), blocks, crops = operands.shapes[0], operands.numbers(1), operands.numbers(2)
    if len(blocks) > len(rest) or len(crops) != 2 * len(blocks) or batch % max(1, math.prod(blocks)):
        raise ShapeError(f"blocks of {blocks} of {list(operands.shapes[0])}")
    inner = [n * b - first - last for n, b, first, last in zip(rest, blocks, crops[::2], crops[1::2], strict=False)]
    return [(batch // math.prod(blocks), *inner, *rest[len(blocks) :])]


def _tile(operands: Operands) -> list[Shape]:
    counts = operands.numbers(1)
    if len(counts) != len(operands.shapes[0]):
        raise ShapeError(f"{len(counts)} counts for {len(operands.shapes[0])} dimensions")
    return [tuple(n * count for n, count in zip(operands.shapes[0], counts, strict=True))]


def _fill(operands: Operands) -> list[Shape]:
    return [tuple(operands.numbers(0))]


def _broadcast_to(operands: Operands) -> list[Shape]:
    return [broadcast(operands.shapes[0], tuple(operands.numbers(1)))]


def _shape(operands: Operands) -> list[Shape]:
    return [(len(operands.shapes[0]),)]


def _scalar(_: Operands) -> list[Shape]:
    return [()]


def _range(operands: Operands) -> list[Shape]:
    start, limit, step = (operands.values[position] for position in range(3))
    if start is None or limit is None or step is None or not step.item():
        raise NotConstantError
    return [(max(0, math.ceil((limit.item() - start.item()) / step.item())),)]


def _select(operands: Operands) -> list[Shape]:
    condition, a, b = operands.shapes
    if a != b or condition not in ((), a[:1], a):
        raise ShapeError(f"{list(condition)} chooses among {list(a)} and {list(b)}")
    return [a]


def _one_hot(operands: Operands) -> list[Shape]:
    shape, depth = operands.shapes[0], operands.numbers(1)[0]
    dim = operands.axis(operands.option("Axis"), len(shape) + 1)
    return [(*shape[:dim], depth, *shape[dim:])]


def _top_k(operands: Operands) -> list[Shape]:
    return [(*operands.shapes[0][:-1], operands.numbers(1)[0])] * 2


def _broadcast_args(operands: Operands) -> list[Shape]:
    return [(max(math.prod(shape) for shape in operands.shapes),)]


def _embedding_lookup(operands: Operands) -> list[Shape]:
    ids, table = operands.shapes
    if len(ids) != 1 or len(table) < 2:
        raise ShapeError(f"rows of {list(table)} by {list(ids)} numbers")
    return [(*ids, *table[1:])]


def _detection(operands: Operands) -> list[Shape]:
    given = options_of(operands.op.custom_options) or {}
    count = int(given.get("max_detections", 0)) * int(given.get("max_classes_per_detection", 1))
    if count < 1:
        raise ShapeError("its options have no number of detections")
    return [(1, count, 4), (1, count), (1, count), (1,)]


_ELEMENTWISE = (
    "ADD SUB MUL DIV FLOOR_DIV FLOOR_MOD MAXIMUM MINIMUM POW SQUARED_DIFFERENCE EQUAL NOT_EQUAL GREATER GREATER_EQUAL "
    "LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR SELECT_V2 ATAN2 BITWISE_XOR RIGHT_SHIFT PRELU"
)
_SAME = (
    "ABS ADD_N BITCAST CAST CEIL COS CUMSUM DENSIFY DEQUANTIZE DYNAMIC_UPDATE_SLICE ELU EXP FAKE_QUANT FLOOR GELU "
    "HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_NOT LOGISTIC LOG_SOFTMAX NEG "
    "QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 REVERSE_V2 ROUND RSQRT SIGN SIN SOFTMAX SQRT SQUARE TANH ZEROS_LIKE"
)

RULES: Mapping[str, Rule] = MappingProxyType(
    dict.fromkeys(_ELEMENTWISE.split(), _elementwise)
    | dict.fromkeys(_SAME.split(), _same)
    | dict.fromkeys(("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), _reduce)
    | dict(SIGNAL_RULES)
    | {
        "ARG_MAX": _argument,
        "ARG_MIN": _argument,
        "AVERAGE_POOL_2D": _pool,
        "BATCH_MATMUL": _batch_matmul,
        "BATCH_TO_SPACE_ND": _batch_to_space,
        "BROADCAST_ARGS": _broadcast_args,
        "BROADCAST_TO": _broadcast_to,
        "CONCATENATION": _concatenation,
        "CONV_2D": _conv,
        "DEPTHWISE_CONV_2D": _depthwise,
        "DEPTH_TO_SPACE": _depth_to_space,
        DETECTION: _detection,
        "EMBEDDING_LOOKUP": _embedding_lookup,
        "EXPAND_DIMS": _expand_dims,
        "FILL": _fill,
        "FULLY_CONNECTED": _fully_connected,
        "GATHER": _gather,
        "GATHER_ND": _gather_nd,
        "L2_POOL_2D": _pool,
        "MAX_POOL_2D": _pool,
        "MIRROR_PAD": _pad,
        "ONE_HOT": _one_hot,
        "PACK": _pack,
        "PAD": _pad,
        "PADV2": _pad,
        "RANGE": _range,
        "RANK": _scalar,
        "RESHAPE": _reshape,
        "RESIZE_BILINEAR": _resize,
        "RESIZE_NEAREST_NEIGHBOR": _resize,
        "SELECT": _select,
        "SHAPE": _shape,
        "SLICE": _slice,
        "SPACE_TO_BATCH_ND": _space_to_batch,
        "SPACE_TO_DEPTH": _space_to_depth,
        "SPLIT": _split,
        "SPLIT_V": _split_v,
        "SQUEEZE": _squeeze,
        "STRIDED_SLICE": _strided_slice,
        "TILE": _tile,
        "TOPK_V2": _top_k,
        "TRANSPOSE": _transpose,
        "TRANSPOSE_CONV": _transpose_conv,
        "UNPACK": _unpack,
    }
)
"""Operator -> the shapes of its outputs."""


def unknown_shape(tensor: str) -> UnsupportedError:
    """The error for a tensor whose shape the file leaves open."""
    return UnsupportedError(
        f"the shape of tensor `{tensor}` is not known before the model runs",
        hint="give the sizes of the model's inputs, as in `--shape INPUT=1,96,96,3`",
    )
