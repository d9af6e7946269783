"""Samples as `.npy` files: read for the inputs of a model, and written of its outputs."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from deuteron.builds.output import check_file, write_files
from deuteron.errors import InputError, OptionError, counted, unreadable
from deuteron.runtime.inputs import Array, Sample, Signature

_ARRAY, _ARCHIVE = b"\x93NUMPY", b"PK"
"""How files begin that `numpy.save` and `numpy.savez` write."""


def read_samples(model: Signature, paths: Sequence[Path], *, is_stream: bool = False) -> list[Sample]:
    """The samples that the input files hold: one, or as many as their extra first dimension says.

    `is_stream` says that the model's inputs are those that are no states.

    Raises:
        OptionError: there are more or fewer files than inputs.
        InputError: a file cannot be read, or they hold different numbers of samples.
    """
    if len(paths) != len(model.inputs):
        besides = " besides those that `--stream` carries" if is_stream else ""
        inputs = counted(len(model.inputs), "input")
        raise OptionError(f"the model has {inputs}{besides}, `--input` is given {counted(len(paths), 'time')}")
    columns: list[list[Array]] = []
    for path, wanted in zip(paths, model.inputs, strict=True):
        array = _read_array(path)
        columns.append(list(array) if array.ndim == len(wanted.shape) + 1 else [array])
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise InputError(f"the input files hold different numbers of samples: {', '.join(map(str, sorted(counts)))}")
    if counts == {0}:
        raise InputError("the input files hold no sample")
    return list(zip(*columns, strict=True))


def repeated(samples: Sequence[Sample], runs: int | None) -> list[Sample]:
    """The samples over and over, one per run; each once by default.

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
    """Indices of the samples that hold NaN or infinite values."""
    return [i for i, sample in enumerate(samples) if not all(np.isfinite(value).all() for value in sample)]


def check_outputs(count: int, paths: Sequence[Path], *, force: bool) -> None:
    """Refuse output files that cannot be written, before any work is done.

    Raises:
        OptionError: there are not as many as the model has outputs, one is named twice, or exists without `force`.
    """
    if paths and len(paths) != count:
        raise OptionError(
            f"the model has {counted(count, 'output')}, `--output` is given {counted(len(paths), 'time')}"
        )
    for path in paths:
        if paths.count(path) > 1:
            raise OptionError(f"`--output` names `{path}` {paths.count(path)} times", hint="one file takes one output")
        check_file(path, force=force)


def write_outputs(paths: Sequence[Path], results: Sequence[Sample]) -> None:
    """Write output i of all samples to file i, stacked along a new first dimension if there are several samples."""
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
        raise InputError(f"`{path}` does not exist") from None
    except (IsADirectoryError, PermissionError) as e:
        raise unreadable(path, e) from e
    except (ValueError, EOFError, OSError) as e:
        raise InputError(f"`{path}` is not a .npy file: {e}", hint="write it with `numpy.save`") from e
    if not isinstance(array, np.ndarray):
        raise InputError(f"`{path}` is not a .npy file but an archive", hint="write one array with `numpy.save`")
    return cast("Array", array)
