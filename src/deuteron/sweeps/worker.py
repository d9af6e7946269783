"""Work of a sweep's workers: plans and runs builds repeatedly; loads no PyTorch.

Everything is read, decoded and checked once per process.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from deuteron.arch import targets
from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy, MemoryOptions
from deuteron.board import image, packed_weights
from deuteron.board.arena import Arena, planned
from deuteron.board.bundle import Bundle
from deuteron.builds import hazards
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest
from deuteron.errors import DeuteronError, UnsupportedError
from deuteron.sweeps.lowering import REFUSALS, SweptBuild, arguments, text_without_hint
from deuteron.sweeps.spec import FLASH_AXES, PLAN_AXES, Point, lacking, without
from deuteron.views import offload_costs
from deuteron.views.simulate import CheckedBuild, OpenBuild, Rates, open_build
from deuteron.views.simulate.checked import BuildReplanner

Row = dict[str, str | int | float | bool | None]
"""Data of a point, by column."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Reason why points have no rows this time; another run may succeed."""

    why: str


def evaluate(made: SweptBuild, points: Sequence[Point]) -> list[Row] | Failed:
    """Return the rows of points that share a build and a plan."""
    if made.failed:
        return Failed(made.failed)
    if made.why:
        return [_refused(point, made.why) for point in points]
    rows: dict[Point, Row] = {}
    try:
        build = _opened(made)
        for point in points:
            alike = _alike(point, build)
            if alike not in rows:
                rows[alike] = _cpu_row(alike, made, build) if isinstance(build, Manifest) else _row(alike, made, build)
        return [_of_point(point, build, rows[_alike(point, build)]) for point in points]
    except DeuteronError as e:
        return Failed(text_without_hint(e))
    except OSError as e:
        return Failed(f"`{made.path}` cannot be read: {e.strerror or e}")


def _ignored(point: Point, build: OpenBuild | Manifest) -> tuple[str, ...]:
    """Return the axes without effect: those that the target lacks, or of an NPU that runs nothing."""
    if isinstance(build, OpenBuild) or targets.load(build.target).npu is None:
        return lacking(point)
    asked = [axis for axis in (*PLAN_AXES, *FLASH_AXES) if getattr(point, axis) is not None]
    return tuple(dict.fromkeys((*lacking(point), *asked)))


def _alike(point: Point, build: OpenBuild | Manifest) -> Point:
    """Return the point without ignored values; equal results are evaluated once."""
    return replace(without(point, _ignored(point, build)), number=0)


def _of_point(point: Point, build: OpenBuild | Manifest, row: Row) -> Row:
    return {**row, **asdict(point), "ignored": ", ".join(_ignored(point, build))}


@lru_cache(maxsize=8)
def _opened(made: SweptBuild) -> OpenBuild | Manifest:
    """Return a build; without an NPU its manifest."""
    manifest = manifests.read(made.directory)
    without = targets.load(manifest.target).npu is None or not manifest.partitions
    return manifest if without else open_build(made.directory)


@lru_cache(maxsize=8)
def _replanner(made: SweptBuild) -> BuildReplanner:
    return open_build(made.directory).replanner()


@lru_cache(maxsize=64)
def _planned(made: SweptBuild, memory: MemoryOptions | None) -> CheckedBuild | str:
    """Return the programs of a build, or of its plan for other memories; or the reason for a refusal."""
    try:
        build = open_build(made.directory)
        if memory is None:
            return build.checked()
        memory.check(build.arch)
        if (linked := _linked(made, memory)) is not None:
            return replace(linked, memory=memory, sram_budget=memory.sram_budget)
        return _replanner(made)(memory)
    except REFUSALS as e:
        return text_without_hint(e)  # a stored error would keep its traceback's objects alive


def _linked(made: SweptBuild, memory: MemoryOptions) -> CheckedBuild | None:
    """Return the programs with all weights in SRAM, if they fit; they depend on neither the budget nor the flash."""
    if memory.fetch_constants_to_sram is not FetchPolicy.AUTO or memory.weights_budget is not None:
        return None
    roomy = _all_in_sram(made, memory.effort, memory.depth_first)
    if roomy is None or roomy.sram_bytes > memory.sram(roomy.build.arch):
        return None
    return roomy


