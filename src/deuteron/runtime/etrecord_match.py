"""Checks that an ETRecord belongs to a program: compares inputs, outputs, delegates and kernel calls."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from deuteron.npu.neutron.kernels.event_names import event_name
from deuteron.npu.provenance import payload_mark
from deuteron.runtime.etrecord import DEQUANTIZES, QUANTIZES, Boundary, EtRecord
from deuteron.runtime.program import DelegateCall, KernelCall, Method, TensorSpec


def differences(record: EtRecord, method: Method, kernels: Mapping[int, Sequence[str]]) -> Iterator[str]:
    """Yield one clause per difference between a record and a program; nothing if the record is the program's.

    Compares sizes, quantization of inputs and outputs, and compiled delegates. Types and operators are not compared:
    passes after the edge program may change them.

    Args:
        record: record of the method.
        method: method of the program.
        kernels: kernel calls of each delegate for which they are known, by the instruction that calls it.
    """
    calls = {i: step for i, step in enumerate(method.chains[0]) if isinstance(step, DelegateCall)}
    delegates = {number: method.delegates[step.delegate].id for number, step in calls.items()}
    recorded = {number: delegate.id for number, delegate in record.delegates.items()}
    if recorded != delegates:
        yield f"its delegates are {_listed(recorded)}, the program's {_listed(delegates)}"
    steps, last = len(method.chains[0]), max(record.instructions, default=0)
    if last >= steps:
        yield f"it has an instruction {last}, the program's last is {steps - 1}"
    outputs = len(method.outputs) - len(record.outputs)  # mutated buffers come first and are not outputs of the model
    yield from _boundary_differences("input", record.inputs, _boundary(method, method.inputs, QUANTIZES))
    yield from _boundary_differences(
        "output", record.outputs, _boundary(method, method.outputs, DEQUANTIZES)[max(0, outputs) :]
    )
    for number, names in kernels.items():
        delegate = record.delegates.get(number)
        here = {event_name(name, i) for i, name in enumerate(names)}
        if delegate and (others := sorted(set(delegate.named) - here)):
            yield f"its delegate at instruction {number} calls `{others[0]}`, the program's does not"
    for number, step in calls.items():
        delegate = record.delegates.get(number)
        if delegate and delegate.mark not in ("", payload_mark(method.delegates[step.delegate].payload)):
            yield f"its delegate at instruction {number} was compiled from other weights or with other options"


def _boundary_differences(side: str, recorded: Sequence[Boundary], own: Sequence[Boundary]) -> Iterator[str]:
    """Yield the differences of the inputs or outputs."""
    for i, (theirs, ours) in enumerate(zip_longest(recorded, own)):
        if theirs is None or ours is None:
            yield f"it has {len(recorded)} {side}s, the program {len(own)}"
        elif None not in (theirs.shape, ours.shape) and theirs.shape != ours.shape:
            yield f"its {side} {i} has the shape {theirs.shape}, the program's {ours.shape}"
        elif theirs.quantized and ours.quantized and not theirs.quantized & ours.quantized:
            yield f"its {side} {i} is quantized by {_affines(theirs)}, the program's by {_affines(ours)}"


def _boundary(method: Method, indices: Sequence[int], operator: str) -> list[Boundary]:
    """Return a method's inputs (`operator` quantizes) or outputs (it dequantizes) with their scales and zero points."""
    quantized: dict[int, set[tuple[float, int]]] = {index: set() for index in indices}
    for step in method.chains[0]:
        if isinstance(step, KernelCall) and f"::{operator}." in method.operators[step.operator]:
            value, scale, zero_point = step.args[0 if operator == QUANTIZES else -1], *step.args[1:3]
            affine = method.values[scale], method.values[zero_point]
            if value in quantized and isinstance(affine[0], float) and isinstance(affine[1], int):
                quantized[value].add((affine[0], affine[1]))
    specs = method.input_specs if operator == QUANTIZES else method.output_specs
    return [Boundary(_shape(method, i, spec), frozenset(quantized[i])) for i, spec in zip(indices, specs, strict=True)]


def _shape(method: Method, index: int, spec: TensorSpec | None) -> tuple[int, ...] | None:
    """Return the sizes of a value; None if it is not a tensor or its shape is dynamic."""
    return None if spec is None or getattr(method.values[index], "dynamic", False) else spec.shape


def _affines(boundary: Boundary) -> str:
    return ", ".join(f"{scale:.6g} from {zero_point}" for scale, zero_point in sorted(boundary.quantized))


def _listed(delegates: Mapping[int, str]) -> str:
    return ", ".join(f"`{name}` at instruction {number}" for number, name in sorted(delegates.items())) or "none"
