"""Commands that create files: builds, converted files, firmware, bundles, kernel selections."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.arch import targets
from deuteron.arch.targets import EthosU
from deuteron.board.build_directory import is_tflite
from deuteron.builds import manifest as manifests
from deuteron.builds import output as outputs
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import DEFAULT_TARGET, BuildOptions, Partitioning, TfliteOptions
from deuteron.errors import DeuteronError, OptionError, UnsupportedError
from deuteron.extras import require
from deuteron.frontend.backends.ethosu import vela
from deuteron.frontend.gc_threshold import rare_collections

if TYPE_CHECKING:
    from deuteron.board.emit import EmitOptions
    from deuteron.board.firmware_record import FirmwareOptions, Kernels
    from deuteron.board.image import Image
    from deuteron.frontend.build import BuildResult, Progress
    from deuteron.frontend.quantize.training import Train
    from deuteron.npu.neutron.convert import Conversion, ConvertOptions
    from deuteron.npu.neutron.kernels.selection import Selection
    from deuteron.npu.neutron.tflite_partitioner import Mixed
    from deuteron.sweeps.run import SweepProgress, Swept
    from deuteron.views.compare.quality import Evaluate
    from deuteron.views.shrink import Shrinking


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build.

    Attributes:
        manifest: the content of `build.json`.
        pte: the program for ExecuTorch's runtime.
        directory: its directory, if it was written.
        losses: loss of each training step, if the model was trained.
    """

    manifest: Manifest
    pte: bytes
    directory: Path | None
    losses: tuple[float, ...] = ()


@rare_collections()
def build(
    module: object,
    example_inputs: object,
    *,
    target: str = DEFAULT_TARGET,
    calibration: Iterable[object] | None = None,
    train: "Train | None" = None,
    evaluate: "Evaluate | None" = None,
    output: str | Path | None = None,
    options: BuildOptions = BuildOptions(),
    name: str | None = None,
    progress: "Progress | None" = None,
) -> Build:
    """Build a `torch.nn.Module` for a target; writes it to the directory `output` if one is given.

    Args:
        module: the model, or a `torch.export.ExportedProgram`. It is built in evaluation mode, and is not changed.
        example_inputs: one tensor per argument of `forward`, or the one tensor.
        target: a name of `deuteron targets`.
        calibration: batches like the example inputs, for the ranges of all tensors.
        train: trains the given model in place, and yields the loss of each step; for `options.use_qat`.
        evaluate: returns a number, or numbers by name, for a callable model; called for the float model and the
            program. The build is written even if it fails; its exceptions are raised.
        output: a directory that must not exist yet, unless `options.force` is set.
        options: all other options.
        name: name of the model in the manifest; its class by default.
        progress: called when each step begins, with its name, its index, and the number of steps.

    Raises:
        DeuteronError: the model, an option or the output directory cannot be used; nothing is left half-written.
    """
    check_options(name or type(module).__name__, target, options)
    if options.max_loss is not None and evaluate is None:
        raise OptionError("`--max-loss` needs a function that evaluates the model", hint="give it by `--evaluate`")
    directory = None if output is None else Path(output)
    if directory is not None:
        outputs.check_output(directory, force=options.force)
    need_pytorch()
    from deuteron.frontend import inputs, upstream_caches
    from deuteron.frontend.log_suppression import quiet

    example_inputs = inputs.check_example_inputs(example_inputs, module)
    if calibration is not None:
        calibration = inputs.check_early(calibration, example_inputs, options.stream and options.stream.axis)

    with quiet(), upstream_caches.importing():
        from deuteron.frontend.build import build as build_in_memory
        from deuteron.views.compare import quality

    def made(keep: Mapping[str, str], *, untrained: bool = False) -> "BuildResult":
        nonlocal calibration
        batches = calibration
        if isinstance(calibration, Iterator):  # an iterator can be read once, but several builds may need it
            batches, calibration = tee(calibration)
        return build_in_memory(
            module,
            example_inputs,
            target=target,
            calibration=batches,
            train=None if untrained else train,
            options=replace(options, use_qat=False) if untrained else options,
            name=name,
            progress=progress,
            keep=keep,
            score=None if options.max_loss is None or evaluate is None else partial(quality.score, evaluate),
        )

    if options.partition is Partitioning.COST:
        from deuteron.views import offload_costs

        # Training changes the model but no cost: it runs once, when the partitioning is decided.
        result, keep = offload_costs.cheapest(target, partial(made, untrained=options.use_qat))
        result = made(keep) if options.use_qat else result
    else:
        result = made({})
    manifest = quality.of_program(result)
    quality.check_sqnr(manifest)
    keeps_limits = options.max_loss is None
    try:
        if evaluate is not None:
            manifest = quality.evaluated(manifest, result, evaluate)
            quality.check_loss(manifest)
            keeps_limits = True
    finally:  # if the function fails, the build is still written, unless its result is limited
        if directory is not None and keeps_limits:
            text = manifest.to_json().encode()
            outputs.write(directory, {**result.files, manifests.NAME: text}, force=options.force)
    return Build(manifest, result.pte, directory, result.losses)


