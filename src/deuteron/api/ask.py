"""What can be asked: of builds, files, profiles and boards, of the targets, and of this installation."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import DEFAULT_TARGET
from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.arch.memory import Effort, FetchPolicy
    from deuteron.arch.targets import Arch
    from deuteron.board.flash import FlashOptions
    from deuteron.npu.neutron.support import Operator
    from deuteron.runtime.inputs import Array, Sample
    from deuteron.sweeps.table import Table
    from deuteron.views.events.changes import ProfileChanges
    from deuteron.views.events.record import Profile
    from deuteron.views.explain import Explanation
    from deuteron.views.inspect import Inspection
    from deuteron.views.installation import Check
    from deuteron.views.kernels import Holding
    from deuteron.views.memory import ArenaPlanning, Planning
    from deuteron.views.profile.run import Profiled
    from deuteron.views.run.subjects import Comparison, Subject
    from deuteron.views.simulate import Simulation, SimulationChanges


def missing(path: str | Path, *, target: str | None = None, etrecord: str | Path | None = None) -> tuple[str, ...]:
    """Sentences about what a program in the place of a build does not say, none for all else; errors of `explain`."""
    from deuteron.runtime import as_build

    return as_build.missing(path, target, etrecord)


def read_manifest(directory: str | Path) -> Manifest:
    """The manifest of a build directory, whose files have been checked against it."""
    return manifests.read(Path(directory))


def run(path: str | Path, inputs: "Sequence[Array]", *, on: str | None = None) -> "list[Array]":
    """The outputs of a build or a TFLite file for one set of inputs.

    Args:
        path: a build directory, which ExecuTorch's own runtime runs; a TFLite file, which the driver runs alone; or
            with `on` the directory of a build or of firmware.
        inputs: one array per input of the model, of its shape and dtype.
        on: a board, in an emulator; the host by default.

    Raises:
        DeuteronError: there is nothing undamaged that can be run, or the inputs are not the model's.
    """
    return next(run_each(path, [inputs], on=on))


def run_each(
    path: str | Path, samples: "Iterable[Sequence[Array]]", *, on: str | None = None
) -> "Iterator[list[Array]]":
    """The outputs for one set of inputs after the other; otherwise as `run`. A board gets all of them at once."""
    from deuteron.runtime.inputs import checked

    chosen = subject(path, on=on)
    return chosen.run_each(checked(chosen.model, samples))


def stream(
    path: str | Path, windows: "Iterable[Sequence[Array]]", states: Mapping[int, int], *, on: str | None = None
) -> "Iterator[list[Array]]":
    """The outputs for one window of a stream after the other, by a program that keeps a state.

    Args:
        path: a build directory or a `.pte` file, which ExecuTorch's own runtime runs, or a TFLite file.
        windows: the inputs that are no states, in the model's order.
        states: the output that becomes each input that is a state, which begins as zeros: `{1: 1}`.
        on: a board, in an emulator that is started for each window; the host by default.

    Raises:
        DeuteronError: there is nothing undamaged that can be run, or inputs or states are not the model's.
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
    time_out: float | None = None,
    flash: "FlashOptions | None" = None,
    origin: str | Path | None = None,
) -> "Subject":
    """What is to be run, compared with its reference, or asked for what an emulator has counted.

    Args:
        path: a build directory, a TFLite file, a program, or with `on` also the directory of firmware.
        on: a board, in an emulator; the host by default.
        target: what a TFLite file is converted for, unless it has been.
        etrecord: of a program: what it is compared with on the host, and the lines of its steps on a board.
        time_out: seconds after which an emulator counts as hung.
        flash: of an emulated board.
        origin: the build that firmware was made from, to be compared with.

    Raises:
        OptionError: an option does not fit.
        DeuteronError: what is at `path` cannot be run.
    """
    from deuteron.board.flash import FlashOptions
    from deuteron.views.run.choose import subject as choose

    origin = None if origin is None else Path(origin)
    return choose(
        Path(path),
        on=on,
        target=target,
        etrecord=etrecord,
        time_out=time_out,
        flash=flash or FlashOptions(),
        origin=origin,
    )


