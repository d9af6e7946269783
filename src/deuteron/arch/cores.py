"""Cost of operators on a CPU core: closed forms over their work, with figures from a TOML file per core.

An operator takes `call` instructions, and a number of them per element and per term, counted on emulated cores
(benches/cpu_costs.py). An instruction counts as one cycle; memory stalls are not included.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from importlib import resources
from types import MappingProxyType

from deuteron.arch.preset import Certainty, Figure, Table

PARTS = 1000
"""Figures per element and per term count thousandths of an instruction."""


class Work(Enum):
    """Kind of work of an operator; the value is its name in the files.

    Elements are results, or bytes for moves and transposes. Terms are the inputs of each result: multiply-accumulates,
    or elements in the windows of a pool.
    """

    CONVOLUTION = "convolution"
    WINOGRAD = "winograd"  # elements: inputs and, twice, outputs of all tiles; terms: products of transformed numbers
    POINTS = "points"  # 1x1 convolution, without im2col
    DEPTHWISE = "depthwise"  # with kernel width 3 and stride 1
    APART = "apart"  # depthwise with other windows
    LINEAR = "linear"
    AVERAGE = "average"
    LARGEST = "largest"
    SUM = "sum"
    PRODUCT = "product"
    TABLE = "table"
    SOFTMAX = "softmax"
    MOVE = "move"  # contiguous
    DECODE = "decode"  # of compressed weights; terms: bytes of the tables
    TRANSPOSE = "transpose"  # byte by byte
    QUANTIZE = "quantize"
    DEQUANTIZE = "dequantize"
    TOTAL = "total"  # a sum or mean over dimensions
    PLACE = "place"  # of an extremum
    RUNNING = "running"  # cumulative sum
    NORM = "norm"  # group normalisation
    SHARE = "share"  # log softmax
    MASKED = "masked"  # masked softmax
    COMPARE = "compare"
    CHOICE = "choice"
    RESIZE = "resize"  # bilinear interpolation
    INT16_LAYER = "wide_layer"  # int16 activations, here and below
    INT16_DEPTHWISE = "wide_depthwise"
    INT16_SUM = "wide_sum"
    INT16_PRODUCT = "wide_product"
    INT16_TABLE = "wide_table"
    INT16_POOL = "wide_pool"
    REQUANTIZE = "requantize"  # between 8 and 16 bits
    RECURRENT = "recurrent"  # a recurrent layer, whose instructions are not counted
    NOTHING = "nothing"  # a view, or fused into the operator before
    UNKNOWN = "unknown"  # not counted

    @property
    def multiplies(self) -> bool:
        """True if its terms are multiply-accumulates."""
        narrow = (Work.CONVOLUTION, Work.WINOGRAD, Work.POINTS, Work.DEPTHWISE, Work.APART, Work.LINEAR)
        return self in (*narrow, Work.INT16_LAYER, Work.INT16_DEPTHWISE, Work.RECURRENT)


class InnerWork(Enum):
    """Instruction set of the inner loops of the int8 operators; the value is its name in the files.

    It is also their directory in `firmware/src/cortex_m/`. A core with one kind also has all earlier kinds.
    """

    PORTABLE = "portable"
    DSP = "dsp"  # of Armv7E-M, and of Armv8-M with DSP
    MVE = "mve"  # vectors of Armv8.1-M

    def has(self, other: "InnerWork") -> bool:
        """Return True if cores of this kind run code for the other."""
        kinds = tuple(InnerWork)
        return kinds.index(self) >= kinds.index(other)


@dataclass(frozen=True, slots=True)
class Rate:
    """Thousandths of an instruction per element, and per term."""

    element: Figure
    term: Figure | None


@dataclass(frozen=True, slots=True)
class Core:
    """A CPU core.

    Attributes:
        inner: instruction set for the inner loops of the int8 operators.
        call: instructions of each call of an operator, without its elements.
        rates: rates by kind of work.
    """

    name: str
    inner: InnerWork
    call: Figure
    rates: Mapping[Work, Rate]

    def instructions(self, work: Work, elements: int, terms: int = 0) -> int | None:
        """Return an estimate for one call; None for work that is not counted."""
        if work is Work.NOTHING:
            return 0
        rate = self.rates.get(work)
        if rate is None:
            return None
        parts = elements * rate.element.value + terms * (rate.term.value if rate.term else 0)
        return self.call.value + -(-parts // PARTS)


@cache
def names() -> tuple[str, ...]:
    """Return the names of all cores."""
    files = (resources.files("deuteron.arch") / "cores").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


@cache
def load(name: str) -> Core:
    """Load the core of this name, which is the CPU of a target."""
    where = f"core `{name}`"
    table = Table.parse((resources.files("deuteron.arch") / "cores" / f"{name}.toml").read_text("utf-8"), where)
    inner = table.choice("inner", InnerWork)
    if table.has("nearest"):
        core = _like(load(table.text("nearest")), name, inner)
    else:
        rates = {work: _rate(table.table(work.value)) for work in Work if table.has(work.value)}
        core = Core(name, inner, table.figure("call"), MappingProxyType(rates))
    table.finish()
    return core


def _like(nearest: Core, name: str, inner: InnerWork) -> Core:
    """Return a core without counts, with the figures of another."""

    def taken(figure: Figure) -> Figure:
        source = f"taken from the {nearest.name}, the nearest core with figures: {figure.source}"
        return replace(figure, certainty=Certainty.UNVERIFIED, source=source)

    rates = {
        work: Rate(taken(rate.element), taken(rate.term) if rate.term else None) for work, rate in nearest.rates.items()
    }
    return Core(name, inner, taken(nearest.call), MappingProxyType(rates))


def _rate(table: Table) -> Rate:
    rate = Rate(table.figure("element"), table.figure("term") if table.has("term") else None)
    table.finish()
    return rate
