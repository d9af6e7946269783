"""The benches of Cortex-M networks and of work between their layers: bars, and the text for a missed one."""

import pytest
from benches import cortex_m_elements, cortex_m_networks, cortex_m_sizes

from deuteron.board import boards, image, qemu
from deuteron.board.toolchain import Toolchain


@pytest.mark.slow
@pytest.mark.parametrize("board", ["an505", "an547"])
def test_calls_keep_to_their_bar(board: str) -> None:
    results = cortex_m_elements.measure(boards.load(board), Toolchain.find(image.OBJECTS))
    assert {result.call for result in results} >= set(cortex_m_elements.PEERS)
    assert [problem for result in results for problem in result.problems()] == []


def test_the_benches_tell_what_is_wrong() -> None:
    call = cortex_m_elements.Result("a call", "an505", elements=10, instructions=501, cmsis_nn=500, right=False)
    assert call.problems() == [
        "a call on an505: the output is wrong",
        "a call on an505: 501 instructions, CMSIS-NN takes 500",
    ]
    network = cortex_m_networks.Result(
        "net", "cortex-m55", "an547", instructions=11, kinds={}, wanted=10, identical=False
    )
    assert network.problems() == [
        "net for cortex-m55 on an547: the outputs are not the host's",
        "net for cortex-m55 on an547: 11 instructions, 10 are wanted",
    ]


def test_npu_programs_have_a_bar_of_their_own() -> None:
    assert cortex_m_networks.wanted("ds_cnn", "cortex-m55", "an547") == 1_020_000
    assert cortex_m_networks.wanted("ds_cnn", "imxrt700", "an547") == 1_326_000


def test_the_instructions_of_a_network_are_told_apart_by_kind() -> None:
    events = ((qemu.EventKind.COPY_IN, 0, 7), (qemu.EventKind.STEP, 0, 100), (qemu.EventKind.STEP, 1, 20),
              (qemu.EventKind.STEP, 2, 3), (qemu.EventKind.COPY_OUT, 0, 4))  # fmt: skip
    run = qemu.EmulatorRun((), 140, tuple(qemu.EmulatorEvent(*event) for event in events), 0)
    titles = ("conv.out, node a", "add.out, node b", "conv.out, node c")
    assert cortex_m_networks.kinds_of(run, titles) == {
        "conv": 103, "add": 20, "copies of inputs and outputs": 11, "between": 6,
    }  # fmt: skip


def test_sizes_are_listed_per_network_and_kind_of_inner_loop() -> None:
    codes = {"portable": {"a": 1000, "b": 234}, "dsp": {"a": 2000}, "mve": {"a": 30}}
    rows = [cortex_m_sizes.Result("net", variant, objects) for variant, objects in codes.items()]
    shown = cortex_m_sizes.report(rows)
    assert (shown.columns, shown.rows) == (("network", *codes), (("net", "1,234", "2,000", "30"),))
