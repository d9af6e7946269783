"""Reads and checks a build once, for repeated simulations and replanning."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deuteron.arch import targets
from deuteron.arch.engine import Engine, engine
from deuteron.arch.memory import Effort, FetchPolicy, MemoryOptions
from deuteron.arch.targets import Arch
from deuteron.board.cpu_tensor_memory import CpuTensorMemory
from deuteron.builds import manifest as manifests
from deuteron.builds.error_locations import with_lines
from deuteron.builds.manifest import Manifest, Partition
from deuteron.errors import CapacityError, DeuteronError, InputError, OptionError, UnsupportedError
from deuteron.npu.program import NO_SRAM, NpuProgram, Replanner, ReplanRequest
from deuteron.npu.timeline import Hazard, Totals
from deuteron.runtime import pte
from deuteron.runtime.partitions import NpuPartition, partitions_of
from deuteron.views.simulate.check import check_count, check_record
from deuteron.views.simulate.run import PartitionRun, Resident, Simulation


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of a run; None keeps the build's planned rate, or the target's.

    Attributes:
        flash_bandwidth: bytes per second.
        flash_latency: nanoseconds before the first byte of a fetch arrives.
        clock: Hz of NPU and CPU.
        first_run: simulate the first run, which loads resident weights.
    """

    flash_bandwidth: int | None = None
    flash_latency: int | None = None
    clock: int | None = None
    first_run: bool = False


AS_PLANNED = Rates()
"""The build's own rates, with resident weights loaded."""


@dataclass(frozen=True, slots=True)
class OpenBuild:
    """The content of a build directory, with every file checked.

    Attributes:
        directory: the build.
        manifest: its record.
        arch: its target, which has an NPU.
        partitions: partitions of its program; at least one.
        between: memory of its program's CPU tensors.
    """

    directory: Path
    manifest: Manifest
    arch: Arch
    partitions: tuple[NpuPartition, ...]
    between: CpuTensorMemory

    def engine(self, rates: Rates, memory: MemoryOptions) -> Engine:
        """Return the rates of a run of programs that were planned for `memory`.

        Raises:
            OptionError: a rate is for another NPU than the build's, or out of range.
        """
        if rates.first_run and self.arch.npu and not self.arch.npu.plans_sram:
            raise OptionError(
                f"`--first-run` is for weights that stay in SRAM between runs; `{self.arch.name}` has none",
                hint="leave it out: every run takes as long as the first one",
            )
        planned = memory.flash_bandwidth if rates.flash_bandwidth is None else rates.flash_bandwidth
        return engine(self.arch, flash_bandwidth=planned, flash_latency=rates.flash_latency, clock=rates.clock)

    def checked(self) -> "CheckedBuild":
        """Return its own programs; FormatError if its record does not match them."""
        check_count(self.manifest, len(self.partitions), self.directory)
        programs = [
            (partition.program().scheduled(entry.schedule), entry)
            for partition, entry in zip(self.partitions, self.manifest.partitions, strict=True)
        ]
        return _checked(self, programs, self.manifest.options.memory, None)

    def replanner(self) -> "BuildReplanner":
        """Return an object that plans its programs for other memories.

        Raises:
            UnsupportedError: partitions of this family cannot be replanned, or their TFLite files are missing.
        """
        family = self.partitions[0].family
        if family.replan is None:
            raise UnsupportedError(
                f"partitions of `{family.delegate_id}` cannot be planned again",
                hint="build the model again for the budget",
            )

        if manifests.tflite_name(0) not in self.manifest.files:
            raise UnsupportedError(
                "planning again needs the TFLite files of partitions, which a program does not have",
                hint="give a directory of `deuteron build`, or leave out `--sram-budget`",
            )

        def placed(number: int, error: CapacityError) -> DeuteronError:
            return with_lines(error, self.manifest.partitions[number].source_of)

        files = manifests.tflites(self.directory, self.manifest)
        profiling = self.manifest.options.use_profiling
        return BuildReplanner(
            self,
            family.replan(
                ReplanRequest(files, self.manifest.target, profiling, self.between.sizes, placed, self.between.is_alone)
            ),
        )


