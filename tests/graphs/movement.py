"""Operators that move elements and change none."""

from math import prod

from tests.graphs.builder import MAX_ELEMENTS, MAX_RANK, Builder, Shape

from deuteron.npu.neutron.ir.ops import Concat, MirrorPad, Pad, Reshape, Slice, Transpose
from deuteron.npu.neutron.ir.types import Tensor


def pad(build: Builder, x: Tensor) -> None:
    """A padding with any value along any dimensions, those of a map most often."""
    rank = len(x.type.shape)
    spatial = rank == 4 and build.chance(0.6)
    paddings = tuple(
        (build.between(0, 2), build.between(0, 2)) if not spatial or axis in (1, 2) else (0, 0) for axis in range(rank)
    )
    if prod(dim + sum(pads) for dim, pads in zip(x.type.shape, paddings, strict=True)) > MAX_ELEMENTS:
        return
    outputs, origin = build.fields()
    value = build.pick((x.type.q.zero_point, -128, build.between(-128, 127)))
    build.emit(Pad(inputs=(x.name,), outputs=outputs, origin=origin, paddings=paddings, value=value), x.type.q)


def mirror_pad(build: Builder, x: Tensor) -> None:
    """A reflection along some dimensions, as far as it goes now and then."""
    paddings = tuple(
        (build.between(0, min(3, dim - 1)), build.between(0, min(3, dim - 1))) if build.chance(0.6) else (0, 0)
        for dim in x.type.shape
    )
    if prod(dim + sum(pads) for dim, pads in zip(x.type.shape, paddings, strict=True)) > MAX_ELEMENTS:
        return
    outputs, origin = build.fields()
    build.emit(MirrorPad(inputs=(x.name,), outputs=outputs, origin=origin, paddings=paddings), x.type.q)


def reshape(build: Builder, x: Tensor) -> None:
    """Another shape of as many elements."""
    outputs, origin = build.fields()
    build.emit(Reshape(inputs=(x.name,), outputs=outputs, origin=origin), x.type.q, _factors(build, x.type.numel))


def _factors(build: Builder, numel: int) -> Shape:
    """A shape of rank 4 as often as not, else of any."""
    rank = 4 if build.chance(0.5) else build.between(1, MAX_RANK)
    dims: list[int] = []
    for _ in range(rank - 1):
        dims.append(build.pick([d for d in range(1, min(numel, 32) + 1) if numel % d == 0]))
        numel //= dims[-1]
    dims.append(numel)
    return tuple(dims[i] for i in build.rng.permutation(rank))


def transpose(build: Builder, x: Tensor) -> None:
    """Any order of the dimensions."""
    permute(build, x, tuple(int(i) for i in build.rng.permutation(len(x.type.shape))))


def permute(build: Builder, x: Tensor, perm: tuple[int, ...]) -> Tensor:
    """The dimensions in this order."""
    outputs, origin = build.fields()
    return build.emit(Transpose(inputs=(x.name,), outputs=outputs, origin=origin, perm=perm), x.type.q)


def concat(build: Builder, x: Tensor) -> None:
    """Concatenate the source with itself, constants, or other values that fit."""
    axis = build.between(0, len(x.type.shape) - 1)
    rest = _beside(x.type.shape, axis)
    fitting = [
        name
        for name in build.values
        if len((kind := build.tensor(name).type).shape) == len(x.type.shape)
        and _beside(kind.shape, axis) == rest
        and kind.quant == x.type.quant
    ]
    names = [x.name]
    for _ in range(build.between(0, 2)):
        shape = tuple(build.pick((1, 2, 3)) if i == axis else dim for i, dim in enumerate(x.type.shape))
        names.append(build.pick(fitting) if fitting and build.chance(0.5) else build.constant(shape, x.type.q).name)
    build.rng.shuffle(names)
    join(build, tuple(names), axis)


def _beside(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def join(build: Builder, names: tuple[str, ...], axis: int) -> None:
    """These values along `axis`, if that is not too much."""
    if sum(build.tensor(name).type.numel for name in names) > MAX_ELEMENTS:
        return
    outputs, origin = build.fields()
    quant = build.tensor(names[0]).type.q
    build.emit(Concat(inputs=names, outputs=outputs, origin=origin, axis=axis), quant)


def slice_(build: Builder, x: Tensor) -> None:
    """Any box."""
    begin = tuple(build.between(0, dim - 1) if build.chance(0.4) else 0 for dim in x.type.shape)
    size = tuple(
        build.between(1, dim - at) if build.chance(0.5) else dim - at
        for dim, at in zip(x.type.shape, begin, strict=True)
    )
    cut(build, x, begin, size)


def cut(build: Builder, x: Tensor, begin: Shape, size: Shape) -> Tensor:
    """This box."""
    outputs, origin = build.fields()
    return build.emit(Slice(inputs=(x.name,), outputs=outputs, origin=origin, begin=begin), x.type.q, size)
