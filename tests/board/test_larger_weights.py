"""Layers take more flash to be faster, within the budgets and with the same results; the views show which."""

from dataclasses import replace

import numpy as np
import pytest

from deuteron.arch.cores import InnerWork
from deuteron.arch.memory import MemoryOptions, SpeedForFlash
from deuteron.arch.targets import load
from deuteron.board.arena import planned
from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.host_executor import HostExecutor
from deuteron.board.interleaved_weights import constant_bytes
from deuteron.board.larger_weights import Form
from deuteron.errors import CapacityError, OptionError
from deuteron.operators.cortex_m import QuantizedConvolutionParams, gather_bytes

CORE = "cortex-m33"
SIDE = 16
LARGE = 1 << 20


def two_layers(last: int = 0, channels: int = 3) -> Bundle:
    """A convolution of 3 to 8 channels, and one of 8 to 8, on a map of 16x16; `last` is added to all kernel sums."""
    generator = np.random.default_rng(1)
    values = [Value(0, 0, SIDE * SIDE * channels, ElementType.S8, (1, SIDE, SIDE, channels), (0, 1, 2, 3), "input")]
    constants: list[bytes] = []
    steps: list[Step] = []

    def constant(data: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", kind: ElementType) -> int:
        constants.append(data.tobytes())
        order = tuple(range(data.ndim))
        values.append(Value(MEMORY_CONSTANT + len(constants) - 1, 0, data.nbytes, kind, data.shape, order, "constant"))
        return len(values) - 1

    read = 0
    for at, in_c in enumerate((channels, 8)):
        p = QuantizedConvolutionParams(
            1, SIDE, SIDE, in_c, SIDE, SIDE, 8, 1, 3, 3, 1, 1, 1, 1, 1, 1, 5, -3, -128, 127, 0, 1
        )
        numbers = (
            np.full(8, 1 << 30, np.int32), np.full(8, -9, np.int32), np.arange(8, dtype=np.int32) * 100 + last,
        )  # fmt: skip
        inputs = [
            read,
            constant(generator.integers(-128, 128, (8, 3, 3, in_c)).astype(np.int8), ElementType.S8),
            *(constant(data, ElementType.S32) for data in numbers),
        ]
        size = gather_bytes(p)
        values.append(Value(0, 8192, size, ElementType.U8, (size,), (0,), "scratch"))
        values.append(Value(0, 2048 * (1 + at), SIDE * SIDE * 8, ElementType.S8, (1, SIDE, SIDE, 8), (0, 1, 2, 3), "y"))
        read = len(values) - 1
        words = tuple(word & 0xFFFFFFFF for word in p.words())
        steps.append(Step(StepKind.OPERATOR, 0, tuple(inputs), (read - 1, read), words, f"layer {at}", "", at))
    return Bundle(
        "two", tuple(values), tuple(steps), (0,), (read,), (Memory(16384, "tensors"), Memory(0, "no delegates")),
        ("dtn_cm_quantized_conv2d",), tuple(constants), (),
    )  # fmt: skip


def output(bundle: Bundle) -> bytes:
    x = np.random.default_rng(2).integers(-128, 128, bundle.values[bundle.inputs[0]].shape).astype(np.int8)
    (found,) = HostExecutor(bundle).run([x])
    return found.tobytes()


def test_a_budget_makes_layers_faster_with_the_same_results() -> None:
    bundle = two_layers()
    plain, fast = planned(bundle, MemoryOptions(), CORE), planned(bundle, MemoryOptions(flash_budget=LARGE), CORE)
    assert {choice.steps for choice in fast.larger} == {(0,), (1,)}
    assert {choice.form for choice in fast.larger} == {Form.S16, Form.WINOGRAD}
    assert set(fast.bundle.operators) == {choice.form.function for choice in fast.larger}
    added = sum(choice.bytes for choice in fast.larger)
    assert sum(map(len, fast.bundle.constants)) == sum(map(len, plain.bundle.constants)) + added
    assert fast.instructions[0] < 0.75 * plain.instructions[0]
    assert output(fast.bundle) == output(plain.bundle)


def test_two_layers_by_winograds_algorithm() -> None:
    bundle = two_layers(channels=8)
    need = constant_bytes(bundle, InnerWork.DSP)
    for added in (8063, 8064):
        plan = planned(bundle, MemoryOptions(flash_budget=need + added), CORE)
        assert [choice.form for choice in plan.larger].count(Form.WINOGRAD) == (2 if added == 8064 else 1)
        assert output(plan.bundle) == output(bundle)


def test_each_byte_of_the_budget_counts() -> None:
    bundle = two_layers()
    every = planned(bundle, MemoryOptions(flash_budget=LARGE), CORE).larger
    need = constant_bytes(bundle, InnerWork.DSP)
    whole = sum(choice.bytes for choice in every)
    saved = 0
    for added in (0, 263, 264, 575, 576, 839, 840, 3000, whole - 1, whole):
        larger = planned(bundle, MemoryOptions(flash_budget=need + added), CORE).larger
        assert sum(choice.bytes for choice in larger) <= added
        assert saved <= (saved := sum(choice.saved for choice in larger))
        forms = [choice.form for choice in larger]
        assert len(forms) == (0 if added < 264 else 1 if added < 840 else 2)
        assert (Form.WINOGRAD in forms) == (added == whole)
    with pytest.raises(CapacityError, match=f"--flash-budget {need}`"):
        planned(bundle, MemoryOptions(flash_budget=need - 1), CORE)


def test_layers_that_share_weights_stay_within_the_budget() -> None:
    bundle = two_layers()
    last, again = bundle.values[bundle.outputs[0]], len(bundle.values)
    step = bundle.steps[1]
    shared = replace(step, inputs=(bundle.outputs[0], *step.inputs[1:]), outputs=(step.outputs[0], again))
    values = (*bundle.values, replace(last, offset=6144))
    bundle = replace(bundle, values=values, steps=(*bundle.steps, shared), outputs=(again,))
    need = constant_bytes(bundle, InnerWork.DSP)
    for added in (575, 576, 1152, 5000, 7000, LARGE):
        plan = planned(bundle, MemoryOptions(flash_budget=need + added), CORE)
        assert constant_bytes(plan.bundle, InnerWork.DSP) <= need + added
        assert ((1, 2) in [choice.steps for choice in plan.larger]) == (added > 575)
        assert output(plan.bundle) == output(bundle)


def test_none_without_a_budget_without_leave_and_on_other_cores() -> None:
    bundle = two_layers()
    plain = planned(bundle, MemoryOptions(), CORE)
    never = MemoryOptions(flash_budget=LARGE, speed_for_flash=SpeedForFlash.NEVER)
    assert planned(bundle, never, CORE) == plain
    assert planned(bundle, MemoryOptions(flash_budget=LARGE), "cortex-m55").larger == ()
    assert planned(bundle, MemoryOptions(flash_budget=LARGE), "cortex-m3").larger == ()


def test_layers_whose_sums_may_be_too_large_stay_as_they_are() -> None:
    larger = planned(two_layers(1 << 25), MemoryOptions(flash_budget=LARGE), CORE).larger
    assert [choice.form for choice in larger] == [Form.S16] * 2


def test_weights_of_16_bits_give_the_same_results() -> None:
    bundle = two_layers(1 << 25)
    plan = planned(bundle, MemoryOptions(flash_budget=LARGE), CORE)
    assert plan.bundle.operators == ("dtn_cm_interleaved_conv2d",)
    assert output(plan.bundle) == output(bundle)


def test_the_budget_of_memory_comes_first() -> None:
    bundle = two_layers()
    small = planned(bundle, MemoryOptions(), CORE).memory.nbytes
    for sram in (small, small + 1024, small + 2048, small + 8192):
        plan = planned(bundle, MemoryOptions(sram_budget=sram, flash_budget=LARGE), CORE)
        assert plan.memory.nbytes <= sram
        assert output(plan.bundle) == output(bundle)
    assert len(plan.larger) == 2


def test_the_option_is_for_a_cpu_alone() -> None:
    MemoryOptions(flash_budget=4).check(load(CORE))
    for target in ("imxrt700", "ethos-u55-128cm"):
        with pytest.raises(OptionError):
            MemoryOptions(flash_budget=4).check(load(target))
        with pytest.raises(OptionError):
            replace(MemoryOptions(), speed_for_flash=SpeedForFlash.NEVER).check(load(target))
