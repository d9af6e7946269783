"""Fetches of weights and copies of tensors in the runner: their time is hidden, and their faults are survived."""

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.board import fetching
from tests.board.port_images import COPYING, EXECUTOR, START, build, generate, run

from deuteron.board import bundle as tables
from deuteron.board.boards import Board, load

BOARDS = ("an505", "an547")
TICKS_HZ = 20_000_000

RUNNER = (
    "runner/prepare.c",
    "runner/run.c",
    "semihost/main.c",
    "semihost/heap.c",
    "semihost/options.c",
    "port/cortex_m/fetch.c",
)
WRAPPED = ("-Wl,--wrap=dtn_dma_start", "-Wl,--wrap=dtn_dma_stop")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the events file: the error's reason and detail, and ticks of each step."""

    reason: int
    detail: int
    step: int
    ticks: tuple[int, ...]
    stack_used: int


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    output: str
    runs: tuple[Run, ...]
    tensors: tuple[bytes, ...]


@cache
def program() -> tables.Bundle:
    return fetching.bundle(np.random.default_rng(5))


@cache
def sources() -> tuple[str | Path, ...]:
    """Those of the runner with the program, copies by DMA and faults on demand."""
    return (*START, *COPYING, *RUNNER, "semihost/fault_injection.c", *EXECUTOR, *generate(program(), "fetching"))


@cache
def image(board: Board) -> Path:
    """The runner with all that."""
    return build(board, "fetching", sources(), WRAPPED)


@pytest.fixture(scope="module", params=BOARDS)
def board(request: pytest.FixtureRequest) -> Board:
    return load(request.param)


def inputs(runs: int) -> list[bytes]:
    rng = np.random.default_rng(7)
    return [rng.integers(-128, 128, fetching.TENSOR_BYTES, np.int8).tobytes() for _ in range(runs)]


def infer(board: Board, directory: Path, *options: str, runs: int = 1) -> Result:
    (directory / "x").write_bytes(b"".join(inputs(runs)))
    files = ("--input", "x", "--output", "a", "--output", "b", "--output", "c", "--events", "events")
    done = run(board, image(board), *files, "--runs", str(runs), *options, directory=directory)
    assert done.status in (0, 1), done.output
    tensors = tuple((directory / name).read_bytes() for name in "abc")
    return Result(done.status, done.output, events((directory / "events").read_bytes()), tensors)


def events(content: bytes) -> tuple[Run, ...]:
    """The events file, taken apart as semihost/runner.h says."""
    magic, version, ticks_hz, _, stack_bytes, count = struct.unpack_from("<6I", content)
    assert (magic, version, ticks_hz, stack_bytes) == (0x454E5444, 2, TICKS_HZ, 8192)
    runs: list[Run] = []
    at = 24
    for _ in range(count):
        error, step, first, last, stack_used, number, lost = struct.unpack_from("<7I", content, at)
        records = [struct.unpack_from("<4I", content, at + 28 + 16 * i) for i in range(number)]
        at += 28 + 16 * number
        ticks = tuple(stop - start for kind, _, start, stop in records if kind == 1)
        assert sum(stop - start for _, _, start, stop in records) <= last - first
        assert lost == 0
        runs.append(Run(error >> 8 & 0xFF, error >> 16, step, ticks, stack_used))
    assert at == len(content)
    return tuple(runs)


def outputs(runs: int, failed: tuple[int, ...] = ()) -> tuple[bytes, ...]:
    good = [x for at, x in enumerate(inputs(runs)) if at not in failed]
    return (b"".join(fetching.expected(program(), x) for x in good),) * 3


def flash(latency_ns: int, rate: int) -> tuple[str, ...]:
    return ("--flash-latency-ns", str(latency_ns), "--flash-bytes-per-second", str(rate))


def flash_ticks(latency_ns: int, rate: int) -> int:
    nanoseconds = fetching.FETCHES * latency_ns + fetching.FETCHED_BYTES * 1_000_000_000 // rate
    return nanoseconds * TICKS_HZ // 1_000_000_000


MARGIN = {"an505": 4500, "an547": 8000}
"""Ticks for four fetches, three interrupts each, and the second look at prefetched rows; the AN547 has no DMA, so that
its core copies as well."""


@pytest.mark.parametrize(("latency_ns", "rate"), [(1000, 100_000_000), (20_000, 4_000_000), (1000, 25_000)])
def test_total_is_the_larger_of_compute_and_transfer(board: Board, tmp_path: Path, latency_ns: int, rate: int) -> None:
    result = infer(board, tmp_path, *flash(latency_ns, rate))
    assert (result.status, result.output) == (0, "")
    assert result.tensors == outputs(1)
    first, second, overlapped, serial = result.runs[0].ticks
    transfer = flash_ticks(latency_ns, rate)
    assert 0 <= serial - (transfer + first + second) < MARGIN[board.name]
    assert 0 <= overlapped - (max(transfer, first) + second) < MARGIN[board.name]


def test_transfers_lie_on_both_sides_of_the_layers_time(board: Board, tmp_path: Path) -> None:
    """The test before this one means something: one transfer is far shorter than the layer, one far longer."""
    first = infer(board, tmp_path).runs[0].ticks[0]
    assert flash_ticks(1000, 100_000_000) < first // 10
    assert flash_ticks(1000, 25_000) > first * 3 // 2


