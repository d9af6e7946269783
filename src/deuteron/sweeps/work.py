"""What workers do: lower a model once, then plan and run it as often as a sweep asks; nothing here loads PyTorch.

A model is lowered by `deuteron build` in a process of its own: what PyTorch takes is given back, and what it does to a
process is done to no other. Everything else is read, decoded and checked once per process.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import deuteron
from deuteron.arch import targets
from deuteron.arch.memory import Effort, FetchPolicy, MemoryOptions
from deuteron.arch.targets import EthosU, Neutron
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest
from deuteron.builds.output import write_files
from deuteron.errors import DeuteronError, InputError
from deuteron.runtime.as_build import build_directory, is_program, is_tflite
from deuteron.sweeps.spec import BUILD_AXES, PLAN_AXES, Point
from deuteron.views import costs
from deuteron.views.simulate import CheckedBuild, OpenBuild, Rates, open_build
from deuteron.views.simulate.checked import BuildReplanner

BUILDS = "builds"
"""The folder of a sweep that its builds are in."""

Row = dict[str, str | int | float | bool | None]
"""What is known of a point, by column."""


@dataclass(frozen=True, slots=True)
class BuildJob:
    """A model to be lowered.

    Attributes:
        key: what it comes from, as a hash: the name of its build.
        sweep: the directory of the sweep.
        folder: where the path of the model begins.
        model: as `deuteron build` takes it, a TFLite file, or a build.
        target: a name of a target.
        options: of `deuteron build`, as arguments.
    """

    key: str
    sweep: Path
    folder: Path
    model: str
    target: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """A build of a sweep, or why there is none."""

    directory: Path
    why: str = ""


@cache
def fingerprint() -> str:
    """What tells this Deuteron from others: its version, and a hash of its sources."""
    digest = hashlib.sha256()
    root = Path(deuteron.__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return f"{deuteron.__version__}+{digest.hexdigest()[:12]}"


def job_of(point: Point, sweep: Path, folder: Path, evaluate: str | None) -> BuildJob:
    """What has to be lowered for a point."""
    options = [*_arguments(point, BUILD_AXES), *(["--evaluate", evaluate] if evaluate else [])]
    digest = hashlib.sha256(repr((point.model, point.target, options, fingerprint())).encode())
    for text in (point.model, evaluate or ""):
        digest.update(_content(folder / text.partition(":")[0]))
    return BuildJob(digest.hexdigest()[:24], sweep, folder, point.model, point.target, tuple(options))


def _content(path: Path) -> bytes:
    """What of a file or a build decides what comes of it; nothing of what is neither."""
    path = path / manifests.NAME if path.is_dir() else path
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b""


def make(job: BuildJob) -> Made:
    """The build of a job, made now unless it was made before; a refusal is kept as well.

    Raises:
        InputError: the build cannot be written, or was ended from outside.
    """
    source, directory = job.folder / job.model, job.sweep / BUILDS / job.key
    refusal = directory.with_suffix(".refused")
    if (source / manifests.NAME).is_file():
        target = manifests.read(source).target
        why = f"`{job.model}` is built for `{target}`" if target != job.target else ""
        return Made(source, why or ("" if not job.options else f"`{job.model}` is built already"))
    if source.suffix in (".tflite", ".pte") and not source.exists():
        return Made(directory, f"`{job.model}` does not exist")
    if directory.is_dir():
        return Made(directory)
    if refusal.is_file():
        return Made(directory, refusal.read_text("utf-8"))
    fresh = directory.with_name(f".{job.key}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        why = _convert(source, job, fresh) if is_tflite(source) or is_program(source) else _build(job, fresh)
        if why:
            write_files({refusal: why.encode()})
            return Made(directory, why)
        fresh.rename(directory)
    except OSError as e:
        if not directory.is_dir():  # else another worker was faster
            raise InputError(f"`{directory}` cannot be written: {e.strerror or e}") from e
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return Made(directory)


def _convert(source: Path, job: BuildJob, fresh: Path) -> str:
    """Write the build of a TFLite file or of a program; why it cannot be, or nothing."""
    if job.options:
        return f"`{job.options[0]}` is for PyTorch models, and `{job.model}` is none"
    try:
        directory = build_directory(source, job.target)
        made_for = manifests.read(directory).target
    except DeuteronError as e:
        return _told(e)
    if made_for != job.target:
        return f"`{job.model}` is built for `{made_for}`"
    shutil.copytree(directory, fresh)
    return ""


def _build(job: BuildJob, fresh: Path) -> str:
    """Write the build of a PyTorch model; why it cannot be, or nothing."""
    command = [sys.executable, "-m", "deuteron", "build", job.model, "--target", job.target, "-o", str(fresh), "-q"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command += job.options
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=job.folder, env=environment)
    if done.returncode == 0:
        return ""
    told = done.stderr.rpartition("error: ")[2].partition("\n\nhint: ")[0].strip()
    if done.returncode not in (1, 2) or "No space left" in told:
        raise InputError(f"`deuteron build {job.model} --target {job.target}` ended with {done.returncode}: {told}")
    return told.replace(str(fresh), job.key)


def evaluate(made: Made, points: Sequence[Point]) -> list[Row]:
    """The rows of points that share a build and what it is planned for."""
    if made.why:
        return [_refused(point, made.why) for point in points]
    try:
        build = _opened(made.directory)
    except DeuteronError as e:
        return [_refused(point, _told(e)) for point in points]
    if isinstance(build, Manifest):
        return [_cpu_row(point, made.directory, build) for point in points]
    return [_row(point, made.directory, build) for point in points]


@lru_cache(maxsize=8)
def _opened(directory: Path) -> OpenBuild | Manifest:
    """A build; of one without an NPU its manifest."""
    manifest = manifests.read(directory)
    return manifest if targets.load(manifest.target).npu is None or not manifest.partitions else open_build(directory)


@lru_cache(maxsize=8)
def _replanner(directory: Path) -> BuildReplanner:
    return open_build(directory).replanner()


@lru_cache(maxsize=64)
def _planned(directory: Path, memory: MemoryOptions | None) -> CheckedBuild | DeuteronError:
    """The programs of a build, or of what it is in other memories; or why it cannot be."""
    try:
        build = open_build(directory)
        if memory is None:
            return build.checked()
        memory.check(build.arch)
        return _replanner(directory)(memory)
    except DeuteronError as e:
        return e


@lru_cache(maxsize=64)
def _cpu_cycles(directory: Path) -> int | None:
    """Estimated cycles of the operators on the CPU, by a Neutron's clock if there is one; None where not counted."""
    estimate = costs.costs(manifests.read(directory), (directory / manifests.PROGRAM).read_bytes())
    counts = [*estimate.nodes.values(), *estimate.added, *(island.turns for island in estimate.islands)]
    return None if None in counts else sum(count or 0 for count in counts)


