"""Checks every read of a program by shadow memory.

Calls and fetches move pairs of a value and a byte of it. Every read is compared with the dataflow record of the
program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deuteron.npu.dataflow import Dataflow
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch, Wait
from deuteron.npu.neutron.microcode.io_offsets import in_memory
from deuteron.npu.timeline import Hazard
from deuteron.operators.access_footprint import Ints, reached_by
from deuteron.operators.regions import WRITABLE, Place, Region
from deuteron.operators.rules import may_write_onto
from deuteron.operators.shadow_memory import LEFTOVER, Contents


def hazards(decoded: Decoded, values: Dataflow) -> tuple[Hazard, ...]:
    """Return all hazards that make the program compute other values than `values`; none in a valid program.

    Inputs and outputs that have places in scratch are checked there and elsewhere, because drivers may use either.
    """
    found = _found(decoded, values)
    if decoded.places:
        apart = [one for one in _found(replace(decoded, places={}), values) if one not in found]
        found += tuple(replace(one, message=f"{one.message}, if inputs and outputs are elsewhere") for one in apart)
    return found


def _found(decoded: Decoded, values: Dataflow) -> tuple[Hazard, ...]:
    """Return the hazards with inputs and outputs at these places."""
    machine = _Machine(decoded, values)
    calls = 0
    for index, command in enumerate(decoded.commands):
        match command:
            case Call():
                machine.call(index, command, calls)
                calls += 1
            case Fetch():
                machine.fetch(index, command)
            case Wait():
                machine.outstanding.pop(command.channel, None)
    machine.end(len(decoded.commands), calls)
    return tuple(machine.found)


class _Machine:
    """The shadow memories of a run, and the hazards so far."""

    def __init__(self, decoded: Decoded, values: Dataflow) -> None:
        names = (*values.inputs, *values.outputs, *(c.name for c in values.constants))
        self._uses = values.values()
        names = (*names, *(use.buffer for call in self._uses for use in call))
        self._ids = {name: i for i, name in enumerate(dict.fromkeys(names))}
        self._names = tuple(self._ids)
        self._values = values
        self.found: list[Hazard] = []
        self.outstanding: dict[int, tuple[int, Fetch]] = {}  # by channel: the command that started it
        header = decoded.header
        sizes: Mapping[Region, Sequence[int]] = {
            Region.INPUT: decoded.input_bytes,
            Region.OUTPUT: decoded.output_bytes,
            Region.SCRATCH: (header.scratch_bytes,),
            Region.WEIGHTS: (header.weights_bytes,),
            Region.PREFETCH: (header.prefetch_bytes,),
        }
        self._places, self._output_bytes = decoded.places, decoded.output_bytes
        self._memories = {(region, i): Contents(n) for region, all_ in sizes.items() for i, n in enumerate(all_)}
        for i, name in enumerate(values.inputs):
            whole = np.arange(decoded.input_bytes[i])
            place = self._lying(Place(Region.INPUT, i, 0, len(whole)))
            self._memories[_memory(place)].put(whole + place.offset, self._ids[name], whole, -1)
        for constant in values.constants:
            byte = np.arange(constant.nbytes)
            weights = self._memories[Region.WEIGHTS, 0]
            weights.put(byte + constant.offset, self._ids[constant.name], byte, -1)

    def call(self, index: int, call: Call, number: int) -> None:
        """Check the inputs of a call, then write its outputs."""
        if number >= len(self._uses):
            self._report(index, f"`{call.kernel.name}` is not in the program, which has {len(self._uses)} calls")
            return
        uses = self._uses[number]
        if len(uses) != len(call.operands):
            counts = f"that has {len(uses)} operands, this one {len(call.operands)}"
            self._report(index, f"`{call.kernel.name}` is not call {number} of the program: {counts}")
            return
        reads = len(call.kernel.reads)
        strides = reached_by(call.params)
        for at, (named, use) in enumerate(zip(call.operands, uses, strict=True)):
            operand = self._lying(named)
            what = f"operand `{call.kernel.operands[at]}` of `{call.kernel.name}`"
            reached = strides[at] if at in strides else np.arange(operand.nbytes)
            if not self._inside(index, what, operand, reached):
                continue
            memory, where = self._memories[_memory(operand)], reached + operand.offset
            if at < reads:
                self._read(index, what, operand, where, (self._ids[use.buffer], reached + use.offset))
                continue
            self._check_apart(index, what, call, operand, where)
            self._check_landed(index, what, operand)
            if named.region not in WRITABLE:
                self._report(index, f"{what} would be written to {_bytes(operand)}, which is read only")
            elif call.kernel.operands[at] == "workspace":
                memory.put(where, LEFTOVER, 0, index)
            else:
                memory.put(where, self._ids[use.buffer], reached + use.offset, index)

    def _check_apart(self, index: int, what: str, call: Call, written: Place, where: Ints) -> None:
        """Report an operand that overlaps an output, unless the kernel reads each byte before."""
        strides = reached_by(call.params)
        for at, name in enumerate(call.kernel.reads):
            read = self._lying(call.operands[at])
            if not read.overlaps(written) or (read == written and may_write_onto(call.params, at)):
                continue
            reached = (strides[at] if at in strides else np.arange(read.nbytes)) + read.offset
            if len(np.intersect1d(reached, where)):
                self._report(index, f"{what} would be written over operand `{name}`, {_bytes(read)}, of the same call")

    def fetch(self, index: int, fetch: Fetch) -> None:
        """Start a copy: its bytes are written at once, and outstanding until the wait."""
        byte = np.arange(fetch.nbytes)
        if fetch.channel in self.outstanding:
            started = self.outstanding[fetch.channel][0]
            self._report(
                index, f"channel {fetch.channel} still fetches for command {started}, which nothing waited for"
            )
        if not (
            self._inside(index, "the source", fetch.read, byte)
            and self._inside(index, "the target", fetch.written, byte)
        ):
            return
        self._check_landed(index, "the target", fetch.written)
        weights, area = self._memories[Region.WEIGHTS, 0], self._memories[fetch.region, 0]
        taken = slice(fetch.source, fetch.source + fetch.nbytes)
        to = slice(fetch.target, fetch.target + fetch.nbytes)
        area.owner[to], area.byte[to], area.writer[to] = weights.owner[taken], weights.byte[taken], index
        self.outstanding[fetch.channel] = index, fetch

    def end(self, index: int, calls: int) -> None:
        """Check that no fetch is outstanding and every output is written."""
        for channel, (started, _) in sorted(self.outstanding.items()):
            self._report(index, f"channel {channel} still fetches for command {started}, which nothing waited for")
        if calls < len(self._uses):
            self._report(index, f"the program has {len(self._uses)} calls, the microcode {calls}")
        for i, name in enumerate(self._values.outputs):
            byte = np.arange(self._output_bytes[i])
            whole = self._lying(Place(Region.OUTPUT, i, 0, len(byte)))
            self._read(index, f"output {i}", whole, byte + whole.offset, (self._ids[name], byte))

    def _lying(self, operand: Place) -> Place:
        """Return the place of an operand."""
        return in_memory(operand, self._places)

    def _inside(self, index: int, what: str, operand: Place, reached: Ints) -> bool:
        memory = self._memories.get(_memory(operand))
        if memory is None:
            self._report(index, f"{what} is in {operand.region.name.lower()} {operand.index}, which does not exist")
            return False
        if operand.offset + int(reached.max(initial=-1)) >= len(memory.owner):
            self._report(index, f"{what}, {_bytes(operand)}, leaves its {len(memory.owner)} bytes")
            return False
        return True

    def _read(self, index: int, what: str, operand: Place, where: Ints, expected: tuple[int, Ints]) -> None:
        """Report the first byte that differs from its expected value."""
        self._check_landed(index, what, operand)
        memory = self._memories[_memory(operand)]
        wrong = memory.wrong(where, *expected, self._names.__getitem__, (_region(operand), "command"))
        if wrong:
            self._report(index, f"{what} {wrong}")

    def _check_landed(self, index: int, what: str, operand: Place) -> None:
        for channel, (started, fetch) in self.outstanding.items():
            if operand.overlaps(fetch.written):
                fetched = f"is still being fetched on channel {channel} by command {started}"
                self._report(index, f"{what}, {_bytes(operand)}, {fetched}")

    def _report(self, index: int, message: str) -> None:
        self.found.append(Hazard(index, message))


def _memory(operand: Place) -> tuple[Region, int]:
    return operand.region, operand.index


def _region(operand: Place) -> str:
    indexed = operand.region in (Region.INPUT, Region.OUTPUT)
    return f"{operand.region.name.lower()}{f' {operand.index}' if indexed else ''}"


def _bytes(operand: Place) -> str:
    return f"bytes {operand.offset}..{operand.offset + operand.nbytes - 1} of {_region(operand)}"
