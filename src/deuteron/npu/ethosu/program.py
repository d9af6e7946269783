"""Partitions of Ethos-U as the views see them: listed, operation by operation."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from deuteron.arch.engine import Engine
from deuteron.errors import UnsupportedError
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu import blob as blobs
from deuteron.npu.ethosu import watch as watches
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.stream import FeatureMap, Operation, Span, Stream, Window, by_kind, decode
from deuteron.npu.program import Command, KernelCall, NpuProgram
from deuteron.npu.timeline import Hazard, Timeline


class EthosUProgram(NpuProgram):
    """A command stream with its constants."""

    def __init__(self, blob: Blob, stream: Stream) -> None:
        self.blob = blob
        self.stream = stream
        self.inputs = tuple(tensor.nbytes for tensor in blob.inputs)
        self.outputs = tuple(tensor.nbytes for tensor in blob.outputs)
        self.commands = tuple(map(_command, stream.operations))
        self.weights_bytes = len(blob.weights)

    def lines(self, name: str, origins: Sequence[str]) -> Iterator[str]:
        """Sizes, where inputs and outputs lie, and a line for each operation."""
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
        for operation in self.stream.operations:
            origin = "" if operation.kind == "copy" else next(words, "")
            yield f"  0x{operation.offset:05x}  {_text(operation)}{f'  ; {origin}' if origin else ''}"

    def to_json(self, name: str, origins: Sequence[str]) -> dict[str, object]:
        """The same as plain values."""
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
            "origins": list(origins),
        }

    def timeline(self, engine: Engine, *, keep_resident: bool = True) -> Timeline:
        """Always an UnsupportedError: a command stream says nothing of time."""
        del engine, keep_resident
        message = "how long an Ethos-U takes is not in its command stream"
        raise UnsupportedError(message, hint="Vela prints an estimate when it compiles the model")

    def hazards(self, values: Dataflow) -> tuple[Hazard, ...]:
        """Where the commands do not wait, read what nothing has written, or are refused; `values` are not needed.

        Of an Ethos-U85, whose operations wait in other ways, nothing is told.
        """
        del values
        return () if self.stream.config.is_u85 else watches.watch(self.blob, self.stream).hazards


def program_of(payload: bytes, where: str) -> EthosUProgram:
    """The program in a delegate's payload; FormatError, placed at `where`, when it is damaged."""
    blob = blobs.parse(payload, where)
    return EthosUProgram(blob, decode(blob.command_data, where))


def _command(operation: Operation) -> Command:
    if operation.target is not None:
        return Command(fetched=operation.target.nbytes)
    weights = sum(span.nbytes for span in operation.constants)
    return Command(KernelCall(operation.kind, weight_bytes=weights, results=(len(operation.inputs),)))


def _text(operation: Operation) -> str:
    """An operation in words."""
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
    """What of a window is not the usual."""
    if window is None:
        return ""
    text = f" {window.kernel[0]}x{window.kernel[1]}"
    for name, values in (("stride", window.stride), ("dilation", window.dilation)):
        if values != (1, 1):
            text += f" {name} {values[0]}x{values[1]}"
    return text + (f" pads {','.join(map(str, window.pads))}" if any(window.pads) else "")
