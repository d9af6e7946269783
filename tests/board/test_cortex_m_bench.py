"""The bars of `benches/cortex_m.py`: outputs, instructions compared with CMSIS-NN's, and estimated cycles."""

import pytest
from benches import cortex_m, cortex_m_cycles

from deuteron.board import boards, image
from deuteron.board.toolchain import Toolchain

CYCLES = {
    "cortex-m33": (1.1, 1.5),
    "cortex-m55": (1.0, 1.5),
}
"""Least and most estimated cycles per counted instruction of a large layer."""


@pytest.mark.slow
@pytest.mark.parametrize("board", cortex_m.BOARDS)
def test_layers_keep_to_their_bar(board: str) -> None:
    machine = boards.load(board)
    results = cortex_m.measure(machine, Toolchain.find(image.OBJECTS))
    unpacked = cortex_m.UNPACKED if cortex_m.has_dsp(machine) else ()
    layers = (*cortex_m.layers_of(machine), *cortex_m.PACKED, *unpacked)
    assert [r.layer for r in results] == [layer.name for layer in layers]
    assert cortex_m.problems(results) == []
    least, most = CYCLES[machine.cpu]
    large = [result for result in results if result.instructions > 100_000]
    assert {r.layer: r.cycles / r.instructions for r in large if not least < r.cycles / r.instructions < most} == {}


def test_the_bench_tells_what_is_wrong() -> None:
    slow = cortex_m.Result("a layer", "an547", 100, 900, cycles=0, cmsis_nn=1000, plain_c=1000, right=True)
    assert cortex_m.problems([slow]) == [
        "a layer on an547: 900 instructions, 800 are allowed",
        "an547: 0.900 of CMSIS-NN's instructions, 0.42 are allowed",
    ]
    uncounted = cortex_m.Result("a layer", "an547", 1, 9, cycles=0, cmsis_nn=None, plain_c=None, right=True)
    assert uncounted.problems() == []
    wrong = cortex_m.Result("a layer", "an505", 100, 852, cycles=0, cmsis_nn=1000, plain_c=5000, right=False)
    assert cortex_m.problems([wrong]) == [
        "a layer on an505: the output is wrong",
        "a layer on an505: 852 instructions, 850 are allowed",
        "an505: 0.852 of CMSIS-NN's instructions, 0.43 are allowed",
    ]


def cycles(cpu: str, *lines: str) -> int:
    """The estimate for a block of instructions that ran once."""
    code = [cortex_m_cycles.Instruction(2 * i, *line.split(" ", 1)) for i, line in enumerate(lines)]
    return cortex_m_cycles.estimate(cpu, code, dict.fromkeys(range(0, 2 * len(lines), 2), 1))


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        (2, ("add r0, r1", "add r2, r0")),
        (3, ("ldr r0, [r1]", "add r2, r0")),
        (2, ("ldr r0, [r1]", "add r2, r3")),
        (2, ("ldr r0, [r1]", "mov r0, r2")),
        (2, ("ldrd r0, r1, [r2]",)),
        (4, ("push {r4, r5, lr}",)),
        (2, ("bne.n 0",)),
        (2, ("bls.n 0",)),
        (3, ("bl 0",)),
    ],
)  # fmt: skip
def test_cycles_of_a_cortex_m33(wanted: int, lines: tuple[str, ...]) -> None:
    assert cycles("cortex-m33", *lines) == wanted


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        (2, ("vldrb.u8 q0, [r0], #16", "vmladava.s8 r2, q0, q1")),
        (3, ("vldrb.u8 q0, [r0], #16", "vldrb.u8 q1, [r1], #16")),
        (4, ("vldrb.u8 q0, [r0, q1]",)),
        (1, ("vadd.i32 q0, q0, q1", "letp lr, 0")),
        (4, ("vmladava.s8 r2, q0, q1", "add r3, r2")),
        (3, ("ldr r0, [r1]", "add r2, r0")),
        (2, ("b.n 0",)),
    ],
)  # fmt: skip
def test_cycles_of_a_cortex_m55(wanted: int, lines: tuple[str, ...]) -> None:
    assert cycles("cortex-m55", *lines) == wanted


def test_the_check_of_the_cycles_says_how_far_the_model_is_off() -> None:
    found = cortex_m_cycles.report()
    assert "cycles, estimated" in found.columns
    assert ["depthwise 3x3 32, 112x112", "11.26 M", "13.72 M", "-18%"] in [list(row) for row in found.rows]
