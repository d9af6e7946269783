"""Bundles have packed weights where four bits are enough, with the same results."""

from dataclasses import replace

import numpy as np
import pytest
from tests.board.test_larger_weights import SIDE, output, two_layers

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.host_executor import HostExecutor
from deuteron.board.packed_weights import layers, packed
from deuteron.operators.cortex_m import QuantizedConvolutionParams, QuantizedLinearParams

LARGE = 1 << 20
WEIGHTS = 1


def with_small_weights(bundle: Bundle, steps: tuple[int, ...] = (0, 1)) -> Bundle:
    """The bundle with weights of these steps that four bits hold."""
    constants = list(bundle.constants)
    for step in steps:
        index = bundle.values[bundle.steps[step].inputs[WEIGHTS]].memory - MEMORY_CONSTANT
        constants[index] = (np.frombuffer(constants[index], np.int8) // 16).clip(-7, 7).tobytes()
    return replace(bundle, constants=tuple(constants))


@pytest.mark.parametrize("steps", [(), (0,), (1,), (0, 1)], ids=str)
def test_layers_with_small_weights_are_packed(steps: tuple[int, ...]) -> None:
    bundle = with_small_weights(two_layers(), steps)
    after = packed(bundle)
    assert [layer.step for layer in layers(after)] == list(steps)
    assert [(layer.int8_bytes, layer.bytes) for layer in layers(after)] == [
        ((8 * 27, 4 * 27), (8 * 72, 4 * 72))[step] for step in steps
    ]
    saved = sum(map(len, bundle.constants)) - sum(map(len, after.constants))
    assert saved == sum(layer.int8_bytes - layer.bytes for layer in layers(after))
    assert set(after.operators) == {
        "dtn_cm_quantized_conv2d_s4" if step in steps else "dtn_cm_quantized_conv2d" for step in (0, 1)
    }
    assert output(after) == output(bundle)


def test_shared_weights_are_packed_once() -> None:
    """Two layers of one shape read the same constant."""
    bundle = with_small_weights(two_layers())
    steps, second = list(bundle.steps), bundle.steps[1]
    last = len(bundle.values)
    y = bundle.values[second.outputs[1]]
    third = replace(
        second, inputs=(second.outputs[1], *second.inputs[1:]), outputs=(second.outputs[0], last), instruction=2
    )
    shared = replace(
        bundle,
        values=(*bundle.values, replace(y, offset=y.offset + 4 * SIDE * SIDE * 8)),
        steps=(*steps, third), outputs=(last,), memories=(Memory(1 << 15, "tensors"), bundle.memories[-1]),
    )  # fmt: skip
    after = packed(shared)
    assert [layer.step for layer in layers(after)] == [0, 1, 2]
    assert output(after) == output(shared)


def test_weights_that_another_step_reads_stay() -> None:
    bundle = with_small_weights(two_layers())
    weights = bundle.steps[0].inputs[WEIGHTS]
    reader = Step(StepKind.OPERATOR, 1, (weights,), (bundle.outputs[0],), (), "another reader", "", 2)
    read = replace(bundle, steps=(*bundle.steps, reader), operators=(*bundle.operators, "another"))
    assert [layer.step for layer in layers(packed(read))] == [1]


def one_step(function: str, record: object, arrays: list[np.ndarray], shape: tuple[int, ...]) -> Bundle:
    """A bundle of one layer on a row of bytes."""
    x, *others = arrays
    kinds = {np.dtype(np.int8): ElementType.S8, np.dtype(np.int32): ElementType.S32}
    values = [Value(0, 0, x.nbytes, ElementType.S8, x.shape, tuple(range(x.ndim)), "input")]
    values += [
        Value(MEMORY_CONSTANT + at, 0, a.nbytes, kinds[a.dtype], a.shape, tuple(range(a.ndim)), "constant")
        for at, a in enumerate(others)
    ]
    count, outputs = len(values), []
    if "conv" in function:
        values.append(Value(0, 8192, 0, ElementType.U8, (0,), (0,), "scratch"))
        outputs.append(count)
    values.append(Value(0, 4096, int(np.prod(shape)), ElementType.S8, shape, tuple(range(len(shape))), "y"))
    words = tuple(word & 0xFFFFFFFF for word in record.words())  # pyright: ignore[reportAttributeAccessIssue]
    step = Step(StepKind.OPERATOR, 0, tuple(range(count)), (*outputs, len(values) - 1), words, function, "", 0)
    return Bundle(
        "one", tuple(values), (step,), (0,), (len(values) - 1,), (Memory(16384, "tensors"), Memory(0, "no delegates")),
        (function,), tuple(a.tobytes() for a in others), (),
    )  # fmt: skip


def depthwise(multiplier: int) -> tuple[Bundle, np.ndarray]:
    generator = np.random.default_rng(3)
    channels, out = 6, 6 * multiplier
    p = QuantizedConvolutionParams(1, 7, 7, channels, 7, 7, out, channels, 3, 3, 1, 1, 1, 1, 1, 1, 5, -3, -128, 127, 1)
    x = generator.integers(-128, 128, (1, 7, 7, channels)).astype(np.int8)
    arrays = [
        x, generator.integers(-7, 8, (3, 3, out)).astype(np.int8), np.full(out, 1 << 30, np.int32),
        np.full(out, -5, np.int32), np.arange(out, dtype=np.int32),
    ]  # fmt: skip
    return one_step("dtn_cm_quantized_depthwise_conv2d", p, arrays, (1, 7, 7, out)), x


def test_depthwise_layers_are_packed_by_positions() -> None:
    bundle, x = depthwise(1)
    after = packed(bundle)
    assert [(layer.int8_bytes, layer.bytes) for layer in layers(after)] == [(54, 30)]
    np.testing.assert_array_equal(HostExecutor(after).run([x])[0], HostExecutor(bundle).run([x])[0])


def test_depthwise_layers_with_a_multiplier_stay() -> None:
    bundle, _ = depthwise(2)
    assert packed(bundle) == bundle


@pytest.mark.parametrize(("offset", "kernel_sum", "count"), [(0, 1, 1), (1, 1, 0), (0, 0, 0)])
def test_linear_layers(offset: int, kernel_sum: int, count: int) -> None:
    generator = np.random.default_rng(4)
    p = QuantizedLinearParams(2, 20, 5, 3, offset, -3, 1 << 30, -5, -128, 127, 1 - kernel_sum, kernel_sum)
    x = generator.integers(-128, 128, (2, 20)).astype(np.int8)
    arrays = [x, generator.integers(-7, 8, (5, 20)).astype(np.int8), np.arange(5, dtype=np.int32)]
    bundle = one_step("dtn_cm_quantized_linear", p, arrays, (2, 5))
    after = packed(bundle)
    assert len(layers(after)) == count
    np.testing.assert_array_equal(HostExecutor(after).run([x])[0], HostExecutor(bundle).run([x])[0])