@rare_collections()
def build_model(
    model: str,
    *,
    target: str = DEFAULT_TARGET,
    calibration: Iterable[object] | str | Path | None = None,
    train: str | None = None,
    evaluate: str | None = None,
    output: str | Path | None = None,
    options: BuildOptions = BuildOptions(),
    progress: "Progress | None" = None,
) -> Build:
    """Build a model by name: `file.py:function` or the name of an example; otherwise as `build`.

    `calibration` replaces the batches that the model's function returns. With `options.use_qat` the function `train`,
    `file.py:function`, trains the model; by default the function `train` of the model's file. `evaluate` has the same
    form. A TFLite file is built as it is, without PyTorch; with `calibration` a float file is quantized first, and this
    may also name a `.npz` file of arrays or `file.py:function`.
    """
    if is_tflite(Path(model)):
        return _build_tflite(Path(model), target, calibration, train or evaluate, output, options)
    check_options(model, target, options)
    if output is not None:
        outputs.check_output(Path(output), force=options.force)
    need_pytorch()
    from deuteron.frontend.loader import load, load_evaluate, load_train

    if isinstance(calibration, str | Path):
        raise OptionError(
            f"`--calibration` is for TFLite files, and `{model}` is not one",
            hint="let the model's function return calibration batches",
        )
    if train is not None and not options.use_qat:
        raise OptionError("`--train` is given without `--use-qat`", hint="give both, or neither")
    trains = load_train(model, train) if options.use_qat else None
    evaluates = None if evaluate is None else load_evaluate(evaluate)
    loaded = load(model)
    return build(
        loaded.module,
        loaded.example_inputs,
        target=target,
        calibration=loaded.calibration if calibration is None else calibration,
        train=trains,
        evaluate=evaluates,
        output=output,
        options=options,
        name=loaded.name,
        progress=progress,
    )


def _build_tflite(
    path: Path,
    target: str,
    calibration: Iterable[object] | str | Path | None,
    function: str | None,
    output: str | Path | None,
    options: BuildOptions,
) -> Build:
    """The build of a TFLite file."""
    from deuteron.board import arena, vela_budget

    if function is not None:
        raise OptionError(
            f"training and evaluation are for PyTorch models, and `{path}` is a TFLite file", hint="leave them out"
        )
    if options.stream is not None:
        raise OptionError(
            f"`--stream` is for PyTorch models, and `{path}` is a TFLite file",
            hint="leave it out; a file that keeps state runs as a stream with `deuteron run --stream`",
        )
    directory = None if output is None else Path(output)
    if directory is not None:
        outputs.check_output(directory, force=options.force)
    manifest, files = vela_budget.build_of(path, target, options, calibration)
    arena.check_program(files[manifests.PROGRAM], manifest)
    if directory is not None:
        text = manifest.to_json().encode()
        outputs.write(directory, {**files, manifests.NAME: text}, force=options.force)
    return Build(manifest, files[manifests.PROGRAM], directory)


def need_pytorch() -> None:
    """Check that the packages for builds of PyTorch models are installed."""
    for package in ("torch", "executorch"):
        require("executorch", package, "a build of a PyTorch model")


def check_options(model: str, target: str, options: BuildOptions) -> None:
    """Check the options without PyTorch, which takes seconds to load."""
    options.tflite.check_unused(model)
    arch = targets.load(target)
    options.check(arch)
    if isinstance(arch.npu, EthosU):
        vela.check(arch.npu, options.vela)
    if options.partition is Partitioning.COST:
        from deuteron.views import offload_costs

        offload_costs.check_target(target)


