"""Bundles in this process: the bytes of the runtime and the driver, step by step too, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import store
from tests.board import programs
from tests.board.conftest import Built
from tests.board.models import MODELS
from tests.frontend.ethosu import networks

from deuteron import api
from deuteron.board import host_executor, image
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.builds import manifest
from deuteron.errors import FormatError, InputError, MissingToolError, UnsupportedError
from deuteron.runtime.driver import Driver
from deuteron.runtime.host import HostRunner


def two() -> Bundle:
    return translate(programs.two_partitions(), name="two")


def drawn(bundle: Bundle, seed: int = 0) -> list[host_executor.Array]:
    """Random inputs of a bundle whose inputs are int8."""
    generator = np.random.default_rng(seed)
    return [generator.integers(-128, 128, bundle.values[i].shape, np.int8) for i in bundle.inputs]


def test_partitions_give_the_drivers_bytes():
    """Nothing is left over from the first run."""
    bundle = translate(programs.channels_first(), name="crossed")
    executor = HostExecutor(bundle)
    for seed in range(2):
        a, b = drawn(bundle, seed)
        s, m = executor.run([a, b])
        wanted = Driver().run(programs.ADD, [x.transpose(0, 2, 3, 1).tobytes() for x in (b, a)])
        assert [x.transpose(0, 2, 3, 1).tobytes() for x in (m, s)] == wanted


def test_steps_give_what_a_run_gives():
    bundle = two()
    executor, inputs = HostExecutor(bundle), drawn(two())
    outputs = executor.run(inputs)
    values = {}
    for result in executor.values(inputs):
        values |= dict(zip(bundle.steps[result.index].outputs, result.outputs, strict=True))
    assert len(bundle.steps) > 2
    assert [values[i].tobytes() for i in bundle.outputs] == [y.tobytes() for y in outputs]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["conv_channels_last", "two", "view", "digits"])
def test_builds_for_a_neutron_give_executorchs_bytes(name: str, built: Built):
    need_equal(built(name))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [("view", "cortex-m55"), ("stripes_on_cpu", "cortex-m33")])
def test_builds_for_a_cpu_give_executorchs_bytes(name: str, target: str):
    need_equal(store.network(MODELS[name], name, target=target))


@pytest.mark.slow
def test_builds_for_an_ethosu_give_executorchs_bytes():
    need_equal(networks.built(networks.layer))


def need_equal(directory: Path) -> None:
    """Check a build on three samples."""
    executor, runner = HostExecutor(image.bundle_of(directory)), HostRunner(directory / manifest.PROGRAM)
    for inputs in api.seeded_inputs(runner, 3):
        ours, theirs = executor.run(inputs), runner.run(inputs)
        assert [(y.shape, y.dtype) for y in ours] == [(y.shape, y.dtype) for y in theirs]
        assert [y.tobytes() for y in ours] == [y.tobytes() for y in theirs]


def test_inputs_have_the_programs_number_shapes_and_types():
    executor, inputs = HostExecutor(two()), drawn(two())
    with pytest.raises(InputError) as caught:
        executor.run(inputs[:1])
    assert str(caught.value) == "the program has 2 inputs, 1 were given\n\nhint: give one array per input"
    with pytest.raises(InputError) as caught:
        executor.run([inputs[0].astype(np.int16), inputs[1]])
    assert caught.value.message == "input 0 is int8 (1, 3, 5, 4), an array int16 (1, 3, 5, 4) was given"


def no_such_operator(bundle: Bundle) -> Bundle:
    return replace(bundle, operators=("dtn_op_absent", *bundle.operators[1:]))


def bad_parameter(bundle: Bundle) -> Bundle:
    at = next(i for i, step in enumerate(bundle.steps) if step.kind is StepKind.OPERATOR)
    step = replace(bundle.steps[at], params=bundle.steps[at].params[:-1])
    return replace(bundle, steps=(*bundle.steps[:at], step, *bundle.steps[at + 1 :]))


def short_memory(bundle: Bundle) -> Bundle:
    return replace(bundle, memories=(replace(bundle.memories[0], bytes=16), *bundle.memories[1:]))


@pytest.mark.parametrize(
    ("damage", "kind", "message", "where"),
    [
        (no_such_operator, UnsupportedError, "`dtn_op_absent` of `two` is not in the executor of this computer", None),
        (
            bad_parameter,
            FormatError,
            "the executor refuses the program: a CPU operator got unsupported values or parameters",
            "step 1, quantized_decomposed::dequantize_per_tensor.out",
        ),
        (
            short_memory,
            FormatError,
            "the executor refuses the program: a value of the bundle leaves its memory or has an unknown type",
            "input 0",
        ),
    ],
)  # fmt: skip
def test_what_the_executor_refuses_is_told_in_its_words(
    damage: Callable[[Bundle], Bundle], kind: type[Exception], message: str, where: str | None
):
    with pytest.raises(kind) as caught:
        HostExecutor(damage(two()))
    assert (caught.value.message, caught.value.where) == (message, where)


def test_a_library_of_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host_executor, "_LAYOUT", (*host_executor._LAYOUT[:-1], 0))
    host_executor._load.cache_clear()
    try:
        with pytest.raises(MissingToolError) as caught:
            HostExecutor(two())
    finally:
        host_executor._load.cache_clear()
    assert caught.value.message == "the native library `libdeuteron_executor.so` was built from other sources"
