"""The inner loops of each kind of core give the host's bytes on every board."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from benches import cortex_m
from tests import full
from tests.cortex_m import elementwise_calls
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.arch.cores import InnerWork
from deuteron.board import boards, image, qemu
from deuteron.board.bundle import ElementType, Value
from deuteron.board.firmware_record import FirmwareOptions
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.frontend.cortex_m import upstream
from deuteron.operators.cortex_m import BY_OPERATOR

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def c_operators() -> OperatorLibrary:
    """The operators, compiled for this machine."""
    upstream.load()
    return OperatorLibrary(InnerWork.PORTABLE)


@pytest.mark.parametrize("board", full.only(boards.names(), "an547"))
def test_a_board_gives_the_hosts_bytes(board: str, c_operators: OperatorLibrary) -> None:
    machine = boards.load(board)
    maker = cortex_m.Maker()
    calls = list(elementwise_calls.calls(1))
    for call in calls:
        symbol = BY_OPERATOR[call.operator].symbol if call.operator in BY_OPERATOR else call.operator
        scratch = call.scratch[0] if call.scratch else None
        maker.add(cortex_m.Call(symbol, call.inputs, call.params, scratch, call.output, 0), call.operator)
    bundle = maker.bundle()
    places = [bundle.values[i] for i in bundle.outputs]
    # One output, the whole memory, since the firmware's command line names every one.
    memory = Value(0, 0, maker.memory, ElementType.U8, (maker.memory,), (0,), "all outputs")
    bundle = replace(bundle, values=(*bundle.values, memory), outputs=(len(bundle.values),))
    with tempfile.TemporaryDirectory() as folder:
        link(bundle, machine, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), Path(folder))
        (written,) = qemu.run(Path(folder), cortex_m.recorded(bundle, machine), machine, [[]]).runs[0].outputs
    wrong: list[str] = []
    for call, place in zip(calls, places, strict=True):
        expected = c_operators.run(call.operator, call.inputs, call.params, call.output, call.scratch)
        if written[place.offset : place.offset + place.bytes].tobytes() != expected.tobytes():
            wrong.append(f"{call.operator} of {call.output.shape}: {call.params}")
    assert wrong == []
