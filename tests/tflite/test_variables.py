"""Resource variables of TFLite files: states of programs give LiteRT's bytes run by run; errors name what is wrong."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.cortex_m.operator_library import OperatorLibrary
from tests.tflite.cortex_m.recurrent_models import MODELS, svdf
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.program_execution import PlannedProgram
from tests.tflite.stateful import Array, StatefulNet

from deuteron.arch.cores import InnerWork
from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.board.host_executor import HostExecutor
from deuteron.board.translate import translate
from deuteron.builds import manifest as manifests
from deuteron.errors import DeuteronError
from deuteron.runtime import pte, tflite_build
from deuteron.runtime.litert import Litert
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.variables import resolved

SHAPE = (1, 4)
RUNS = 50


@pytest.fixture(scope="module")
def c_operators() -> OperatorLibrary:
    return OperatorLibrary(InnerWork.PORTABLE)


def values(seed: int, shape: tuple[int, ...] = SHAPE) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


def program_of(net: StatefulNet, folder: Path, target: str = "cortex-m55") -> bytes:
    path = folder / "net.tflite"
    path.write_bytes(net.file())
    return tflite_build.build_of(path, target)[1]["model.pte"]


def copies(program: bytes) -> int:
    (method,) = pte.read(program, "the program").methods
    names = [method.operators[step.operator] for step in method.chains[0] if hasattr(step, "operator")]
    return names.count("firmware::dtn_cm_copy.out")


def compare(c_operators: OperatorLibrary, net: StatefulNet, folder: Path) -> bytes:
    """Compare runs with LiteRT's, from the initial state, and from it again; return the program."""
    program = program_of(net, folder)
    ours, rng = PlannedProgram(c_operators, program), np.random.default_rng(0)
    executor = HostExecutor(translate(pte.read(program), name="net"))
    stream = [[_drawn(rng, net, index) for index in net.inputs] for _ in range(RUNS)]
    for runs in (stream, stream[:2]):
        reference = Litert(net.file())
        ours.reset()
        executor.reset()
        for step, inputs in enumerate(runs):
            for *found, wanted in zip(ours.run(inputs), executor.run(inputs), reference.run(inputs), strict=True):
                for result in found:
                    np.testing.assert_array_equal(result, wanted, f"run {step}")
    return program


def _drawn(rng: np.random.Generator, net: StatefulNet, index: int) -> Array:
    tensor = net.tensors[index]
    if tensor.dtype == "FLOAT32":
        return rng.standard_normal(tensor.shape).astype(np.float32)
    return rng.integers(-100, 101, tensor.shape).astype(tensor.dtype.lower())


def window(net: StatefulNet) -> None:
    """The last four of a stream, in which each run has one more."""
    x, handle = net.input((1, 1)), net.variable("window", values(1))
    old = net.read(handle, SHAPE)
    joined = net.add("CONCATENATION", [old, x], (1, 5), kind="ConcatenationOptions", options={"Axis": 1})
    begin, size = (net.tensor((2,), "INT32", np.array(each, np.int32)) for each in ([0, 1], [1, 4]))
    new = net.add("SLICE", [joined, begin, size], SHAPE, kind="SliceOptions")
    net.assign(handle, new)
    net.outputs.append(joined)


def read_after_assign(net: StatefulNet) -> None:
    x, handle = net.input(SHAPE), net.variable("v", values(2))
    before = net.read(handle, SHAPE)
    net.assign(handle, largest(net, x, before))
    net.outputs += [largest(net, before, before), net.read(handle, SHAPE)]


def largest(net: StatefulNet, a: int, b: int) -> int:
    return net.add("MAXIMUM", [a, b], SHAPE, kind="MaximumMinimumOptions")


def delay_line(net: StatefulNet) -> None:
    x = net.input(SHAPE)
    handles = [net.variable(f"v{i}", values(i)) for i in range(3)]
    olds = [net.read(handle, SHAPE) for handle in handles]
    for handle, new in zip(handles, [x, *olds[:2]], strict=True):
        net.assign(handle, new)
    net.outputs += [olds[2], largest(net, olds[0], olds[1])]


def swap(net: StatefulNet) -> None:
    x, a, b = net.input(SHAPE), net.variable("a", values(3)), net.variable("b", values(4))
    old_a, old_b = net.read(a, SHAPE), net.read(b, SHAPE)
    net.assign(a, old_b)
    net.assign(b, old_a)
    net.outputs += [largest(net, x, old_a), old_b]


def swap_of_one_name(net: StatefulNet) -> None:
    """Both values that are read have the name `v`."""
    swap(net)
    for read in (op.outputs[0] for op in net.operators if op.name == "READ_VARIABLE"):
        net.tensors[read] = replace(net.tensors[read], name="v")


