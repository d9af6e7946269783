"""The simulator holds each call against the program's: which it is, and that it writes over nothing it reads."""

from dataclasses import replace

from deuteron.npu.dataflow import Dataflow
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.decode import Call, Decoded, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.planner import plan


def _copy(source: str, target: str) -> KernelCall:
    params = p.CopyParams(0, (1, 1, 1, 1, 1, 64), (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 1))
    return KernelCall(catalogue.COPY, (Ref(source, 0, 64), Ref(target, 0, 64)), params, (0,))


def _lut(source: str, target: str) -> KernelCall:
    return KernelCall(
        catalogue.LUT, (Ref(source, 0, 64), Ref("table", 0, 256), Ref(target, 0, 64)), p.LutParams(64), (1,)
    )


PROGRAM = Program(
    (
        *(Buffer(name, 64) for name in ("in", "mid", "next", "out")),
        Buffer("table", 256, bytes(range(256))),
    ),
    ("in",),
    ("out",),
    (_copy("in", "mid"), _copy("mid", "next"), _lut("next", "out")),
)


def _made() -> tuple[Decoded, Dataflow]:
    planned = plan(PROGRAM)
    decoded = decode(encode(PROGRAM, planned))
    values = dataflow(PROGRAM, planned.constants)
    assert hazards(decoded, values) == ()
    return decoded, values


def test_a_call_of_another_number_of_operands() -> None:
    """Without the second copy its bytes are the table's; the consequence is reported, too."""
    decoded, values = _made()
    found = hazards(replace(decoded, commands=(decoded.commands[0], decoded.commands[2])), values)
    assert [str(hazard) for hazard in found] == [
        "command 1: `lut_s8` is not call 1 of the program: that has 2 operands, this one 3",
        "command 2: the program has 3 calls, the microcode 2",
        "command 2: output 0 needs byte 0 of `out` at byte 0 of output 0, which nothing has written",
    ]


def test_calls_in_another_order() -> None:
    decoded, values = _made()
    first, second, third = decoded.commands
    found = hazards(replace(decoded, commands=(third, first, second)), values)
    assert str(found[0]) == "command 0: `lut_s8` is not call 0 of the program: that has 2 operands, this one 3"
    assert "command 2: `copy_s8` is not call 2 of the program: that has 3 operands, this one 2" in map(str, found)


def test_calls_that_are_too_many() -> None:
    decoded, values = _made()
    found = hazards(replace(decoded, commands=(*decoded.commands, *decoded.commands[2:] * 2)), values)
    assert [str(hazard) for hazard in found] == [
        "command 3: `lut_s8` is not in the program, which has 3 calls",
        "command 4: `lut_s8` is not in the program, which has 3 calls",
    ]


def test_a_call_that_writes_over_what_it_reads() -> None:
    """A copy onto its own input keeps every byte what it should be, but the kernel may write before it reads."""
    decoded, values = _made()
    first, second, third = decoded.commands
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert isinstance(third, Call)
    mid = second.operands[0]
    onto = replace(second, operands=(mid, mid))
    last = replace(third, operands=(mid, *third.operands[1:]))
    assert [str(hazard) for hazard in hazards(replace(decoded, commands=(first, onto, last)), values)] == [
        f"command 1: operand `output` of `copy_s8` would be written over operand `input`, bytes {mid.offset}.."
        f"{mid.offset + 63} of scratch, of the same call"
    ]


def test_a_call_that_may_write_onto_what_it_reads() -> None:
    """A table's kernel reads each byte before it writes it."""
    program = replace(PROGRAM, calls=(_copy("in", "mid"), _lut("mid", "next"), _copy("next", "out")))
    planned = plan(program)
    assert planned.placements["mid"] == planned.placements["next"]
    assert hazards(decode(encode(program, planned)), dataflow(program, planned.constants)) == ()
