"""TFLite files as programs of C operators: views, temporaries, prepared constants, scratch memory, copies, refusals."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.npu.neutron.tflite.partitioned_files import SHAPE, Net

from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.errors import FormatError, UnsupportedError
from deuteron.operators import catalogue
from deuteron.operators.cortex_m import BY_OPERATOR, QuantizedConvolutionParams
from deuteron.operators.kernel_params import ExtremumParams, LutParams
from deuteron.runtime import pte, pte_writer
from deuteron.runtime.tflite_program import TfliteProgram
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Temporary
from deuteron.tflite.flat_model import FlatModel

ELEMENTS = 128
NEGATED = np.array([max(-128, min(127, -x)) for x in range(-128, 128)], np.int8)


def lower(model: FlatModel, index: int) -> tuple[CpuCall, ...]:
    """A RELU as two tables of a temporary between them, a MAXIMUM, and a 1x1 convolution of ones for a FLOOR."""
    op = model.operators[index]
    x, y = FileTensor(op.inputs[0]), FileTensor(op.outputs[0])
    table = BY_OPERATOR["quantized_activation"]
    match op.name:
        case "RELU":
            middle, negated = Temporary((1, ELEMENTS), "int8"), Constant(NEGATED)
            first = CpuCall(table, (x, negated), (middle,), LutParams(ELEMENTS))
            return first, CpuCall(table, (middle, negated), (y,), LutParams(ELEMENTS))
        case "MAXIMUM":
            flat = (1, 1, 1, 1, ELEMENTS), (0, 0, 0, 0, 1), (0, 0, 0, 0, 1)
            inputs = x, FileTensor(op.inputs[1])
            return (CpuCall(BY_OPERATOR["maximum"], inputs, (y,), ExtremumParams(*flat, 1)),)
        case "FLOOR":
            params = QuantizedConvolutionParams(
                1, 4, 4, 8, 4, 4, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, -128, 127, has_bias=0
            )
            ones = Constant(np.ones((1, 3, 3, 8), np.int8))
            factor = Constant(np.array([1 << 30], np.int32)), Constant(np.array([0], np.int32))
            return (CpuCall(BY_OPERATOR["quantized_conv2d"], (x, ones, *factor), (y,), params),)
        case _:
            raise UnsupportedError(f"no {op.name} here", where=f"op {index}", hint="leave it out")


def made(net: Net, *outputs: int) -> tuple[TfliteProgram, HostExecutor]:
    """The program of all operators, and what runs it."""
    model = FlatModel("net", tuple(net.tensors), (0,), outputs, tuple(net.operators))
    program = TfliteProgram(model, lower)
    program.add(range(len(model.operators)))
    data = pte_writer.write(program.contents(), "NeutronBackend")
    return program, HostExecutor(translate(pte.read(data), name="net"))


def x() -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, SHAPE, np.int8)


def test_operators_of_several_calls_share_constants_and_have_temporaries():
    net = Net()
    y = net.maximum(net.relu(0), 0)
    program, executor = made(net, y)
    (result,) = executor.run([x()])
    np.testing.assert_array_equal(result, np.maximum(NEGATED[NEGATED[x().astype(int) + 128].astype(int) + 128], x()))
    assert [len(calls) for calls in program.executed.values()] == [2, 1]
    assert [call.tensor for calls in program.executed.values() for call in calls] == [None, 1, 2]
    assert len(program.contents().constants) == 1


def test_calls_get_the_scratch_memory_that_they_need():
    net = Net()
    y = net.add("FLOOR", 0, shape=(1, 4, 4, 1))
    program, executor = made(net, y)
    (call,) = program.steps
    scratch, _ = call.args[2]
    assert program.contents().tensors[scratch.tensor].shape == (4 * 9 * 8,)
    (result,) = executor.run([x()])
    padded = np.pad(x()[0].astype(int), ((1, 1), (1, 1), (0, 0))).sum(-1)
    sums = np.array([[padded[i : i + 3, j : j + 3].sum() for j in range(4)] for i in range(4)])
    np.testing.assert_array_equal(result[0, :, :, 0], np.clip(np.floor(sums / 2 + 0.5), -128, 127))


@pytest.mark.parametrize("name", ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"])
def test_views_between_operators_are_no_calls(name: str):
    net = Net()
    view = net.add(name, net.relu(0), shape=(1, ELEMENTS))
    program, executor = made(net, net.add("RELU", view, shape=(4, 32)))
    assert len(program.steps) == 4
    assert program.executed[1] == ()
    assert executor.run([x()])[0].shape == (4, 32)


@pytest.mark.parametrize(
    ("build", "copies"),
    [
        (lambda net: [net.add("RESHAPE", 0, shape=(128,))], 1),
        (lambda net: [net.add("RESHAPE", net.relu(0), shape=(128,))], 0),
        (lambda net: [y := net.relu(0), net.add("RESHAPE", y, shape=(128,))], 1),
        (lambda net: [net.add("RESHAPE", y := net.relu(0), shape=(128,)), net.add("RESHAPE", y, shape=(2, 64))], 1),
        (lambda net: [net.add("RESHAPE", net.add("RESHAPE", net.relu(0), shape=(128,)), shape=(2, 64))], 0),
    ],
)  # fmt: skip
def test_views_are_copied_where_both_are_inputs_or_outputs(build: Callable[[Net], list[int]], copies: int):
    net = Net()
    outputs = build(net)
    program, executor = made(net, *outputs)
    assert sum(step.operator == "firmware::dtn_cm_copy.out" for step in program.steps) == copies
    results = executor.run([x()])
    assert [y.shape for y in results] == [net.tensors[i].shape for i in outputs]
    assert len({y.tobytes() for y in results}) == 1


def test_views_of_constants_are_constants():
    net = Net()
    constant = net.constant((5, 6, 7))
    net.tensors[constant] = replace(net.tensors[constant], dtype="INT8", shape=SHAPE, data=bytes(range(128)))
    view = net.add("RESHAPE", constant)
    _, executor = made(net, net.maximum(0, view), net.add("RESHAPE", view, shape=(128,)))
    largest, copied = executor.run([x()])
    np.testing.assert_array_equal(largest.reshape(-1), np.maximum(x().reshape(-1), np.arange(128)))
    assert copied.tobytes() == bytes(range(128))


def test_views_of_other_sizes_are_damage():
    net = Net()
    net.add("RESHAPE", 0, shape=(127,))
    with pytest.raises(FormatError) as caught:
        made(net, 1)
    assert str(caught.value) == (
        "op 0 RESHAPE, output `t1`: tensor `x` is INT8 [1, 4, 4, 8], the output INT8 [127]\n\n"
        "hint: make the file again; it is damaged or its exporter has a defect"
    )


def test_every_operator_without_calls_is_named():
    net = Net()
    y = net.add("SIN", net.add("COS", 0))
    with pytest.raises(UnsupportedError) as caught:
        made(net, y)
    assert str(caught.value) == (
        "2 operators cannot be compiled:\n  op 0: no COS here\n  op 1: no SIN here\n\nhint: leave it out"
    )


def test_scratch_memory_of_every_operator_is_known():
    for operator in catalogue.OPERATORS:
        params = operator.params.from_words((1,) * operator.params.word_count())
        assert len(catalogue.scratch(operator, params)) == len(operator.scratch), operator.name
    assert len(catalogue.BY_SYMBOL) == len(catalogue.OPERATORS)
