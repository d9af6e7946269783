"""Patterns of several operators that networks have and that compilers rewrite."""

from tests.graphs import elementwise, movement, windows
from tests.graphs.builder import MAX_ELEMENTS, Builder

from deuteron.npu.neutron.ir.ops import Add, AveragePool2D, Function, MaxPool2D, Quantize, Unary
from deuteron.npu.neutron.ir.types import Tensor
from deuteron.npu.neutron.tflite.attributes import same_pads
from deuteron.tflite.quantization import Quant

TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


def residual(build: Builder, x: Tensor) -> None:
    """A value, what is made of it in some steps that keep the shape, and their sum."""
    y = x
    for _ in range(build.between(1, 2)):
        build.pick((elementwise.activation, elementwise.mul, elementwise.quantize, elementwise.prelu))(build, y)
        y = build.tensor(build.values[-1])
    if y.type.shape != x.type.shape:
        return  # a constant that broadcast to more
    outputs, origin = build.fields()
    out = build.quant(max(x.type.q.scale, y.type.q.scale) * build.factor(0.8, 2))
    build.emit(Add(inputs=(x.name, y.name), outputs=outputs, origin=origin), out)
    if build.chance(0.6):
        outputs, origin = build.fields()
        build.emit(Unary(inputs=(build.values[-1],), outputs=outputs, origin=origin, function=Function.RELU), out)


def parallel_pools(build: Builder, x: Tensor) -> None:
    """A maximum and an average of the same windows, side by side."""
    if len(x.type.shape) != 4:
        return
    window = build.pick((2, 3)), build.pick((1, 2, 3))
    stride = build.pick((1, 2)), build.pick((1, 2))
    pads = same_pads((x.type.shape[1], x.type.shape[2]), window, stride)
    names: list[str] = []
    for kind in (MaxPool2D, AveragePool2D):
        outputs, origin = build.fields()
        pool = kind(inputs=(x.name,), outputs=outputs, origin=origin, window=window, stride=stride, pads=pads)
        names.append(build.emit(pool, x.type.q).name)
    movement.join(build, tuple(names), build.pick((3, 3, 1, 2)))


def concat_of_slices(build: Builder, x: Tensor) -> None:
    """A value cut along one dimension, its parts put together again in another order, some of them changed."""
    axis = max(range(len(x.type.shape)), key=lambda i: (x.type.shape[i], i)) if build.chance(0.7) else 0
    if x.type.shape[axis] < 2:
        return
    at = sorted({build.between(1, x.type.shape[axis] - 1) for _ in range(build.between(1, 2))})
    names: list[str] = []
    for begin, end in zip([0, *at], [*at, x.type.shape[axis]], strict=True):
        offset = tuple(begin if i == axis else 0 for i in range(len(x.type.shape)))
        size = tuple(end - begin if i == axis else dim for i, dim in enumerate(x.type.shape))
        part = movement.cut(build, x, offset, size)
        if build.chance(0.4):
            outputs, origin = build.fields()
            op = Unary(inputs=(part.name,), outputs=outputs, origin=origin, function=Function.RELU)
            part = build.emit(op, x.type.q)
        names.append(part.name)
    if build.chance(0.6):
        build.rng.shuffle(names)
    movement.join(build, tuple(names), axis)


def grouped_conv(build: Builder, x: Tensor) -> None:
    """Convolutions of parts of the channels, side by side: what is left of a grouped convolution."""
    if len(x.type.shape) != 4 or x.type.shape[3] % 2 or x.type.numel > MAX_ELEMENTS // 4:
        return
    *lead, channels = x.type.shape
    half = channels // 2
    left = movement.cut(build, x, (0, 0, 0, 0), (*lead, half))
    windows.conv2d(build, left)
    first = build.tensor(build.values[-1])
    right = movement.cut(build, x, (0, 0, 0, half), (*lead, half))
    windows.conv2d(build, right, first.type.q)
    second = build.tensor(build.values[-1])
    if first.type.shape[:3] == second.type.shape[:3]:
        movement.join(build, (first.name, second.name), 3)


def other_layout(build: Builder, x: Tensor) -> None:
    """A few steps between a transpose and its inverse, as a conversion of the channel order leaves them."""
    if len(x.type.shape) != 4:
        return
    first, second = (TO_NCHW, TO_NHWC) if build.chance(0.5) else (TO_NHWC, TO_NCHW)
    movement.permute(build, x, first)
    steps = (
        elementwise.activation, elementwise.add, elementwise.mul, elementwise.quantize, elementwise.unary,
        movement.concat, movement.pad, movement.slice_,
    )  # fmt: skip
    for _ in range(build.between(0, 2)):
        build.pick(steps)(build, build.tensor(build.values[-1]))
    y = build.tensor(build.values[-1])
    if len(y.type.shape) == 4:
        movement.permute(build, y, second)


def common_quantization(build: Builder, x: Tensor) -> None:
    """Two values that only a requantization lets stand side by side."""
    alike = [v for v in build.values if build.tensor(v).type.shape == x.type.shape]
    other = build.tensor(build.pick(alike)) if alike else x
    target: Quant = build.quant(x.type.q.scale * build.factor(0.5, 2))
    names: list[str] = []
    for part in (x, other):
        outputs, origin = build.fields()
        names.append(build.emit(Quantize(inputs=(part.name,), outputs=outputs, origin=origin), target).name)
    movement.join(build, tuple(names), build.between(0, len(x.type.shape) - 1))
