"""Searches stripes of rows with which a graph that Vela compiles needs less SRAM.

Vela's own cascades end at tensors with several readers. The search cuts through these, compiles the most promising
cuts, and takes the fastest program that fits by Vela's estimate; the uncut program is always a candidate. The program
that is taken computes the same outputs as the uncut one for random inputs, bit for bit. A `Compiler` knows the format
of the graph.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from deuteron.arch.memory import DepthFirst, Effort, MemoryOptions
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.builds.manifest import StripedSegment
from deuteron.errors import CapacityError, DeuteronError, UnsupportedError, counted
from deuteron.graph_stripes.emit import Work
from deuteron.graph_stripes.rows import StripesError
from deuteron.graph_stripes.search import KEEP_FROM, SegmentSearch, Tried, cost_of
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu.program import program_of
from deuteron.runtime.ethosu import Partition

SAMPLES = 3
"""Random inputs for which a cut program and the uncut one are compared; a state goes from one to the next."""

_LIMITS = (1.0, 0.85)
"""Limits of live bytes inside a segment, as parts of the budget."""

_POLICIES = (KEEP_FROM, (None,), (0,))
"""Rows that are kept: as it costs least, none, all."""

_NEAR = 1.01
"""Corrected estimates that are tried first, as parts of the budget."""

_PARTS = (0.7, 0.5, 0.35, 0.25)
"""Lower limits, as parts of the uncut program's SRAM."""

_RETRIES = 3
"""Searches for a larger budget, so that an error names one that is enough."""

_SECONDS = {Effort.FAST: 60.0, Effort.EXACT: 600.0}
"""Processor time of a search with its retries, after which it compiles no further cuts."""

_FIRST = 2 / 3
"""The part of it for the given budget; the rest is for retries."""

_FITTING = 4
"""Cut programs within the budget after which the search ends; the cheapest ones by estimate come first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that Vela made.

    Attributes:
        sram: bytes of SRAM: all partitions, CPU tensors, inputs and outputs.
        scratch: bytes of them that the partitions share.
        cycles: Vela's estimate.
        segments: what is cut.
        stripes: number of stripes of each segment.
        work: of each segment.
        made: what the compiler needs to know of it.
    """

    sram: int
    scratch: int
    cycles: int
    segments: tuple[Tried, ...] = ()
    stripes: tuple[int, ...] = ()
    work: tuple[Work, ...] = ()
    made: Any = field(default=None, compare=False)


class Compiler(Protocol):
    """Compiles a graph, or cuts of it, with Vela."""

    @property
    def workers(self) -> int:
        """Number of candidates that may be compiled at the same time."""
        ...

    def candidate(self, options: VelaOptions, segments: tuple[Tried, ...] = ()) -> Candidate:
        """Return the program of the graph, or of the graph with these segments in stripes.

        Raises:
            StripesError: the segments cannot be cut in this way.
            UnsupportedError: Vela does not compile the graph.
        """
        ...

    def segments(self, uncut: Candidate) -> SegmentSearch:
        """Return the search over the segments that may be cut."""
        ...

    def difference(self, uncut: Candidate, one: Candidate) -> str | None:
        """Return what is wrong with a cut program; None if it computes what the uncut one computes."""
        ...

    def names(self, first: int, last: int) -> tuple[str, ...]:
        """Return the names of operators in reports."""
        ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """The result of a search: the program, its stripes for the manifest, and what was left out."""

    candidate: Candidate
    stripes: tuple[StripedSegment, ...] = ()
    notes: tuple[str, ...] = ()


def is_limited(memory: MemoryOptions) -> bool:
    """Return True if options ask for less SRAM than Vela takes by itself."""
    return memory.sram_budget is not None or memory.depth_first is DepthFirst.ALWAYS


@dataclass(frozen=True, slots=True)
class _Proposal:
    """Segments to cut, the bytes that Vela is expected to need, and the cost in multiply-accumulates."""

    segments: tuple[Tried, ...]
    expected: int
    cost: int

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """The ends of the segments; estimates for the same ends are wrong in the same way."""
        return tuple((one.cut.first, one.cut.last) for one in self.segments)

    @property
    def is_kept(self) -> bool:
        """True if rows are kept from one stripe for the next."""
        return any(one.cut.kept for one in self.segments)

    @property
    def covered(self) -> frozenset[int]:
        """The operators that are cut."""
        return frozenset(at for first, last in self.ends for at in range(first, last))


