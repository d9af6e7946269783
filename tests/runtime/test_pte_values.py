"""Values, instructions and memories of `.pte` files, compared with ExecuTorch's reader."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.conftest import Build

from deuteron.errors import FormatError
from deuteron.runtime import pte
from deuteron.runtime.program import (
    DelegateCall,
    Free,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    Place,
    TensorList,
    TensorSpec,
    TensorValue,
)

pytestmark = pytest.mark.slow

DAMAGED = "the file is damaged or truncated: build it again"
CONTENT = bytes(range(24))


def plan(data: bytes) -> Any:
    """The first method as ExecuTorch's own reader finds it."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    return deserialize_pte_binary(data).program.execution_plan[0]


def ours(value: object, values: Any) -> object:
    """Return our reader's form of one of ExecuTorch's values; for tensors their spec and place."""
    from executorch.exir import schema

    match value:
        case schema.Tensor():
            where = value.allocation_info
            place = where and Place(where.memory_id, where.memory_offset_low)
            return tuple(value.sizes), tuple(value.dim_order), place
        case schema.IntList():
            return tuple(values[item].val.int_val for item in value.items)
        case schema.Int():
            return value.int_val
        case schema.Double():
            return value.double_val
        case schema.Bool():
            return value.bool_val
        case _:
            assert isinstance(value, schema.Null)
            return None


@pytest.mark.parametrize("name", ["two", "conv_channels_last"])
def test_plans_are_read_as_executorch_reads_them(build: Build, name: str) -> None:
    data = (build(name) / "model.pte").read_bytes()
    method, theirs = pte.read(data).methods[0], plan(data)
    found = [
        (value.spec.shape, value.spec.dim_order, value.place) if isinstance(value, TensorValue) else value
        for value in method.values
    ]
    assert found == [ours(value.val, theirs.values) for value in theirs.values]
    assert list(method.inputs) == theirs.inputs
    assert list(method.outputs) == theirs.outputs
    assert list(method.arenas) == theirs.non_const_buffer_sizes
    calls = [
        (call.operator if isinstance(call, KernelCall) else call.delegate, list(call.args))
        for call in method.chains[0]
        if isinstance(call, KernelCall | DelegateCall)
    ]
    expected = [instruction.instr_args for instruction in theirs.chains[0].instructions]
    assert calls == [(getattr(i, "op_index", getattr(i, "delegate_index", None)), i.args) for i in expected]


def written(change: Callable[[Any, Any], None] = lambda schema, plan: None) -> bytes:
    """A program with every kind of value and instruction, written by ExecuTorch after a change of its plan."""
    from executorch.exir import schema
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
    from executorch.exir.schema import ScalarType, TensorShapeDynamism

    def tensor(**fields: Any) -> schema.EValue:
        plain: dict[str, Any] = {
            "scalar_type": ScalarType.SHORT,
            "storage_offset": 0,
            "sizes": [3, 4],
            "dim_order": [0, 1],
            "requires_grad": False,
            "layout": 0,
            "data_buffer_idx": 0,
            "allocation_info": None,
            "shape_dynamism": TensorShapeDynamism.STATIC,
        }
        return schema.EValue(schema.Tensor(**(plain | fields)))

    def placed(memory: int, low: int, high: int) -> schema.AllocationDetails:
        return schema.AllocationDetails(memory, low, high)

    values = [
        schema.EValue(schema.Null()),
        schema.EValue(schema.Int(-(2**62))),
        schema.EValue(schema.Bool(True)),
        schema.EValue(schema.Double(0.1)),
        schema.EValue(schema.String("nchw")),
        schema.EValue(schema.IntList([1, 1])),
        schema.EValue(schema.DoubleList([0.5, -2.0])),
        schema.EValue(schema.BoolList([True, False])),
        schema.EValue(schema.TensorList([10, 11])),
        schema.EValue(schema.OptionalTensorList([11, -1])),
        tensor(data_buffer_idx=1),
        tensor(allocation_info=placed(2, 16, 1)),
        tensor(shape_dynamism=TensorShapeDynamism.DYNAMIC_BOUND, allocation_info=placed(1, 0, 0)),
        tensor(),
    ]
    instructions = [
        schema.KernelCall(0, [1, 5, 13]),
        schema.MoveCall(1, 2),
        schema.JumpFalseCall(2, 4),
        schema.FreeCall(13),
        schema.KernelCall(1, []),
    ]
    method = schema.ExecutionPlan(
        name="all",
        container_meta_type=schema.ContainerMetadata("", ""),
        values=values,
        inputs=[11, 1],
        outputs=[13],
        chains=[schema.Chain([], [], [schema.Instruction(i) for i in instructions], None)],
        operators=[schema.Operator("aten::a", "out"), schema.Operator("aten::b", "")],
        delegates=[],
        non_const_buffer_sizes=[0, 32, 2**32 + 40],
    )
    change(schema, method)
    program = schema.Program(
        version=0,
        execution_plan=[method],
        constant_buffer=[schema.Buffer(b""), schema.Buffer(CONTENT)],
        backend_delegate_data=[],
        segments=[],
        constant_segment=schema.SubsegmentOffsets(0, []),
    )
    return bytes(serialize_pte_binary(PTEFile(program), extract_delegate_segments=True))


