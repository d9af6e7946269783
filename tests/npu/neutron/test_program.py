"""What a program says of its memories."""

from dataclasses import replace

from tests.npu.neutron.machine.plans import ENGINE
from tests.npu.neutron.microcode.programs import CONTAINER

from deuteron.npu.neutron.kernels.regions import Region
from deuteron.npu.neutron.microcode.decode import Call, Fetch, Wait, decode
from deuteron.npu.neutron.program import NeutronProgram


def test_weights_in_scratch_are_weights_of_the_call_that_reads_them() -> None:
    """The convolution's weights are fetched behind what scratch has, and nothing takes them for a result."""
    decoded = decode(CONTAINER)
    at, call = next((i, command) for i, command in enumerate(decoded.commands) if isinstance(command, Call))
    weights = call.operands[1]
    assert (at, weights.region) == (0, Region.WEIGHTS)
    fetch = Fetch(2, weights.offset, decoded.header.scratch_bytes, 48, region=Region.SCRATCH)
    there = replace(
        call, operands=(call.operands[0], replace(fetch.written, nbytes=weights.nbytes), *call.operands[2:])
    )
    header = replace(decoded.header, scratch_bytes=decoded.header.scratch_bytes + 48, minor=1)
    fetching = NeutronProgram(replace(decoded, header=header, commands=(fetch, Wait(2), there, *decoded.commands[1:])))
    linked = NeutronProgram(decoded)
    assert [command.weight_bytes for command in fetching.calls] == [command.weight_bytes for command in linked.calls]
    (scratch,), (before,) = (each.placements(each.traced()) for each in (fetching, linked))
    blocks = [block for block in scratch.memory.blocks if scratch.contents[block.name].what == "weights"]
    assert [(b.name, b.offset, b.nbytes, b.first, b.last) for b in blocks] == [
        ("weights 0 fetched at 0", 288, 48, 0, 2),
    ]
    assert scratch.contents["weights 0 fetched at 0"].commands == (2,)
    assert len(scratch.memory.blocks) == len(before.memory.blocks) + 1
    assert "0x120         48  0-2       weights+0x0" in "\n".join(fetching.lines("npu", ()))
    assert fetching.fetching(ENGINE) is not None
    assert linked.fetching(ENGINE) is None
    assert fetching.hazards(fetching.traced()) == ()


def test_weights_that_are_fetched_twice_are_each_of_the_call_that_reads_them() -> None:
    decoded = decode(CONTAINER)
    call = next(command for command in decoded.commands if isinstance(command, Call))
    fetch = Fetch(0, 0, 0, 32)
    reading = replace(call, operands=(call.operands[0], fetch.written, *call.operands[2:]))
    header = replace(decoded.header, prefetch_bytes=32)
    twice = NeutronProgram(replace(decoded, header=header, commands=(fetch, reading, fetch, reading)))
    area = twice.placements(twice.traced())[-1]
    assert [(block.first, area.contents[block.name].commands) for block in area.memory.blocks] == [(0, (1,)), (2, (3,))]
