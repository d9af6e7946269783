"""Reads and writes samples as `.npy` files."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from deuteron.builds.output import check_file, write_files
from deuteron.errors import InputError, OptionError, absent, counted, unreadable
from deuteron.runtime.inputs import Array, Sample, Signature, check_input

_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"
"""Start of files of `numpy.save` and `numpy.savez`."""


def read_samples(model: Signature, paths: Sequence[Path], *, is_stream: bool = False) -> list[Sample]:
    """Read the samples in the input files: one, or as many as their extra first dimension has.

    `is_stream` means that the model's inputs are those that are not states.

    Raises:
        OptionError: the number of files differs from the number of inputs.
        InputError: a file cannot be read or has another shape or dtype, or the files have different numbers of samples.
    """
    if len(paths) != len(model.inputs):
        besides = " besides those that `--stream` carries" if is_stream else ""
        inputs = counted(len(model.inputs), "input")
        raise OptionError(
            f"the model has {inputs}{besides}, but `--input` is given {counted(len(paths), 'time')}",
            hint="give a file for each input: "
            + ", ".join(f"{info.name or i} {info.dtype} {list(info.shape)}" for i, info in enumerate(model.inputs)),
        )
    columns: list[list[Array]] = []
    for i, (path, wanted) in enumerate(zip(paths, model.inputs, strict=True)):
        array = _read_array(path)
        are_several = array.ndim == len(wanted.shape) + 1
        columns.append(list(array) if are_several else [array])
        try:
            for sample in columns[-1]:
                check_input(model, sample, i, prefix="for each sample: " if are_several else "")
        except InputError as e:
            raise e.relocate(str(path)) from None
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        found = ", ".join(f"`{path}` {len(column)}" for path, column in zip(paths, columns, strict=True))
        raise InputError(
            f"the input files have different numbers of samples: {found}",
            hint="give all inputs for each sample: files with the same first dimension",
        )
    if counts == {0}:
        raise InputError("the input files have no samples")
    return list(zip(*columns, strict=True))


def repeated(samples: Sequence[Sample], runs: int | None) -> list[Sample]:
    """Return one sample per run, repeating them; by default each once.

    Raises:
        InputError: there are no samples.
        OptionError: there are fewer runs than samples.
    """
    if not samples:
        raise InputError("there are no samples to run")
    count = len(samples) if runs is None else runs
    if count < len(samples):
        raise OptionError(
            f"`--runs {count}` is less than the {counted(len(samples), 'sample')} of the files",
            hint="leave out `--runs`, or give files with fewer samples",
        )
    return [samples[i % len(samples)] for i in range(count)]


def not_finite(samples: Sequence[Sample]) -> list[int]:
    """Return the indices of the samples with NaN or infinite values."""
    return [i for i, sample in enumerate(samples) if not all(np.isfinite(value).all() for value in sample)]


def check_outputs(count: int, paths: Sequence[Path], *, force: bool) -> None:
    """Reject output files that cannot be written, before any work.

    Raises:
        OptionError: their number differs from the model's outputs, one is named twice, or exists without `force`.
    """
    if paths and len(paths) != count:
        raise OptionError(
            f"the model has {counted(count, 'output')}, but `--output` is given {counted(len(paths), 'time')}",
            hint="give a file for each output, in order, or none",
        )
    for path in paths:
        if paths.count(path) > 1:
            raise OptionError(f"`--output` names `{path}` {paths.count(path)} times", hint="use one file per output")
        check_file(path, force=force)


def write_outputs(paths: Sequence[Path], results: Sequence[Sample]) -> None:
    """Write output i of all samples to file i, stacked along a new first dimension for several samples."""
    files: dict[Path, bytes] = {}
    for i, path in enumerate(paths):
        data = io.BytesIO()
        np.save(data, results[0][i] if len(results) == 1 else np.stack([outputs[i] for outputs in results]))
        files[path] = data.getvalue()
    if files:
        write_files(files)


def _read_array(path: Path) -> Array:
    try:
        with path.open("rb") as file:
            start = file.read(len(_ARRAY))
        if not start.startswith((_ARRAY, _ARCHIVE)):
            raise ValueError(f"it begins with {start!r}, not with {_ARRAY!r}")
        array: object = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise absent(path) from None
    except (IsADirectoryError, PermissionError) as e:
        raise unreadable(path, e) from e
    except (ValueError, EOFError, OSError) as e:
        raise InputError(f"`{path}` is not a .npy file: {e}", hint="write it with `numpy.save`") from e
    if not isinstance(array, np.ndarray):
        raise InputError(f"`{path}` is not a .npy file but an archive", hint="write one array with `numpy.save`")
    return cast("Array", array)
