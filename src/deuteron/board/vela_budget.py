"""Fits TFLite files for an NPU into a budget of SRAM: for an Ethos-U in stripes, cut before Vela compiles them."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from deuteron.arch import targets
from deuteron.arch.targets import EthosU
from deuteron.arch.vela import VelaOptions
from deuteron.board import vela_check
from deuteron.board.arena import sram_of_partitions
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.board.vela_check import bundle_of, samples_of
from deuteron.board.vela_search import SAMPLES, Candidate, VelaSearch, is_limited
from deuteron.builds.manifest import PROGRAM, Manifest
from deuteron.builds.options import BuildOptions
from deuteron.errors import CapacityError, UnsupportedError
from deuteron.graph_stripes.search import VELA, SegmentSearch, Tried
from deuteron.graph_stripes.tflite_writer import cut
from deuteron.npu.ethosu.program import program_of
from deuteron.runtime import pte, tflite_build
from deuteron.runtime.pte_writer import Delegated
from deuteron.runtime.tflite_build import VelaBuild, VelaBuilder
from deuteron.runtime.tflite_model import has_c_operators

_STATE_HEADER = 16
"""Bytes before the values of a saved state: sizes and checksums, also of the program."""


def build_of(
    path: Path, target: str, options: BuildOptions = BuildOptions(), calibration: object | None = None
) -> tuple[Manifest, dict[str, bytes]]:
    """Convert a TFLite file as `tflite_build.build_of`, within the budget of SRAM if there is one.

    `vela_check` checks the result of Vela. The partitions of a Neutron get what inputs, outputs and CPU tensors leave.

    Raises:
        CapacityError: no program fits; the error names the least that was found.
    """
    is_ethosu = isinstance(targets.load(target).npu, EthosU)
    made = partial(tflite_build.build_of, path, target, calibration=calibration, choose=_chosen if is_ethosu else None)
    manifest, files = made(options=options)
    budget = None if is_ethosu or not manifest.partitions else options.memory.sram_budget
    if budget is not None and (tensors := _tensors_beyond(manifest, files, budget)):
        manifest, files = _next_to_tensors(made, options, tensors)
    if has_c_operators(target):
        HostExecutor(translate(pte.read(files[PROGRAM]), manifest, name=manifest.model.name))  # checks all steps
    return manifest, files


def _tensors_beyond(manifest: Manifest, files: Mapping[str, bytes], budget: int) -> int:
    """Return the bytes of SRAM of tensors that are not of partitions; 0 if all fits, or is for another runtime."""
    with suppress(UnsupportedError):
        bundle = translate(pte.read(files[PROGRAM]), manifest, name=manifest.model.name)
        return bundle.tensor_bytes if bundle.tensor_bytes + sram_of_partitions(bundle) > budget else 0
    return 0


def _next_to_tensors(
    made: Callable[..., tuple[Manifest, dict[str, bytes]]], options: BuildOptions, tensors: int
) -> tuple[Manifest, dict[str, bytes]]:
    """Make a build again, whose partitions fit into what `tensors` bytes of others leave of the budget."""
    budget = options.memory.sram_budget or 0
    left = replace(options.memory, sram_budget=max(1, budget - tensors))
    try:
        manifest, files = made(options=replace(options, memory=left))
    except CapacityError as error:
        needed = error.needed + tensors if error.needed else 0
        raise CapacityError(
            f"{error.message}; inputs, outputs and CPU tensors take {tensors:,} of {budget:,} bytes",
            where=error.where,
            hint=f"give `--sram-budget {needed}`" if needed else error.hint,
            needed=needed,
        ) from error
    return replace(manifest, options=replace(manifest.options, memory=options.memory)), files


def _chosen(builder: VelaBuilder) -> VelaBuild:
    right, build = vela_check.checked(builder)
    stripes, notes = build.made.stripes, vela_check.notes_on(right)
    if is_limited(builder.options.memory):
        found = VelaSearch(TfliteCompiler(right), builder.options.memory, builder.options.vela).chosen()
        build, stripes = found.candidate.made, found.stripes
        notes = (*notes, *found.notes)
    return build.noted(stripes, notes)


@dataclass(frozen=True)
class TfliteCompiler:
    """A TFLite file, as the search compiles it."""

    builder: VelaBuilder

    @property
    def workers(self) -> int:
        """One for each of two cores: Vela runs in a separate process."""
        return max(1, min(2, os.cpu_count() or 1))

    def candidate(self, options: VelaOptions, segments: tuple[Tried, ...] = ()) -> Candidate:
        """Return the program of the file, or of the file with these segments in stripes."""
        model = self.builder.prepared.model
        made = cut(model, [one.cut for one in segments]) if segments else None
        build = self.builder.built(options, made.model if made else None, is_cached=True)
        scratch = max((each.scratch_bytes for each in build.made.partitions), default=0)
        stripes, work = (made.stripes, made.work) if made else ((), ())
        return Candidate(sram_of(build), scratch, build.cycles, segments, stripes, work, build)

    def segments(self, uncut: Candidate) -> SegmentSearch:
        """Return the search over the operators inside partitions."""
        inside = frozenset(at for part in uncut.made.inside for at in part)
        return SegmentSearch(self.builder.prepared.model, VELA, inside)

    def difference(self, uncut: Candidate, one: Candidate) -> str | None:
        """Return what is wrong with a cut program: its ends, hazards, outputs or state."""
        if _names(uncut.made) != _names(one.made):
            return "its partitions have other inputs and outputs"
        for number, payload in enumerate(_payloads(one.made)):
            entry = one.made.made.partitions[number]
            if program_of(payload, f"npu {number}").hazards(entry.dataflow):
                return "its commands have a hazard"
        model = self.builder.prepared.model
        first, second = (HostExecutor(bundle_of(each.made)) for each in (uncut, one))
        for sample in samples_of(model, SAMPLES):
            pair = [[array.tobytes() for array in executor.run(sample)] for executor in (first, second)]
            if model.states:
                for results, executor in zip(pair, (first, second), strict=True):
                    results.append(executor.save_state()[_STATE_HEADER:])
            if pair[0] != pair[1]:
                return "Vela's commands compute other outputs"
        return None

    def names(self, first: int, last: int) -> tuple[str, ...]:
        """Return the names of operators in the file."""
        return tuple(self.builder.names()[first:last])


def sram_of(build: VelaBuild) -> int:
    """Return the bytes of SRAM of a program: working memory of partitions, CPU tensors, inputs and outputs.

    Raises:
        UnsupportedError: firmware lacks an operator of the program.
    """
    return sum(memory.bytes for memory in bundle_of(build).memories)


def _payloads(build: VelaBuild) -> Sequence[bytes]:
    return [step.payload for step in build.made.contents.steps if isinstance(step, Delegated)]


def _names(build: VelaBuild) -> Sequence[Sequence[str]]:
    """Return the inputs and outputs of the partitions, and the operators on the CPU."""
    made = build.made
    ends = [[info.name for info in (*part.inputs, *part.outputs)] for part in made.partitions]
    return [*ends, [op.node for op in made.cpu_ops]]
