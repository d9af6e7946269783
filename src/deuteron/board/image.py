"""From a build directory to an image for a board."""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path

from deuteron.board import library, record, size, stack
from deuteron.board.boards import Board
from deuteron.board.bundle import Bundle
from deuteron.board.emit import EmitOptions, Placement, emit
from deuteron.board.override import check_override
from deuteron.board.record import Firmware, FirmwareOptions, IoCopy, Kernels, StepInfo, Weights
from deuteron.board.toolchain import Object, Region, Source, Toolchain
from deuteron.board.translate import translate
from deuteron.errors import CapacityError
from deuteron.frontend import manifest as manifests
from deuteron.frontend import output
from deuteron.frontend.records import entry_of
from deuteron.kernels.catalogue import KERNELS, Kernel
from deuteron.kernels.selection import FILE_NAME, Selection
from deuteron.microcode.decode import decode
from deuteron.runtime import pte
from deuteron.runtime.build_native import CHECKOUT

OBJECTS = CHECKOUT / "build" / "firmware"
"""Where objects are kept between builds."""

_KEPT = {".elf", ".map", ".c", ".h", ".S", ".bin"}
_ARCHIVE = "libdeuteron.a"
_SELECTION = f"neutron{FILE_NAME}"


@dataclass(frozen=True, slots=True)
class Image:
    """A finished image: its record, and the files of its directory but for the record."""

    record: Firmware
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _Linked:
    """An image that fits its board."""

    placement: EmitOptions
    regions: tuple[Region, ...]
    objects: tuple[Object, ...]


def build(directory: Path, board: Board, options: FirmwareOptions, toolchain: Toolchain) -> Image:
    """The image of the build in `directory`.

    Raises:
        InputError, FormatError: when there is no undamaged build.
        UnsupportedError: for an operator or tensor that firmware does not have.
        CapacityError: when the model does not fit the board's memories.
        MissingToolError: without the firmware's sources, which stand in a checkout.
    """
    manifest = manifests.read(directory)
    program = (directory / manifests.PROGRAM).read_bytes()
    bundle = translate(pte.read(program, str(directory)), manifest, name=manifest.model.name)
    kernels = KERNELS if options.kernels is Kernels.ALL else called(bundle)
    with tempfile.TemporaryDirectory(prefix="deuteron-firmware-") as scratch:
        work = Path(scratch)
        linked = _link(bundle, board, options, kernels, toolchain, work)
        elf, map_file = work / record.ELF, work / record.MAP
        if options.io_copy is IoCopy.DMA:
            check_override(elf)
        sizes = size.measure(elf, map_file)
        bound = stack.bound(elf, map_file, linked.objects)
        files = {path.name: path.read_bytes() for path in sorted(work.iterdir()) if path.suffix in _KEPT}
    made = Firmware(
        deuteron=version("deuteron"),
        compiler=toolchain.version,
        board=board.name,
        options=options,
        model=bundle.name,
        program_sha256=hashlib.sha256(program).hexdigest(),
        weights=linked.placement.weights.value,
        arenas=linked.placement.arenas.value,
        kernels=tuple(kernel.name for kernel in kernels),
        inputs=tuple(bundle.values[i] for i in bundle.inputs),
        outputs=tuple(bundle.values[i] for i in bundle.outputs),
        steps=tuple(StepInfo(step.title, step.source) for step in bundle.steps),
        memories=bundle.memories,
        regions=linked.regions,
        sizes=sizes,
        stack=bound,
        files={name: entry_of(data) for name, data in files.items()},
    )
    return Image(made, files)


def check_output(directory: Path, *, force: bool) -> None:
    """Checks, before the work, that an image may be written there; OptionError or InputError when not."""
    output.check_output(directory, force=force, record=record.FILE.name)


