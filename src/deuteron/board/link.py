"""Links a bundle to an image: order of the linker's inputs, and memories of weights and arenas."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from deuteron.board import ethosu_driver, firmware_record, library
from deuteron.board.boards import Board
from deuteron.board.bundle import Bundle
from deuteron.board.emit import EmitOptions, Placement, emit
from deuteron.board.firmware_record import Arenas, FirmwareOptions, Harness, IoCopy, Kernels, Weights
from deuteron.board.size import NPU_DRIVER
from deuteron.board.tensor_places import padded
from deuteron.board.toolchain import PLACE_ALL, Object, Region, Source, Toolchain
from deuteron.errors import CapacityError, OptionError
from deuteron.npu.neutron.kernels.selection import FILE_NAME, Selection
from deuteron.operators.program import Kernel

ARCHIVE = "libdeuteron.a"
NPU_ARCHIVE = f"lib{NPU_DRIVER}.a"
"""Archive of an NPU driver of the NPU's maker."""
SELECTION = f"neutron{FILE_NAME}"

_DATA = "DATA"
"""Memory of the stack; boards without it have the stack in SRAM."""
_STACK = 8192
"""Bytes that `sections.ld` reserves for the stack by default."""
_FREE = "SRAM"
"""The memory whose free part applications get."""

_EXTERNAL = "EXT"
"""The external memory; without bytes on boards that have none."""

_EVENT_BYTES = 16
"""Size of a `dtn_event_t`."""


@dataclass(frozen=True, slots=True)
class Linked:
    """An image that fits its board.

    Attributes:
        placement: memories of weights and arenas.
        regions: use of the board's memories.
        objects: the linker's inputs, those of the archive last.
    """

    placement: EmitOptions
    regions: tuple[Region, ...]
    objects: tuple[Object, ...]


def link(
    bundle: Bundle,
    board: Board,
    options: FirmwareOptions,
    kernels: Sequence[Kernel],
    toolchain: Toolchain,
    work: Path,
    application: Sequence[Source] | None = None,
    extra: Sequence[Source] = (),
) -> Linked:
    """Return the image in `work`, with weights and arenas in the first allowed memories where all fits.

    The port, the override of the copies and the selection of kernels are objects before the library, because the linker
    takes from an archive only undefined symbols. By default the options choose the application; the one for files of
    the host has its buffers in free SRAM. `extra` adds objects.

    Raises:
        CapacityError: no allowed placement fits.
        InputError: the user's port or NPU driver does not compile or link.
    """
    profiling = options.use_profiling
    fetches = any(delegate.partition.fetches_weights for delegate in bundle.delegates)
    _check_emulated(board, options, fetches)
    core_flags = (*board.flags, library.PROFILING) if profiling else board.flags
    flags = (*core_flags, *library.port_flags(board))
    is_own_port = not board.directory.is_relative_to(library.FIRMWARE)
    if is_own_port or options.ethosu_driver is not None:
        toolchain = replace(toolchain, users=board.directory if is_own_port else Path(options.ethosu_driver or ""))
    local = replace(toolchain, cache=work / "objects")
    # A user's port may include any file, also from elsewhere: its objects, and those that include its headers, are new.
    own = local if is_own_port else toolchain
    firmwares = [delegate.firmware for delegate in bundle.delegates]
    starts, stand_ins = library.stand_ins(firmwares)
    sources = (*library.core(board, profiling=profiling), *library.families(firmwares))
    archives, driver = (ARCHIVE,), _npu_driver(bundle, options)
    if driver:
        sources, starts, stand_ins = driver.calling(sources), driver.calling(library.silicon()), ()
    sources = (*sources, *stand_ins)
    core = toolchain.compile(library.recording(sources) if profiling else sources, board.flags, library.FIRMWARE)
    toolchain.archive(core, work / ARCHIVE)
    if driver:
        archives = (*archives, NPU_ARCHIVE)
        core += _write_npu_driver(driver, toolchain, core_flags, work)
    is_serial = options.harness is Harness.SERIAL
    port_files = library.port(
        board, dma=options.io_copy is IoCopy.DMA, fetches=fetches, npu=driver is not None, line=is_serial
    )
    port = own.compile((*port_files, *starts), flags, library.FIRMWARE)
    table = () if options.kernels is Kernels.ALL else (_write_selection(kernels, work),)
    if application is None:
        chosen = library.harness() if is_serial else library.runner(profiling=profiling)
        port += own.compile(chosen, flags, library.FIRMWARE)
    script = library.linker_script(board)
    sized = () if options.stack is None else (f"-Wl,--defsym=__dtn_stack_bytes={options.stack}",)
    buffers = _runner_bytes(bundle) if application is None and not is_serial else 0
    needed: tuple[Region, ...] = ()
    for placement in _placements(options):
        if needed and Placement.EXTERNAL in (placement.weights, placement.arenas) and not _has_external(needed):
            continue
        generated = (*_write_model(bundle, placement, work), *table)
        objects = (
            *port,
            *local.compile((*generated, *extra, *(application or ())), (*flags, f"-I{work}"), library.FIRMWARE),
        )
        for item in objects:
            shutil.copyfile(item.path, work / item.path.name)
        inputs = (*(item.path.name for item in objects), *archives)
        regions, fits = toolchain.link(
            inputs,
            (*board.flags, PLACE_ALL, *sized, *(f"-L{folder}" for folder in library.script_folders(board))),
            script,
            work / firmware_record.ELF,
        )
        if options.weights is Weights.EXTERNAL and not _has_external(regions):
            raise OptionError(f"the board `{board.name}` has no external memory", hint="leave out `--weights external`")
        needed = tuple(replace(r, used=r.used + buffers) if r.name == _FREE else r for r in regions)
        if fits and all(region.used <= region.size for region in needed):
            return Linked(placement, regions, (*objects, *core))
    raise _overflow(bundle, board, options, needed)


