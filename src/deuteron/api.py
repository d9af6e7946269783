"""The public functions: build a model, run a build."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from deuteron.builds import manifest as manifests
from deuteron.builds import output as outputs
from deuteron.builds.manifest import Manifest, TensorInfo
from deuteron.builds.options import BuildOptions, Converter, Partitioning
from deuteron.builds.output import check_file as check_file
from deuteron.builds.output import write_files as write_files
from deuteron.errors import FormatError, InputError, OptionError, UnsupportedError
from deuteron.frontend.examples import COMBINED, EXAMPLES, REFERENCES, ExampleModel
from deuteron.npu.neutron.convert import Conversion, ConvertOptions, convert, to_tflite
from deuteron.npu.neutron.kernels import selection
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.runtime import tflite_model

if TYPE_CHECKING:
    from deuteron.frontend.build import BuildResult, Progress
    from deuteron.frontend.quantise.training import Train

__all__ = [
    "COMBINED",
    "EXAMPLES",
    "REFERENCES",
    "Build",
    "BuildOptions",
    "Conversion",
    "ConvertOptions",
    "Converter",
    "ExampleModel",
    "Manifest",
    "Partitioning",
    "TensorInfo",
    "build",
    "build_model",
    "convert_file",
    "merge_kernel_selections",
    "read_manifest",
    "run",
    "run_each",
    "seeded_inputs",
]

Array = npt.NDArray[np.generic]
DEFAULT_TARGET = "imxrt700"


@dataclass(frozen=True, slots=True)
class Build:
    """A finished build.

    Attributes:
        manifest: the content of `build.json`.
        pte: the program for ExecuTorch's runtime.
        directory: where it was written, if it was.
        losses: of each step of training, where there was one.
    """

    manifest: Manifest
    pte: bytes
    directory: Path | None
    losses: tuple[float, ...] = ()


def build(
    module: object,
    example_inputs: object,
    *,
    target: str = DEFAULT_TARGET,
    calibration: Iterable[object] | None = None,
    train: "Train | None" = None,
    output: str | Path | None = None,
    options: BuildOptions = BuildOptions(),
    name: str | None = None,
    progress: "Progress | None" = None,
) -> Build:
    """The build of a `torch.nn.Module` for a target; written to the directory `output` if one is given.

    Args:
        module: the model; it is switched to evaluation mode.
        example_inputs: one tensor per argument of `forward`, or the one tensor.
        target: a name that `deuteron targets` lists.
        calibration: batches like the example inputs; the ranges of all tensors are measured on them.
        train: trains the model that it is given, in place, and yields the loss of each step; for `options.use_qat`.
        output: a directory that must not exist yet, unless `options.force` is set.
        options: everything else.
        name: what the manifest calls the model; its class by default.
        progress: told when each step begins: its name, index, and the number of steps.

    Raises:
        DeuteronError: the model, an option or the output directory cannot be used; nothing is left half-written.
    """
    _check_options(target, options)
    from deuteron.frontend.build import build as build_in_memory

    directory = None if output is None else Path(output)
    if directory is not None:
        outputs.check_output(directory, force=options.force)

    def made(keep: Mapping[str, str], *, untrained: bool = False) -> "BuildResult":
        nonlocal calibration
        batches = calibration
        if isinstance(calibration, Iterator):  # it can be read once, and there may be another build
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
        )

    if options.partition is Partitioning.COST:
        from deuteron.views import costs as placement

        # Training changes the model and no cost: it happens once, when it is known what runs where.
        result, keep = placement.cheapest(target, partial(made, untrained=options.use_qat))
        result = made(keep) if options.use_qat else result
    else:
        result = made({})
    if directory is not None:
        text = result.manifest.to_json().encode()
        outputs.write(directory, {**result.files, manifests.NAME: text}, force=options.force)
    return Build(result.manifest, result.pte, directory, result.losses)


def build_model(
    model: str,
    *,
    target: str = DEFAULT_TARGET,
    calibration: Iterable[object] | None = None,
    train: str | None = None,
    output: str | Path | None = None,
    options: BuildOptions = BuildOptions(),
    progress: "Progress | None" = None,
) -> Build:
    """The build of a model by name: `file.py:function` or the name of an example; otherwise as `build`.

    `calibration` takes the place of the batches that the model's function returns. With `options.use_qat` the function
    `train`, `file.py:function`, trains; by default the one that is called so in the model's file.
    """
    _check_options(target, options)
    if output is not None:
        outputs.check_output(Path(output), force=options.force)
    from deuteron.frontend.loader import load, load_train

    if train is not None and not options.use_qat:
        raise OptionError("`--train` is given without `--use-qat`", hint="give both, or neither")
    trains = load_train(model, train) if options.use_qat else None
    found = load(model)
    return build(
        found.module,
        found.example_inputs,
        target=target,
        calibration=found.calibration if calibration is None else calibration,
        train=trains,
        output=output,
        options=options,
        name=found.name,
        progress=progress,
    )


def _check_options(target: str, options: BuildOptions) -> None:
    """What can be told without PyTorch: loading it takes seconds."""
    if options.partition is Partitioning.COST:
        from deuteron.views import costs as placement

        placement.check_target(target)


def convert_file(
    source: str | Path,
    output: str | Path,
    *,
    target: str = DEFAULT_TARGET,
    options: ConvertOptions = ConvertOptions(),
    intermediates: bool = False,
    force: bool = False,
) -> tuple[Conversion, tuple[Path, ...]]:
    """The conversion of a TFLite file, and the files that were written.

    Those are the TFLite file `output`, whose one operator, but for float edges, is the NPU's; with `intermediates` also
    the blocks of that operator, named after it: `.microcode`, `.weights` and `.kernels`; with the option for it the
    kernel selection file, named after it with `_kernel_selection.c` at the end.

    Raises:
        DeuteronError: the file, an option or the output cannot be used; nothing is left half-written.
    """
    source, output = Path(source), Path(output)
    blocks = [output.with_suffix(f".{name}") for name in ("microcode", "weights", "kernels")] if intermediates else []
    if output in blocks:
        raise OptionError(
            f"`{output}` has the name of one of its own intermediate files", hint="name the output `.tflite`"
        )
    selection_path = output.with_name(output.stem + selection.FILE_NAME)
    selections = [selection_path] if options.dump_kernel_selection_code else []
    for path in (output, *blocks, *selections):
        check_file(path, force=force)
    data = tflite_model.read(source)
    if output.exists() and output.samefile(source):
        raise OptionError(f"`{output}` is the file to be converted", hint="choose another name for the output")
    with tflite_model.told_where(source):
        conversion = convert(data, target, options)
        container = conversion.container
        if container is None:
            raise UnsupportedError(
                "the model computes nothing: each of its outputs is an input", hint="run it without the NPU"
            )
    files = {output: to_tflite(data, conversion)}
    files |= zip(blocks, (container.microcode, container.weights, container.kernels), strict=False)
    files |= dict.fromkeys(selections, conversion.selection.to_c().encode())
    outputs.write_files(files)
    return conversion, tuple(files)


def merge_kernel_selections(
    files: Sequence[str | Path], output: str | Path, *, force: bool = False
) -> selection.Selection:
    """The selection of all kernels in these kernel selection files and build directories, written to `output`.

    Raises:
        DeuteronError: they do not belong together, one is damaged, or the output cannot be written.
    """
    check_file(Path(output), force=force)
    merged = selection.merge([Path(file) for file in files], _selection)
    selection.write(Path(output), merged)
    return merged


def _selection(path: Path) -> selection.Selection:
    """The kernels that a kernel selection file names, or that a build calls."""
    if not path.is_dir():
        return selection.read(path)
    manifest = manifests.read(path)
    if manifest.converter != Converter.OPEN.value:
        raise OptionError(
            f"`{path}` was built with the vendor's converter, whose kernels are not ours",
            hint="merge its kernel selection files with the vendor's own command",
        )
    if manifest.deuteron != version("deuteron"):
        raise FormatError(
            f"the build was made by Deuteron {manifest.deuteron}, this is {version('deuteron')}",
            where=str(path),
            hint="build all models with one version of Deuteron",
        )
    called = {entry.kernel for partition in manifest.partitions for entry in partition.kernels}
    return selection.Selection.of(kernel for kernel in KERNELS if kernel.name in called)


def read_manifest(directory: str | Path) -> Manifest:
    """The manifest of a build directory, whose files have been checked against it."""
    return manifests.read(Path(directory))


class Signature(Protocol):
    """What is known of a model's inputs: a build's manifest, or a TFLite file."""

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """Shape, dtype and name of each input, in order."""
        ...


def seeded_inputs(model: Signature, count: int, seed: int = 0) -> list[tuple[Array, ...]]:
    """`count` random inputs of the model: normal float32 values, int8 over its whole range, 0 and 1 for the rest.

    Wider integers mostly are indices, and few tables have no row 1.
    """
    generator = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
        if dtype.kind == "f":
            return generator.standard_normal(shape).astype(dtype)
        low, high = (-128, 128) if dtype == np.int8 else (0, 2)
        return generator.integers(low, high, shape, dtype.name)

    return [tuple(draw(i.shape, np.dtype(i.dtype)) for i in model.inputs) for _ in range(count)]


def check_inputs(model: Signature, inputs: Sequence[Array]) -> None:
    """Checks number, shape and dtype of one set of inputs against the model's.

    Raises:
        InputError: naming the input that differs.
    """
    if len(inputs) != len(model.inputs):
        raise InputError(f"the model takes {len(model.inputs)} inputs, found {len(inputs)}")
    for i, (value, wanted) in enumerate(zip(inputs, model.inputs, strict=True)):
        if value.shape != wanted.shape or value.dtype != np.dtype(wanted.dtype):
            raise InputError(
                f"input {i} is {value.dtype} {list(value.shape)}, the model takes {wanted.dtype} {list(wanted.shape)}"
            )


def run(directory: str | Path, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a build for one set of inputs, computed on the host by ExecuTorch's own runtime.

    Raises:
        DeuteronError: the directory is no undamaged build, or the inputs are not the model's.
    """
    return next(run_each(directory, [inputs]))


def run_each(directory: str | Path, samples: Iterable[Sequence[Array]]) -> Iterator[list[Array]]:
    """The outputs of a build for one set of inputs after the other; otherwise as `run`."""
    from deuteron.runtime.host import HostRunner

    manifest = read_manifest(directory)
    runner = HostRunner(Path(directory) / manifests.PROGRAM)
    for inputs in samples:
        check_inputs(manifest, inputs)
        yield runner.run(inputs)