def two_reads(net: StatefulNet) -> None:
    x, handle = net.input(SHAPE), net.variable("v", values(5))
    one, two = net.read(handle, SHAPE), net.read(handle, SHAPE)
    net.assign(handle, x)
    net.outputs += [largest(net, one, two), two, net.read(handle, SHAPE)]


def constant(net: StatefulNet) -> None:
    """A variable that nothing assigns."""
    x, handle = net.input(SHAPE), net.variable("v", values(6))
    net.outputs += [largest(net, x, net.read(handle, SHAPE)), net.read(handle, SHAPE)]


def assigned_constant(net: StatefulNet) -> None:
    x, handle = net.input(SHAPE), net.variable("v", values(7))
    net.outputs.append(largest(net, x, net.read(handle, SHAPE)))
    net.assign(handle, net.tensor(SHAPE, data=values(8)))


def assigned_twice(net: StatefulNet) -> None:
    x, handle = net.input(SHAPE), net.variable("v", values(9))
    old = net.read(handle, SHAPE)
    net.assign(handle, x)
    net.assign(handle, largest(net, net.read(handle, SHAPE), old))
    net.outputs.append(net.read(handle, SHAPE))


def inside_a_run(net: StatefulNet) -> None:
    """A variable that is assigned before it is read: no state."""
    x, handle = net.input(SHAPE), net.variable("v", values(10))
    net.assign(handle, largest(net, x, x))
    net.outputs.append(net.read(handle, SHAPE))


def shared_value(net: StatefulNet) -> None:
    """Two variables with the same next value, which is an output too."""
    x, a, b = net.input(SHAPE), net.variable("a", values(11)), net.variable("b", values(12))
    new = largest(net, largest(net, x, net.read(a, SHAPE)), net.read(b, SHAPE))
    net.assign(a, new)
    net.assign(b, new)
    net.outputs.append(new)


def float_sum(net: StatefulNet) -> None:
    x = net.input(SHAPE, "FLOAT32")
    handle = net.variable("sum", np.full(SHAPE, 1.5, np.float32))
    new = net.add("ADD", [net.read(handle, SHAPE, "FLOAT32"), x], SHAPE, "FLOAT32", "AddOptions")
    net.assign(handle, new)
    net.outputs.append(new)


def other_shape(net: StatefulNet) -> None:
    """The next value is another view of a result."""
    x, handle = net.input((4, 1)), net.variable("v", values(13))
    view = net.add("RESHAPE", [net.read(handle, SHAPE)], (4, 1), kind="ReshapeOptions", options={"NewShape": (4, 1)})
    sum_ = net.add("MAXIMUM", [view, x], (4, 1), kind="MaximumMinimumOptions")
    net.assign(handle, net.add("RESHAPE", [sum_], SHAPE, kind="ReshapeOptions", options={"NewShape": SHAPE}))
    net.outputs.append(view)


def longer_than_a_dimension(net: StatefulNet) -> None:
    """Copies longer than 65,536 bytes: of a state, and of an input that is an output in another shape."""
    size = 65_537
    x, handle = net.input((1, size)), net.variable("v", values(14, (1, size)))
    net.outputs.append(net.read(handle, (1, size)))
    net.assign(handle, x)
    net.outputs.append(net.add("RESHAPE", [x], (size,), kind="ReshapeOptions", options={"NewShape": (size,)}))


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (longer_than_a_dimension, 8),
        (window, 4),
        (read_after_assign, 2),
        (delay_line, 7),
        (swap, 5),
        (swap_of_one_name, 5),
        (two_reads, 4),
        (constant, 0),
        (assigned_constant, 1),
        (assigned_twice, 2),
        (inside_a_run, 0),
        (shared_value, 4),
        (float_sum, 2),
        (other_shape, 2),
    ],
)
def test_runs_equal_litert(
    c_operators: OperatorLibrary, tmp_path: Path, make: Callable[[StatefulNet], None], count: int
) -> None:
    net = StatefulNet()
    make(net)
    assert copies(compare(c_operators, net, tmp_path)) == count


@pytest.mark.parametrize("seed", full.first(range(40), 16))
def test_random_programs_equal_litert(c_operators: OperatorLibrary, tmp_path: Path, seed: int) -> None:
    rng, net = np.random.default_rng(seed), StatefulNet()
    known = [net.input(SHAPE) for _ in range(int(rng.integers(1, 3)))]
    handles = [net.variable(f"v{i}", values(i)) for i in range(int(rng.integers(1, 4)))]
    for _ in range(int(rng.integers(3, 14))):
        match int(rng.integers(4)):
            case 0:
                known.append(net.read(int(rng.choice(handles)), SHAPE))
            case 1:
                net.assign(int(rng.choice(handles)), int(rng.choice(known)))
            case 2:
                known.append(largest(net, int(rng.choice(known)), int(rng.choice(known))))
            case _:
                operands = [int(rng.choice(known)), int(rng.choice(known))]
                known.append(net.add("ADD", operands, SHAPE, kind="AddOptions"))
    net.outputs += sorted({int(i) for i in rng.choice(known, int(rng.integers(1, 4)))} | {known[-1]})
    compare(c_operators, net, tmp_path)


