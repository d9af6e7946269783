"""A build as C files, for firmware that someone else builds."""

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
    """The content of `bundle.json`: what the files beside it were made from."""

    deuteron: str
    model: str
    program_sha256: str
    symbol: str
    weights: str
    arenas: str
    kernels: tuple[str, ...]
    files: Mapping[str, FileEntry]


FILE = RecordFile("bundle.json", 1, "deuteron bundle DIR -o OUT", "write the bundle again")


def generate(directory: Path, target: Path, options: EmitOptions, kernels: Kernels, *, force: bool) -> Sequence[str]:
    """Names of the files of the build in `directory`, written to the directory `target`: all of them, or none.

    Raises:
        OptionError, InputError: when something is at `target` that may not be replaced, or there is no build.
        UnsupportedError: for an operator or tensor that firmware does not have.
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
        files={name: entry_of(data) for name, data in files.items()},
    )
    output.write(target, {**files, FILE.name: FILE.to_json(record).encode()}, force=force, record=FILE.name)
    return (*files, FILE.name)
