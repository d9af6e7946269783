"""Programs of Ethos-U partitions for views: listing, and Vela's estimates of their time.

A command stream contains no times. Vela's estimates and memories are the schedule of a build.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from deuteron.arch.engine import Engine
from deuteron.errors import FormatError, UnsupportedError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu import blob as blobs
from deuteron.npu.ethosu import hazard_check as watches
from deuteron.npu.ethosu import inferred_schedule
from deuteron.npu.ethosu import timeline as timelines
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.stream import WEIGHTS, Branch, FeatureMap, Operation, Span, Stream, Window, by_kind, decode
from deuteron.npu.program import Command, Content, KernelCall, Memory, NpuProgram, Placement
from deuteron.npu.schedule import NO_SCHEDULE, Schedule
from deuteron.npu.timeline import Hazard, Timeline


class EthosUProgram(NpuProgram):
    """A command stream with its constants, and with Vela's schedule if it is known."""

    operators = "tosa op"
    records = True
    advice = (
        "Vela wrote the commands; Deuteron's model of concurrent operations, which was never compared with silicon, "
        "finds the hazard: write the line in another form, such as with a Conv2d for a Conv1d, or keep one of its "
        "operators on the CPU with `--operators-not-to-delegate`"
    )

    def __init__(self, blob: Blob, stream: Stream, schedule: Schedule = NO_SCHEDULE) -> None:
        self.blob = blob
        self.stream = stream
        self.schedule = schedule
        self.inputs = tuple(tensor.nbytes for tensor in blob.inputs)
        self.outputs = tuple(tensor.nbytes for tensor in blob.outputs)
        self.commands = tuple(map(_command, stream.operations))
        self.weights_bytes = len(blob.weights)
        self.has_branches = bool(stream.branches)

    def lines(self, name: str, origins: Sequence[str]) -> Iterator[str]:
        """Yield sizes, places of inputs and outputs, and a line for each operation."""
        calls = len(self.calls)
        copies = len(self.commands) - calls
        yield (
            f"{name}: {self.stream.config.name}; {calls} operation{'' if calls == 1 else 's'}, "
            f"{copies} cop{'y' if copies == 1 else 'ies'}; commands {self.stream.nbytes:,} B, "
            f"weights {len(self.blob.weights):,} B, scratch {self.blob.scratch_bytes:,} B"
        )
        for what, tensors in (("in", self.blob.inputs), ("out", self.blob.outputs)):
            for i, tensor in enumerate(tensors):
                yield f"  {what}{i}: {tensor.nbytes:,} B, scratch+0x{tensor.offset:x}"
        words = iter(origins)
        issued = self._issued_for()
        rows = {branch.offset: _branch_text(branch) for branch in self.stream.branches}
        for number, operation in enumerate(self.stream.operations):
            origin = issued.get(number, "") if operation.kind == "copy" else next(words, "")
            rows[operation.offset] = f"{_text(operation)}{f'  ; {origin}' if origin else ''}"
        yield from (f"  0x{offset:05x}  {row}" for offset, row in sorted(rows.items()))

    def _issued_for(self) -> dict[int, str]:
        """Describe for each copy the operation that it is issued for."""
        operations = self.stream.operations
        return {
            number: f"for 0x{operations[other].offset:05x}"
            for step in self.schedule.steps
            for number in step.commands
            for other in [i for i in step.commands if i > number and operations[i].kind != "copy"][:1]
            if operations[number].kind == "copy"
        }

    def to_json(self, name: str, origins: Sequence[str]) -> dict[str, object]:
        """Return the listing as plain values."""
        return {
            "name": name,
            "accelerator": self.stream.config.name,
            "command_bytes": self.stream.nbytes,
            "weights_bytes": len(self.blob.weights),
            "scratch_bytes": self.blob.scratch_bytes,
            "inputs": [asdict(tensor) for tensor in self.blob.inputs],
            "outputs": [asdict(tensor) for tensor in self.blob.outputs],
            "kinds": dict(by_kind(self.stream)),
            "operations": [{**asdict(o), "macs": o.macs} for o in self.stream.operations],
            "branches": [asdict(branch) for branch in self.stream.branches],
            "origins": list(origins),
        }

    def scheduled(self, schedule: Schedule) -> "EthosUProgram":
        """Return the program with Vela's schedule; FormatError for a schedule of another program."""
        commands = sorted(command for step in schedule.steps for command in step.commands)
        if schedule.steps and commands != [*range(len(self.commands))]:
            message = f"the schedule is of {len(commands)} commands, the program has {len(self.commands)}"
            raise FormatError(message, hint="build the model again")
        return EthosUProgram(self.blob, self.stream, schedule)

    def timeline(self, engine: Engine, *, keep_resident: bool = True) -> Timeline:
        """Return Vela's estimate of one run; UnsupportedError if there is none."""
        del keep_resident
        if not self.schedule.steps:
            message = "the command stream of an Ethos-U contains no times, and there are no estimates"
            raise UnsupportedError(message, hint="give a build of `deuteron build`, which has Vela's estimates")
        return timelines.timeline(self.stream.operations, self.schedule, replace(engine, clock=self.schedule.clock))

    def traced(self) -> Dataflow:
        """Return the dataflow inferred from its addresses."""
        return inferred_schedule.traced(self.blob, self.stream)

    def least(self, engine: Engine) -> Schedule:
        """Return a lower bound: multiply-accumulates at the array's full rate, results at the SRAM port's."""
        return inferred_schedule.least(self.blob, self.stream, engine)

    def placements(self, values: Dataflow) -> tuple[Placement, ...]:
        """Return the memories as planned by Vela."""
        writers: dict[str, list[int]] = {}
        numbers = [number for number, command in enumerate(self.commands) if command.call is not None]
        for number, uses in zip(numbers, values.uses(), strict=True):
            writers.setdefault(uses[-1].buffer, []).append(number)
        return tuple(Placement(memory, self._contents(memory, writers)) for memory in self.schedule.memories)

    def _contents(self, memory: Memory, writers: Mapping[str, Sequence[int]]) -> dict[str, Content]:
        """Return the content of the blocks of a memory: results, inputs, or copied weights."""
        contents: dict[str, Content] = {}
        for block in memory.blocks:
            commands = [number for name in block.names for number in writers.get(name, ())]
            if commands:
                contents[block.name] = Content("result", tuple(sorted(commands)))
                continue
            readers = [
                number
                for number in range(block.first, block.last + 1)
                if any(block.offset <= s.offset < block.offset + block.nbytes for s in self._fetched(number))
            ]
            contents[block.name] = Content("weights", tuple(readers)) if readers else Content("input", ())
        return contents

    def _fetched(self, number: int) -> Iterator[Span]:
        """Yield the weights and scales of an operation that a copy has fetched."""
        return (span for span in self.stream.operations[number].constants if span.memory != WEIGHTS)

    def hazards(self, values: Dataflow) -> tuple[Hazard, ...]:
        """Return missing waits, reads of unwritten bytes, and invalid commands; `values` are not used."""
        del values
        return watches.watch(self.blob, self.stream).hazards


