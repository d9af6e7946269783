"""Programs for an Ethos-U on a board: two for one NPU between guards of the MPU, and one whose copies go wrong."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.board import programs
from tests.board.port_images import COPYING, EXECUTOR, FIRMWARE, START, build, generate, run
from tests.npu.ethosu.test_family import layer
from tests.npu.ethosu.vela import compiled

from deuteron.board import image as image_of_build
from deuteron.board import library
from deuteron.board.boards import load
from deuteron.board.bundle import Bundle
from deuteron.board.emit import EmitOptions
from deuteron.board.toolchain import Object, Source, Toolchain
from deuteron.board.translate import translate
from deuteron.npu.ethosu import blob
from deuteron.npu.ethosu import firmware as ethosu_firmware
from deuteron.views.events.sources import packets

BOARD = load("an547")
FAMILY = ("src/executor/ethosu/npu_ethosu.c", "port/ethosu/simulated.c")


@cache
def stand_in() -> tuple[Object, ...]:
    """The objects of the stand-in, those of every firmware."""
    _, sources = library.stand_ins([ethosu_firmware.FIRMWARE])
    return tuple(Toolchain.find(image_of_build.OBJECTS).compile(sources, BOARD.flags, FIRMWARE))


def bundle_of(payload: bytes) -> Bundle:
    """The program whose one partition is a layer."""
    make = programs.Maker()
    x, y = make.tensor((1, 6, 5, 3)), make.tensor((1, 3, 3, 9))
    make.partition(payload, x, y)
    make.delegates[0] = replace(make.delegates[0], id=blob.BACKEND_ID)
    return translate(make.program((x,), (y,)), name="layer")


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Two layers, each for another Ethos-U: the stand-in is whichever the commands are for."""
    return pair(tmp_path_factory.mktemp("pair"), "ethos-u65-256", "ethos-u55-128")


def pair(folder: Path, *accelerators: str) -> tuple[bytes, bytes]:
    """Two layers, compiled for two accelerators."""
    first, second = (compiled(layer(seed), name, folder) for seed, name in zip((0, 4), accelerators, strict=True))
    assert first is not None
    assert second is not None
    return first, second


@cache
def image(payloads: tuple[bytes, bytes]) -> Path:
    """The image with both programs."""
    first, second = (bundle_of(payload) for payload in payloads)
    generated: Sequence[Path] = (
        *generate(first, "ethosu"),
        *generate(second, "ethosu-other", EmitOptions(symbol="other"))[:2],
    )
    sources = (*START, *FAMILY, "src/io/io_copy.c", "tests/board/ethosu.c", *EXECUTOR, *generated)
    return build(BOARD, "ethosu", sources, library=stand_in())


