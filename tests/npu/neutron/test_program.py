"""What a program says of its memories."""

from dataclasses import replace

from tests.npu.neutron.microcode.programs import CONTAINER

from deuteron.npu.neutron.microcode.decode import Call, Fetch, decode
from deuteron.npu.neutron.program import NeutronProgram


def test_weights_that_are_fetched_twice_are_each_of_the_call_that_reads_them() -> None:
    decoded = decode(CONTAINER)
    call = next(command for command in decoded.commands if isinstance(command, Call))
    fetch = Fetch(0, 0, 0, 32)
    reading = replace(call, operands=(call.operands[0], fetch.written, *call.operands[2:]))
    header = replace(decoded.header, prefetch_bytes=32)
    twice = NeutronProgram(replace(decoded, header=header, commands=(fetch, reading, fetch, reading)))
    area = twice.placements(twice.traced())[-1]
    assert [(block.first, area.contents[block.name].commands) for block in area.memory.blocks] == [(0, (1,)), (2, (3,))]
