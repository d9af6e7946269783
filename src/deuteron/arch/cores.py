"""What operators cost a CPU core: closed forms over their work, with figures from a TOML file per core.

An operator takes `call` instructions, so many per element and so many per term. They were counted on
emulated cores (benches/cpu_costs.py) and stand for cycles, one each: waits for memory are not in them.
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
    """What an operator does; the value is its spelling in the files.

    Elements are results; but for moves and transposes, which count bytes. Terms are what results sum over or choose
    from: multiply-accumulates, or what the windows of a pool hold.
    """

    CONVOLUTION = "convolution"
    POINTS = "points"  # a convolution of one by one, which gathers no windows
    DEPTHWISE = "depthwise"  # in windows three wide, one element apart
    APART = "apart"  # depthwise in other windows, which share less
    LINEAR = "linear"
    AVERAGE = "average"
    LARGEST = "largest"
    SUM = "sum"
    PRODUCT = "product"
    TABLE = "table"
    SOFTMAX = "softmax"
    MOVE = "move"  # in runs
    TRANSPOSE = "transpose"  # byte by byte
    QUANTISE = "quantise"
    DEQUANTISE = "dequantise"
    TOTAL = "total"  # a sum or mean over dimensions
    PLACE = "place"  # of an extremum
    RUNNING = "running"  # sums up to each element
    NORM = "norm"  # by statistics of groups
    SHARE = "share"  # the logarithm of a softmax
    MASKED = "masked"  # a softmax over what a mask lets through
    COMPARE = "compare"
    CHOICE = "choice"
    RESIZE = "resize"  # between rows and columns
    WIDE_LAYER = "wide_layer"  # with activations of 16 bits, as all that follow
    WIDE_DEPTHWISE = "wide_depthwise"
    WIDE_SUM = "wide_sum"
    WIDE_PRODUCT = "wide_product"
    WIDE_TABLE = "wide_table"
    WIDE_POOL = "wide_pool"
    REQUANTISE = "requantise"  # between 8 and 16 bits
    NOTHING = "nothing"  # another name for the same bytes, or done by the operator before
    UNKNOWN = "unknown"  # nobody has counted

    @property
    def multiplies(self) -> bool:
        """Whether its terms are multiply-accumulates."""
        narrow = (Work.CONVOLUTION, Work.POINTS, Work.DEPTHWISE, Work.APART, Work.LINEAR)
        return self in (*narrow, Work.WIDE_LAYER, Work.WIDE_DEPTHWISE)


class InnerWork(Enum):
    """Which instructions the inner work of the int8 operators is written for; the value is its spelling in the files.

    It is also the directory in `firmware/src/cortex_m/` that the work stands in. A core that has one kind has all that
    stand before it here.
    """

    PORTABLE = "portable"
    DSP = "dsp"  # of Armv7E-M, and of Armv8-M with DSP
    MVE = "mve"  # vectors of Armv8.1-M

    def has(self, other: "InnerWork") -> bool:
        """Whether cores of this kind run what is made for the other."""
        kinds = tuple(InnerWork)
        return kinds.index(self) >= kinds.index(other)


@dataclass(frozen=True, slots=True)
class Rate:
    """Thousandths of an instruction per element, and per term where there are any."""

    element: Figure
    term: Figure | None


@dataclass(frozen=True, slots=True)
class Core:
    """A CPU core.

    Attributes:
        inner: which inner work of the int8 operators it has the instructions for.
        call: instructions of each call of an operator beside its elements.
        rates: by the kind of work.
    """

    name: str
    inner: InnerWork
    call: Figure
    rates: Mapping[Work, Rate]

    def instructions(self, work: Work, elements: int, terms: int = 0) -> int | None:
        """An estimate for one call; None for work that nobody has counted."""
        if work is Work.NOTHING:
            return 0
        rate = self.rates.get(work)
        if rate is None:
            return None
        parts = elements * rate.element.value + terms * (rate.term.value if rate.term else 0)
        return self.call.value + -(-parts // PARTS)


@cache
def load(name: str) -> Core:
    """The core of that name, which a target names as its CPU."""
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
    """A core that nobody has counted on, with the figures of another."""

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