def compare(
    path: str | Path,
    samples: "Sequence[Sample] | None" = None,
    *,
    on: str | None = None,
    target: str | None = None,
    etrecord: str | Path | None = None,
    origin: str | Path | None = None,
) -> "Comparison":
    """A build beside quantised PyTorch, a TFLite file beside LiteRT, or a board beside the host.

    Args:
        path: as for `subject`.
        samples: inputs; by default one of those that the build has kept, or a random one.
        on: as for `subject`.
        target: as for `subject`.
        etrecord: as for `subject`.
        origin: as for `subject`.

    Raises:
        DeuteronError: it cannot be run or compared.
    """
    from deuteron.runtime.inputs import checked

    chosen = subject(path, on=on, target=target, etrecord=etrecord, origin=origin)
    chosen.check("host" if on else None)
    inputs = chosen.draw(1) if samples is None else samples
    return chosen.compare(list(checked(chosen.model, inputs)))


def inspect(path: str | Path, *, target: str | None = None) -> "Inspection":
    """What a build directory or one of the files that a build reads or writes contains; told by content.

    Args:
        path: of the directory or file.
        target: of a TFLite file, to show the build of it for this target instead of the file itself.

    Raises:
        InputError, FormatError: there is nothing that can be inspected, or it is damaged.
        OptionError: a target is given for what has been compiled.
    """
    from deuteron.views import inspect as view

    if target is None:
        return view.inspect(Path(path))
    from deuteron.runtime.as_build import opened

    with opened(path, target) as directory:
        return replace(view.inspect(directory), path=str(path))


def explain(path: str | Path, *, target: str | None = None, etrecord: str | Path | None = None) -> "Explanation":
    """Where each operator of a build runs, why, and what that costs.

    Args:
        path: a build directory; a TFLite file, which is converted for this; or a program that anyone has made.
        target: what a TFLite file is converted for, or what a program was made for where it does not tell.
        etrecord: of a program, as ExecuTorch has saved it: lines of the model come from there.

    Raises:
        InputError, FormatError: it is no undamaged build, TFLite file or program.
    """
    from deuteron.runtime.as_build import opened
    from deuteron.views import explain as view

    with opened(path, target, etrecord=etrecord) as directory:
        return replace(view.explain(directory), path=str(path))


def plan(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    svg: str | Path | None = None,
    force: bool = False,
) -> "Planning | ArenaPlanning":
    """The memories of a build over time and its fetches, beside their lower bounds; without an NPU that of its bundle.

    Args:
        path: as for `explain`.
        target: as for `explain`.
        etrecord: as for `explain`.
        svg: also write a picture of it to this file.
        force: replace the picture if it exists.

    Raises:
        DeuteronError: there is no undamaged build, nothing of it runs on the NPU that its target has, firmware lacks an
            operator of one without an NPU, or the picture cannot be written.
    """
    from deuteron.runtime.as_build import opened
    from deuteron.views import memory

    with opened(path, target, etrecord=etrecord) as directory:
        planning = replace(memory.of_build(directory), path=str(path))
    if svg is not None:
        memory.write_svg(planning, Path(svg), force=force)
    return planning