class _Waiting:
    """Proposals that are not compiled yet; the cheapest that is expected to fit is next.

    Args:
        left: the proposals.
        available: bytes for the partitions; 0 for as little as possible.
        uncut: bytes that Vela needs for the uncut model.
        ratio: the same as a multiple of what is expected.
    """

    def __init__(self, left: list[_Proposal], available: int, uncut: int, ratio: float) -> None:
        self.left, self._available, self._uncut = left, available, uncut
        self._idle: set[int] = set()
        self._wrong: set[bool] = set()
        self._ratios: dict[tuple[tuple[int, int], ...], float] = {}
        self._seen = [ratio]

    def next(self, count: int) -> list[_Proposal]:
        """Take so many proposals."""
        taken: list[_Proposal] = []
        while self.left and len(taken) < count:
            ends = {each.ends for each in taken}
            best = min(self.left, key=lambda each: (each.ends in ends, *self._order(each)))
            self.left.remove(best)
            taken.append(best)
        return taken

    def learn(self, proposal: _Proposal, nbytes: int, *, is_right: bool) -> None:
        """Correct the expectation by what Vela needs; cuts of the other kind come first after wrong commands."""
        if not is_right:
            self._wrong.add(proposal.is_kept)
        if nbytes >= self._uncut:  # the peak is at operators outside of these
            self._idle |= proposal.covered
        self._ratios[proposal.ends] = nbytes / max(1, proposal.expected)
        self._seen.append(self._ratios[proposal.ends])

    def _order(self, each: _Proposal) -> tuple[bool, bool, bool, float]:
        expected = each.expected * self._ratios.get(each.ends, sum(self._seen) / len(self._seen))
        is_above = expected > _NEAR * self._available
        return each.is_kept in self._wrong, each.covered <= self._idle, is_above, expected if is_above else each.cost