def convert_file(
    source: str | Path,
    output: str | Path,
    *,
    target: str = DEFAULT_TARGET,
    options: "ConvertOptions | None" = None,
    tflite: TfliteOptions = TfliteOptions(),
    intermediates: bool = False,
    force: bool = False,
) -> "tuple[Conversion | Mixed, tuple[Path, ...]]":
    """Convert a TFLite file, and return the conversion and the written files.

    The TFLite file `output` has one NPU operator per partition and the remaining TFLite operators. `intermediates`
    adds the blocks of an NPU operator, named after `output`: `.microcode`, `.weights` and `.kernels`, for several
    partitions `_0.microcode` and so on. The option for it adds the kernel selection file, `_kernel_selection.c`.

    Raises:
        DeuteronError: the file, an option or the output cannot be used; nothing is left half-written.
    """
    from deuteron.npu.neutron.convert import ConvertOptions, to_tflite
    from deuteron.npu.neutron.kernels import selection
    from deuteron.npu.neutron.tflite_partitioner import Mixed, convert_most
    from deuteron.runtime import tflite_model

    source, output, options = Path(source), Path(output), options or ConvertOptions()
    blocks = [output.with_suffix(f".{name}") for name in ("microcode", "weights", "kernels")] if intermediates else []
    if output in blocks:
        raise OptionError(
            f"`{output}` has the name of one of its own intermediate files", hint="name the output `.tflite`"
        )
    selection_path = output.with_name(output.stem + selection.FILE_NAME)
    selections = [selection_path] if options.dump_kernel_selection_code else []
    for path in (output, *blocks, *selections):
        outputs.check_file(path, force=force)
    data = tflite_model.read(source)
    if output.exists() and output.samefile(source):
        raise OptionError(f"`{output}` is the input file", hint="choose another name for the output")
    with tflite_model.told_where(source):
        if tflite != TfliteOptions():
            data = tflite_model.prepare(data, tflite).portable
        conversion = convert_most(data, target, options)
        is_mixed = isinstance(conversion, Mixed)
        conversions = [part.conversion for part in conversion.parts] if is_mixed else [conversion]
        containers = [one.container for one in conversions if one.container is not None]
        if not containers:
            raise UnsupportedError(
                "the model computes nothing: each of its outputs is an input", hint="run it without the NPU"
            )
    files = {output: conversion.converted if is_mixed else to_tflite(data, conversion)}
    for number, container in enumerate(containers if intermediates else ()):
        named = output if len(containers) == 1 else output.with_stem(f"{output.stem}_{number}")
        for block in blocks:
            files[named.with_suffix(block.suffix)] = getattr(container, block.suffix[1:])
    files |= dict.fromkeys(selections, conversion.selection.to_c().encode())
    for path in files:
        outputs.check_file(path, force=force)
    outputs.write_files(files)
    return conversion, tuple(files)


def shrink(source: str | Path, output: str | Path, *, arena: int, force: bool = False) -> "Shrinking":
    """Write a TFLite file with the same outputs whose tensor arena, by liveness, is at most `arena` bytes.

    Chains of layers are cut into stripes of rows. Both files are run, and their outputs compared.

    Raises:
        DeuteronError: the file or the output cannot be used, or the model does not fit; nothing is written.
    """
    from deuteron.views import shrink as shrinking

    source, output = Path(source), Path(output)
    if arena <= 0:
        raise OptionError(f"`--arena` is {arena}, it must be above 0")
    outputs.check_file(output, force=force)
    if output.exists() and source.exists() and output.samefile(source):
        raise OptionError(f"`{output}` is the input file", hint="choose another name for the output")
    done = shrinking.shrink(source, arena)
    outputs.write_files({output: done.file})
    return done


def firmware(
    path: str | Path,
    board: str | Path,
    output: str | Path | None = None,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    options: "FirmwareOptions | None" = None,
    force: bool = False,
) -> "Image":
    """Build the image of a build, or of a TFLite file, for a board; writes it to `output` if that is given.

    Args:
        path: a build directory; a TFLite file, which is compiled first; or any ExecuTorch program.
        board: a name that `deuteron firmware --help` lists, or the directory of a port, as a Path.
        output: must not exist yet, unless `force` is set.
        target: target of a TFLite file, or of a program that does not name its own.
        etrecord: ExecuTorch's ETRecord of a program, for source lines of the model.
        tflite: options of a TFLite file.
        options: all other options.
        force: replace `output`.

    Raises:
        DeuteronError: the build, an option or the output cannot be used, a tool is missing, or the model does not fit;
            nothing is left half-written.
    """
    from deuteron.board import boards, image
    from deuteron.board.build_directory import opened
    from deuteron.board.firmware_record import FirmwareOptions
    from deuteron.board.toolchain import Toolchain

    chosen = boards.read_port(board) if isinstance(board, Path) else boards.load(board)
    if output is not None:
        image.check_output(Path(output), force=force)
    with opened(path, target, etrecord=etrecord, tflite=tflite) as directory:
        built = image.build(directory, chosen, options or FirmwareOptions(), Toolchain.find(image.OBJECTS))
    if output is not None:
        image.write(built, Path(output), force=force)
    return built


