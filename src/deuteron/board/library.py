"""Which C files an image is made of, and what the object of each is called: `<module>.<file>`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from deuteron.arch import cores
from deuteron.arch.cores import InnerWork
from deuteron.board.boards import Board
from deuteron.board.toolchain import Source
from deuteron.native import FIRMWARE
from deuteron.npu.firmware import Firmware

_LIBRARY: Mapping[str, tuple[str, ...]] = {
    "executor": ("src/executor/*.c", "src/executor/ethosu/*.c"),
    "operators": ("src/operators/*.c",),
    "cortex_m": ("src/cortex_m/*.c",),
    "io": ("src/io/*.c",),
    "messages": ("src/driver/error_string.c",),
    "driver": ("src/driver/[!e]*.c", "src/driver/error.c", "src/kernels/check/check.c"),
    "kernels": ("src/kernels/check/dtn_check_*.c", "src/kernels/table_fast.c"),
}
_KERNELS = ("src/kernels/fast", "src/kernels/device")
"""The second has what takes the inner work in place of what compilers vectorise."""
_INNER = "src/cortex_m"
_SINGLE_ROUNDING = "src/kernels/single_rounding"
"""The inner loops of the Cortex-M operators, and the same for the NPU's kernels, which round once."""
_SMALLEST = ("-fno-move-loop-invariants", "-fno-schedule-insns2", "-fno-tree-tail-merge", "-fno-tree-loop-im")
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "cortex_m": ("-O3",),
    "stand_in": ("-O2",),
    "executor": _SMALLEST,
    "driver": _SMALLEST,
    "driver.crc32": (),
}
"""What the compiler gets for a module, or for one file of it, alone. `benches/cortex_m.py` holds the Cortex-M's
operators to a bar that they meet only so: on a Cortex-M33 all of them take 51.9 KB instead of 30.8, and the 14 layers
of MLPerf Tiny's networks 12.1 million instructions instead of 12.9. Loops of the executor and the driver run once per
step or command, but for the checksum's: what is read anew in each round, or waited for, costs no time that counts."""
_INNER_FLAGS: Mapping[InnerWork, tuple[str, ...]] = {InnerWork.DSP: ("-fno-schedule-insns",)}
"""What it gets for a directory of the Cortex-M operators' inner work beside these. Before it assigns registers, GCC
moves loads up to where there are none left for them: with DSP instructions that costs half as many again. `portable`
gains from it."""
_OVERRIDE = "io_copy_dma"
_FETCHES = "fetch"
_DMA = ("dma",)
_DEVICES = (*_DMA, "sleep", "timer")
"""What the override and the fetches of weights use, interrupts and all; the wait for an NPU takes all but the DMA."""
_FAULT_INJECTION = "faults"
_EVENTS = "events"
PROFILING = "-DDTN_PROFILING=1"
"""The compiler's flag for what records events."""
_EVENTLESS = frozenset({"operators", "cortex_m", "io", "messages", "kernels", "inner"})
"""Modules of which no file, with all that it includes, knows that flag."""


def core(board: Board, *, profiling: bool = False) -> tuple[Source, ...]:
    """The firmware library for the board's core, of which the linker takes what it needs."""
    patterns = {**_LIBRARY, "profile": ("src/profile/*.c",)} if profiling else _LIBRARY
    inner = cores.load(board.cpu).inner
    return (*_named(patterns), *kernels(inner), *inner_work(inner))


def recording(sources: Iterable[Source]) -> tuple[Source, ...]:
    """The same for an image that records events: most sources know nothing of them, and have the same objects."""
    return tuple(
        source if source.name.partition(".")[0] in _EVENTLESS else replace(source, flags=(*source.flags, PROFILING))
        for source in sources
    )


