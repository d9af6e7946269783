"""Queries: builds, files, profiles, boards, targets, and this installation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.builds import manifest as manifests
from deuteron.builds import output as outputs
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import DEFAULT_TARGET, TfliteOptions
from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.arch.memory import Effort, FetchPolicy
    from deuteron.arch.targets import Arch
    from deuteron.board.flash import FlashOptions
    from deuteron.npu.neutron.support import Operator
    from deuteron.runtime.inputs import Array, Sample
    from deuteron.sweeps.pareto import Table
    from deuteron.views.events.changes import ProfileChanges
    from deuteron.views.events.record import Profile
    from deuteron.views.explain import Explanation
    from deuteron.views.inspect import Inspection
    from deuteron.views.installation import Check
    from deuteron.views.kernels import KernelListing
    from deuteron.views.memory import ArenaPlanning, Planning
    from deuteron.views.profile.run import Profiled
    from deuteron.views.run.subjects import Comparison, Subject
    from deuteron.views.simulate import Simulation, SimulationChanges


def missing(path: str | Path, *, target: str | None = None, etrecord: str | Path | None = None) -> tuple[str, ...]:
    """Return sentences about facts that a program without its build lacks; raises the errors of `explain`."""
    from deuteron.board import build_directory

    return build_directory.missing(path, target, etrecord)


def read_manifest(directory: str | Path) -> Manifest:
    """Return the manifest of a build directory, and check its files."""
    return manifests.read(Path(directory))


def run(path: str | Path, inputs: "Sequence[Array]", *, on: str | None = None) -> "list[Array]":
    """Return the outputs of a build or a TFLite file for one set of inputs.

    Args:
        path: a build directory, which runs in ExecuTorch's runtime; a TFLite file, which runs on the driver alone; or
            with `on` the directory of a build or of firmware.
        inputs: one array per input of the model, of its shape and dtype.
        on: a board, in an emulator; the host by default.

    Raises:
        DeuteronError: the path cannot be run or is damaged, or the inputs do not fit.
    """
    return next(run_each(path, [inputs], on=on))


def run_each(
    path: str | Path, samples: "Iterable[Sequence[Array]]", *, on: str | None = None
) -> "Iterator[list[Array]]":
    """Yield the outputs for one set of inputs after the other; otherwise as `run`. A board runs all of them at once."""
    from deuteron.runtime.inputs import checked

    chosen = subject(path, on=on)
    return chosen.run_each(checked(chosen.model, samples))


def stream(
    path: str | Path, windows: "Iterable[Sequence[Array]]", states: Mapping[int, int], *, on: str | None = None
) -> "Iterator[list[Array]]":
    """Yield the outputs for one window of a stream after the other, for a program with state.

    Args:
        path: a build directory or a `.pte` file, which runs in ExecuTorch's runtime, or a TFLite file.
        windows: the inputs that are not states, in the model's order.
        states: for each input that is a state the output that becomes it; states start as zeros: `{1: 1}`.
        on: a board, in an emulator that is started for each window; the host by default.

    Raises:
        DeuteronError: the path cannot be run or is damaged, or inputs or states do not fit.
    """
    from deuteron.runtime.inputs import checked
    from deuteron.views.run.stream import Stream

    streamed = Stream(subject(path, on=on), states)
    return (outputs for _, outputs in streamed.run(checked(streamed, windows)))


def subject(
    path: str | Path,
    *,
    on: str | None = None,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    time_out: float | None = None,
    flash: "FlashOptions | None" = None,
    origin: str | Path | None = None,
    baud: int | None = None,
) -> "Subject":
    """Return a subject that can be run and compared with its reference, and reports an emulator's counts.

    Args:
        path: a build directory, a TFLite file, a program, or with `on` also the directory of firmware.
        on: a board, in an emulator; or a line to one, `serial:PORT` or `tcp:HOST:PORT`; the host by default.
        target: target of a TFLite file that is not compiled yet.
        etrecord: ETRecord of a program: its reference on the host, and the source lines of its steps on a board.
        tflite: options of a TFLite file.
        time_out: seconds after which an emulator, or a run on a board, counts as hung.
        flash: flash timing of an emulated board.
        origin: build of the firmware, for a comparison.
        baud: rate of a serial port in bits per second.

    Raises:
        OptionError: an option does not fit.
        DeuteronError: `path` cannot be run.
    """
    from deuteron.board.flash import FlashOptions
    from deuteron.views.run.choose import subject as choose

    origin = None if origin is None else Path(origin)
    return choose(
        Path(path),
        on=on,
        target=target,
        etrecord=etrecord,
        tflite=tflite,
        time_out=time_out,
        flash=flash or FlashOptions(),
        origin=origin,
        baud=baud,
    )


def compare(
    path: str | Path,
    samples: "Sequence[Sample] | None" = None,
    *,
    on: str | None = None,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    origin: str | Path | None = None,
) -> "Comparison":
    """Compare a build with quantized PyTorch, a TFLite file with LiteRT, or a board with the host.

    Args:
        path: as for `subject`.
        samples: inputs; by default one of the build's stored samples, or a random one.
        on: as for `subject`.
        target: as for `subject`.
        etrecord: as for `subject`.
        tflite: as for `subject`.
        origin: as for `subject`.

    Raises:
        DeuteronError: it cannot be run or compared.
    """
    from deuteron.runtime.inputs import checked

    chosen = subject(path, on=on, target=target, etrecord=etrecord, tflite=tflite, origin=origin)
    chosen.check("host" if on else None)
    inputs = chosen.draw(1) if samples is None else samples
    return chosen.compare(list(checked(chosen.model, inputs)))


def inspect(path: str | Path, *, target: str | None = None, tflite: TfliteOptions = TfliteOptions()) -> "Inspection":
    """Return the content of a build directory or of one of the files that a build reads or writes.

    Args:
        path: of the directory or file.
        target: of a TFLite file, to show the build of it for this target instead of the file itself.
        tflite: options of the file for such a build.

    Raises:
        InputError, FormatError: the path cannot be inspected, or is damaged.
        OptionError: a target is given for a file that is already compiled.
    """
    from deuteron.views import inspect as view

    if target is None and tflite == TfliteOptions():
        return view.inspect(Path(path))
    from deuteron.board.build_directory import opened

    with opened(path, target, tflite=tflite) as directory:
        return replace(view.inspect(directory), path=str(path))


def explain(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
) -> "Explanation":
    """Return the processor of each operator of a build, the reason, and the cost.

    Args:
        path: a build directory; a TFLite file, which is compiled first; or any ExecuTorch program.
        target: target of a TFLite file, or of a program that does not name its own.
        etrecord: ExecuTorch's ETRecord of a program, for source lines of the model.
        tflite: options of a TFLite file.

    Raises:
        InputError, FormatError: the path is not a build, TFLite file or program, or is damaged.
    """
    from deuteron.board.build_directory import opened
    from deuteron.views import explain as view

    with opened(path, target, etrecord=etrecord, tflite=tflite) as directory:
        return replace(view.explain(directory), path=str(path))


def plan(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    svg: str | Path | None = None,
    force: bool = False,
) -> "Planning | ArenaPlanning":
    """Return the memories of a build over time and its fetches, with lower bounds; without an NPU its bundle's memory.

    Args:
        path: as for `explain`.
        target: as for `explain`.
        etrecord: as for `explain`.
        tflite: as for `explain`.
        svg: also write a picture of it to this file.
        force: replace the picture if it exists.

    Raises:
        DeuteronError: the build is missing or damaged, its target's NPU runs nothing of it, firmware lacks an operator
            for a target without an NPU, or the picture cannot be written.
    """
    from deuteron.board.build_directory import opened
    from deuteron.views import memory

    if svg is not None:
        outputs.check_file(Path(svg), force=force)
    with opened(path, target, etrecord=etrecord, tflite=tflite) as directory:
        planning = replace(memory.of_build(directory), path=str(path))
    if svg is not None:
        memory.write_svg(planning, Path(svg), force=force)
    return planning


def simulate(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    flash_bandwidth: int | None = None,
    flash_latency: int | None = None,
    clock: int | None = None,
    sram_budget: int | None = None,
    weights_budget: int | None = None,
    effort: "Effort | None" = None,
    fetch_constants_to_sram: "FetchPolicy | None" = None,
    first_run: bool = False,
    trace: str | Path | None = None,
    force: bool = False,
) -> "Simulation":
    """Simulate one run of a build on a model of its target.

    Args:
        path: as for `explain`.
        target: as for `explain`.
        etrecord: as for `explain`.
        tflite: as for `explain`.
        flash_bandwidth: bytes per second, instead of the planned bandwidth.
        flash_latency: nanoseconds before the first byte of a fetch arrives, instead of the target's.
        clock: Hz of NPU and CPU, instead of the target's.
        sram_budget: plan the partitions again for so many bytes.
        weights_budget: plan again for so many bytes of weights.
        effort: plan again with this effort.
        fetch_constants_to_sram: plan again with this policy for fetches.
        first_run: simulate the first run, which loads resident weights.
        trace: also write a trace for the Perfetto UI to this file.
        force: replace the trace if it exists.

    Raises:
        DeuteronError: there is no undamaged build with a partition on the NPU, it does not fit into its memory, or the
            trace cannot be written.
    """
    from deuteron.board.build_directory import opened
    from deuteron.views import simulate as view

    numbers: dict[str, int | None] = {
        "flash_bandwidth": flash_bandwidth,
        "flash_latency": flash_latency,
        "clock": clock,
        "sram_budget": sram_budget,
        "weights_budget": weights_budget,
    }
    for name, number in numbers.items():
        if number is not None and not isinstance(number, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise OptionError(f"`{name}` is {number!r}, integers are allowed", hint="`512Ki` is `512 << 10` here")
    if trace is not None:
        outputs.check_file(Path(trace), force=force)
    with opened(path, target, etrecord=etrecord, tflite=tflite) as directory:
        simulation = view.simulate_build(
            directory,
            **numbers,
            effort=effort,
            fetch_constants_to_sram=fetch_constants_to_sram,
            first_run=first_run,
        )
    simulation = replace(simulation, path=str(path))
    if trace is not None:
        view.write_trace(simulation, Path(trace), force=force)
    return simulation


def compare_simulations(before: "Simulation", after: "Simulation") -> "SimulationChanges":
    """Compare two simulated runs."""
    from deuteron.views.simulate import changes

    return changes(before, after)


def profile(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    on: str = "host",
    samples: "Sequence[Sample] | None" = None,
    runs: int | None = None,
    events: str | Path | None = None,
    ticks_per_second: int | None = None,
    output: str | Path | None = None,
    force: bool = False,
    baud: int | None = None,
    time_out: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> "Profiled":
    """Profile a build: times by module, line, operator and kernel.

    Args:
        path: as for `explain`.
        target: as for `explain`.
        etrecord: as for `explain`.
        tflite: as for `explain`.
        on: `host`, `sim`, a board, in an emulator, or a line to one, `serial:PORT` or `tcp:HOST:PORT`.
        samples: inputs of the runs; random ones by default.
        runs: number of runs, which repeat the samples; by default one per sample.
        events: a file from a board or from ExecuTorch; nothing runs then.
        ticks_per_second: clock rate of an ETDump in that file.
        output: a directory for record, page, trace and other tools' files; none by default.
        force: replace `output`.
        baud: rate of a serial port in bits per second.
        time_out: seconds after which an emulator, or a run on a board, counts as hung.
        progress: called with the number of complete runs on a board at a line, and of all.

    Raises:
        OptionError: an option does not fit, or `output` exists.
        DeuteronError: there is no undamaged build, or the run failed.
    """
    from deuteron.views.profile.run import profile_build

    return profile_build(
        Path(path),
        target=target,
        etrecord=etrecord,
        tflite=tflite,
        on=on,
        samples=samples,
        runs=runs,
        events=None if events is None else Path(events),
        ticks_per_second=ticks_per_second,
        output=None if output is None else Path(output),
        force=force,
        baud=baud,
        time_out=time_out,
        progress=progress,
    )


def read_profile(path: str | Path) -> "Profile":
    """Read a profile from its directory or from `profile.json`.

    Raises:
        InputError, FormatError: there is none, or it is damaged.
    """
    from deuteron.views.events import record

    return record.read(Path(path))


def compare_profiles(before: "Profile", after: "Profile", by: str = "operator") -> "ProfileChanges":
    """Compare two profiles by `module`, `line`, `operator` or `kernel`; largest changes first."""
    from deuteron.views.events.changes import changes

    return changes(before, after, by)


def report(profile: str | Path, output: str | Path | None = None, *, force: bool = False) -> Path:
    """Write the page of a profile, next to it unless `output` is given, and return its path.

    Raises:
        DeuteronError: there is no undamaged profile, or the page exists and `force` is not set.
    """
    from deuteron.views.profile.page import write_page

    return write_page(Path(profile), None if output is None else Path(output), force=force)


def kernels(path: str | Path, *, check_override: bool | str = False) -> "KernelListing":
    """Return the kernels in a linked image, a kernel selection file, a build, firmware, or a program.

    Args:
        path: its path.
        check_override: true rejects an image with the weak default of the copies of inputs and outputs; the name of
            another weak function rejects an image without an override of it.

    Raises:
        DeuteronError: its kernels cannot be listed, or it has no override.
    """
    from deuteron.views import kernels as view

    return view.holding(Path(path), check_override=check_override)


def operators(names: Sequence[str] = (), *, target: str = DEFAULT_TARGET) -> "tuple[Operator, ...]":
    """Return the TFLite operators that a target's NPU supports, or those whose name contains one of `names`.

    Raises:
        OptionError: there is no such target or operator, or the target has no NPU.
    """
    from deuteron.arch import targets
    from deuteron.npu.neutron import support

    targets.load(target).need_neutron()
    return support.operators_named(names)


def formats() -> Mapping[str, str]:
    """Return the written formats with their versions."""
    from deuteron.board import bundle, firmware_record
    from deuteron.builds import manifest
    from deuteron.npu.neutron.microcode import format as microcode
    from deuteron.views.events import record as profile

    files = (manifest.FILE, firmware_record.FILE, profile.FILE)
    return {
        "microcode": f"{microcode.VERSION_MAJOR}.{microcode.VERSION_MINOR}",
        "bundle": str(bundle.VERSION),
        **{file.name: str(file.schema) for file in files},
    }


def targets() -> "tuple[Arch, ...]":
    """Return all targets with their figures."""
    from deuteron.arch import targets

    return tuple(targets.load(name) for name in targets.names())


def check_installation() -> "tuple[Check, ...]":
    """Return the checks of this installation, each with advice."""
    from deuteron.views import installation

    return installation.check_installation()


def converts_only(checks: "Sequence[Check]") -> bool:
    """Return true if these checks describe an installation that converts TFLite files only."""
    from deuteron.views import installation

    return installation.converts_only(checks)


def sweep_page(directory: str | Path, output: str | Path | None = None, *, force: bool = False) -> Path:
    """Write the page of a sweep, in its directory unless `output` is given, and return its path.

    Raises:
        DeuteronError: there is no undamaged sweep, it has too many points, or `output` exists and `force` is not set.
    """
    from deuteron.sweeps import page

    return page.write_page(Path(directory), None if output is None else Path(output), force=force)


def sweep_table(
    directory: str | Path, *, at_most: float | None = None, minimise: Sequence[str] = ("latency", "sram")
) -> "Table":
    """Return the Pareto-optimal points of each model in a sweep.

    Args:
        directory: directory of a sweep.
        at_most: maximum latency in microseconds.
        minimise: goals: `latency`, `sram`, `flash`, and `accuracy`, which is maximised.

    Raises:
        DeuteronError: there is no such goal, or no undamaged sweep.
    """
    from deuteron.sweeps import pareto

    return pareto.table(Path(directory), at_most=at_most, minimise=minimise)
