"""Bundles for cores with DSP instructions have interleaved weights, with the same results."""

from dataclasses import replace

import numpy as np
import pytest
from tests.board.test_larger_weights import output, two_layers
from tests.board.test_packed_weights import one_step, with_small_weights

from deuteron.arch.cores import InnerWork
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.board.arena import planned
from deuteron.board.bundle import Bundle, Memory, Step, StepKind
from deuteron.board.host_executor import HostExecutor
from deuteron.board.interleaved_weights import constant_bytes, interleaved
from deuteron.board.packed_weights import packed
from deuteron.operators.cortex_m import QuantizedConvolutionParams, QuantizedLinearParams
from deuteron.operators.interleaved_weights import fits

WEIGHTS = 1
CONVOLUTION = QuantizedConvolutionParams(1, 5, 5, 4, 5, 5, 6, 1, 3, 3, 1, 1, 1, 1, 1, 1, 5, -3, -128, 127, 0, 1)
LINEAR = QuantizedLinearParams(1, 12, 8, 5, 0, -3, 1 << 30, -9, -128, 127, 0, 1)


def changed(bundle: Bundle, step: int, **fields: int) -> Bundle:
    """The bundle with other parameters of a convolution."""
    steps = list(bundle.steps)
    words = tuple(word - (word >> 31 << 32) for word in steps[step].params)
    record = replace(QuantizedConvolutionParams.from_words(words), **fields)
    steps[step] = replace(steps[step], params=tuple(word & 0xFFFFFFFF for word in record.words()))
    return replace(bundle, steps=tuple(steps))


def test_weights_are_interleaved_for_cores_with_dsp() -> None:
    bundle = two_layers()
    after = interleaved(bundle, InnerWork.DSP)
    assert after.operators == ("dtn_cm_interleaved_conv2d",)
    shapes = [after.values[step.inputs[WEIGHTS]].shape for step in after.steps]
    assert shapes == [(4, 3, 5, 4), (4, 3, 12, 4)]  # rows of nine elements have a zero more
    assert constant_bytes(bundle, InnerWork.DSP) == sum(map(len, bundle.constants)) + 8 * 3
    assert output(after) == output(bundle)
    for inner in (InnerWork.PORTABLE, InnerWork.MVE):
        assert interleaved(bundle, inner) == bundle
        assert constant_bytes(bundle, inner) == sum(map(len, bundle.constants))


def test_layers_that_do_not_fit_stay() -> None:
    bundle = changed(two_layers(), 1, act_min=-5)
    after = interleaved(bundle, InnerWork.DSP)
    assert after.operators == ("dtn_cm_interleaved_conv2d", "dtn_cm_quantized_conv2d")
    assert output(after) == output(bundle)


def test_weights_of_four_bits_stay_packed() -> None:
    bundle = packed(with_small_weights(two_layers(), (1,)))
    after = interleaved(bundle, InnerWork.DSP)
    assert set(after.operators) == {"dtn_cm_interleaved_conv2d", "dtn_cm_quantized_conv2d_s4"}
    assert output(after) == output(bundle)


def test_weights_that_another_step_reads_stay() -> None:
    bundle = two_layers()
    reader = Step(StepKind.OPERATOR, 1, (bundle.steps[0].inputs[WEIGHTS],), bundle.outputs, (), "another", "", 2)
    read = replace(bundle, steps=(*bundle.steps, reader), operators=(*bundle.operators, "another"))
    after = interleaved(read, InnerWork.DSP)
    assert [after.operators[step.index] for step in after.steps] == [
        "dtn_cm_quantized_conv2d", "dtn_cm_interleaved_conv2d", "another",
    ]  # fmt: skip


def test_stripes_share_the_weights() -> None:
    bundle = replace(two_layers(), memories=(Memory(1 << 15, "tensors"), two_layers().memories[-1]))
    whole = planned(bundle, MemoryOptions(), "cortex-m33")
    arena = planned(bundle, MemoryOptions(depth_first=DepthFirst.ALWAYS), "cortex-m33")
    assert arena.memory.nbytes < whole.memory.nbytes
    after = interleaved(arena.bundle, InnerWork.DSP)
    assert len(after.steps) > 2
    assert set(after.operators) - {"dtn_cm_copy"} == {"dtn_cm_interleaved_conv2d"}
    assert output(after) == output(bundle)


def test_linear_layers_are_interleaved() -> None:
    generator = np.random.default_rng(3)
    x = generator.integers(-128, 128, (1, 12)).astype(np.int8)
    weights = generator.integers(-128, 128, (8, 12)).astype(np.int8)
    sums = generator.integers(-900, 900, 8).astype(np.int32)
    bundle = one_step("dtn_cm_quantized_linear", LINEAR, [x, weights, sums], (1, 8))
    after = interleaved(bundle, InnerWork.DSP)
    assert after.operators == ("dtn_cm_interleaved_linear",)
    np.testing.assert_array_equal(HostExecutor(after).run([x])[0], HostExecutor(bundle).run([x])[0])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True), ({"in_c": 32}, True), ({"in_c": 36}, False), ({"in_c": 33}, False), ({"out_c": 5}, False),
        ({"groups": 2}, False), ({"dilation_w": 2}, False), ({"dilation_h": 2}, True), ({"act_max": 9}, False),
        ({"act_min": 0}, False), ({"has_kernel_sum": 0}, False), ({"out_h": 1, "out_w": 2}, False),
        ({"out_h": 1, "out_w": 2, "batches": 2}, True), ({"kernel_h": 1, "kernel_w": 1, "in_c": 256}, True),
        ({"kernel_h": 1, "kernel_w": 1, "in_c": 257}, False), ({"kernel_h": 1, "kernel_w": 11, "in_c": 3}, False),
        ({"kernel_h": 1, "kernel_w": 10, "in_c": 3}, True),
    ],
    ids=str,
)  # fmt: skip
def test_convolutions_that_fit(change: dict[str, int], expected: bool) -> None:
    assert fits(replace(CONVOLUTION, **change)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True), ({"in_features": 640}, True), ({"in_features": 644}, False), ({"in_features": 13}, False),
        ({"in_features": 13, "rows": 3}, True), ({"in_features": 644, "rows": 3}, False), ({"out_features": 7}, False),
        ({"out_features": 2}, False), ({"out_features": 2, "rows": 3}, True), ({"weight_offset": 1}, False),
        ({"has_kernel_sum": 0}, False), ({"act_min": 0}, False),
    ],
    ids=str,
)  # fmt: skip
def test_linear_layers_that_fit(change: dict[str, int], expected: bool) -> None:
    assert fits(replace(LINEAR, **change)) == expected