def kernels(inner: InnerWork) -> tuple[Source, ...]:
    """The NPU's kernels for a device, but for their checks and their table, and what they share."""
    chosen = {path.stem: path for folder in _KERNELS for path in sorted((FIRMWARE / folder).glob("*.c"))}
    shared = _named({"inner": (f"{_SINGLE_ROUNDING}/*.c",)})
    return (
        *(Source(f"kernels.{stem}", path) for stem, path in chosen.items()),
        *shared,
        *_inner("inner", _SINGLE_ROUNDING, inner),
    )


def inner_work(inner: InnerWork) -> tuple[Source, ...]:
    """The inner work of the Cortex-M operators: the files of its directory, and of `portable` what this lacks.

    A file is named for what it computes, and for its directory: `matmul_s8_dsp.c` takes the place of
    `matmul_s8_portable.c`.
    """
    return tuple(_inner("cortex_m", _INNER, inner))


def _inner(module: str, root: str, inner: InnerWork) -> Iterator[Source]:
    chosen = {
        path.stem.removesuffix(f"_{directory.value}"): (directory, path)
        for directory in (InnerWork.PORTABLE, inner)
        for path in sorted((FIRMWARE / root / directory.value).glob("*.c"))
    }
    for _, (directory, path) in sorted(chosen.items()):
        origin = FIRMWARE / _INNER / directory.value / path.name.replace("_single_rounding", "")
        includes = (origin,) if origin != path and origin.is_file() else ()
        yield Source(f"{module}.{path.stem}", path, includes, (*_FLAGS["cortex_m"], *_INNER_FLAGS.get(directory, ())))


def families(firmwares: Iterable[Firmware]) -> tuple[Source, ...]:
    """What NPU families add to the library."""
    paths = dict.fromkeys(path for firmware in firmwares for path in firmware.sources)
    return tuple(Source(f"npu.{path.stem}", path) for path in paths)


def silicon() -> tuple[Source, ...]:
    """What starts a board's own Ethos-U by Arm's driver."""
    return tuple(_named({"port": ("port/ethosu/silicon.c",)}))


def stand_ins(firmwares: Iterable[Firmware]) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """What emulated boards have in the place of NPUs: what starts these, and what that takes from an archive."""
    patterns = dict.fromkeys(firmware.stand_in for firmware in firmwares if firmware.stand_in)
    starts = tuple(source for *_, last in patterns for source in _named({"port": (last,)}))
    return starts, tuple(source for first in patterns for source in _named({"stand_in": first[:-1]}))


def port(board: Board, *, dma: bool, fetches: bool, npu: bool = False) -> tuple[Source, ...]:
    """What a board adds: for the override of the copies by DMA, fetches of weights, or its own NPU, if it has them."""
    left_out: set[str] = set()
    if not dma:
        left_out.add(_OVERRIDE)
    if not fetches:
        left_out.add(_FETCHES)
    if not dma and not fetches:
        left_out.update(_DEVICES if not npu else _DMA)
    sources = _named({"port": ("port/cortex_m/*.c", f"port/{board.name}/*.c")})
    return tuple(source for source in sources if source.path.stem not in left_out)


def runner(*, profiling: bool = False) -> tuple[Source, ...]:
    """The program that runs a bundle on files of the host."""
    left_out = (_FAULT_INJECTION,) if profiling else (_FAULT_INJECTION, _EVENTS)
    return tuple(source for source in _named({"semihost": ("semihost/*.c",)}) if source.path.stem not in left_out)


def port_flags(board: Board) -> tuple[str, ...]:
    """Where the port's headers are."""
    return tuple(
        f"-I{FIRMWARE / folder}" for folder in (f"port/{board.name}", "port/cortex_m", "port/ethosu", "semihost")
    )


def linker_script(board: Board) -> Path:
    """The board's linker script."""
    return FIRMWARE / "port" / board.name / f"{board.name}.ld"


def _named(patterns: Mapping[str, Iterable[str]]) -> Iterator[Source]:
    for module, globs in patterns.items():
        for path in (path for pattern in globs for path in sorted(FIRMWARE.glob(pattern))):
            name = f"{module}.{path.stem}"
            yield Source(name, path, (), _FLAGS.get(name, _FLAGS.get(module, ())))