def _has_external(regions: Sequence[Region]) -> bool:
    return any(region.name == _EXTERNAL and region.size for region in regions)


def _check_emulated(board: Board, options: FirmwareOptions, fetches: bool) -> None:
    """Reject options and programs that need a device of the emulated boards."""
    if board.machine:
        return
    if options.harness is not Harness.SERIAL:
        raise OptionError(
            f"the board `{board.name}` is not emulated, and semihosting needs a debugger",
            hint="add `--harness serial`, and run it with `--on serial:PORT`",
        )
    if fetches:
        raise OptionError(
            f"the program fetches weights during its runs, and the port of `{board.name}` has no driver for fetches",
            hint="build the model with `--fetch-constants-to-sram never`, or integrate its bundle with "
            "`port/template/fetch_hooks.c`",
        )


def _npu_driver(bundle: Bundle, options: FirmwareOptions) -> ethosu_driver.EthosUDriver | None:
    """Return the NPU driver for silicon, if one is requested."""
    if options.ethosu_driver is None:
        return None
    names = (delegate.partition.accelerator for delegate in bundle.delegates)
    return ethosu_driver.find(Path(options.ethosu_driver), [*dict.fromkeys(name for name in names if name)])


def _write_npu_driver(
    driver: ethosu_driver.EthosUDriver, toolchain: Toolchain, flags: Sequence[str], work: Path
) -> tuple[Object, ...]:
    """Write the driver's archive; return its compiled objects, none for a library."""
    if driver.library:
        shutil.copyfile(driver.library, work / NPU_ARCHIVE)
        return ()
    compiled = toolchain.compile(driver.sources, flags, library.FIRMWARE)
    toolchain.archive(compiled, work / NPU_ARCHIVE)
    return compiled


def _runner_bytes(bundle: Bundle) -> int:
    """Return the bytes that the runner needs for the inputs, the outputs and the events of a run."""
    tensors = (bundle.values[i].bytes for i in (*bundle.inputs, *bundle.outputs))
    events = len(bundle.steps) + len(bundle.inputs) + len(bundle.outputs)
    return sum(map(padded, tensors)) + padded(_EVENT_BYTES * events)


