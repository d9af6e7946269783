"""Operators of TFLite Micro's signal library that keep samples: as copies, choices and sums of other C operators."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import BY_TFLITE_OPERATOR, SelectParams
from deuteron.operators.tflite_unquantized import ArithmeticParams
from deuteron.tflite.cortex_m.broadcasting import five
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import LIMITS, Site
from deuteron.tflite.cortex_m.regions import Region, copies, whole
from deuteron.tflite.operands import Operands
from deuteron.tflite.signal_library import framer, option, overlap, stacker

_HINT_TYPE = "make the graph with the types of TFLite Micro's audio front end"
_ADD = 0

Calls = tuple[CpuCall, ...]


def _operands(site: Site) -> Operands:
    return Operands(site.op, [site.input().shape], [None], ())


def _joined(site: Site, dtype: str, new: Operand, state: int, shape: tuple[int, int, int]) -> tuple[Operand, Calls]:
    """Return rows of the elements that a state keeps with new ones behind them; without a state, those alone.

    Args:
        site: the operator.
        dtype: type of the elements.
        new: the new elements.
        state: position of the state, whose next content the calls write.
        shape: rows, elements that the state keeps of each, and new ones.
    """
    rows, kept, count = shape
    if kept == 0:
        return new, ()
    both, length = Temporary((rows, kept + count), dtype), kept + count
    behind = Region(kept, (length, 1))
    calls = copies(dtype, site.ref(state), both, (rows, kept), whole((rows, kept)), Region(0, (length, 1)))
    calls += copies(dtype, new, both, (rows, count), whole((rows, count)), behind)
    last = Region(count, (length, 1))
    return both, calls + copies(dtype, both, site.ref(state), (rows, kept), last, whole((rows, kept)))


def delay(site: Site) -> Calls:
    """Lower SignalDelay."""
    rows, count = math.prod(site.input().shape[:-1]), site.input().shape[-1]
    site.require(site.output(), "INT16", hint=_HINT_TYPE)
    kept = option(site.op, "delay_length")
    both, calls = _joined(site, "int16", site.ref(), 1, (rows, kept, count))
    first = Region(0, (kept + count, 1))
    return calls + copies("int16", both, site.out(), (rows, count), first, whole((rows, count)))


def frames(site: Site) -> Calls:
    """Lower SignalFramer. Its second output is true once frames are full: a delay of ones by so many calls."""
    site.require(site.output(), "INT16", hint=_HINT_TYPE)
    site.require(site.output(1), "BOOL", hint=_HINT_TYPE)
    of, kept, waits = framer(_operands(site))
    count = of.count * of.step
    both, calls = _joined(site, "int16", site.ref(), 1, (of.rows, kept, count))
    dims = (of.rows, of.count, of.size)
    calls += copies("int16", both, site.out(), dims, Region(0, (kept + count, of.step, 1)), whole(dims))
    valid, waiting = _joined(site, "bool", Constant(np.ones(1, np.bool_)), 2, (1, waits, 1))
    return calls + waiting + copies("bool", valid, site.out(1), (1,), whole((1,)), whole((1,)))


def stack(site: Site) -> Calls:
    """Lower SignalStacker.

    The first call fills the frames before it with its own. The first bool of the state is true after that call. The
    others say which of the next calls give a result: the one with all frames behind, then each that is a step later.
    """
    site.require(site.output(), "INT16", hint=_HINT_TYPE)
    site.require(site.output(1), "BOOL", hint=_HINT_TYPE)
    channels, left, right, step = stacker(site.op)
    known, frames = 1 + right + step, left + right
    chosen, seen = Temporary((known,), "bool"), site.ref(1)
    first = Constant(np.isin(np.arange(known), (0, 1 + right)))
    calls = _chosen(seen, (known,), seen, (1,), first, (1,), chosen)
    for source, target, count in ((1, None, 1), (0, 0, 1), (2, 1, known - 2), (1 + right, known - 1, 1)):
        written = site.out(1) if target is None else seen
        calls += copies("bool", chosen, written, (count,), Region(source, (1,)), Region(target or 0, (1,)))
    if frames:
        kept = Temporary((frames, channels), "int16")
        dims = (frames, channels)
        calls = _chosen(seen, dims, site.ref(2), (channels, 1), site.ref(), (0, 1), kept) + calls
        calls += copies("int16", kept, site.out(), (frames * channels,), whole((1,)), whole((1,)))
    size = (channels,)
    calls += copies("int16", site.ref(), site.out(), size, whole(size), Region(frames * channels, (1,)))
    if frames:
        size = (frames * channels,)
        calls += copies("int16", site.out(), site.ref(2), size, Region(channels, (1,)), whole(size))
    return calls


def _chosen(
    condition: Operand,
    dims: tuple[int, ...],
    a: Operand,
    a_strides: tuple[int, ...],
    b: Operand,
    b_strides: tuple[int, ...],
    out: Operand,
) -> Calls:
    """Return the call that chooses `a` if the first element of the condition is true, else `b`."""
    none = (0,) * (5 - len(dims))
    one = (1,) * (5 - len(dims))
    params = SelectParams(five((*one, *dims)), five((0,) * 5), five((*none, *a_strides)), five((*none, *b_strides)))
    return (CpuCall(BY_TFLITE_OPERATOR["select"], (condition, a, b), (out,), params),)


def overlap_add(site: Site) -> Calls:
    """Lower SignalOverlapAdd: each frame is added to the state, whose first samples are results."""
    of, dtype = overlap(_operands(site)), site.dtype(site.input())
    site.require(site.output(), site.input().dtype, hint=_HINT_TYPE)
    limits = LIMITS["INT16"] if dtype == "int16" else (bits_of(-math.inf), bits_of(math.inf))
    whole_frame, rest = of.rows * of.size, of.size - of.step
    calls: list[CpuCall] = []
    line, params = (of.size, 1), ArithmeticParams((1, 1, 1, 1, whole_frame), _ONE, _ONE, _ADD, *limits)
    for at in range(of.count):
        frame, total = Temporary((of.rows, of.size), dtype), Temporary((of.rows, of.size), dtype)
        read = Region(at * of.size, (of.count * of.size, 1))
        calls += copies(dtype, site.ref(), frame, (of.rows, of.size), read, whole((of.rows, of.size)))
        calls.append(CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (frame, site.ref(1)), (total,), params))
        written = Region(at * of.step, (of.count * of.step, 1))
        calls += copies(dtype, total, site.out(), (of.rows, of.step), Region(0, line), written)
        calls += copies(dtype, total, site.ref(1), (of.rows, rest), Region(of.step, line), Region(0, line))
    return tuple(calls)


_ONE = (0, 0, 0, 0, 1)

OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "SignalDelay": Lowering(delay, ("INT16",), hint=_HINT_TYPE),
        "SignalFramer": Lowering(frames, ("INT16",), hint=_HINT_TYPE),
        "SignalOverlapAdd": Lowering(overlap_add, ("INT16", "FLOAT32"), hint=_HINT_TYPE),
        "SignalStacker": Lowering(stack, ("INT16",), hint=_HINT_TYPE),
    }
)