@dataclass(frozen=True, slots=True)
class BuildReplanner:
    """Plans a build's programs for other memories, any number of times."""

    build: OpenBuild
    replan: Replanner

    def __call__(self, memory: MemoryOptions) -> "CheckedBuild":
        """Return the programs for these memories, instead of those of the build's options.

        Raises:
            OptionError: the target has less.
            CapacityError: they do not fit; the error names lines of the model.
        """
        memory.check(self.build.arch)
        programs = [
            (
                again.program,
                replace(
                    entry,
                    kernels=again.kernels,
                    dataflow=again.dataflow,
                    scratch_bytes=again.scratch_bytes,
                    whole_scratch_bytes=again.whole_scratch_bytes,
                    planned_cycles=again.planned_cycles,
                    cycles_bound=again.cycles_bound,
                ),
            )
            for again, entry in zip(self.replan(memory), self.build.manifest.partitions, strict=True)
        ]
        return _checked(self.build, programs, memory, memory.sram_budget)


@dataclass(frozen=True, slots=True)
class CheckedPartition:
    """The program of a partition, its record, and its hazards; None if they are not checked."""

    program: NpuProgram
    entry: Partition
    hazards: tuple[Hazard, ...] | None


@dataclass(frozen=True, slots=True)
class CheckedBuild:
    """Decoded and checked programs of a build.

    Attributes:
        build: their build.
        partitions: in order.
        memory: memory options of their plan.
        sram_budget: bytes of a new plan; None for the build's own plan.
    """

    build: OpenBuild
    partitions: tuple[CheckedPartition, ...]
    memory: MemoryOptions
    sram_budget: int | None

    @property
    def sram_bytes(self) -> int:
        """Return the bytes of SRAM: CPU tensors, weights that nothing fetches, and the largest working memory.

        Raises:
            CapacityError: the build's own programs do not fit into the build's budget.
        """
        working = [part.program.placements(part.entry.dataflow) for part in self.partitions]
        largest = max(sum(p.memory.nbytes for p in found if p.memory.name not in NO_SRAM) for found in working)
        taken = sum(part.program.linked_bytes for part in self.partitions) + largest
        return taken if self._has_io_in_scratch else self.build.between.bytes_within(self.memory, taken) + taken

    def engine(self, rates: Rates = AS_PLANNED) -> Engine:
        """Return the engine whose cycles `totals` counts; raises its errors."""
        engine = self.build.engine(rates, self.memory)
        clock = self.partitions[0].entry.schedule.clock  # an estimate has its clock
        return replace(engine, clock=clock) if clock else engine

    def totals(self, rates: Rates = AS_PLANNED) -> tuple[Totals, ...]:
        """Return the cost of a run of each partition in cycles of `engine`: the sums of `simulated`.

        Raises:
            OptionError: a rate is for another NPU than the build's, or out of range.
        """
        engine = self.engine(rates)
        kept = self._resident(rates) is Resident.KEPT
        return tuple(part.program.totals(engine, keep_resident=kept) for part in self.partitions)

    def simulated(self, rates: Rates = AS_PLANNED) -> Simulation:
        """Return one simulated run; raises the errors of `totals`."""
        build, resident = self.build, self._resident(rates)
        engine = self.engine(rates)
        runs = tuple(
            PartitionRun(
                part.program,
                part.entry,
                part.program.timeline(engine, keep_resident=resident is Resident.KEPT),
                part.hazards,
            )
            for part in self.partitions
        )
        sram = self.memory.sram(build.arch) if build.arch.memories else 0
        needed = build.between.needed
        return Simulation(
            str(build.directory),
            build.manifest.target,
            engine,
            runs,
            resident,
            0 if self._has_io_in_scratch else needed.tensors,
            sram,
            self.sram_budget,
            needed.state,
            needed.contexts,
        )

    @property
    def _has_io_in_scratch(self) -> bool:
        """Return true if firmware places the program's inputs and outputs in its partition's scratch."""
        return self.partitions[0].program.has_io_in_scratch and self.build.between.is_alone

    def _resident(self, rates: Rates) -> Resident:
        if rates.first_run:
            return Resident.FIRST_RUN
        return Resident.KEPT if len(self.partitions) == 1 else Resident.SHARED