class VelaSearch:
    """The search for one graph.

    Args:
        compiler: of the graph.
        memory: the budget, if there is one, and whether to cut.
        vela: the options that the user has given.
        retries: further searches for an error that names a budget which is enough.
        end: processor time at which it ends.
        share: number of searches that share the processor time.
    """

    def __init__(
        self,
        compiler: Compiler,
        memory: MemoryOptions,
        vela: VelaOptions,
        retries: int = _RETRIES,
        end: float | None = None,
        share: int = 1,
    ) -> None:
        self._compiler, self._retries = compiler, retries
        self._memory, self._vela = memory, vela
        self._budget = self._memory.sram_budget
        seconds = _SECONDS[self._memory.effort] / share
        self._end = processor_time() + seconds if end is None else end
        self._until = self._end - (1 - _FIRST) * seconds if end is None else end
        self._notes: list[str] = []
        self._checked: dict[int, tuple[Candidate, bool]] = {}
        self._outside = 0

    def chosen(self) -> Chosen:
        """Return the fastest program within the budget; without one, that with the least SRAM.

        Raises:
            CapacityError: no program fits; the error names the least that was found.
        """
        uncut = self._compiler.candidate(self._vela)
        self._outside = uncut.sram - uncut.scratch
        depth_first, budget = self._memory.depth_first, self._budget
        if budget is not None and uncut.sram <= budget and depth_first is not DepthFirst.ALWAYS:
            return Chosen(uncut)
        found = [uncut, *self._uncut()]
        if depth_first is not DepthFirst.NEVER:
            found += self._cut(uncut, min(found, key=lambda one: one.sram))
        taken = self._taken(found, uncut)
        if depth_first is DepthFirst.ALWAYS and not taken.segments:
            self._notes.append("the program is not in stripes: no cut of it can be used")
        return Chosen(taken, tuple(self._stripes(taken, uncut)), tuple(dict.fromkeys(self._notes)))

    def _taken(self, found: Sequence[Candidate], uncut: Candidate) -> Candidate:
        """Return the best candidate that computes what the uncut program computes."""
        is_cut = self._memory.depth_first is DepthFirst.ALWAYS

        def order(one: Candidate) -> tuple[bool, int, int]:
            figures = (one.sram, one.cycles) if self._budget is None else (one.cycles, one.sram)
            return is_cut and not one.segments, *figures

        for one in sorted(filter(self._fits, found), key=order):
            if self._is_right(uncut, one):
                return one
        raise self._too_large(found, uncut)

    def _is_right(self, uncut: Candidate, one: Candidate) -> bool:
        """Return True if a candidate computes what the uncut program computes; each is run once."""
        if id(one) not in self._checked:
            difference = self._compiler.difference(uncut, one) if one.segments else None
            if difference is not None:
                self._notes.append(f"a program in stripes was left out: {difference}")
            self._checked[id(one)] = one, difference is None  # the object stays, and with it its number
        return self._checked[id(one)][1]

    def _uncut(self) -> Iterator[Candidate]:
        """Yield programs of the uncut model that Vela makes for less SRAM, unless options say how it must."""
        if self._vela.optimise is not Optimise.PERFORMANCE or self._vela.arena_cache_size is not None:
            return
        for options in self._for_less():
            if (one := self._try(options)) is not None:
                yield one

    def _for_less(self) -> Iterator[VelaOptions]:
        """Yield options for less SRAM: the fastest within what partitions may take, and the least."""
        yield replace(self._vela, optimise=Optimise.SIZE)
        if self._budget is not None and self._budget > self._outside:
            yield replace(self._vela, arena_cache_size=self._budget - self._outside)

    def _cut(self, uncut: Candidate, least: Candidate) -> list[Candidate]:
        """Return programs of the model in stripes; those that fit compute what the uncut one computes."""
        search = self._compiler.segments(least)
        found: list[Candidate] = []
        tight = replace(self._vela, optimise=Optimise.SIZE, arena_cache_size=None)
        waiting = self._proposed(search, least)
        workers = self._compiler.workers
        with ThreadPoolExecutor(workers) as pool:
            while waiting.left and processor_time() < self._until and self._fitting(found) < _FITTING:
                batch = waiting.next(workers)
                made = pool.map(partial(self._try, tight), [each.segments for each in batch])
                for each, one in zip(batch, made, strict=True):
                    if one is not None:
                        is_right = not self._fits(one) or self._is_right(uncut, one)
                        waiting.learn(each, one.sram - self._outside, is_right=is_right)
                        found += [one] if is_right else []
        better = sorted((one for one in found if self._fits(one)), key=lambda one: one.cycles)[:2]
        for one in better if self._vela.arena_cache_size is None else ():
            faster = (self._try(options, one.segments) for options in list(self._for_less())[1:])
            found += (each for each in faster if each is not None)
        return found

    def _proposed(self, search: SegmentSearch, least: Candidate) -> "_Waiting":
        """Return segments to cut together."""
        size = least.sram - self._outside
        available = size if self._budget is None else self._budget - self._outside
        parts = _LIMITS if self._budget is not None and available > 0 else ()
        limits = [round(part * available) for part in parts]
        lower = [round(part * size) for part in _PARTS]
        limits += [limit for limit in lower if limit < _LIMITS[-1] * available] or lower
        combined: list[tuple[Tried, ...]] = []
        for limit in limits:
            for kept in _POLICIES:
                combined += search.fitting(limit, kept)
                search.single(limit, kept)
        proposed = [_Proposal(each, search.expected(each), cost_of(each)) for each in search.proposed(combined)]
        peak = max(range(len(search.live)), key=search.live.__getitem__)
        proposed = [each for each in proposed if peak in each.covered] or proposed
        ratio = max(1.0, size / max(1, search.expected(())))
        return _Waiting(proposed, available if self._budget is not None else 0, size, ratio)

    def _fits(self, one: Candidate) -> bool:
        return self._budget is None or one.sram <= self._budget

    def _fitting(self, found: Sequence[Candidate]) -> int:
        return sum(map(self._fits, found)) if self._budget is not None else 0

    def _try(self, options: VelaOptions, segments: tuple[Tried, ...] = ()) -> Candidate | None:
        """Return a program, None if it cannot be made; an error other than Vela's refusal is noted."""
        try:
            return self._compiler.candidate(options, segments)
        except (StripesError, UnsupportedError):
            return None
        except DeuteronError as error:
            self._notes.append(f"a program that the search tried was left out: {error.message}")
            return None

    def _stripes(self, taken: Candidate, before: Candidate) -> Iterator[StripedSegment]:
        for one, stripes, work in zip(taken.segments, taken.stripes, taken.work, strict=True):
            names = self._compiler.names(one.cut.first, one.cut.last)
            figures = (work.halo, work.macs, work.copied, before.sram, taken.sram, before.cycles, taken.cycles)
            yield StripedSegment(names, stripes, one.cut.height, *figures)

    def _too_large(self, found: Sequence[Candidate], whole: Candidate) -> CapacityError:
        """Return the error for a budget in which no program fits; it names one in which this search finds one."""
        ordered = sorted(found, key=lambda one: one.sram)
        uncut = next(one for one in ordered if not one.segments)
        least = next(one for one in ordered if self._is_right(whole, one)).sram
        if self._retries and self._memory.depth_first is not DepthFirst.NEVER and least < uncut.sram:
            memory = replace(self._memory, sram_budget=least)
            try:
                again = VelaSearch(self._compiler, memory, self._vela, self._retries - 1, self._end)
                least = again.chosen().candidate.sram
            except TooSmallError as error:
                if processor_time() < self._end:
                    least = error.least
        how = ", in stripes" if least < uncut.sram else ""
        tried = counted(sum(bool(one.segments) for one in found), "cut")
        other = ", or leave out `--depth-first never`" if self._memory.depth_first is DepthFirst.NEVER else ""
        return TooSmallError(
            f"the program needs {least:,} bytes of SRAM{how}, the budget is {self._budget or 0:,}; as Vela places it "
            f"at least {uncut.sram:,} ({tried} tried)",
            least,
            hint=f"give `--sram-budget {least}`{other}, or `--effort exact` for more cuts",
        )