def _memory_of(point: Point, built: MemoryOptions) -> MemoryOptions | None:
    """What a point is planned for; None for what its build is."""
    asked = {name: value for name in PLAN_AXES if (value := getattr(point, name)) is not None}
    if not asked:
        return None
    kinds = {"fetch_constants_to_sram": FetchPolicy, "effort": Effort}
    values = {name: kinds[name](value) if name in kinds else value for name, value in asked.items()}
    if point.flash_bandwidth is not None:
        values["flash_bandwidth"] = point.flash_bandwidth
    return replace(built, **values)


def _row(point: Point, directory: Path, build: OpenBuild) -> Row:
    """The row of a point with a part on an NPU."""
    try:
        planned = _planned(directory, _memory_of(point, build.manifest.options.memory))
        if isinstance(planned, DeuteronError):
            return _refused(point, _told(planned))
        rates = Rates(point.flash_bandwidth, point.flash_latency, point.clock)
        runs, engine = planned.totals(rates), planned.engine(rates)
    except DeuteronError as e:
        return _refused(point, _told(e))
    cycles = sum(run.cycles for run in runs)
    cpu = _cpu_cycles(directory) if isinstance(build.arch.npu, Neutron) else None
    kernels = planned.partitions
    npu_us = engine.microseconds(cycles)
    cpu_us = None if cpu is None else engine.microseconds(cpu)
    return {
        **_begin(point, directory, build.manifest),
        "fits": True,
        "why": "",
        "kind": "estimated" if isinstance(build.arch.npu, EthosU) else "simulated",
        "npu_us": npu_us,
        "cpu_us": cpu_us,
        "latency_us": npu_us + (cpu_us or 0.0),
        "cycles": cycles,
        "bound": max(runs, key=lambda run: run.cycles).bound,
        "sram_bytes": planned.sram_bytes,
        "fetched_bytes": sum(part.program.weights_bytes - part.program.linked_bytes for part in kernels),
        "command": _command(point, directory),
    }


