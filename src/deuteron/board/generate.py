"""Writes a build as C files, for the user's own firmware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from deuteron.board import harness_image, image
from deuteron.board.bundle import Bundle
from deuteron.board.emit import EmitOptions, emit
from deuteron.board.firmware_record import Kernels
from deuteron.board.flash import Flash
from deuteron.board.link import SELECTION, selection
from deuteron.builds import manifest as manifests
from deuteron.builds import output
from deuteron.errors import OptionError
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


HARNESS = "dtn_harness_image.c"
"""File with the facts that the harness sends (`firmware/harness/image.h`), for an application with one program."""

_NAME_BYTES = 24
"""Bytes of the board's name in these facts, with a zero at the end."""


def check_output(directory: Path, *, force: bool) -> None:
    """Check before the work that C tables may be written there; OptionError or InputError if not."""
    output.check_output(directory, force=force, record=FILE.name)


def generate(
    directory: Path, target: Path, options: EmitOptions, kernels: Kernels, *, force: bool, harness: str | None = None
) -> Sequence[str]:
    """Write the files of a build to `target`, all or none, and return their names.

    With `harness`, the name of the board, the facts for the harness are among them.

    Raises:
        OptionError, InputError: `target` exists and must not be replaced, there is no build, or the name is too long.
        UnsupportedError: firmware lacks an operator or a tensor type.
    """
    check_output(target, force=force)
    bundle = image.bundle_of(directory)
    called = image.called(bundle)
    files = dict(emit(bundle, options))
    if kernels is Kernels.SELECTED:
        files[SELECTION] = selection(called).encode()
    program_sha256 = entry_of((directory / manifests.PROGRAM).read_bytes()).sha256
    if harness is not None:
        files[HARNESS] = _harness(bundle, options, harness, program_sha256)
    record = BundleFiles(
        deuteron=version("deuteron"),
        model=bundle.name,
        program_sha256=program_sha256,
        symbol=options.symbol,
        weights=options.weights.value,
        arenas=options.arenas.value,
        kernels=tuple(kernel.name for kernel in called),
        state_bytes=bundle.state_bytes,
        files={name: entry_of(data) for name, data in files.items()},
    )
    output.write(target, {**files, FILE.name: FILE.to_json(record).encode()}, force=force, record=FILE.name)
    return (*files, FILE.name)


def _harness(bundle: Bundle, options: EmitOptions, name: str, program_sha256: str) -> bytes:
    """Return the facts for the harness: an NPU of the program runs, if its maker has a driver."""
    if options.symbol != EmitOptions().symbol:
        raise OptionError(
            f"the harness runs the program `{EmitOptions().symbol}`, not `{options.symbol}`",
            hint="leave out `--symbol`",
        )
    if not (name.isascii() and name.isidentifier() and len(name) < _NAME_BYTES):
        raise OptionError(
            f"a board cannot have the name `{name}`",
            hint=f"give at most {_NAME_BYTES - 1} letters, digits and underscores",
        )
    emulated = harness_image.is_npu_emulated(bundle, npu_driver=True)
    text = harness_image.text(bundle, name, Flash(0, 0), loop_ticks=0, profiling=False, is_npu_emulated=emulated)
    return f"{image.hash_text(program_sha256)}\n{text}".encode()