@lru_cache(maxsize=8)
def _all_in_sram(made: SweptBuild, effort: Effort, depth_first: DepthFirst) -> CheckedBuild | None:
    """Return the programs for the target's whole SRAM; None if weights are still fetched, or calls still striped."""
    try:
        roomy = _replanner(made)(MemoryOptions(effort=effort, depth_first=depth_first))
    except REFUSALS:
        return None
    fetched = any(part.program.weights_bytes > part.program.linked_bytes for part in roomy.partitions)
    cut = any(part.entry.whole_scratch_bytes for part in roomy.partitions)
    return None if fetched or cut else roomy


@lru_cache(maxsize=64)
def _arena(made: SweptBuild, memory: MemoryOptions) -> Arena | str:
    """Return the memory of a CPU-only bundle; or the reason for a refusal."""
    try:
        manifest, bundle = _bundle(made)
        return planned(bundle, memory, targets.load(manifest.target).cpu.name)
    except REFUSALS as e:
        return text_without_hint(e)  # as above


@lru_cache(maxsize=2)
def _bundle(made: SweptBuild) -> tuple[Manifest, Bundle]:
    manifest = manifests.read(made.directory)
    return manifest, image.translated(made.directory, manifest)


@lru_cache(maxsize=64)
def _cpu_cycles(made: SweptBuild) -> int | None:
    """Return the estimated cycles of the CPU's operators, by a Neutron's clock if there is one; None if not counted."""
    program = (made.directory / manifests.PROGRAM).read_bytes()
    estimate = offload_costs.costs(manifests.read(made.directory), program)
    counts = [*estimate.nodes.values(), *estimate.added, *(island.turns for island in estimate.islands)]
    return None if None in counts else sum(count or 0 for count in counts)


def _memory_of(point: Point, built: MemoryOptions) -> MemoryOptions | None:
    """Return the memory options of a point; None for its build's."""
    asked = {name: value for name in PLAN_AXES if (value := getattr(point, name)) is not None}
    if not asked:
        return None
    kinds = {"fetch_constants_to_sram": FetchPolicy, "effort": Effort}
    values: dict[str, Any] = {name: kinds[name](value) if name in kinds else value for name, value in asked.items()}
    if point.flash_bandwidth is not None:
        values["flash_bandwidth"] = point.flash_bandwidth
    return replace(built, **values)


def _row(point: Point, made: SweptBuild, build: OpenBuild) -> Row:
    """Return the row of a point with a partition on an NPU."""
    try:
        planned = _planned(made, _memory_of(point, build.manifest.options.memory))
        if isinstance(planned, str):
            return _refused(point, planned)
        rates = Rates(point.flash_bandwidth, point.flash_latency, point.clock)
        runs, rated = planned.totals(rates), planned.engine(rates)
    except REFUSALS as e:
        return _refused(point, text_without_hint(e))
    parts = planned.partitions
    for part in parts:
        if part.hazards:
            hazard = hazards.describe(part.program, part.entry, part.hazards[0])
            return _refused(point, f"the program is wrong: {hazard}")
    cycles = sum(run.cycles for run in runs)
    cpu = _cpu_cycles(made)
    if cpu and not (build.arch.npu and build.arch.npu.scales_clock):
        cpu = None  # the clock of that CPU is unknown
    npu_us = rated.microseconds(cycles)
    cpu_us = None if cpu is None else rated.microseconds(cpu)
    return {
        **_begin(point, made, build.manifest),
        "fits": True,
        "why": "",
        "kind": build.arch.npu.timing if build.arch.npu else "simulated",
        "npu_us": npu_us,
        "cpu_us": cpu_us,
        "latency_us": None if cpu_us is None else npu_us + cpu_us,
        "cycles": cycles,
        "bound": max(runs, key=lambda run: run.cycles).bound,
        "sram_bytes": planned.sram_bytes,
        "fetched_bytes": sum(part.program.weights_bytes - part.program.linked_bytes for part in parts),
        "command": _command(point, made),
    }