def _cpu_row(point: Point, directory: Path, manifest: Manifest) -> Row:
    """The row of a point that runs on the CPU alone: its time is known where a clock is given."""
    asked = {name for name in (*PLAN_AXES, "flash_bandwidth", "flash_latency") if getattr(point, name) is not None}
    if asked:
        option = f"--{min(asked).replace('_', '-')}"
        return _refused(point, f"`{option}` is for an NPU's program, nothing of `{manifest.target}` runs on one")
    cycles = _cpu_cycles(directory)
    microseconds = None if cycles is None or point.clock is None else cycles * 1e6 / point.clock
    return {
        **_begin(point, directory, manifest),
        "fits": True,
        "why": "",
        "kind": "estimated",
        "npu_us": 0.0,
        "cpu_us": microseconds,
        "latency_us": microseconds,
        "cycles": cycles,
        "bound": "CPU",
        "command": _command(point, directory),
    }


def _begin(point: Point, directory: Path, manifest: Manifest) -> Row:
    """What every row of a build has."""
    macs = sum(node.macs for node in manifest.nodes)
    on_npu = sum(node.macs for node in manifest.nodes if node.partition is not None)
    outputs = [output.sqnr for output in manifest.quality.outputs if output.channels]
    metrics = manifest.quality.metrics
    return {
        **asdict(point),
        "flash_bytes": (directory / manifests.PROGRAM).stat().st_size,
        "npu_share": on_npu / macs if macs else None,
        "sqnr_db": min(outputs, default=None),
        "accuracy": metrics[0].program if metrics else None,
    }


def _command(point: Point, directory: Path) -> str:
    """What gives a point's figures again, in the directory of the sweep."""
    path = f"{BUILDS}/{directory.name}" if directory.parent.name == BUILDS else point.model
    rates = ("flash_bandwidth", "flash_latency", "clock")
    if _arguments(point, ("fetch_constants_to_sram", "effort", "weights_budget")):  # which `sim` does not take
        build = ["deuteron", "build", point.model, "--target", point.target, "-o", "point"]
        build += _arguments(point, (*BUILD_AXES, *PLAN_AXES, "flash_bandwidth"))
        return f"{shlex.join(build)} && {shlex.join(['deuteron', 'sim', 'point', *_arguments(point, rates[1:])])}"
    return shlex.join(["deuteron", "sim", path, *_arguments(point, ("sram_budget", *rates))])


def _arguments(point: Point, axes: Sequence[str]) -> list[str]:
    """What a point says of some axes, as arguments of a command."""
    chosen = [(axis, value) for axis in axes if (value := getattr(point, axis)) is not None]
    return [text for axis, value in chosen for text in (f"--{axis.replace('_', '-')}", str(value))]


def _refused(point: Point, why: str) -> Row:
    return {**asdict(point), "fits": False, "why": why}


def _told(error: DeuteronError) -> str:
    """An error without what to do about it."""
    return f"{error.where}: {error.message}" if error.where else error.message


COLUMNS: Mapping[str, str] = {
    "number": "int64", "model": "string", "target": "string", "partition": "string", "vela_system_config": "string",
    "memory_mode": "string", "optimise": "string", "arena_cache_size": "int64", "fetch_constants_to_sram": "string",
    "effort": "string", "sram_budget": "int64", "weights_budget": "int64", "flash_bandwidth": "int64",
    "flash_latency": "int64", "clock": "int64", "fits": "bool", "why": "string", "kind": "string",
    "latency_us": "double", "npu_us": "double", "cpu_us": "double", "cycles": "int64", "bound": "string",
    "sram_bytes": "int64", "flash_bytes": "int64", "fetched_bytes": "int64", "npu_share": "double",
    "sqnr_db": "double", "accuracy": "double", "command": "string",
}  # fmt: skip
"""The columns of a row and their types; where a row has no value, it is null."""
