"""Programs that no compiler writes: plans and segments as an attacker chooses them."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Instruction = tuple[Any, ...]
"""`("call", operator, values ..)`, `("delegate", number, values ..)`, `("move", from, to)`, `("jump", condition, to)`,
`("free", value)`."""


@dataclass(frozen=True, slots=True)
class Crafted:
    """A program of one method, written by ExecuTorch's own serialiser.

    Attributes:
        values: what `placed`, `constant`, `unplanned`, `listed` or `number` give.
        instructions: its only chain.
        inputs: indices of values.
        outputs: the same.
        delegates: the id and the payload of each.
        arena: bytes of memory 1.
        dtype: ExecuTorch's name of the type of all elements.
    """

    values: Sequence[Any]
    instructions: Sequence[Instruction]
    inputs: Sequence[int] = ()
    outputs: Sequence[int] = ()
    delegates: Sequence[tuple[str, bytes]] = field(default=())
    arena: int = 64
    dtype: str = "FLOAT"

    def data(self) -> bytes:
        """The file."""
        from executorch.exir import schema
        from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

        names = sorted({step[1] for step in self.instructions if step[0] == "call"})
        parts = [name.partition(".") for name in names]
        steps: list[Any] = []
        for kind, first, *rest in self.instructions:
            match kind:
                case "call":
                    steps.append(schema.KernelCall(names.index(first), [*rest]))
                case "delegate":
                    steps.append(schema.DelegateCall(first, [*rest]))
                case "move":
                    steps.append(schema.MoveCall(first, *rest))
                case "jump":
                    steps.append(schema.JumpFalseCall(first, *rest))
                case _:
                    steps.append(schema.FreeCall(first))
        for value in self.values:
            if isinstance(value.val, schema.Tensor):
                value.val.scalar_type = schema.ScalarType[self.dtype]
        reference = schema.BackendDelegateDataReference
        method = schema.ExecutionPlan(
            name="forward",
            container_meta_type=schema.ContainerMetadata("", ""),
            values=[*self.values],
            inputs=[*self.inputs],
            outputs=[*self.outputs],
            chains=[schema.Chain([], [], [schema.Instruction(step) for step in steps], None)],
            operators=[schema.Operator(name, overload) for name, _, overload in parts],
            delegates=[
                schema.BackendDelegate(name, reference(schema.DataLocation.INLINE, i), [])
                for i, (name, _) in enumerate(self.delegates)
            ],
            non_const_buffer_sizes=[0, self.arena],
        )
        content = struct.pack("<4f", 1, 2, 3, 4)
        program = schema.Program(
            version=0,
            execution_plan=[method],
            constant_buffer=[schema.Buffer(b""), schema.Buffer(content)],
            backend_delegate_data=[schema.BackendDelegateInlineData(payload) for _, payload in self.delegates],
            segments=[],
            constant_segment=schema.SubsegmentOffsets(0, []),
        )
        tensors = (value.val for value in self.values if isinstance(value.val, schema.Tensor))
        has_state = any(tensor.data_buffer_idx and tensor.allocation_info for tensor in tensors)
        mutable = [*map(schema.Buffer, (b"", content, bytes(16)))] if has_state else None
        return bytes(serialize_pte_binary(PTEFile(program, mutable), extract_delegate_segments=True))


def _tensor(buffer: int, place: Any, count: int) -> Any:
    from executorch.exir import schema

    tensor = schema.Tensor(
        scalar_type=schema.ScalarType.FLOAT,
        storage_offset=0,
        sizes=[count],
        dim_order=[0],
        requires_grad=False,
        layout=0,
        data_buffer_idx=buffer,
        allocation_info=place,
        shape_dynamism=schema.TensorShapeDynamism.STATIC,
    )
    return schema.EValue(tensor)


def placed(offset: int, count: int = 4) -> Any:
    """A tensor at an offset of memory 1."""
    from executorch.exir import schema

    return _tensor(0, schema.AllocationDetails(1, offset, 0), count)


def state(offset: int, name: str = "", group: int = 0, buffer: int = 1) -> Any:
    """A tensor at an offset of memory 1 that lasts between runs, initially the floats 1 to 4, or zeros (buffer 2)."""
    from executorch.exir import schema

    value = _tensor(buffer, schema.AllocationDetails(1, offset, 0), 4)
    value.val.extra_tensor_info = schema.ExtraTensorInfo(group, name, schema.TensorDataLocation.SEGMENT)
    return value


def constant() -> Any:
    """A constant tensor: the floats 1 to 4."""
    return _tensor(1, None, 4)


def unplanned(count: int = 4) -> Any:
    """A tensor without memory."""
    return _tensor(0, None, count)


def listed(*tensors: int) -> Any:
    """A list of tensors."""
    from executorch.exir import schema

    return schema.EValue(schema.TensorList([*tensors]))


def number(value: int) -> Any:
    """A whole number."""
    from executorch.exir import schema

    return schema.EValue(schema.Int(value))


def truth(value: bool) -> Any:
    """A truth value."""
    from executorch.exir import schema

    return schema.EValue(schema.Bool(value))


def numbers(*values: int) -> Any:
    """A list of whole numbers, given by the indices of their values."""
    from executorch.exir import schema

    return schema.EValue(schema.IntList([*values]))