def bundle(
    path: str | Path,
    output: str | Path,
    *,
    target: str | None = None,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    options: "EmitOptions | None" = None,
    kernels: "Kernels | None" = None,
    harness: str | None = None,
    force: bool = False,
) -> tuple[Path, ...]:
    """Write a build as C tables, for the user's own firmware, to the directory `output`, and return the files.

    Args:
        path: a build directory; a TFLite file, which is compiled first; or any ExecuTorch program.
        output: must not exist yet, unless `force` is set.
        target: target of a TFLite file, or of a program that does not name its own.
        etrecord: ExecuTorch's ETRecord of a program, for source lines of the model.
        tflite: options of a TFLite file.
        options: symbol and placement.
        kernels: kernels that the model calls (default), or all.
        harness: name of the board, for a file with the facts that the harness of `spec/harness.md` sends.
        force: replace `output`.

    Raises:
        DeuteronError: the build, an option or the output cannot be used; nothing is left half-written.
    """
    from deuteron.board.build_directory import opened
    from deuteron.board.emit import EmitOptions
    from deuteron.board.firmware_record import Kernels
    from deuteron.board.generate import check_output, generate

    written = Path(output)
    check_output(written, force=force)
    with opened(path, target, etrecord=etrecord, tflite=tflite) as directory:
        chosen = options or EmitOptions(), kernels or Kernels.SELECTED
        names = generate(directory, written, *chosen, force=force, harness=harness)
    return tuple(written / name for name in names)


def merge_kernel_selections(files: "Sequence[str | Path]", output: str | Path, *, force: bool = False) -> "Selection":
    """Write the selection of all kernels in these kernel selection files and build directories to `output`.

    Raises:
        DeuteronError: they do not fit together, one is damaged, or the output cannot be written.
    """
    from deuteron.views import kernels as view

    return view.merge([Path(file) for file in files], Path(output), force=force)


def execute(command: "Sequence[str]", *, refused: "Callable[[DeuteronError], None] | None" = None) -> int:
    """Run a command with our converter in place of the vendor's, and return its exit code.

    Args:
        command: its words.
        refused: called with our converter's last error if the command fails, for any reason.

    Raises:
        OptionError: the vendor's package is installed.
        InputError: there is no such command.
    """
    from deuteron.npu.neutron.sdk.execute import execute

    return execute(command, refused or (lambda _: None))


def install_fvps(directory: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write substitutes for Arm's simulators into a directory under the simulators' names.

    Raises:
        DeuteronError: programs or images of these names exist and `force` is not set, or the directory cannot be
            written.
    """
    from deuteron.runtime import fvp

    return fvp.install(Path(directory), force=force)


def sweep(
    spec: "str | Path | Mapping[str, object]",
    directory: str | Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    search: int | None = None,
    minimise: "Sequence[str]" = ("latency", "sram"),
    progress: "Callable[[SweepProgress], None]" = lambda _: None,
) -> "Swept":
    """Evaluate all combinations that `spec` names, and write them to `directory` as one Parquet dataset.

    Existing points are kept: the same call continues a sweep.

    Args:
        spec: a TOML file, as `deuteron sweep --help` shows it, or a mapping of the same form.
        directory: created if it does not exist.
        scheduler: the address of a Dask scheduler; by default workers of this computer.
        workers: number of workers of this computer; by default one per core, 1 for this process.
        search: evaluate only so many combinations, chosen by an optimiser.
        minimise: goals of a search: `latency`, `sram`, `flash`, and `accuracy`, which is maximised.
        progress: called at the start, and whenever a shard is written.

    Raises:
        DeuteronError: the sweep, its directory or the scheduler cannot be used. Points that cannot be built or do not
            fit become rows with the reason.
    """
    from deuteron.sweeps import run
    from deuteron.sweeps import spec as specs

    parsed = specs.parse(spec, Path.cwd(), "the sweep") if isinstance(spec, Mapping) else specs.read(Path(spec))
    if search is not None:
        from deuteron.sweeps.search import search as look

        return look(parsed, Path(directory), search, minimise, scheduler=scheduler, workers=workers, progress=progress)
    return run.sweep(parsed, Path(directory), scheduler=scheduler, workers=workers, progress=progress)
