"""`samples.npz`: some calibration samples of a build, and the float model's results for each."""

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from deuteron.builds.manifest import SAMPLES
from deuteron.errors import FormatError

Array = npt.NDArray[np.generic]
Sample = tuple[Array, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """Samples in the program's input format, and the float model's outputs for each."""

    inputs: tuple[Sample, ...]
    outputs: tuple[Sample, ...]

    def within(self, most: int, *, is_sequence: bool = False) -> "Stored":
        """Return one or more samples of at most `most` bytes: the first of a sequence, otherwise evenly spaced ones."""
        size = sum(array.nbytes for side in (self.inputs, self.outputs) for array in side[0])
        count = max(1, most // max(1, size))
        if is_sequence:
            return Stored(self.inputs[:count], self.outputs[:count])
        return Stored(tuple(evenly(self.inputs, count)), tuple(evenly(self.outputs, count)))


def evenly(items: Sequence[T], most: int) -> list[T]:
    """Return at most so many of the items, evenly spaced from the first."""
    count = min(most, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def to_bytes(stored: Stored) -> bytes:
    """Return the file for these samples."""
    stream = io.BytesIO()
    sides = {"input": stored.inputs, "output": stored.outputs}
    arrays = {
        f"{side}_{i}": np.stack(column)
        for side, samples in sides.items()
        for i, column in enumerate(zip(*samples, strict=True))
    }
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def read(directory: Path) -> Stored | None:
    """Read the samples of a build directory; None if the file was deleted.

    Raises:
        FormatError: it is damaged.
    """
    path = directory / SAMPLES
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            sides = [_side(arrays, side) for side in ("input", "output")]
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as e:
        raise FormatError(f"`{SAMPLES}` cannot be read: {e}", where=str(path), hint="build the model again") from e
    return Stored(*sides)


def _side(arrays: "np.lib.npyio.NpzFile", side: str) -> tuple[Sample, ...]:
    count = sum(name.startswith(f"{side}_") for name in arrays.files)
    columns: Sequence[Array] = [arrays[f"{side}_{i}"] for i in range(count)]
    return tuple(zip(*columns, strict=True))
