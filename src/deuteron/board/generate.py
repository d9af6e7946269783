"""Writes a build as C files, for the user's own firmware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from deuteron.board import image
from deuteron.board.emit import EmitOptions, emit
from deuteron.board.link import SELECTION, selection
from deuteron.board.record import Kernels
from deuteron.builds import manifest as manifests
from deuteron.builds import output
from deuteron.records import FileEntry, RecordFile, entry_of


@dataclass(frozen=True, slots=True)
class BundleFiles:
    """Content of `bundle.json`: the origin of the files next to it."""

    deuteron: str
    model: str
    program_sha256: str
    symbol: str
    weights: str
    arenas: str
    kernels: tuple[str, ...]
    state_bytes: int
    files: Mapping[str, FileEntry]


FILE = RecordFile("bundle.json", 2, "deuteron bundle DIR -o OUT", "write the bundle again")


def generate(directory: Path, target: Path, options: EmitOptions, kernels: Kernels, *, force: bool) -> Sequence[str]:
    """Write the files of a build to `target`, all or none, and return their names.

    Raises:
        OptionError, InputError: `target` exists and must not be replaced, or there is no build.
        UnsupportedError: firmware lacks an operator or a tensor type.
    """
    output.check_output(target, force=force, record=FILE.name)
    bundle = image.bundle_of(directory)
    called = image.called(bundle)
    files = dict(emit(bundle, options))
    if kernels is Kernels.SELECTED:
        files[SELECTION] = selection(called).encode()
    record = BundleFiles(
        deuteron=version("deuteron"),
        model=bundle.name,
        program_sha256=entry_of((directory / manifests.PROGRAM).read_bytes()).sha256,
        symbol=options.symbol,
        weights=options.weights.value,
        arenas=options.arenas.value,
        kernels=tuple(kernel.name for kernel in called),
        state_bytes=bundle.state_bytes,
        files={name: entry_of(data) for name, data in files.items()},
    )
    output.write(target, {**files, FILE.name: FILE.to_json(record).encode()}, force=force, record=FILE.name)
    return (*files, FILE.name)