SAID = {
    "preempt": "changes 2, right 1, busy 1, other 0, wrong 0\n",
    "hostile": "refused 1, failed 1, ran 1, other 0, wrong 0\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SAID)
def test_two_programs_share_an_npu(payloads: tuple[bytes, bytes], what: str) -> None:
    done = run(BOARD, image(payloads), what)
    assert (done.status, done.output) == (0, SAID[what])


@pytest.mark.slow
def test_damaged_partitions_of_an_ethos_u85_write_nowhere_else(tmp_path: Path) -> None:
    done = run(BOARD, image(pair(tmp_path, "ethos-u85-256", "ethos-u85-128")), "hostile")
    assert (done.status, done.output) == (0, SAID["hostile"])


@pytest.mark.slow
def test_the_guards_are_on(payloads: tuple[bytes, bytes]) -> None:
    done = run(BOARD, image(payloads), "guard")
    assert done.status == 3
    assert done.output.startswith("fault: MemManage: the data's address may not be accessed")


RUNS = 4
IO_COPY, NPU_COPY = 65, 77
FAULTS = {
    # A run copies the program's input, then the partition's, then its output, then the program's: 4 is the second run's
    # first.
    "io:fail:4": (IO_COPY, 0),
    "io:fail:5": (NPU_COPY, 0),
    "io:partial:5": (NPU_COPY, 0),
    "io:never:5": (NPU_COPY, 0),
    "io:late:5:300000": (NPU_COPY, 0),
    "io:partial:6": (NPU_COPY, 1),
    "io:never:6": (NPU_COPY, 1),
    "io:never:7": (IO_COPY, 1),
}
"""Fault -> reason and detail, the tensor."""
TEXTS = {
    IO_COPY: "a copy of an input or output failed or took too long",
    NPU_COPY: "a copy of a partition's input or output failed or took too long",
}


def with_flags(flag: str, sources: Sequence[str | Path]) -> tuple[Source, ...]:
    """The sources, each compiled with its own flag."""
    paths = [FIRMWARE / source.format(board=BOARD.name) if isinstance(source, str) else source for source in sources]
    return tuple(Source(f"test.{path.stem}", path, (), (flag,)) for path in paths)


@cache
def copying_image(payload: bytes) -> Path:
    """The runner with a program whose copies are all made in interrupts, and go wrong on demand."""
    *others, copies = COPYING
    files = (
        "runner/prepare.c",
        "runner/run.c",
        "semihost/main.c",
        "semihost/heap.c",
        "semihost/options.c",
        "semihost/fault_injection.c",
    )
    generated = generate(bundle_of(payload), "ethosu-copies")
    sources = (*START, *others, *with_flags("-DDTN_IO_DMA_BYTES=1", [copies]), *FAMILY, *files, *EXECUTOR, *generated)
    wrapped = ("-Wl,--wrap=dtn_dma_start", "-Wl,--wrap=dtn_dma_stop")
    return build(BOARD, "ethosu-copies", sources, wrapped, library=stand_in())


def copying(payload: bytes, folder: Path, *options: str) -> tuple[int, str, list[bytes]]:
    """Run four samples and return status, console and outputs; no copy is small enough for the core."""
    rng = np.random.default_rng(7)
    (folder / "x").write_bytes(rng.integers(-128, 128, (RUNS, 90), np.int8).tobytes())
    words = ("--input", "x", "--output", "y", "--events", "events", "--runs", str(RUNS))
    done = run(BOARD, copying_image(payload), *words, *options, directory=folder)
    data = (folder / "y").read_bytes()
    return done.status, done.output, [data[at : at + 81] for at in range(0, len(data), 81)]


@pytest.mark.slow
def test_a_copy_that_fails_ends_its_run_and_no_other(payloads: tuple[bytes, bytes], tmp_path: Path) -> None:
    status, said, right = copying(payloads[0], tmp_path)
    assert (status, said) == (0, "")
    assert len({*right}) == RUNS
    for fault, (reason, detail) in FAULTS.items():
        status, said, outputs = copying(payloads[0], tmp_path, "--fault", fault)
        text = f"error: run 1: {TEXTS[reason]} (reason {reason}, detail {detail})\n"
        assert (fault, status, said) == (fault, 1, text)
        assert outputs == [right[0], *right[2:]]
    assert copying(payloads[0], tmp_path, "--fault", "io:late:5:50000") == (0, "", right)


@pytest.mark.slow
def test_the_npus_own_counters_are_read_round_each_partition(payloads: tuple[bytes, bytes], tmp_path: Path) -> None:
    runner = (
        "runner/prepare.c",
        "runner/run.c",
        "semihost/main.c",
        "semihost/heap.c",
        "semihost/options.c",
        "semihost/events.c",
        "src/profile/profile.c",
    )
    executor = [source for source in EXECUTOR if "/executor/" in source]
    profiled = with_flags("-DDTN_PROFILING=1", [*executor, *FAMILY, *runner, "tests/board/npu_cycles.c"])
    others = (*START, "src/io/io_copy.c", *(source for source in EXECUTOR if source not in executor))
    generated = generate(bundle_of(payloads[0]), "ethosu-profiled")
    elf = build(BOARD, "ethosu-profiled", (*others, *profiled, *generated), library=stand_in())
    (tmp_path / "x").write_bytes(bytes(2 * 90))
    words = ("--input", "x", "--output", "y", "--events", "events", "--runs", "2", "--profile", "packets")
    done = run(BOARD, elf, *words, directory=tmp_path)
    assert (done.status, done.output) == (0, "")
    received = packets.read((tmp_path / "packets").read_bytes(), bytes(32).hex(), "packets")
    assert [packet.npu_cycles for packet in received.packets] == [((0, 1000),), ((0, 1000),)]
    assert [packet.npu_counts for packet in received.packets] == [((0, 0x82, 7),), ((0, 0x82, 7),)]
