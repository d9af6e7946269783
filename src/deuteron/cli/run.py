"""`deuteron run`: a build on this machine, through ExecuTorch's own runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import InputError, OptionError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from deuteron.api import Manifest

    Array = npt.NDArray[np.generic]
    Sample = tuple[Array, ...]

SHOWN = 20
"""Samples that the text report lists."""


@new_command
@click.argument("directory", metavar="DIR", type=Path)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="X.npy",
    type=Path,
    help="One file per input of the model, in order; one dimension more than the input means several samples.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="Y.npy",
    type=Path,
    help="One file per output of the model, in order; several samples are stacked along a new first dimension.",
)
@click.option(
    "--samples",
    type=click.IntRange(1),
    metavar="N",
    help="Number of random samples when no input is given; 1 by default.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random samples.")
@click.option(
    "--compare", is_flag=True, help="Compare every operator with the quantised PyTorch model; exit 1 beyond the bounds."
)
@click.option("--force", is_flag=True, help="Replace output files that exist.")
def command(
    printer: Printer,
    *,
    directory: Path,
    inputs: tuple[Path, ...],
    outputs: tuple[Path, ...],
    samples: int | None,
    seed: int,
    compare: bool,
    force: bool,
) -> int:
    """Run the build in DIR on the host; with no `--input`, on random samples."""
    from deuteron import api

    manifest = api.read_manifest(directory)
    _check_outputs(manifest, outputs, force=force)
    if inputs and samples is not None:
        raise OptionError("`--samples` makes random samples, `--input` reads them", hint="leave one of them out")
    data = _read_samples(manifest, inputs) if inputs else api.seeded_inputs(manifest, samples or 1, seed)
    for sample in data:
        api.check_inputs(manifest, sample)
    if outputs or not compare:
        results = _run(printer, directory / "model.pte", data)
        _write(printer, outputs, results)
        if not compare:
            _report(printer, results)
    return _compare(printer, directory, data) if compare else 0


def _check_outputs(manifest: "Manifest", outputs: Sequence[Path], *, force: bool) -> None:
    """Refuse output files that cannot be written, before any work is done."""
    if outputs and len(outputs) != len(manifest.outputs):
        raise OptionError(f"the model has {len(manifest.outputs)} outputs, `--output` is given {len(outputs)} times")
    for path in outputs:
        if path.exists() and not force:
            raise InputError(f"`{path}` exists", hint="choose another name, or replace it with `--force`")
        if not path.parent.is_dir():
            raise InputError(f"`{path}` cannot be written: there is no directory `{path.parent}`")


def _read_samples(manifest: "Manifest", paths: Sequence[Path]) -> "list[Sample]":
    """The samples that the input files hold: one, or as many as their extra first dimension says."""
    if len(paths) != len(manifest.inputs):
        raise OptionError(f"the model has {len(manifest.inputs)} inputs, `--input` is given {len(paths)} times")
    columns: list[list[Array]] = []
    for path, wanted in zip(paths, manifest.inputs, strict=True):
        array = _read_array(path)
        columns.append(list(array) if array.ndim == len(wanted.shape) + 1 else [array])
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise InputError(f"the input files hold different numbers of samples: {', '.join(map(str, sorted(counts)))}")
    if counts == {0}:
        raise InputError("the input files hold no sample")
    return list(zip(*columns, strict=True))


def _read_array(path: Path) -> "Array":
    import numpy as np

    try:
        array: object = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"`{path}` does not exist") from None
    except (ValueError, EOFError, OSError) as e:
        raise InputError(f"`{path}` is not a .npy file: {e}", hint="write it with `numpy.save`") from e
    if not isinstance(array, np.ndarray):
        raise InputError(f"`{path}` is not a .npy file but an archive", hint="write one array with `numpy.save`")
    return cast("Array", array)


def _run(printer: Printer, program: Path, data: "Sequence[Sample]") -> "list[Sample]":
    from deuteron.runtime.host import HostRunner

    with printer.work("running") as progress:
        runner = HostRunner(program)
        results: list[Sample] = []
        for i, sample in enumerate(data):
            progress(f"sample {i}", i, len(data))
            results.append(tuple(runner.run(sample)))
    return results


def _write(printer: Printer, paths: Sequence[Path], results: "Sequence[Sample]") -> None:
    import numpy as np

    for i, path in enumerate(paths):
        array = results[0][i] if len(results) == 1 else np.stack([outputs[i] for outputs in results])
        with path.open("wb") as file:  # numpy.save would add a suffix to a bare name
            np.save(file, array)
        printer.note(f"wrote `{path}`")


def _report(printer: Printer, results: "Sequence[Sample]") -> None:
    """Every output in JSON; in text its range and, for a row of scores, the best."""
    if printer.as_json:
        samples = [[{"shape": list(y.shape), "dtype": y.dtype.name, "values": y.tolist()} for y in s] for s in results]
        printer.json({"schema": 1, "samples": samples})
        return
    for i, sample in enumerate(results[:SHOWN]):
        for j, y in enumerate(sample):
            printer.data(
                f"sample {i}  output {j}  {y.dtype} {list(y.shape)}  min {y.min():g}  max {y.max():g}  "
                f"argmax {int(y.argmax())}"
            )
    if len(results) > SHOWN:
        printer.data(f"[{len(results) - SHOWN} others]")


def _compare(printer: Printer, directory: Path, data: "Sequence[Sample]") -> int:
    """Compare with the quantised reference and report it; 1 when a bound is exceeded."""
    from deuteron.compare import compare

    with printer.work("comparing") as progress:
        comparison = compare(directory, data, lambda done, of: progress("samples", done, of))
    if printer.as_json:
        printer.json(comparison.to_json())
    else:
        printer.data(comparison.text())
    return 0 if comparison.passed else 1