NPUS = ("imxrt700cm", "ethos-u55-128")
AROUND = [(make, target) for make in (window, swap, shared_value, other_shape) for target in NPUS]


@pytest.mark.parametrize(
    ("make", "target"), full.only(AROUND, *AROUND[::2], (swap, "ethos-u55-128"), (other_shape, "ethos-u55-128"))
)
def test_states_last_around_partitions(tmp_path: Path, make: Callable[[StatefulNet], None], target: str) -> None:
    net, path = StatefulNet(), tmp_path / "net.tflite"
    make(net)
    path.write_bytes(net.file())
    build = build_directory(path, target)
    assert manifests.read(build).partitions
    executor, reference, rng = HostExecutor(image.bundle_of(build)), Litert(net.file()), np.random.default_rng(0)
    for run in range(20):
        inputs = [_drawn(rng, net, index) for index in net.inputs]
        for found, wanted in zip(executor.run(inputs), reference.run(inputs), strict=True):
            np.testing.assert_array_equal(found, wanted, f"run {run}")


OPERATORS = [(name, target) for name in MODELS for target in ("cortex-m55", *NPUS)]


@pytest.mark.parametrize(("name", "target"), full.only(OPERATORS, *OPERATORS[::3], *OPERATORS[:3]))
def test_operators_with_states_run_on_the_cpu(tmp_path: Path, name: str, target: str) -> None:
    rng = np.random.default_rng(5)
    model, path = MODELS[name](rng), tmp_path / "net.tflite"
    path.write_bytes(encode(model))
    executor, reference = HostExecutor(image.bundle_of(build_directory(path, target))), Litert(encode(model))
    for run in range(20):
        inputs = random_inputs(model, rng)
        for found, wanted in zip(executor.run(inputs), reference.run(inputs), strict=True):
            np.testing.assert_array_equal(found, wanted, f"run {run}")


def test_a_state_that_is_changed_in_place_is_longer_than_a_dimension(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model, path = svdf(rng, 1, 8, 20, 2, 1000), tmp_path / "net.tflite"
    path.write_bytes(encode(model))
    executor = HostExecutor(image.bundle_of(build_directory(path, "cortex-m55")))
    reference = Litert(encode(model))
    for _ in range(3):
        inputs = random_inputs(model, rng)
        np.testing.assert_array_equal(executor.run(inputs)[0], reference.run(inputs)[0])


def test_what_no_call_once_sets_starts_with_zeros(tmp_path: Path) -> None:
    net = StatefulNet()
    x, handle = net.input(SHAPE), net.variable("v", None)
    net.outputs.append(largest(net, x, net.read(handle, SHAPE)))
    net.assign(handle, x)
    found = resolved(net.file(), decode(net.file(), partial=True))
    assert [(state.name, state.initial) for state in found.model.states] == [("v", bytes(4))]
    assert found.notes == ("nothing initialises the variable `v`; it starts with zeros",)


def _late(net: StatefulNet) -> None:
    x, handle = net.input(SHAPE), net.variable("v", values(1))
    net.outputs.append(largest(net, x, net.read(handle, (1, 3))))
    net.assign(handle, x)


def _foreign(net: StatefulNet) -> None:
    net.input(SHAPE)
    net.outputs.append(net.add("SHAPE", [net.variable("v", values(1))], (0,), "INT32"))


def _no_handle(net: StatefulNet) -> None:
    x = net.input(SHAPE)
    net.variable("v", values(1))
    net.outputs.append(net.read(x, SHAPE))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            _late,
            "tensor `t0`: variable `v` is INT8 [1, 3], it is assigned INT8 [1, 4]\n\n"
            "hint: make the file again; it is damaged or its exporter has a defect",
        ),
        (
            _foreign,
            "operator 2 (SHAPE): it takes the variable `v` itself\n\n"
            "hint: only READ_VARIABLE and ASSIGN_VARIABLE of the main subgraph are allowed",
        ),
        (
            _no_handle,
            "operator 2 (READ_VARIABLE): its first operand is no handle of a variable\n\n"
            "hint: make the file again; it is damaged or its exporter has a defect",
        ),
    ],
)
def test_errors(make: Callable[[StatefulNet], None], message: str) -> None:
    net = StatefulNet()
    make(net)
    with pytest.raises(DeuteronError) as caught:
        resolved(net.file(), decode(net.file(), partial=True))
    assert str(caught.value) == message
