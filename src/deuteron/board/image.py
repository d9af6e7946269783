"""Builds an image for a board from a build directory."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from deuteron.arch import cores, targets
from deuteron.arch.cores import InnerWork
from deuteron.board import boards, firmware_record, flash, harness_image, size, stack
from deuteron.board.arena import arena_of
from deuteron.board.boards import Board
from deuteron.board.bundle import Bundle
from deuteron.board.firmware_record import Arenas, Firmware, FirmwareOptions, Harness, IoCopy, Kernels, StepInfo
from deuteron.board.interleaved_weights import inner_of, interleaved
from deuteron.board.link import link
from deuteron.board.override import check_override
from deuteron.board.tables import CHANGE, Tables
from deuteron.board.toolchain import Source, Toolchain
from deuteron.board.translate import translate
from deuteron.builds import manifest as manifests
from deuteron.builds import output
from deuteron.errors import InputError, OptionError
from deuteron.native import cache_directory
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.operators.program import Kernel
from deuteron.records import entry_of
from deuteron.runtime import pte

OBJECTS = cache_directory() / "firmware"
"""Cache of objects between builds."""

_KEPT = {".elf", ".map", ".c", ".h", ".S", ".bin"}


@dataclass(frozen=True, slots=True)
class Image:
    """A linked image: its record, and the other files of its directory."""

    record: Firmware
    files: Mapping[str, bytes]


def build(directory: Path, board: Board, options: FirmwareOptions, toolchain: Toolchain) -> Image:
    """Return the image of the build in `directory`.

    Raises:
        OptionError: the board lacks a requested feature, or its core lacks instructions of the target.
        InputError, FormatError: there is no undamaged build.
        UnsupportedError: firmware lacks an operator or a tensor type.
        CapacityError: the model does not fit the board's memories, or the stack bound exceeds the reserved stack.
    """
    _check_copier(board, options.io_copy)
    manifest = manifests.read(directory)
    _check_core(board, manifest)
    if options.arenas is Arenas.TCM:
        _check_tcm(board)
    bundle = bundle_of(directory, cores.load(board.cpu).inner)
    kernels = KERNELS if options.kernels is Kernels.ALL else called(bundle)
    program_sha256 = manifest.files[manifests.PROGRAM].sha256
    planned_flash = options.flash.of(flash.planned_for(manifest.target, manifest.options.memory))
    is_serial = options.harness is Harness.SERIAL
    with tempfile.TemporaryDirectory(prefix="deuteron-firmware-") as scratch:
        work = Path(scratch)
        extra = (write_hash(program_sha256, work),) if options.use_profiling or is_serial else ()
        if is_serial:
            own = harness_image.write(
                bundle,
                board,
                planned_flash,
                work,
                profiling=options.use_profiling,
                npu_driver=options.ethosu_driver is not None,
            )
            extra = (*extra, own)
        linked = link(bundle, board, options, kernels, toolchain, work, extra=extra)
        elf, map_file = work / firmware_record.ELF, work / firmware_record.MAP
        if options.io_copy is IoCopy.DMA:
            check_override(elf)
        sizes = size.measure(elf, map_file)
        bound = stack.bound(elf, map_file, linked.objects)
        stack.check(bound, bundle.name)
        files = {path.name: path.read_bytes() for path in sorted(work.iterdir()) if path.suffix in _KEPT}
    tables = Tables.of(bundle)
    changes = [row[0] == CHANGE for row in tables.steps]
    firmware = Firmware(
        deuteron=version("deuteron"),
        compiler=toolchain.version,
        board=board.name,
        options=options,
        model=bundle.name,
        program_sha256=program_sha256,
        tables_crc=tables.crc,
        weights=linked.placement.weights.value,
        arenas=linked.placement.arenas.value,
        kernels=tuple(kernel.name for kernel in kernels),
        inputs=tuple(bundle.values[i] for i in bundle.inputs),
        outputs=tuple(bundle.values[i] for i in bundle.outputs),
        steps=tuple(
            StepInfo(step.title, step.source, joins_previous=changes[i] and i > 0 and changes[i - 1])
            for i, step in enumerate(bundle.steps)
        ),
        memories=bundle.memories,
        state=bundle.state,
        regions=linked.regions,
        sizes=sizes,
        stack=bound,
        flash=planned_flash,
        files={name: entry_of(data) for name, data in files.items()},
    )
    return Image(firmware, files)


def write_hash(sha256: str, work: Path) -> Source:
    """Return the C file with the program's hash, which profiles of the image contain."""
    path = work / "program.c"
    path.write_text(hash_text(sha256), encoding="utf-8")
    return Source("model.program", path)


