"""Commands as text, one line each, and as plain values for JSON."""

from collections.abc import Sequence
from dataclasses import fields

from deuteron.npu.neutron.microcode.decode import Call, Command, Decoded, Fetch, Place, Wait
from deuteron.npu.neutron.microcode.format import Region
from deuteron.npu.neutron.microcode.io_offsets import Places, in_memory
from deuteron.operators import kernel_params as p

_SHORT = {Region.INPUT: "in", Region.OUTPUT: "out", Region.SCRATCH: "scratch", Region.WEIGHTS: "weights"}


def disassemble(decoded: Decoded, origins: Sequence[str] = ()) -> list[str]:
    """Yield one line per command; `origins` describe each kernel call, by default with its first TFLite operator.

    Args:
        decoded: a decoded container.
        origins: text for each kernel call, in order; shorter than the calls is allowed.
    """
    texts = iter(origins)
    width = len(str(len(decoded.commands)))
    lines: list[str] = []
    for index, command in enumerate(decoded.commands):
        body = _command(command, decoded.places)
        if isinstance(command, Call):
            origin = next(texts, "tflite op -" if command.origin is None else f"tflite op {command.origin}")
            body = f"{body}  ; {origin}"
        lines.append(f"{index:>{width}}  {body}")
    return [*lines, f"{len(decoded.commands):>{width}}  end"]


def as_json(decoded: Decoded) -> dict[str, object]:
    """Return the container as plain values: header, tensor sizes, commands with every field."""
    return {
        "header": {field.name: getattr(decoded.header, field.name) for field in fields(decoded.header)},
        "input_bytes": list(decoded.input_bytes),
        "output_bytes": list(decoded.output_bytes),
        "places": {f"{region.name.lower()} {index}": at for (region, index), at in decoded.places.items()},
        "commands": [_command_json(command) for command in decoded.commands],
    }


def _command(command: Command, places: Places) -> str:
    match command:
        case Call():
            names = command.kernel.operands
            texts = (_place(operand, places) for operand in command.operands)
            operands = ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True))
            return f"{command.kernel.name} {shape(command.params)}  {operands}  {settings(command.params)}".rstrip()
        case Fetch():
            return (
                f"fetch weights+{command.source:#x} -> {command.region.name.lower()}+{command.target:#x} "
                f"{command.nbytes} B "
                f"on channel {command.channel}"
            )
        case Wait():
            return f"wait for channel {command.channel}"


def _place(operand: Place, places: Places) -> str:
    """Region, offset and size, as in `scratch+0x40:256`, and the place of an input: `in0+0x0:256@scratch+0x80`."""
    placed = in_memory(operand, places)
    if placed != operand:
        return f"{_place(operand, {})}@scratch+{placed.offset:#x}"
    region = _SHORT.get(operand.region, operand.region.name.lower())
    index = str(operand.index) if operand.region in (Region.INPUT, Region.OUTPUT) else ""
    return f"{region}{index}+{operand.offset:#x}:{operand.nbytes}"


def shape(params: p.KernelParams) -> str:
    """Return input and output shapes, as in `[1,32,32,3] -> [1,32,32,16]`."""
    match params:
        case p.Conv2DParams() | p.DepthwiseConv2DParams():
            return _maps(params.batches, params, params.in_c, params.out_c)
        case p.ChannelMapParams():
            return _maps(params.batches, params, params.channels, params.channels)
        case p.FullyConnectedParams():
            return f"[{params.rows},{params.in_features}] -> [{params.rows},{params.out_features}]"
        case p.BinaryParams() | p.CopyParams():
            return _dims(_significant(params.dims))
        case p.MatMulParams():
            x, y = (params.batches, params.rows, params.depth), (params.batches, params.depth, params.columns)
            return f"{_dims(x)} x {_dims(y)}"
        case p.ReductionParams():
            outer, inner = params.outer, params.inner
            return f"{_dims((outer, params.reduced, inner))} -> {_dims((outer, inner))}"
        case p.SoftmaxParams():
            return _dims((params.rows, params.depth))
        case p.FillParams() | p.LutParams():
            return _dims((params.size,))
        case _:
            raise TypeError(f"{type(params).__name__} is not a kernel's parameter record")


_MAP_FIELDS = ("batches", "in_h", "in_w", "in_c", "out_h", "out_w", "out_c", "channels")
_OTHER_SIZES = ("rows", "in_features", "out_features", "dims", "outer", "reduced", "inner", "depth", "size", "columns")
_IN_SHAPE = frozenset((*_MAP_FIELDS, *_OTHER_SIZES))
"""Parameters that `shape` shows."""


def settings(params: p.KernelParams) -> str:
    """Return the parameters that `shape` does not show, as `name=value` in encoding order."""
    strided = isinstance(params, p.BinaryParams | p.CopyParams)
    rank = len(_significant(params.dims)) if strided else 0
    shown: list[str] = []
    for field in fields(params):
        value: int | tuple[int, ...] = getattr(params, field.name)
        if field.name not in _IN_SHAPE:
            shown.append(f"{field.name}={_dims(value[-rank:]) if isinstance(value, tuple) else value}")
    return " ".join(shown)


def _maps(
    batches: int,
    params: p.MapParams | p.ChannelMapParams,
    in_c: int,
    out_c: int,
) -> str:
    before = _dims((batches, params.in_h, params.in_w, in_c))
    return f"{before} -> {_dims((batches, params.out_h, params.out_w, out_c))}"


def _significant(dims: tuple[int, ...]) -> tuple[int, ...]:
    """`dims` without leading ones, but at least the last."""
    first = next((i for i, dim in enumerate(dims) if dim > 1), len(dims) - 1)
    return dims[first:]


def _dims(values: Sequence[int]) -> str:
    return f"[{','.join(map(str, values))}]"


def _command_json(command: Command) -> dict[str, object]:
    match command:
        case Call():
            names = command.kernel.operands
            return {
                "command": "call",
                "kernel": command.kernel.name,
                "tflite_op": command.origin,
                "operands": {n: _operand_json(op) for n, op in zip(names, command.operands, strict=True)},
                "params": {field.name: _plain(getattr(command.params, field.name)) for field in fields(command.params)},
            }
        case Fetch():
            return {
                "command": "fetch",
                "channel": command.channel,
                "weights_offset": command.source,
                f"{command.region.name.lower()}_offset": command.target,
                "bytes": command.nbytes,
            }
        case Wait():
            return {"command": "wait", "channel": command.channel}


def _operand_json(operand: Place) -> dict[str, object]:
    return {
        "region": operand.region.name.lower(),
        "index": operand.index,
        "offset": operand.offset,
        "bytes": operand.nbytes,
    }


def _plain(value: int | tuple[int, ...]) -> int | list[int]:
    return list(value) if isinstance(value, tuple) else value
