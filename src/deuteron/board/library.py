"""Lists the C files of an image, and names the object of each: `<module>.<file>`."""

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
    "tflite": ("src/tflite/*.c",),
    "io": ("src/io/*.c",),
    "messages": ("src/driver/error_string.c",),
    "driver": ("src/driver/[!e]*.c", "src/driver/error.c", "src/kernels/check/check.c"),
    "kernels": ("src/kernels/check/dtn_check_*.c", "src/kernels/table_fast.c"),
}
_KERNELS = ("src/kernels/fast", "src/kernels/device")
"""`device` has the inner work in place of loops that compilers vectorise."""
_INNER = "src/cortex_m"
_SINGLE_ROUNDING = "src/kernels/single_rounding"
"""Inner work of the Cortex-M operators, and of the NPU's kernels, which round once."""
_SMALLEST = ("-fno-move-loop-invariants", "-fno-schedule-insns2", "-fno-tree-tail-merge", "-fno-tree-loop-im")
_FLAGS: Mapping[str, tuple[str, ...]] = {
    "cortex_m": ("-O3",),
    **{
        f"tflite.dtn_tfl_{name}": ("-O3",)
        for name in (
            "average_pool",
            "broadcast_add",
            "broadcast_mul",
            "convolution",
            "fully_connected",
            "lstm",
            "lstm_s16",
            "reduce_sum",
            "requantize",
            "signal_fft",
            "svdf",
        )
    },
    "stand_in": ("-O2",),
    "executor": _SMALLEST,
    "driver": _SMALLEST,
    "driver.crc32": (),
    "cortex_m.dtn_cm_decompress": ("-O2",),
    # The inner loops compute all but rare calls of these.
    **{
        f"cortex_m.dtn_cm_{name}": ()
        for name in (
            "interleaved_conv2d",
            "interleaved_linear",
            "quantized_conv2d",
            "quantized_conv2d_s4",
            "quantized_depthwise_conv2d",
            "quantized_linear",
            "quantized_linear_s4",
            "winograd_conv2d",
        )
    },
}
"""Compiler options of a module or of one file. `benches/cortex_m.py` bounds the size of the Cortex-M operators and
their instructions on MLPerf Tiny's layers; both bounds hold only with these options. Loops of executor and driver run
once per step or command, except the checksum's: repeated loads and waits in them cost no significant time."""
_INNER_FLAGS: Mapping[InnerWork, tuple[str, ...]] = {InnerWork.DSP: ("-fno-schedule-insns",)}
"""Additional options for a directory of the Cortex-M operators' inner work. Before register allocation, GCC hoists
loads until registers run out, which makes code with DSP instructions about half as slow again. `portable` gains from
it."""
_OVERRIDE = "io_copy_dma"
_FETCHES = "fetch"
_DMA = ("dma",)
_DEVICES = (*_DMA, "sleep", "timer")
"""Drivers for the override and the fetches, with their interrupts; waiting for an NPU needs all but the DMA."""
_FAULT_INJECTION = "fault_injection"
_EVENTS = "events"
_LINE = ("uart", "trigger")
"""The drivers of the serial line and of the pins for an energy meter, for the harness."""
_SHARED = {"runner": ("runner/*.c",)}
"""Sources that the applications of all images share."""
PROFILING = "-DDTN_PROFILING=1"
"""Compiler option for code that records events."""
_EVENTLESS = frozenset({"operators", "cortex_m", "tflite", "io", "messages", "kernels", "inner"})
"""Modules without any file that depends on that option."""


def core(board: Board, *, profiling: bool = False) -> tuple[Source, ...]:
    """Return the firmware library for the board's core; the linker takes what it needs."""
    patterns = {**_LIBRARY, "profile": ("src/profile/*.c",)} if profiling else _LIBRARY
    inner = cores.load(board.cpu).inner
    return (*_named(patterns), *kernels(inner), *inner_work(inner))


def recording(sources: Iterable[Source]) -> tuple[Source, ...]:
    """Return the same sources for an image that records events; most sources do not depend on it."""
    return tuple(
        source if source.name.partition(".")[0] in _EVENTLESS else replace(source, flags=(*source.flags, PROFILING))
        for source in sources
    )