def _cpu_row(point: Point, made: SweptBuild, manifest: Manifest) -> Row:
    """Return the row of a CPU-only point; no command prints its figures."""
    arch, cycles, sram = targets.load(manifest.target), _cpu_cycles(made), None
    plan = _arena(made, _memory_of(point, manifest.options.memory) or manifest.options.memory)
    if isinstance(plan, Arena):
        sram = sum(part.bytes for part in plan.bundle.memories)
    if arch.npu is None:  # otherwise a program without a plan may be for ExecuTorch's runtime
        if isinstance(plan, str):
            return _refused(point, plan)
        cut, whole = plan.instructions
        cycles = None if cycles is None else cycles + cut - whole
    known = arch.npu.clock.value if arch.npu and arch.npu.scales_clock else None
    hz = known if point.clock is None else point.clock
    microseconds = None if cycles is None or hz is None else cycles * 1e6 / hz
    return {
        **_begin(point, made, manifest),
        "fits": True,
        "why": "",
        "kind": "estimated",
        "npu_us": 0.0,
        "cpu_us": microseconds,
        "latency_us": microseconds,
        "cycles": cycles,
        "bound": "CPU",
        "sram_bytes": sram,
    }


@lru_cache(maxsize=8)
def _packed_saving(made: SweptBuild) -> int:
    """Return the bytes that packed weights of the CPU take less in flash than those of the program."""
    try:
        return sum(layer.int8_bytes - layer.bytes for layer in packed_weights.layers(_bundle(made)[1]))
    except UnsupportedError:  # no firmware: the program is for ExecuTorch's runtime
        return 0


def _begin(point: Point, made: SweptBuild, manifest: Manifest) -> Row:
    """Return the common columns of a build's rows."""
    macs = sum(node.macs for node in manifest.nodes)
    on_npu = sum(node.macs for node in manifest.nodes if node.partition is not None)
    outputs = [output.sqnr for output in manifest.quality.outputs if output.channels]
    metrics = manifest.quality.metrics
    return {
        **asdict(point),
        "flash_bytes": (made.directory / manifests.PROGRAM).stat().st_size - _packed_saving(made),
        "code_bytes": made.code.nbytes,
        "code": made.code.how or None,
        "npu_share": on_npu / macs if macs else None,
        "sqnr_db": min(outputs, default=None),
        "accuracy": metrics[0].program if metrics else None,
    }


def _command(point: Point, made: SweptBuild) -> str:
    """Return a command that prints the figures of a point on an NPU, in the directory of the sweep."""
    axes = (*PLAN_AXES, *FLASH_AXES, "clock")
    return shlex.join(["deuteron", "sim", made.path, *arguments(point, axes)])


def _refused(point: Point, why: str) -> Row:
    return {**asdict(point), "ignored": "", "fits": False, "why": why}


COLUMNS: Mapping[str, str] = {
    "number": "int64", "model": "string", "target": "string", "partition": "string", "weights_bits": "string",
    "vela_system_config": "string",
    "memory_mode": "string", "optimise": "string", "arena_cache_size": "int64", "fetch_constants_to_sram": "string",
    "effort": "string", "sram_budget": "int64", "weights_budget": "int64", "flash_bandwidth": "int64",
    "flash_latency": "int64", "clock": "int64", "ignored": "string", "fits": "bool", "why": "string", "kind": "string",
    "latency_us": "double", "npu_us": "double", "cpu_us": "double", "cycles": "int64", "bound": "string",
    "sram_bytes": "int64", "flash_bytes": "int64", "code_bytes": "int64", "code": "string", "fetched_bytes": "int64",
    "npu_share": "double", "sqnr_db": "double", "accuracy": "double", "command": "string",
}  # fmt: skip
"""Columns of a row and their types; a missing value is null."""