def _checked(
    build: OpenBuild,
    programs: Sequence[tuple[NpuProgram, Partition]],
    memory: MemoryOptions,
    sram_budget: int | None,
) -> CheckedBuild:
    """Return the programs, checked against their records and for hazards."""
    parts: list[CheckedPartition] = []
    for number, (program, entry) in enumerate(programs):
        check_record(entry, program, f"{build.directory / manifests.NAME}, partition {number}")
        parts.append(CheckedPartition(program, entry, program.hazards(entry.dataflow)))
    return CheckedBuild(build, tuple(parts), memory, sram_budget)


def open_build(directory: Path) -> OpenBuild:
    """Read a build directory.

    Raises:
        InputError: the directory is not a build, or has nothing for an NPU.
        FormatError: it is damaged.
    """
    if directory.is_file():
        raise InputError(
            f"`{directory}` is a file, but its times and memories are recorded in its build directory",
            hint="give a directory of `deuteron build`",
        )
    manifest = manifests.read(directory)
    arch = targets.load(manifest.target)
    program = (directory / manifests.PROGRAM).read_bytes() if arch.npu else b""
    method = pte.read(program).methods[0] if arch.npu else None
    partitions = partitions_of(method) if method else ()
    if method is None or not partitions:
        other = "`deuteron explain` gives the reasons" if arch.npu else "`deuteron profile` its time"
        hint = f"`deuteron plan` shows its memory in firmware, {other}"
        raise InputError(f"nothing of `{directory}` runs on an NPU", hint=hint)
    return OpenBuild(directory, manifest, arch, partitions, CpuTensorMemory(program, arch, sum(method.arenas)))


def simulate_build(
    directory: Path,
    *,
    flash_bandwidth: int | None = None,
    flash_latency: int | None = None,
    clock: int | None = None,
    sram_budget: int | None = None,
    weights_budget: int | None = None,
    effort: Effort | None = None,
    fetch_constants_to_sram: FetchPolicy | None = None,
    first_run: bool = False,
) -> Simulation:
    """Simulate a build directory.

    Args:
        directory: a directory of `deuteron build`.
        flash_bandwidth: bytes per second, instead of the planned bandwidth.
        flash_latency: nanoseconds, instead of the target's.
        clock: Hz, instead of the target's.
        sram_budget: plan the partitions again for so many bytes, and for that flash, with the build's other options.
        weights_budget: plan again for so many bytes of weights.
        effort: plan again with this effort.
        fetch_constants_to_sram: plan again with this policy.
        first_run: simulate the first run, which loads resident weights.

    Raises:
        InputError: the directory is not a build, or has nothing for our NPU driver.
        FormatError: it is damaged.
        OptionError: an argument is for another NPU than the build's, or out of range.
        CapacityError: it does not fit into its memory.
    """
    build = open_build(directory)
    rates = Rates(flash_bandwidth, flash_latency, clock, first_run)
    memory = build.manifest.options.memory
    MemoryOptions(sram_budget=sram_budget, weights_budget=weights_budget, flash_bandwidth=flash_bandwidth).check(
        build.arch
    )
    build.engine(rates, memory)  # checks the arguments before slow work
    if (sram_budget, weights_budget, effort, fetch_constants_to_sram) == (None,) * 4:
        return build.checked().simulated(rates)
    asked = replace(
        memory,
        fetch_constants_to_sram=fetch_constants_to_sram or memory.fetch_constants_to_sram,
        sram_budget=sram_budget or memory.sram_budget,
        weights_budget=weights_budget or memory.weights_budget,
        flash_bandwidth=flash_bandwidth or memory.flash_bandwidth,
        effort=effort or memory.effort,
    )
    return build.replanner()(asked).simulated(rates)