def hash_text(sha256: str) -> str:
    """Return the text of that file."""
    text = ", ".join(f"0x{byte:02x}" for byte in bytes.fromhex(sha256))
    return (
        "/* SHA-256 of the .pte that the bundle was made from. */\n"
        '#include "deuteron/profile.h"\n\n'
        f"const uint8_t dtn_profile_program[DTN_PROGRAM_HASH_BYTES] = {{{text}}};\n"
    )


def check_output(directory: Path, *, force: bool) -> None:
    """Check before the work that an image may be written there; OptionError or InputError if not."""
    output.check_output(directory, force=force, record=firmware_record.FILE.name)


def write(image: Image, directory: Path, *, force: bool) -> None:
    """Write the whole directory; if it may not be replaced, write nothing and raise OptionError or InputError."""
    text = firmware_record.FILE.to_json(image.record).encode()
    output.write(
        directory, {**image.files, firmware_record.FILE.name: text}, force=force, record=firmware_record.FILE.name
    )


def check_origin(directory: Path, firmware: Firmware, build: Path) -> None:
    """Check that the firmware in `directory` was made from a build.

    Raises:
        InputError: it was made from another, or there is no build.
        FormatError: the build is damaged.
    """
    sha256 = manifests.read(build).files[manifests.PROGRAM].sha256
    if sha256 != firmware.program_sha256:
        raise InputError(
            f"`{directory}` was not made from `{build}`: its program has SHA-256 {firmware.program_sha256[:12]}, that "
            f"of the build has {sha256[:12]}",
            hint="give the build that it was made from, or build the firmware again",
        )


def bundle_of(directory: Path, inner: InnerWork | None = None) -> Bundle:
    """Return the program of a build as tables; raises the errors of `build`.

    Args:
        directory: the build.
        inner: the inner loops that run it; by default those of the target's CPU.
    """
    manifest = manifests.read(directory)
    bundle = translated(directory, manifest)
    arena = arena_of(bundle, manifest)
    return interleaved(bundle if arena is None else arena.bundle, inner or inner_of(manifest.target))


def translated(directory: Path, manifest: manifests.Manifest) -> Bundle:
    """Return the program as tables, with ExecuTorch's memory plan."""
    program = pte.read((directory / manifests.PROGRAM).read_bytes(), str(directory))
    return translate(program, manifest, name=manifest.model.name)


def called(bundle: Bundle) -> tuple[Kernel, ...]:
    """Return the kernels that a bundle's partitions call, by number."""
    names = {name for delegate in bundle.delegates for name in delegate.partition.kernels}
    return tuple(kernel for kernel in KERNELS if kernel.name in names)


def _check_core(board: Board, manifest: manifests.Manifest) -> None:
    """Reject a program with operators lowered for instructions that the board's core lacks."""
    target = manifest.target
    cpu = targets.load(target).cpu.name
    wanted = cores.load(cpu).inner
    if not cores.load(board.cpu).inner.has(wanted):
        able = ", ".join(f"`{name}`" for name in boards.names() if cores.load(boards.load(name).cpu).inner.has(wanted))
        what, mend = "the build is for", f"build the model with `--target {board.cpu}`"
        if not (manifest.executorch or manifest.partitions):  # a program without its build fits any core
            what, mend = "the program is assumed to be for", f"set its target, for example `--target {board.cpu}`"
        raise OptionError(
            f"{what} `{target}` and its {wanted.value.upper()} instructions, which the {board.cpu} of the board "
            f"`{board.name}` lacks",
            hint=f"use a board with these instructions: {able}; or {mend}",
        )


def _check_tcm(board: Board) -> None:
    """Reject tightly coupled memory on a board without any."""
    if not board.tcm:
        able = ", ".join(f"`{name}`" for name in boards.names() if boards.load(name).tcm)
        raise OptionError(
            f"the board `{board.name}` has no tightly coupled memory: its data are in SRAM",
            hint=f"leave out `--arenas tcm`, or use a board that has it: {able}",
        )


def _check_copier(board: Board, io_copy: IoCopy) -> None:
    """Reject copies by DMA on a board without one."""
    if io_copy is IoCopy.DMA and not board.dma:
        able = ", ".join(f"`{name}`" for name in boards.names() if boards.load(name).dma)
        raise OptionError(
            f"the board `{board.name}` has no DMA: only its {board.cpu} can copy inputs and outputs",
            hint=f"use `--io-copy cpu`, or a board with a DMA: {able}",
        )