def _placements(options: FirmwareOptions) -> Sequence[EmitOptions]:
    """Return the allowed memories of weights and arenas, best first."""
    weights = options.weights
    allowed = (Placement.FLASH, Placement.EXTERNAL) if weights is Weights.AUTO else (Placement(weights.value),)
    arenas = (Placement.TCM,) if options.arenas is Arenas.TCM else (Placement.SRAM, Placement.EXTERNAL)
    return tuple(EmitOptions(weights=place, arenas=arena) for arena, place in product(arenas, allowed))


def _write_model(bundle: Bundle, placement: EmitOptions, work: Path) -> tuple[Source, ...]:
    """Write the bundle's files and return those to compile."""
    files = emit(bundle, placement)
    for name, data in files.items():
        (work / name).write_bytes(data)
    others = tuple(work / name for name in files if not name.endswith((".c", ".S")))
    paths = (work / name for name in files if name.endswith((".c", ".S")))
    return tuple(Source(f"model.{path.stem}", path, others) for path in paths)


_NO_KERNELS = """\
/* The model calls no kernel. */
#include "deuteron/kernel.h"

int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {0};
"""


def selection(kernels: Sequence[Kernel]) -> str:
    """Return the table of these kernels in C."""
    return Selection.of(kernels).to_c() if kernels else _NO_KERNELS


def _write_selection(kernels: Sequence[Kernel], work: Path) -> Source:
    """Write the table of the kernels."""
    path = work / SELECTION
    path.write_text(selection(kernels), "ascii")
    return Source("kernels.selection", path)


def _overflow(bundle: Bundle, board: Board, options: FirmwareOptions, regions: Sequence[Region]) -> CapacityError:
    """Return the error for an image that does not fit, with every memory that is too small in the last placement."""
    small = [region for region in regions if region.used > region.size]
    listed = "".join(f"\n  {r.name} required: {r.used:,} B of {r.size:,} B" for r in small)
    blocks = (block for delegate in bundle.delegates for block in delegate.partition.blocks)
    held = sum(map(len, {*bundle.constants, *(block.data for block in blocks if block.is_weights)}))  # equal ones once
    arenas = sum(memory.bytes for memory in bundle.memories)
    ways = ["use a board with more memory", "make the model smaller"]
    if options.weights is not Weights.AUTO:
        ways.insert(0, "try `--weights auto`")
    stack = _STACK if options.stack is None else options.stack
    holder = _DATA if any(region.name == _DATA for region in regions) else _FREE
    if any(region.name == holder and region.used - region.size < stack for region in small):
        ways.insert(0, "reserve less stack with `--stack`")
    if budget := _fitting_budget(bundle, regions):
        ways.insert(0, f"build it for the SRAM of this board with `deuteron build ... --sram-budget {budget >> 10}Ki`")
    return CapacityError(
        f"`{bundle.name}` does not fit the board `{board.name}`:{listed}\n"
        f"  weights and constants need {held:,} B, arenas {arenas:,} B, the stack {stack:,} B",
        hint=f"{', '.join(ways[:-1])}, or {ways[-1]}",
    )


def _fitting_budget(bundle: Bundle, regions: Sequence[Region]) -> int:
    """Return the SRAM budget with which the arenas of a program that fetches weights fit; 0 if there is none.

    The regions are those of an image whose arenas lie in external memory.
    """
    partitions = [delegate.partition for delegate in bundle.delegates]
    *tensors, working = (memory.bytes for memory in bundle.memories)
    planned = max((partition.budget_bytes for partition in partitions), default=0)
    others = working - planned  # the rest counts for a build's budget
    budget = next((r.size - r.used - others for r in regions if r.name == _FREE), 0)
    fetches = any(partition.fetches_weights for partition in partitions)
    return budget if fetches and sum(tensors) + (1 << 10) <= budget < sum(tensors) + planned else 0