class TooSmallError(CapacityError):
    """A budget that is too small, with the least that is enough."""

    def __init__(self, message: str, least: int, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.least = least


def payload_difference(uncut: bytes, one: bytes, values: Dataflow, dtypes: Sequence[str]) -> str | None:
    """Return what is wrong with a partition in stripes: its ends, hazards or outputs for random inputs.

    Args:
        uncut: the payload of the partition that is not cut.
        one: the payload of the partition in stripes.
        values: what the operations of the second one read and write.
        dtypes: of the inputs, for numpy.
    """
    programs = [program_of(payload, "npu") for payload in (uncut, one)]
    first, second = blobs = [program.blob for program in programs]
    sizes = [[[x.nbytes for x in blob.inputs], [x.nbytes for x in blob.outputs]] for blob in blobs]
    if sizes[0] != sizes[1]:
        return "it has other inputs and outputs"
    if programs[1].hazards(values):
        return "its commands have a hazard"
    generator, partitions = np.random.default_rng(0), [Partition(blob, "npu") for blob in (first, second)]
    for _ in range(SAMPLES):
        sample = [_random(generator, x.nbytes, dtype) for x, dtype in zip(first.inputs, dtypes, strict=True)]
        outputs = [partition.run(sample) for partition in partitions]
        if outputs[0] != outputs[1]:
            return "Vela's commands compute other outputs"
    return None


def _random(generator: np.random.Generator, nbytes: int, dtype: str) -> bytes:
    """Return random values of a type; indices are small."""
    item = np.dtype(dtype)
    most = 1 << 15 if item.itemsize == 2 else 128
    low, high = (0, 2) if dtype == "bool" else (-most, most)
    return generator.integers(low, high, nbytes // item.itemsize).astype(item).tobytes()


def processor_time() -> float:
    """Return the seconds of processor time of this process and of those that it has run."""
    return sum(os.times()[:4])
