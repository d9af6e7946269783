"""Operators that move values: they keep the input's quantization."""

from deuteron.npu.neutron.ir.ops import Concat, MirrorPad, Op, Pad, Pair, Reshape, Slice, Transpose
from deuteron.npu.neutron.tflite.operator_view import Site

_REFLECT = 0
_MIRROR_MODES = ("REFLECT", "SYMMETRIC")


def _paddings(site: Site) -> tuple[Pair, ...]:
    """One (before, after) pair per dimension."""
    rank, values = len(site.input_tensor(0).shape), site.integers(1, "paddings")
    if len(values) != 2 * rank or min(values, default=0) < 0:
        raise site.malformed(f"paddings {list(values)}; {2 * rank} values of at least 0 are required")
    return tuple(zip(values[::2], values[1::2], strict=True))


def pad(site: Site) -> Op:
    """Paddings are constant; they are filled with real 0."""
    return _make_pad(site, site.output_quant().zero_point)


def pad_v2(site: Site) -> Op:
    """Paddings and value are constant; the value has the output's quantization."""
    site.operand(2)
    constant = site.input_tensor(2)
    if constant.data is None:
        raise site.unsupported(f"padding value `{constant.name}` is computed at run time; it must be a constant")
    if len(constant.data) != 1:
        raise site.malformed(f"padding value `{constant.name}` holds {len(constant.data)} bytes instead of 1")
    if constant.quant != site.output_quant():
        raise site.unsupported(f"padding value `{constant.name}` and the output have different quantization")
    return _make_pad(site, int.from_bytes(constant.data, signed=True))


def _make_pad(site: Site, value: int) -> Op:
    return Pad(
        inputs=(site.moved(0),),
        outputs=(site.output(),),
        origin=(site.index,),
        paddings=_paddings(site),
        value=value,
    )


def mirror_pad(site: Site) -> Op:
    """Paddings are constant and smaller than the dimension; the mode is REFLECT."""
    mode = site.option("Mode")
    if mode != _REFLECT:
        name = _MIRROR_MODES[mode] if 0 <= mode < len(_MIRROR_MODES) else f"number {mode}"
        raise site.unsupported(f"mode {name}; REFLECT is allowed")
    return MirrorPad(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,), paddings=_paddings(site))


def reshape(site: Site) -> Op:
    """The shape, where it is given, is constant."""
    shape = site.output_tensor().shape
    if site.has_input(1):
        asked = site.integers(1, "shape")
        if len(asked) != len(shape) or any(a not in (-1, dim) for a, dim in zip(asked, shape, strict=True)):
            raise site.malformed(f"shape {list(asked)} is asked for, the output has {list(shape)}")
    return Reshape(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,))


def drop_or_add_dimensions(site: Site) -> Op:
    """Dimensions of 1 come or go."""
    return Reshape(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,))


def transpose(site: Site) -> Op:
    """The permutation is constant."""
    rank = len(site.input_tensor(0).shape)
    perm = tuple(site.axis(value, rank) for value in site.integers(1, "permutation"))
    if sorted(perm) != list(range(rank)):
        raise site.malformed(f"{list(perm)} is no permutation of {rank} dimensions")
    return Transpose(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,), perm=perm)


def concatenation(site: Site) -> Op:
    """No fused activation; all inputs share the output's quantization."""
    if site.option("FusedActivationFunction"):
        raise site.unsupported("a fused activation; NONE is allowed", hint="make the activation a separate operator")
    return Concat(
        inputs=tuple(site.moved(i) for i in range(len(site.op.inputs))),
        outputs=(site.output(),),
        origin=(site.index,),
        axis=site.axis(site.option("Axis"), len(site.output_tensor().shape)),
    )


def slice_(site: Site) -> Op:
    """Begin and size are constant."""
    shape, result = site.input_tensor(0).shape, site.output_tensor().shape
    begin, size = site.integers(1, "begin"), site.integers(2, "size")
    if not len(begin) == len(size) == len(shape):
        raise site.malformed(f"{len(begin)} begins and {len(size)} sizes for {len(shape)} dimensions")
    ends = tuple(dim if s == -1 else b + s for b, s, dim in zip(begin, size, shape, strict=True))
    if any(not 0 <= b < e <= dim for b, e, dim in zip(begin, ends, shape, strict=True)):
        raise site.malformed(f"begin {list(begin)} and size {list(size)} do not fit into {list(shape)}")
    if result != tuple(e - b for b, e in zip(begin, ends, strict=True)):
        raise site.malformed(f"begin {list(begin)} and size {list(size)} contradict the output's {list(result)}")
    return Slice(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,), begin=begin)


def strided_slice(site: Site) -> Op:
    """Begin, end and strides are constant, strides 1; no ellipsis, new axis or shrunk axis."""
    shape, result = site.input_tensor(0).shape, site.output_tensor().shape
    begin, end, strides = (site.integers(i, what) for i, what in ((1, "begin"), (2, "end"), (3, "strides")))
    if not len(begin) == len(end) == len(strides) == len(shape):
        raise site.malformed(
            f"{len(begin)} begins, {len(end)} ends and {len(strides)} strides for {len(shape)} dimensions"
        )
    if set(strides) != {1}:
        raise site.unsupported(f"strides {list(strides)}; 1 is allowed")
    for mask in ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"):
        if site.option(mask):
            raise site.unsupported(f"{mask} {site.option(mask)}; 0 is allowed")
    starts = _limits(begin, shape, site.option("BeginMask"), (0,) * len(shape))
    ends = _limits(end, shape, site.option("EndMask"), shape)
    if result != tuple(e - b for b, e in zip(starts, ends, strict=True)):
        raise site.malformed(f"begin {list(begin)} and end {list(end)} contradict the output's {list(result)}")
    return Slice(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,), begin=starts)


def _limits(values: tuple[int, ...], shape: tuple[int, ...], mask: int, masked: tuple[int, ...]) -> tuple[int, ...]:
    """Ends of a slice: negative ones count from the end, those beyond the tensor stop there, masked ones are open."""
    wrapped = (value + dim if value < 0 else value for value, dim in zip(values, shape, strict=True))
    inside = (min(max(value, 0), dim) for value, dim in zip(wrapped, shape, strict=True))
    return tuple(open_ if mask >> i & 1 else value for i, (value, open_) in enumerate(zip(inside, masked, strict=True)))