def test_ticks_are_the_same_in_every_process(board: Board, tmp_path: Path) -> None:
    options = flash(20_000, 4_000_000)
    assert infer(board, tmp_path, *options, runs=2) == infer(board, tmp_path, *options, runs=2)


IO_COPY = 65
FETCH = 64
TOO_LONG_US = "300000"

FAULTS = {
    # The second run's copies are number 4 (input) to 7; its fetches 8 to 15, eight per run.
    "io:fail:4": (IO_COPY, 0, 0),
    "io:partial:4": (IO_COPY, 0, 0),
    "io:never:4": (IO_COPY, 0, 0),
    f"io:late:4:{TOO_LONG_US}": (IO_COPY, 0, 0),
    "io:fail:6": (IO_COPY, 2, 4),
    "io:never:7": (IO_COPY, 3, 4),
    "fetch:fail:8": (FETCH, 5, 2),
    "fetch:partial:9": (FETCH, 6, 2),
    "fetch:never:8": (FETCH, 5, 2),
    f"fetch:late:10:{TOO_LONG_US}": (FETCH, 7, 2),
    "fetch:fail:15": (FETCH, 7, 3),
    "fetch:never:12": (FETCH, 4, 3),
}
"""Fault -> reason, detail (of an I/O copy the tensor, of a fetch the command) and the finished steps."""


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_ends_its_run_and_no_other(board: Board, tmp_path: Path, fault: str) -> None:
    result = infer(board, tmp_path, *flash(1000, 100_000_000), "--fault", fault, runs=4)
    reason, detail, step = FAULTS[fault]
    assert [(run.reason, run.detail, run.step) for run in result.runs] == [
        (0, 0, 4),
        (reason, detail, step),
        (0, 0, 4),
        (0, 0, 4),
    ]
    text = {
        IO_COPY: "a copy of an input or output failed or took too long",
        FETCH: "a copy of weights into the prefetch area failed or took too long",
    }
    assert result.status == 1
    assert result.output == f"error: run 1: {text[reason]} (reason {reason}, detail {detail})\n"
    assert result.tensors == outputs(4, failed=(1,))


@pytest.mark.parametrize("fault", ["io:late:4:50000", "fetch:late:10:150000"])
def test_late_but_in_time_is_waited_for(board: Board, tmp_path: Path, fault: str) -> None:
    result = infer(board, tmp_path, *flash(1000, 100_000_000), "--fault", fault, runs=3)
    assert (result.status, result.output) == (0, "")
    assert result.tensors == outputs(3)


WAITS = {
    "none": ("fetched in centiseconds 18 whole whole whole", "fetched in centiseconds 18 whole whole whole"),
    "fetch:never:0": (
        "failed in centiseconds 28 nothing nothing nothing",
        "fetched in centiseconds 18 whole whole whole",
    ),
    "fetch:never:2": ("failed in centiseconds 28 whole whole nothing", "fetched in centiseconds 18 whole whole whole"),
    "refused": (
        "refused, refused",
        "fetched in centiseconds 18 whole whole whole",
        "fetched in centiseconds 18 whole whole whole",
        "fetched in centiseconds 18 whole whole whole",
    ),
    "masked": (
        "failed in centiseconds 0 nothing nothing nothing",
        "then nothing nothing nothing",
        "fetched in centiseconds 18 whole whole whole",
        "fetched in centiseconds 18 whole whole whole",
    ),
}
"""Defects of one of three fetches, each of 60 ms, with the error of a wait for the last one, and the fetched bytes."""


@pytest.mark.parametrize("fault", WAITS)
def test_a_wait_lasts_as_long_as_the_flash_needs_and_ends_all_that_is_queued(board: Board, fault: str) -> None:
    files = ("semihost/fault_injection.c", "port/cortex_m/fetch.c", "tests/board/fetch_faults.c")
    done = run(board, build(board, "fetch-faults", (*START, *COPYING, *files), WRAPPED), fault)
    assert (done.status, done.output.splitlines()) == (0, list(WAITS[fault]))


def test_stack_in_use_is_reported(board: Board, tmp_path: Path) -> None:
    used = [run.stack_used for run in infer(board, tmp_path, runs=2).runs]
    assert 512 <= used[0] <= used[1] <= 4096


USAGE = {
    "--fault io:burns:1": "error: not a fault: io:burns:1\n",
    "--input x --input y": "error: the number of files is not the program's number of inputs\n",
    "--input missing": "error: cannot open missing\n",
    "--input short": "error: wrong size for this input in all runs: short\n",
    "--runs many": "error: a number below 2^32 must follow --runs\n",
    "--runs 4294967296": "error: a number below 2^32 must follow --runs\n",
    "--runs": "error: a value must follow --runs\n",
    "--speed 5": "error: unknown option --speed\n",
}


@pytest.mark.parametrize("line", USAGE)
def test_wrong_command_line_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "short").write_bytes(bytes(5))
    done = run(load("an505"), image(load("an505")), *line.split(), directory=tmp_path)
    assert (done.status, done.output) == (2, USAGE[line])


def test_faults_are_only_in_images_that_link_them() -> None:
    board = load("an505")
    plain = build(board, "plain", tuple(s for s in sources() if s != "semihost/fault_injection.c"))
    assert b"dtn_faults_set" in image(board).read_bytes()
    assert b"dtn_faults_set" not in plain.read_bytes()
    done = run(board, plain, "--fault", "io:fail:0")
    assert (done.status, done.output) == (2, "error: this image has no fault injection for io:fail:0\n")
