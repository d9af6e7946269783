"""The size report and the comparison of two, character by character; the comparison of a board with the host."""

from dataclasses import replace

import numpy as np
from tests.board.test_qemu import FIRMWARE

from deuteron.board import report
from deuteron.board.bundle import Memory
from deuteron.board.firmware_record import FirmwareOptions, Kernels
from deuteron.board.size import Row, Sizes
from deuteron.board.stack import Bound, StackFrame
from deuteron.board.toolchain import Region
from deuteron.views.compare.board import compare

SMALL = replace(
    FIRMWARE,
    sizes=Sizes(
        (
            Row("executor", "", text=1970, rodata=12),
            Row("kernels", "conv2d_s8", text=2350),
            Row("kernels", "selection", rodata=72),
            Row("port", "", text=16, data=8, bss=4),
        ),
        {"stack": 8704},
        4428,
        0,
    ),
    memories=(Memory(320, "memory 1 of the program's plan"), Memory(4384, "working memory of the partitions")),
    regions=(Region("CODE", 4428, 4194304), Region("SRAM", 13420, 4194304)),
    stack=Bound(
        bytes=1300,
        available=8192,
        path=(StackFrame("dtn_reset", 8), StackFrame("main", 1184)),
        interrupts=(StackFrame("dtn_on_timer0", 108),),
        gaps=(),
    ),
)


def test_the_size_report():
    assert report.text(SMALL) == (
        "small on an505: selected kernels, weights in flash, inputs and outputs copied by cpu\n\n              text  "
        "rodata  data  bss  total\nexecutor     1,970      12     0    0  1,982\nkernels      2,350      72     0    "
        "0  2,422\n  conv2d_s8  2,350       0     0    0  2,350\n  selection      0      72     0    0     72\nport  "
        "          16       0     8    4     28\ntotal        4,336      84     8    4  4,432\n\nflash image  4,428 "
        "B\nmemory CODE  4,428 B of 4,194,304 B\nmemory SRAM  13,420 B of 4,194,304 B\narena 0      320 B: memory 1 "
        "of the program's plan\narena 1      4,384 B: working memory of the partitions\nstack        at most 1,300 B "
        "of 8,192 B reserved for it\n             deepest: dtn_reset > main\n             interrupt dtn_on_timer0: "
        "108 B"
    )


def test_bytes_in_external_memory_are_no_part_of_the_flash_image():
    lines = report.text(replace(SMALL, sizes=replace(SMALL.sizes, external=3_704_960))).splitlines()
    assert lines[10:12] == ["flash image  4,428 B", "external     3,704,960 B, loaded into external memory"]


def test_the_emulated_npu_is_named_as_such():
    rows = (*SMALL.sizes.rows, Row("stand_in", "", text=33_005))
    lines = report.text(replace(SMALL, sizes=replace(SMALL.sizes, rows=rows))).splitlines()
    note = "stand_in executes NPU commands on the emulated core; a chip with the NPU does without it"
    assert lines.index(note) == lines.index("flash image  4,428 B") - 2
    assert "stand_in" not in report.text(SMALL)


def test_a_stack_without_bound_says_so():
    open_stack = replace(SMALL.stack, gaps=("recursion: `a` -> `a`", "the frame of `b` has no bound"))
    lines = report.text(replace(SMALL, stack=open_stack)).splitlines()
    assert lines[-5:] == [
        "stack        at least 1,300 B of 8,192 B reserved for it",
        "             deepest: dtn_reset > main",
        "             interrupt dtn_on_timer0: 108 B",
        "             not bounded: recursion: `a` -> `a`",
        "             not bounded: the frame of `b` has no bound",
    ]


def test_what_changed():
    rows = (
        Row("executor", "", text=1970, rodata=12),
        Row("kernels", "conv2d_s8", text=2300, bss=4),
        Row("kernels", "add_s8", text=836),
        Row("port", "", text=16, data=8, bss=4),
    )
    after = replace(
        SMALL,
        board="an547",
        weights="external",
        options=FirmwareOptions(Kernels.ALL, stack=4096, use_profiling=True),
        sizes=Sizes(rows, {}, 5200, 96),
        stack=replace(SMALL.stack, bytes=1200),
        memories=(),
    )
    assert report.diff(SMALL, after) == (
        "small on an505 -> small on an547\n"
        "kernels: selected -> all\n"
        "weights: flash -> external\n"
        "stack: by default -> 4,096 B\n"
        "profiling: no -> yes\n"
        "\n"
        "             text  rodata  data  bss  before  after  change\n"
        "  conv2d_s8   -50      +0    +0   +4   2,350  2,304     -46\n"
        "  selection    +0     -72    +0   +0      72      0     -72\n"
        "  add_s8     +836      +0    +0   +0       0    836    +836\n"
        "total        +786     -72    +0   +4   4,432  5,150    +718\n"
        "\n"
        "flash image  4,428 -> 5,200 B (+772)\n"
        "external     0 -> 96 B (+96)\n"
        "stack        1,300 -> 1,200 B (-100)\n"
        "arenas       4,704 -> 0 B (-4,704)"
    )


def test_nothing_changed():
    assert report.diff(SMALL, SMALL).splitlines()[2:4] == [
        "       text  rodata  data  bss  before  after  change",
        "total    +0      +0    +0   +0   4,432  4,432      +0",
    ]


def test_the_same_bits():
    outputs = [[np.array([1.5, np.nan], np.float32)], [np.array([0, -0.0], np.float32)]]
    same = compare("an505", outputs, outputs)
    assert same.passed
    assert same.text() == "an505 and the host give the same bits for 2 samples"
    assert same.to_json() == {
        "schema": 1, "board": "an505", "samples": 2, "identical": True, "differences": [],
    }  # fmt: skip


def test_bits_that_differ():
    ours = [[np.array([[1, 2], [3, 4]], np.int8)], [np.array([[0.0, 1.0]], np.float32)]]
    theirs = [[np.array([[1, 5], [3, 6]], np.int8)], [np.array([[-0.0, 1.0]], np.float32)]]
    found = compare("an547", ours, theirs)
    assert not found.passed
    assert found.text() == (
        "sample 0  output 0  2 of 4 elements differ, first at [0, 1]: 2 on an547, 5 on the host\n"
        "sample 1  output 0  1 of 2 elements differ, first at [0, 0]: 0 on an547, -0 on the host\n"
        "an547 and the host differ"
    )
    assert found.to_json()["differences"] == [
        {"sample": 0, "output": 0, "elements": 2, "of": 4, "index": [0, 1], "board": 2.0, "host": 5.0},
        {"sample": 1, "output": 0, "elements": 1, "of": 2, "index": [0, 0], "board": 0.0, "host": -0.0},
    ]