def program_of(payload: bytes, where: str) -> EthosUProgram:
    """Decode the program in a delegate's payload; FormatError, with `where`, if it is damaged."""
    return program_in(blobs.parse(payload, where), where)


def program_in(blob: Blob, where: str) -> EthosUProgram:
    """Decode the program of a decoded partition; errors are those of `program_of`."""
    return EthosUProgram(blob, decode(blob.command_data, where))


def _command(operation: Operation) -> Command:
    if operation.target is not None:
        return Command(fetched=operation.target.nbytes)
    weights = sum(span.nbytes for span in operation.constants)
    written = operation.output.nbytes if operation.output else 0
    return Command(KernelCall(operation.kind, None, weights, (len(operation.inputs),), written))


def _branch_text(branch: Branch) -> str:
    return f"branch to 0x{branch.target:05x}{' if the result before it is not 0' if branch.is_conditional else ''}"


def _text(operation: Operation) -> str:
    """Describe an operation."""
    if operation.source is not None and operation.target is not None:
        return f"copy {_place(operation.source)} -> {_place(operation.target)}, {operation.source.nbytes:,} B"
    inputs = [_map_text(tensor) for tensor in operation.inputs]
    if operation.scalar is not None:
        inputs.append(str(operation.scalar))
    parts = [f"{operation.kind}{_window_text(operation.window)} {', '.join(inputs)}"]
    if operation.output is not None:
        parts.append(f" -> {_map_text(operation.output)}")
    if operation.turn:
        parts.append(f" {operation.turn}")
    if operation.constants:
        parts.append(f", weights {', '.join(f'{_place(s)} {s.nbytes:,} B' for s in operation.constants)}")
    if operation.table is not None:
        parts.append(f", table {operation.table}")
    return "".join(parts)


def _place(span: Span) -> str:
    return f"{span.memory}+0x{span.offset:x}"


def _map_text(tensor: FeatureMap) -> str:
    shape = "x".join(map(str, tensor.shape))
    zero_point = f" zp {tensor.zero_point}" if tensor.zero_point else ""
    return (
        f"{tensor.dtype} {shape}{' bricks' if tensor.in_bricks else ''}{zero_point} {tensor.memory}+0x{tensor.offset:x}"
    )


def _window_text(window: Window | None) -> str:
    """Describe the parameters of a window that differ from the default."""
    if window is None:
        return ""
    text = f" {window.kernel[0]}x{window.kernel[1]}"
    for name, values in (("stride", window.stride), ("dilation", window.dilation)):
        if values != (1, 1):
            text += f" {name} {values[0]}x{values[1]}"
    return text + (f" pads {','.join(map(str, window.pads))}" if any(window.pads) else "")