def kernels(inner: InnerWork) -> tuple[Source, ...]:
    """Return the NPU's kernels for a device, without their checks and their table, and their shared files."""
    chosen = {path.stem: path for folder in _KERNELS for path in sorted((FIRMWARE / folder).glob("*.c"))}
    shared = _named({"inner": (f"{_SINGLE_ROUNDING}/*.c",)})
    return (
        *(Source(f"kernels.{stem}", path) for stem, path in chosen.items()),
        *shared,
        *_inner("inner", _SINGLE_ROUNDING, inner),
    )


def inner_work(inner: InnerWork) -> tuple[Source, ...]:
    """Return the inner loops of the Cortex-M operators: their directory, and `portable` for missing files.

    A file is named for what it computes, and for its directory: `matmul_s8_dsp.c` replaces `matmul_s8_portable.c`.
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
    """Return the sources that NPU families add to the library."""
    paths = dict.fromkeys(path for firmware in firmwares for path in firmware.sources)
    return tuple(Source(f"npu.{path.stem}", path) for path in paths)


def silicon() -> tuple[Source, ...]:
    """Return the sources that start a board's own Ethos-U by Arm's driver."""
    return tuple(_named({"port": ("port/ethosu/silicon.c",)}))


def stand_ins(firmwares: Iterable[Firmware]) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return the NPU stand-ins of emulated boards: their start code, and their archive members."""
    patterns = dict.fromkeys(firmware.stand_in for firmware in firmwares if firmware.stand_in)
    starts = tuple(source for *_, last in patterns for source in _named({"port": (last,)}))
    return starts, tuple(source for first in patterns for source in _named({"stand_in": first[:-1]}))


def port(board: Board, *, dma: bool, fetches: bool, npu: bool = False, line: bool = False) -> tuple[Source, ...]:
    """Return the sources that a board adds for copies by DMA, fetches of weights, its own NPU, or its serial line."""
    left_out: set[str] = set() if line else {*_LINE}
    if not dma:
        left_out.add(_OVERRIDE)
    if not fetches:
        left_out.add(_FETCHES)
    if not dma and not fetches:
        left_out.update(_DEVICES if not npu else _DMA)
    shared = _named({"port": ("port/cortex_m/*.c",)})
    own = (Source(f"port.{path.stem}", path) for path in sorted(board.directory.glob("*.c")))
    return tuple(source for source in (*shared, *own) if source.path.stem not in left_out)


def runner(*, profiling: bool = False) -> tuple[Source, ...]:
    """Return the program that runs a bundle on files of the host."""
    left_out = (_FAULT_INJECTION,) if profiling else (_FAULT_INJECTION, _EVENTS)
    sources = _named({**_SHARED, "semihost": ("semihost/*.c",)})
    return tuple(source for source in sources if source.path.stem not in left_out)


def harness() -> tuple[Source, ...]:
    """Return the program that runs a bundle by requests over a serial line."""
    return tuple(_named({**_SHARED, "harness": ("harness/*.c",)}))


def port_flags(board: Board) -> tuple[str, ...]:
    """Return the include options for the port's headers."""
    shared = ("port/cortex_m", "port/ethosu", "runner", "semihost", "harness")
    return tuple(f"-I{folder}" for folder in (board.directory, *(FIRMWARE / folder for folder in shared)))


def linker_script(board: Board) -> Path:
    """Return the board's linker script."""
    return board.directory / f"{board.name}.ld"


def script_folders(board: Board) -> tuple[Path, ...]:
    """Return the directories in which the linker finds the scripts that a board's script includes."""
    return (board.directory, FIRMWARE / "port" / "template")


def _named(patterns: Mapping[str, Iterable[str]]) -> Iterator[Source]:
    for module, globs in patterns.items():
        for path in (path for pattern in globs for path in sorted(FIRMWARE.glob(pattern))):
            name = f"{module}.{path.stem}"
            yield Source(name, path, (), _FLAGS.get(name, _FLAGS.get(module, ())))