def method_of(data: bytes) -> Method:
    return pte.read(data, "all.pte").methods[0]


def test_every_kind_of_value_is_read() -> None:
    method = method_of(written())
    plain = (None, -(2**62), True, 0.1, "nchw", (-(2**62), -(2**62)), (0.5, -2.0), (True, False))
    assert method.values[:8] == plain
    assert [type(value) for value in method.values[:5]] == [type(None), int, bool, float, str]
    assert method.values[8:10] == (TensorList((10, 11)), TensorList((11, None)))
    constant, far, dynamic, free = (value for value in method.values[10:] if isinstance(value, TensorValue))
    spec = TensorSpec((3, 4), "int16", (0, 1))
    assert (constant.spec, constant.bytes, constant.place) == (spec, 24, None)
    assert constant.constant is not None
    assert constant.constant.data == CONTENT
    assert far == TensorValue(spec, 24, Place(2, 2**32 + 16), None, dynamic=False, external=False)
    assert dynamic == TensorValue(spec, 24, Place(1, 0), None, dynamic=True, external=False)
    assert free == TensorValue(spec, 24, None, None, dynamic=False, external=False)
    assert method.input_specs == (spec, None)


def test_every_kind_of_instruction_is_read() -> None:
    method = method_of(written())
    calls = KernelCall(0, (1, 5, 13)), Move(1, 2), JumpFalse(2, 4), Free(13), KernelCall(1, ())
    assert method.chains == (calls,)
    assert method.operators == ("aten::a.out", "aten::b")
    assert method.arenas == (0, 32, 2**32 + 40)


def refused(change: Callable[[Any, Any], None]) -> str:
    with pytest.raises(FormatError) as caught:
        method_of(written(change))
    text, _, hint = str(caught.value).partition("\n\nhint: ")
    assert hint == DAMAGED
    return text.removeprefix("all.pte: ")


def set_value(index: int, **fields: Any) -> Callable[[Any, Any], None]:
    """A change of fields of a value."""

    def change(schema: Any, method: Any) -> None:
        for name, value in fields.items():
            setattr(method.values[index].val, name, value)

    return change


def set_instruction(index: int, **fields: Any) -> Callable[[Any, Any], None]:
    """A change of fields of an instruction."""

    def change(schema: Any, method: Any) -> None:
        for name, value in fields.items():
            setattr(method.chains[0].instructions[index].instr_args, name, value)

    return change


def set_method(**fields: Any) -> Callable[[Any, Any], None]:
    """A change of fields of the method."""

    def change(schema: Any, method: Any) -> None:
        for name, value in fields.items():
            setattr(method, name, value)

    return change


def set_place(index: int, memory: int, low: int) -> Callable[[Any, Any], None]:
    """A change of a tensor's place."""

    def change(schema: Any, method: Any) -> None:
        method.values[index].val.allocation_info = schema.AllocationDetails(memory, low, 0)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_value(5, items=[1, 14]), "list element: index 14 of 14"),
        (set_value(5, items=[1, 3]), "a list element is value 3 of kind 4"),
        (set_value(8, items=[-1]), "list element: index -1 of 14"),
        (set_value(8, items=[0]), "a list element is value 0 of kind 1"),
        (set_value(9, items=[-2]), "list element: index -2 of 14"),
        (set_value(10, data_buffer_idx=2), "constant of a tensor: index 2 of 2"),
        (set_value(10, sizes=[3, 5]), "a constant tensor ends at byte 30 of a segment with 24"),
        (set_value(13, storage_offset=1), "a tensor starts at element 1 of its memory, which must be 0"),
        (set_place(12, 3, 0), "memory of a tensor: index 3 of 3"),
        (set_place(12, 1, 16), "a tensor ends at byte 40 of memory 1 with 32"),
        (set_place(12, 0, 0), "a tensor ends at byte 24 of memory 0 with 0"),
        (set_method(non_const_buffer_sizes=[0, -1, 2**33]), "memory 1 has -1 bytes"),
        (set_method(inputs=[14]), "input value: index 14 of 14"),
        (set_method(outputs=[-1]), "output value: index -1 of 14"),
        (set_method(chains=[]), "a method has no instructions"),
        (set_instruction(0, op_index=2), "an instruction calls operator 2 of 2"),
        (set_instruction(0, args=[0, 14]), "argument of an instruction: index 14 of 14"),
        (set_instruction(1, move_to=-1), "argument of an instruction: index -1 of 14"),
        (set_instruction(2, destination_instruction=5), "a jump leads to instruction 5 of 5"),
        (set_instruction(2, cond_value_index=99), "argument of an instruction: index 99 of 14"),
        (set_instruction(3, value_index=-3), "argument of an instruction: index -3 of 14"),
    ],
)
def test_what_leads_outside_is_named(change: Callable[[Any, Any], None], message: str) -> None:
    assert refused(change) == message
