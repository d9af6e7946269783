"""Files with several subgraphs: signatures, control flow that constants decide, and composite operators."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.tflite.subgraphs import file_of
from tests.tflite.test_normalize import Net, names

from deuteron.builds.options import TfliteOptions
from deuteron.errors import FormatError, InputError, UnsupportedError
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_model import Prepared, prepare
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant


def body(*steps: str, inputs: int = 1) -> FlatModel:
    """A subgraph that applies operators of one operand one after the other, the first to its last input."""
    net = Net()
    given = [net.tensor((1, 4)) for _ in range(inputs)]
    x = given[-1]
    for name in steps:
        x = net.op(name, [x], [net.tensor((1, 4))], "LeakyReluOptions" if name == "LEAKY_RELU" else "")
    return net.model(given, [x])


def branching(condition: object) -> FlatModel:
    """IF with a computed condition of constants, or with one that is an input."""
    net = Net()
    x = net.tensor((1, 4))
    inputs = [x]
    if condition is None:
        chosen = net.tensor((), "BOOL")
        inputs.append(chosen)
    else:
        sizes = net.op("SHAPE", [x], [net.tensor((2,), "INT32")], "ShapeOptions", OutType=2)
        last = net.op("REDUCE_MAX", [sizes, net.constant([0])], [net.tensor((), "INT32")], "ReducerOptions")
        chosen = net.op("GREATER", [last, net.constant(condition)], [net.tensor((), "BOOL")], "GreaterOptions")
    y = net.op("IF", [chosen, x], [net.tensor((1, 4))], "IfOptions", ThenSubgraphIndex=1, ElseSubgraphIndex=2)
    return net.model(inputs, [net.op("RELU", [y], [net.tensor((1, 4))])])


def looping(turns: int) -> FlatModel:
    """WHILE over a counter and a tensor."""
    net = Net()
    x, counter = net.tensor((1, 4)), net.constant(0)
    ends = [net.tensor((), "INT32"), net.tensor((1, 4))]
    net.op("WHILE", [counter, x], ends, "WhileOptions", CondSubgraphIndex=1, BodySubgraphIndex=2)
    del turns
    return net.model([x], [ends[1]])


def loop_parts(turns: int) -> tuple[FlatModel, FlatModel]:
    """The condition and the body of such a loop."""
    test, turn = Net(), Net()
    counter, x = test.tensor((), "INT32"), test.tensor((1, 4))
    result = test.op("LESS", [counter, test.constant(turns)], [test.tensor((), "BOOL")], "LessOptions")
    condition = test.model([counter, x], [result])
    counter, x = turn.tensor((), "INT32"), turn.tensor((1, 4))
    following = turn.op("ADD", [counter, turn.constant(1)], [turn.tensor((), "INT32")], "AddOptions")
    y = turn.op("LEAKY_RELU", [x], [turn.tensor((1, 4))], "LeakyReluOptions", Alpha=0.5)
    return condition, turn.model([counter, x], [following, y])


def need_litert(data: bytes, found: Prepared) -> None:
    """LiteRT gives the same for the file and for what is made of it."""
    x = np.array([[-100, -3, 4, 90]], np.int8)
    np.testing.assert_array_equal(Litert(data).run([x])[0], Litert(found.source).run([x])[0])


@pytest.mark.parametrize(("least", "chosen"), [(3, "TANH"), (4, "RELU6")])
def test_a_branch_that_constants_choose_is_the_model(least: int, chosen: str) -> None:
    data = file_of(branching(least), body("TANH"), body("RELU6"))
    found = prepare(data)
    assert names(found.model) == [chosen, "RELU"]
    need_litert(data, found)


def test_a_branch_that_the_input_chooses_is_refused_where_no_npu_leaves_it_to_litert() -> None:
    from deuteron.tflite.cortex_m import lower

    model = prepare(file_of(branching(None), body("TANH"), body("RELU6"))).model
    with pytest.raises(UnsupportedError) as caught:
        lower(model, 0)
    assert str(caught.value) == (
        "operator 0 (IF): its condition is tensor `t1`, which is computed at run time; IF needs a constant condition\n"
        "\n"
        "hint: export each branch as a model of its own, or compute both and choose with SELECT"
    )


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_over_constants_is_its_turns(turns: int) -> None:
    data = file_of(looping(turns), *loop_parts(turns))
    found = prepare(data)
    assert names(found.model) == ["LEAKY_RELU"] * turns
    if turns:
        need_litert(data, found)


def test_a_loop_without_end_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        prepare(file_of(looping(1), *loop_parts(100000)))
    assert caught.value.message == "WHILE runs other operators more than 256 times"


def test_a_subgraph_that_runs_itself_is_refused() -> None:
    again = replace(branching(3), operators=branching(3).operators[:4])
    again = replace(again, outputs=again.operators[-1].outputs)
    with pytest.raises(UnsupportedError, match="IF runs other operators more than 256 times"):
        prepare(file_of(branching(3), again, body("TANH")))


def test_an_initialiser_without_effect_is_removed() -> None:
    net = Net()
    x = net.tensor((1, 4))
    net.op("CALL_ONCE", [], [x], "CallOnceOptions", InitSubgraphIndex=1)
    net.operators[0] = replace(net.operators[0], outputs=())
    model = net.model([x], [net.op("RELU", [x], [net.tensor((1, 4))])])
    data = file_of(model, FlatModel("", (), (), (), ()))
    found = prepare(data)
    assert names(found.model) == ["RELU"]
    need_litert(data, found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ThenSubgraphIndex": 0}, "IF runs subgraph 0"),
        ({"ThenSubgraphIndex": 9}, "IF runs subgraph 9, which the file does not have"),
        ({"ThenSubgraphIndex": 2}, "IF gives 1 tensors to a subgraph with 2 inputs"),
    ],
)
def test_control_flow_that_contradicts_its_subgraphs_is_damage(options: dict[str, int], message: str) -> None:
    model = branching(3)
    operators = [replace(op, options={**op.options, **options}) if op.name == "IF" else op for op in model.operators]
    data = file_of(replace(model, operators=tuple(operators)), body("TANH"), body("RELU", inputs=2))
    with pytest.raises(FormatError) as caught:
        prepare(data)
    assert caught.value.message == message


def signed_names(data: bytes, signature: str | None) -> tuple[Sequence[str], Sequence[str]]:
    """The operators of a signature, and the notes."""
    found = prepare(data, TfliteOptions(signature=signature))
    return names(found.model), found.notes


def test_a_signature_is_a_model() -> None:
    data = file_of(body("TANH"), body("RELU"), signatures={"first": 0, "second": 1})
    note = "the file has the signatures `first`, `second`; `--signature` chooses another one"
    assert signed_names(data, None) == (["TANH"], (note,))
    assert signed_names(data, "first") == (["TANH"], ())
    assert signed_names(data, "second") == (["RELU"], ())
    x = np.array([[-100, -3, 4, 90]], np.int8)
    (y,) = Litert(prepare(data, TfliteOptions(signature="second")).source).run([x])
    np.testing.assert_array_equal(y, np.maximum(x, 3))


@pytest.mark.parametrize(
    ("signatures", "hint"),
    [
        ({"first": 0, "second": 1}, "its signatures are `first`, `second`"),
        ({}, "leave out `--signature`; the file has no signatures"),
    ],
)
def test_a_signature_that_the_file_lacks_is_named(signatures: dict[str, int], hint: str) -> None:
    data = file_of(body("TANH"), body("RELU"), signatures=signatures)
    with pytest.raises(InputError) as caught:
        signed_names(data, "third")
    assert (caught.value.message, caught.value.hint) == ("the file has no signature `third`", hint)


def test_an_output_of_control_flow_keeps_its_name() -> None:
    model = branching(3)
    (y,) = (op.outputs[0] for op in model.operators if op.name == "IF")
    model = changed(replace(model, operators=model.operators[:-1], outputs=(y,)), y, name="scores")
    for branch in (body("TANH"), body("TANH", "RELU")):
        found = prepare(file_of(model, branch, branch)).model
        assert [found.tensors[i].name for i in found.outputs] == ["scores"]
    loop = changed(looping(2), looping(2).outputs[0], name="last")
    found = prepare(file_of(loop, *loop_parts(2))).model
    assert [found.tensors[i].name for i in found.outputs] == ["last"]
    assert len({tensor.name for tensor in found.tensors}) == len(found.tensors)


def refusal(data: bytes) -> str:
    """The message for a file that is refused."""
    with pytest.raises(UnsupportedError) as caught:
        prepare(data)
    return caught.value.message


def test_a_variable_tensor_of_a_subgraph_is_refused() -> None:
    kept = body("TANH")
    kept = replace(kept, tensors=(*kept.tensors, FlatTensor("state", (1, 4), "INT8", is_variable=True)))
    assert refusal(file_of(branching(3), kept, body("RELU6"))) == (
        "IF runs subgraph 1 with the variable tensor `state`; only the main subgraph may have one"
    )
    test, _ = loop_parts(1)
    turn = loop_parts(1)[1]
    turn = replace(turn, tensors=(*turn.tensors, kept.tensors[-1]))
    assert refusal(file_of(looping(1), test, turn)).startswith("WHILE runs subgraph 2 with the variable tensor `state`")


def changed(model: FlatModel, tensor: int, **fields: object) -> FlatModel:
    """The model with other fields of a tensor."""
    tensors = [*model.tensors]
    tensors[tensor] = replace(tensors[tensor], **fields)  # pyright: ignore[reportArgumentType]
    return replace(model, tensors=tuple(tensors))


def test_a_subgraph_of_another_quantization_is_refused() -> None:
    """LiteRT copies the bytes."""
    other, given, result = Quant((0.25,), (5,)), body("TANH").inputs[0], body("TANH").outputs[0]
    inner = changed(body("TANH"), given, quant=other)
    assert refusal(file_of(branching(3), inner, body("RELU6"))) == (
        "IF copies tensor `t0` to tensor `t0` of another scale or zero point"
    )
    inner = changed(body("TANH"), result, quant=other)
    assert refusal(file_of(branching(3), inner, body("RELU6"))) == (
        "IF copies tensor `t6/t1` to tensor `t6` of another scale or zero point"
    )
    inner = changed(body("TANH"), given, dtype="UINT8")
    assert (
        refusal(file_of(branching(3), inner, body("RELU6"))) == "IF copies tensor `t0` to tensor `t0` of another type"
    )
    test, turn = loop_parts(2)
    turn = changed(turn, turn.outputs[1], quant=other)
    assert "of another scale or zero point" in refusal(file_of(looping(2), test, turn))


def test_a_condition_that_assigns_a_variable_is_refused() -> None:
    test, turn = loop_parts(1)
    handle = FlatOperator("VAR_HANDLE", (), (len(test.tensors),), "VarHandleOptions", {"SharedName": b"v"})
    assign = FlatOperator("ASSIGN_VARIABLE", (len(test.tensors), test.inputs[1]), ())
    test = replace(test, tensors=(*test.tensors, FlatTensor("handle", (), "RESOURCE")))
    test = replace(test, operators=(handle, assign, *test.operators))
    assert refusal(file_of(looping(1), test, turn)) == (
        "WHILE runs ASSIGN_VARIABLE in its condition, which may change more than the condition's result"
    )
