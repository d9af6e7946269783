"""Fits TFLite files for an Ethos-U into a budget of SRAM: cuts them into stripes of rows before Vela compiles them.

Vela's own cascades end at tensors with several readers. The search cuts through these, compiles the most promising
cuts, and takes the fastest program that fits by Vela's estimate; the uncut program is always a candidate. The program
that is taken computes the same outputs as the uncut one for random inputs, bit for bit.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deuteron.arch import targets
from deuteron.arch.memory import DepthFirst, Effort, MemoryOptions
from deuteron.arch.targets import EthosU
from deuteron.arch.vela import Optimise, VelaOptions
from deuteron.board import vela_check
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.board.vela_check import bundle_of, samples_of
from deuteron.builds.manifest import PROGRAM, Manifest, StripedSegment
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, DeuteronError, UnsupportedError, counted
from deuteron.graph_stripes.rows import StripesError
from deuteron.graph_stripes.search import KEEP_FROM, VELA, SegmentSearch, Tried, cost_of
from deuteron.graph_stripes.tflite_writer import CutModel, cut
from deuteron.npu.ethosu.program import program_of
from deuteron.runtime import pte, tflite_build
from deuteron.runtime.pte_writer import Delegated
from deuteron.runtime.tflite_build import VelaBuild, VelaBuilder
from deuteron.runtime.tflite_model import has_c_operators

SAMPLES = 3
"""Random inputs for which a cut program and the uncut one are compared; a state goes from one to the next."""

_STATE_HEADER = 16
"""Bytes before the values of a saved state: sizes and checksums, also of the program."""

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
        build: the program.
        sram: bytes of SRAM: all partitions, CPU tensors, inputs and outputs.
        segments: what is cut.
        model: the model in stripes; None for the uncut one.
        options: of Vela.
    """

    build: VelaBuild
    sram: int
    options: VelaOptions
    segments: tuple[Tried, ...] = ()
    model: CutModel | None = None

    @property
    def cycles(self) -> int:
        """Vela's estimate."""
        return self.build.cycles


def build_of(
    path: Path, target: str, options: BuildOptions = BuildOptions(), calibration: object | None = None
) -> tuple[Manifest, dict[str, bytes]]:
    """Convert a TFLite file as `tflite_build.build_of`, within the budget of SRAM if there is one.

    `vela_check` checks the result of Vela.

    Raises:
        CapacityError: no program for an Ethos-U fits; the error names the least that was found.
    """
    choose = _chosen if isinstance(targets.load(target).npu, EthosU) else None
    manifest, files = tflite_build.build_of(path, target, options, calibration, choose)
    if has_c_operators(target):
        HostExecutor(translate(pte.read(files[PROGRAM]), manifest, name=manifest.model.name))  # checks all steps
    return manifest, files


def _chosen(builder: VelaBuilder) -> VelaBuild:
    right, build = vela_check.checked(builder)
    if is_limited(builder.options.memory):
        build = VelaSearch(right).chosen()
    return build.noted(build.made.stripes, vela_check.notes_on(right))


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

    def learn(self, proposal: _Proposal, nbytes: int) -> None:
        """Correct the expectation by what Vela needs."""
        if nbytes >= self._uncut:  # the peak is at operators outside of these
            self._idle |= proposal.covered
        self._ratios[proposal.ends] = nbytes / max(1, proposal.expected)
        self._seen.append(self._ratios[proposal.ends])

    def _order(self, each: _Proposal) -> tuple[bool, bool, float]:
        expected = each.expected * self._ratios.get(each.ends, sum(self._seen) / len(self._seen))
        is_above = expected > _NEAR * self._available
        return each.covered <= self._idle, is_above, expected if is_above else each.cost