def simulate(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
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
    """One run of a build on a model of its target.

    Args:
        path: as for `explain`.
        target: as for `explain`.
        etrecord: as for `explain`.
        flash_bandwidth: bytes per second, instead of what the build was planned for.
        flash_latency: nanoseconds before the first byte of a fetch arrives, instead of the target's.
        clock: Hz of NPU and CPU, instead of the target's.
        sram_budget: plan the partitions anew for so many bytes.
        weights_budget: the same for so many bytes of weights.
        effort: plan them anew with it.
        fetch_constants_to_sram: plan them anew, fetching the weights of these.
        first_run: resident weights are not in SRAM yet.
        trace: also write a trace for the Perfetto UI to this file.
        force: replace the trace if it exists.

    Raises:
        DeuteronError: there is no undamaged build with a part on the NPU, it does not fit into its memory, or the
            trace cannot be written.
    """
    from deuteron.runtime.as_build import opened
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
            raise OptionError(f"`{name}` is {number!r}, allowed are whole numbers", hint="`512Ki` is `512 << 10` here")
    with opened(path, target, etrecord=etrecord) as directory:
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
    """Where the second run spends more or less time than the first."""
    from deuteron.views.simulate import changes

    return changes(before, after)


def profile(
    path: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    on: str = "host",
    samples: "Sequence[Sample] | None" = None,
    runs: int | None = None,
    events: str | Path | None = None,
    ticks_per_second: int | None = None,
    output: str | Path | None = None,
    force: bool = False,
) -> "Profiled":
    """Where the time of a build goes.

    Args:
        path: as for `explain`.
        target: as for `explain`.
        etrecord: as for `explain`.
        on: `host`, `sim`, or a board, in an emulator.
        samples: inputs of the runs; random ones by default.
        runs: how often to run, with the samples over and over; once each by default.
        events: a file that a board or ExecuTorch has written: nothing runs then.
        ticks_per_second: of the clock of an ETDump in that file.
        output: a directory to write record, page, trace and other tools' files to; none by default.
        force: replace `output`.

    Raises:
        OptionError: an option does not fit, or `output` exists.
        DeuteronError: there is no undamaged build, or what ran failed.
    """
    from deuteron.views.profile.run import profile_build

    return profile_build(
        Path(path),
        target=target,
        etrecord=etrecord,
        on=on,
        samples=samples,
        runs=runs,
        events=None if events is None else Path(events),
        ticks_per_second=ticks_per_second,
        output=None if output is None else Path(output),
        force=force,
    )


def read_profile(path: str | Path) -> "Profile":
    """The profile that was written before: its directory, or `profile.json`.

    Raises:
        InputError, FormatError: there is none, or it is damaged.
    """
    from deuteron.views.events import record

    return record.read(Path(path))


def compare_profiles(before: "Profile", after: "Profile", by: str = "operator") -> "ProfileChanges":
    """What changed most between two profiles, by `module`, `line`, `operator` or `kernel`."""
    from deuteron.views.events.changes import changes

    return changes(before, after, by)


def report(profile: str | Path, output: str | Path | None = None, *, force: bool = False) -> Path:
    """The page that was written of a profile, beside it unless `output` says otherwise.

    Raises:
        DeuteronError: there is no undamaged profile, or the page exists and `force` is not set.
    """
    from deuteron.views.profile.page import write_page

    return write_page(Path(profile), None if output is None else Path(output), force=force)


def kernels(path: str | Path, *, check_override: bool | str = False) -> "Holding":
    """The kernels in a linked image, a kernel selection file, a build, firmware, or a program.

    Args:
        path: of it.
        check_override: refuse an image whose inputs and outputs are copied by the weak default; or the name of another
            weak function, of which it must have an override.

    Raises:
        DeuteronError: it holds no kernels that could be listed, or has no override.
    """
    from deuteron.views import kernels as view

    return view.holding(Path(path), check_override=check_override)


def operators(names: Sequence[str] = (), *, target: str = DEFAULT_TARGET) -> "tuple[Operator, ...]":
    """The TFLite operators that a target's NPU takes, or those whose name contains one of `names`.

    Raises:
        OptionError: there is no such target or operator, or the target has no NPU.
    """
    from deuteron.arch import targets
    from deuteron.npu.neutron import support

    targets.load(target).need_neutron()
    return support.operators_named(names)


def formats() -> Mapping[str, str]:
    """The formats that are written, each with its version."""
    from deuteron.board import bundle, record
    from deuteron.builds import manifest
    from deuteron.npu.neutron.microcode import format as microcode
    from deuteron.views.events import record as profile

    files = (manifest.FILE, record.FILE, profile.FILE)
    return {
        "microcode": f"{microcode.VERSION_MAJOR}.{microcode.VERSION_MINOR}",
        "bundle": str(bundle.VERSION),
        **{file.name: str(file.schema) for file in files},
    }


def targets() -> "tuple[Arch, ...]":
    """The chips that can be compiled for, with what is known of them."""
    from deuteron.arch import targets

    return tuple(targets.load(name) for name in targets.names())


def check_installation() -> "tuple[Check, ...]":
    """What this installation has and what it lacks, each with how to mend it."""
    from deuteron.views import installation

    return installation.check_installation()


def converts_only(checks: "Sequence[Check]") -> bool:
    """Whether these say of an installation that it takes TFLite files and no PyTorch models."""
    from deuteron.views import installation

    return installation.converts_only(checks)


def sweep_page(directory: str | Path, output: str | Path | None = None, *, force: bool = False) -> Path:
    """The page that was written of a sweep, in its directory unless `output` says otherwise.

    Raises:
        DeuteronError: there is no undamaged sweep, it has too many points, or `output` exists and `force` is not set.
    """
    from deuteron.sweeps import page

    return page.write_page(Path(directory), None if output is None else Path(output), force=force)


def sweep_table(
    directory: str | Path, *, at_most: float | None = None, minimise: Sequence[str] = ("latency", "sram")
) -> "Table":
    """The points of a sweep that no other point of their model betters.

    Args:
        directory: what `sweep` has written.
        at_most: microseconds that they may take.
        minimise: what counts: `latency`, `sram`, `flash`, and `accuracy`, of which much is good.

    Raises:
        DeuteronError: there is no such goal, or no undamaged sweep.
    """
    from deuteron.sweeps import table

    return table.table(Path(directory), at_most=at_most, minimise=minimise)