def write(image: Image, directory: Path, *, force: bool) -> None:
    """Nothing; writes the whole directory, or nothing of it and raises OptionError or InputError."""
    text = record.FILE.to_json(image.record).encode()
    output.write(directory, {**image.files, record.FILE.name: text}, force=force, record=record.FILE.name)


def called(bundle: Bundle) -> tuple[Kernel, ...]:
    """The kernels that the microcode of a bundle's partitions calls, by number."""
    found = {call.kernel for delegate in bundle.delegates for call in decode(delegate.container).calls}
    return tuple(sorted(found, key=lambda kernel: kernel.kind))


def _link(
    bundle: Bundle, board: Board, options: FirmwareOptions, kernels: Sequence[Kernel], toolchain: Toolchain, work: Path
) -> _Linked:
    """The image in `work`, with weights and arenas in the first of the allowed places where all fits."""
    core = toolchain.compile(library.core(), board.flags, library.FIRMWARE)
    toolchain.archive(core, work / _ARCHIVE)
    port = toolchain.compile(
        library.port(board, dma=options.io_copy is IoCopy.DMA),
        (*board.flags, *library.port_flags(board)),
        library.FIRMWARE,
    )
    selection = () if options.kernels is Kernels.ALL else (_write_selection(kernels, work),)
    script = library.linker_script(board)
    local = replace(toolchain, cache=work / "objects")
    regions: tuple[Region, ...] = ()
    for placement in _placements(options.weights):
        model = local.compile((*_write_model(bundle, placement, work), *selection), board.flags, library.FIRMWARE)
        for item in (*port, *model):
            shutil.copyfile(item.path, work / item.path.name)
        inputs = (*(item.path.name for item in (*port, *model)), _ARCHIVE)
        regions, fits = toolchain.link(inputs, (*board.flags, f"-L{script.parent}"), script, work / record.ELF)
        if fits:
            # The call graphs of what is not in the cache are read before `work` goes.
            return _Linked(placement, regions, (*port, *model, *core))
    raise _overflow(bundle.name, board, options.weights, regions)


def _placements(weights: Weights) -> Sequence[EmitOptions]:
    """Where weights and arenas may lie, the best first."""
    allowed = (Placement.FLASH, Placement.EXTERNAL) if weights is Weights.AUTO else (Placement(weights.value),)
    arenas = (Placement.SRAM, Placement.EXTERNAL)
    return tuple(EmitOptions(weights=place, arenas=arena) for arena, place in product(arenas, allowed))


def _write_model(bundle: Bundle, placement: EmitOptions, work: Path) -> tuple[Source, ...]:
    """The bundle's files, written; those to be compiled."""
    files = emit(bundle, placement)
    for name, data in files.items():
        (work / name).write_bytes(data)
    others = tuple(work / name for name in files if not name.endswith((".c", ".S")))
    paths = (work / name for name in files if name.endswith((".c", ".S")))
    return tuple(Source(f"model.{path.stem}", path, others) for path in paths)


_NO_KERNELS = """\
/* The model calls no kernel. */
#include "deuteron/kernel.h"

int32_t (*neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {0};
"""


def _write_selection(kernels: Sequence[Kernel], work: Path) -> Source:
    """The table of the kernels, written."""
    path = work / _SELECTION
    path.write_text(Selection.of(kernels).to_c() if kernels else _NO_KERNELS, "ascii")
    return Source("kernels.selection", path)


def _overflow(model: str, board: Board, weights: Weights, regions: Sequence[Region]) -> CapacityError:
    """The error for what does not fit, with every memory that is too small for it."""
    small = [region for region in regions if region.used > region.size]
    listed = "".join(f"\n  {r.name} required: {r.used:,} B of {r.size:,} B" for r in small)
    hint = (
        "use a board with more memory, or make the model smaller"
        if weights is Weights.AUTO
        else "let `--weights auto` find a place for the weights"
    )
    return CapacityError(f"`{model}` does not fit the board `{board.name}`:{listed}", hint=hint)