class VelaSearch:
    """The search for one file."""

    def __init__(self, builder: VelaBuilder, retries: int = _RETRIES, end: float | None = None) -> None:
        self._builder, self._retries = builder, retries
        self._memory, self._vela = builder.options.memory, builder.options.vela
        self._budget = self._memory.sram_budget
        seconds = _SECONDS[self._memory.effort]
        self._end = processor_time() + seconds if end is None else end
        self._until = self._end - (1 - _FIRST) * seconds if end is None else end
        self._notes: list[str] = []
        self._checked: dict[int, bool] = {}
        self._outside = 0

    def chosen(self) -> VelaBuild:
        """Return the fastest program within the budget; without one, that with the least SRAM."""
        uncut = self.candidate(self._vela)
        self._outside = uncut.sram - max((each.scratch_bytes for each in uncut.build.made.partitions), default=0)
        depth_first, budget = self._memory.depth_first, self._budget
        if budget is not None and uncut.sram <= budget and depth_first is not DepthFirst.ALWAYS:
            return uncut.build
        found = [uncut, *self._uncut()]
        if depth_first is not DepthFirst.NEVER:
            found += self._cut(min(found, key=lambda one: one.sram))
        taken = self._taken(found, uncut)
        before = min((one for one in found if one.model is None), key=lambda one: one.sram)
        if depth_first is DepthFirst.ALWAYS and taken.model is None:
            self._notes.append("the program is not in stripes: no cut of it can be used")
        return taken.build.noted(tuple(self._stripes(taken, before)), tuple(dict.fromkeys(self._notes)))

    def _taken(self, found: Sequence[Candidate], uncut: Candidate) -> Candidate:
        """Return the best candidate that computes what the uncut program computes."""
        is_cut = self._memory.depth_first is DepthFirst.ALWAYS

        def order(one: Candidate) -> tuple[bool, int, int]:
            figures = (one.sram, one.cycles) if self._budget is None else (one.cycles, one.sram)
            return is_cut and one.model is None, *figures

        for one in sorted(filter(self._fits, found), key=order):
            if self._is_right(uncut, one):
                return one
        raise self._too_large(found, uncut)

    def _is_right(self, uncut: Candidate, one: Candidate) -> bool:
        """Return True if a candidate computes what the uncut program computes; each is run once."""
        if id(one) not in self._checked:
            self._checked[id(one)] = one.model is None or self.is_same(uncut, one)
        return self._checked[id(one)]

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

    def _cut(self, least: Candidate) -> list[Candidate]:
        """Return programs of the model in stripes."""
        inside = frozenset(at for part in least.build.inside for at in part)
        search = SegmentSearch(self._builder.prepared.model, VELA, inside)
        found: list[Candidate] = []
        tight = replace(self._vela, optimise=Optimise.SIZE, arena_cache_size=None)
        waiting = self._proposed(search, least)
        workers = max(1, min(2, os.cpu_count() or 1))
        with ThreadPoolExecutor(workers) as pool:
            while waiting.left and processor_time() < self._until and self._fitting(found) < _FITTING:
                batch = waiting.next(workers)
                made = pool.map(partial(self._try, tight), [each.segments for each in batch])
                for each, one in zip(batch, made, strict=True):
                    if one is not None:
                        waiting.learn(each, one.sram - self._outside)
                        found.append(one)
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
            return self.candidate(options, segments)
        except (StripesError, UnsupportedError):
            return None
        except DeuteronError as error:
            self._notes.append(f"a program that the search tried was left out: {error.message}")
            return None

    def candidate(self, options: VelaOptions, segments: tuple[Tried, ...] = ()) -> Candidate:
        """Return the program of the model, or of the model with these segments in stripes."""
        model = self._builder.prepared.model
        made = cut(model, [one.cut for one in segments]) if segments else None
        build = self._builder.built(options, made.model if made else None, is_cached=True)
        return Candidate(build, sram_of(build), options, segments, made)

    def is_same(self, uncut: Candidate, one: Candidate) -> bool:
        """Return True if a cut program has no hazards and computes the outputs of the uncut one; note it otherwise."""
        if _names(uncut) != _names(one):
            return False
        for number, payload in enumerate(_payloads(one.build)):
            entry = one.build.made.partitions[number]
            if program_of(payload, f"npu {number}").hazards(entry.dataflow):
                self._notes.append("a program in stripes was left out: its commands have a hazard")
                return False
        model = self._builder.prepared.model
        first, second = (HostExecutor(bundle_of(each.build)) for each in (uncut, one))
        for sample in samples_of(model, SAMPLES):
            pair = [[array.tobytes() for array in executor.run(sample)] for executor in (first, second)]
            if model.states:
                for results, executor in zip(pair, (first, second), strict=True):
                    results.append(executor.save_state()[_STATE_HEADER:])
            if pair[0] != pair[1]:
                self._notes.append("a program in stripes was left out: Vela's commands compute other outputs")
                return False
        return True

    def _stripes(self, taken: Candidate, before: Candidate) -> Iterator[StripedSegment]:
        if taken.model is None:
            return
        known = self._builder.names()
        for one, stripes, work in zip(taken.segments, taken.model.stripes, taken.model.work, strict=True):
            names = known[one.cut.first : one.cut.last]
            figures = (work.halo, work.macs, work.copied, before.sram, taken.sram, before.cycles, taken.cycles)
            yield StripedSegment(names, stripes, one.cut.height, *figures)

    def _too_large(self, found: Sequence[Candidate], whole: Candidate) -> CapacityError:
        """Return the error for a budget in which no program fits; it names one in which this search finds one."""
        ordered = sorted(found, key=lambda one: one.sram)
        uncut = next(one for one in ordered if one.model is None)
        least = next(one for one in ordered if self._is_right(whole, one)).sram
        if self._retries and self._memory.depth_first is not DepthFirst.NEVER and least < uncut.sram:
            memory = replace(self._memory, sram_budget=least)
            builder = replace(self._builder, options=replace(self._builder.options, memory=memory))
            try:
                least = sram_of(VelaSearch(builder, self._retries - 1, self._end).chosen())
            except _TooSmallError as error:
                if processor_time() < self._end:
                    least = error.least
        how = ", in stripes" if least < uncut.sram else ""
        tried = counted(sum(one.model is not None for one in found), "cut")
        other = ", or leave out `--depth-first never`" if self._memory.depth_first is DepthFirst.NEVER else ""
        return _TooSmallError(
            f"the program needs {least:,} bytes of SRAM{how}, the budget is {self._budget or 0:,}; as Vela places it "
            f"at least {uncut.sram:,} ({tried} tried)",
            least,
            hint=f"give `--sram-budget {least}`{other}, or `--effort exact` for more cuts",
        )


class _TooSmallError(CapacityError):
    """A budget that is too small, with the least that is enough."""

    def __init__(self, message: str, least: int, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.least = least


def sram_of(build: VelaBuild) -> int:
    """Return the bytes of SRAM of a program: working memory of partitions, CPU tensors, inputs and outputs.

    Raises:
        UnsupportedError: firmware lacks an operator of the program.
    """
    return sum(memory.bytes for memory in bundle_of(build).memories)


def _payloads(build: VelaBuild) -> Sequence[bytes]:
    return [step.payload for step in build.made.contents.steps if isinstance(step, Delegated)]


def _names(one: Candidate) -> Sequence[Sequence[str]]:
    """Return the inputs and outputs of the partitions, and the operators on the CPU."""
    made = one.build.made
    ends = [[info.name for info in (*part.inputs, *part.outputs)] for part in made.partitions]
    return [*ends, [op.node for op in made.cpu_ops]]


def processor_time() -> float:
    """Return the seconds of processor time of this process and of those that it has run."""
    return sum(os.times()[:4])
