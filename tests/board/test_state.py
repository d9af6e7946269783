"""State: tensors that last from one run to the next, in bundles and on the host."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests import store
from tests.board.conftest import Built
from tests.board.host import HostFirmware
from tests.board.models import stripes_on_cpu
from tests.board.painted import OPERATORS, PAINT, painted
from tests.board.programs import ADD, Maker, payload
from tests.frontend.ethosu import networks

from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.board import boards, firmware_record, image, qemu, state
from deuteron.board.arena import planned
from deuteron.board.bundle import Bundle, State, StateTensor
from deuteron.board.emit import emit
from deuteron.board.host_executor import HostExecutor
from deuteron.board.link import link
from deuteron.board.memory_check import hazards
from deuteron.board.toolchain import Toolchain
from deuteron.board.translate import translate
from deuteron.builds import manifest as manifests
from deuteron.errors import CapacityError, FormatError, UnsupportedError
from deuteron.operators.program import KernelCall
from deuteron.runtime import pte
from deuteron.runtime.program import Program, TensorSpec, TensorValue

Floats = npt.NDArray[np.float32]

CORE = "cortex-m55"
WHOLE, STRIPES = MemoryOptions(), MemoryOptions(depth_first=DepthFirst.ALWAYS)
FIRST = np.array([[1, -2, 3, 4]], np.float32)


def add(make: Maker, a: int, b: int, out: int) -> None:
    """A call of `add` of floats."""
    make.call("aten::add.out", a, b, make.value(1), out, out)


def summing() -> Program:
    """`y = x + a + b; a = x + a; b = x`: `a` starts with `FIRST`, `b` with zeros; both are between other tensors."""
    make = Maker()
    x = make.tensor((1, 4), "float32")
    b = make.state((1, 4), bytes(16), "float32", "b")
    t = make.tensor((1, 4), "float32")
    a = make.state((1, 4), FIRST.tobytes(), "float32", "inner.a")
    y = make.tensor((1, 4), "float32")
    add(make, x, a, t)
    add(make, t, b, y)
    make.copy_into(a, t)
    make.copy_into(b, x)
    return make.program((x,), (y,))


class Summing:
    """Return the outputs of `summing`."""

    def __init__(self) -> None:
        self.a, self.b = FIRST, np.zeros((1, 4), np.float32)

    def run(self, x: Floats) -> Floats:
        y = x + self.a + self.b
        self.a, self.b = x + self.a, x
        return y


def stream(count: int, shape: tuple[int, ...] = (1, 4), seed: int = 0) -> list[Floats]:
    """Samples of a stream."""
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape).astype(np.float32) for _ in range(count)]


def with_state(program: Program) -> Program:
    """A program whose input is the sum of the last two samples, and whose output is the sum of all outputs."""
    (method,) = (method for method in program.methods if method.name == "forward")
    make = Maker(
        [*method.values], [*method.operators], [*method.delegates], [], method.arenas[1] + -method.arenas[1] % 16
    )
    x, y = method.inputs[0], method.outputs[0]
    sizes = {end: value.spec for end in (x, y) if isinstance(value := method.values[end], TensorValue)}
    given = make.tensor(sizes[x].shape, "float32", sizes[x].dim_order)
    last = make.state(sizes[x].shape, bytes(4 * int(np.prod(sizes[x].shape))), "float32", "last")
    make.change(last, spec=sizes[x])
    total = make.state(sizes[y].shape, np.ones(sizes[y].shape, np.float32).tobytes(), "float32", "total")
    out = make.tensor(sizes[y].shape, "float32")
    add(make, given, last, x)
    make.instructions += method.chains[0]
    add(make, y, total, out)
    make.copy_into(last, given)
    make.copy_into(total, out)
    return make.program((given,), (out,))


@pytest.fixture(scope="module")
def striped() -> Bundle:
    """A network with state at its start and its end, whose layers between can run in stripes."""
    build = store.network(stripes_on_cpu, "stripes_on_cpu", target=CORE)
    return translate(with_state(pte.read((build / manifests.PROGRAM).read_bytes())), name="striped")


@pytest.fixture(scope="module")
def whole() -> Bundle:
    """The same network without state."""
    build = store.network(stripes_on_cpu, "stripes_on_cpu", target=CORE)
    return translate(pte.read((build / manifests.PROGRAM).read_bytes()), name="whole")


def streamed(whole: Bundle, samples: list[Floats]) -> list[Floats]:
    """Return the outputs of the network with state, computed by the one without."""
    executor, (y,) = HostExecutor(whole), whole.outputs
    last = np.zeros_like(samples[0])
    total: Floats = np.ones(whole.values[y].shape, np.float32)
    outputs: list[Floats] = []
    for x in samples:
        (own,) = executor.run([x + last])
        total, last = own.astype(np.float32) + total, x
        outputs.append(total)
    return outputs


def test_tensors_of_the_state_have_a_memory_of_their_own() -> None:
    bundle = translate(summing(), name="summing")
    assert [memory.bytes for memory in bundle.memories] == [48, 48, 0]
    assert bundle.memories[1].note == "state, which lasts from one run to the next"
    assert bundle.state == State(1, (StateTensor("b", 16, 16), StateTensor("inner.a", 32, 16)))
    assert (bundle.planned_bytes, bundle.state_bytes) == (48, 48)
    places = {value.note: (value.memory, value.offset) for value in bundle.values}
    assert places["input 0"] == (0, 0)
    assert places["output 0"] == (0, 32)
    assert places["status of the state"] == (1, 0)
    assert [bundle.operators[step.index] for step in bundle.steps] == [
        "dtn_op_add", "dtn_op_add", state.BEGIN, "dtn_cm_copy", "dtn_cm_copy", state.END
    ]  # fmt: skip
    begin = bundle.steps[2]
    assert begin.params == (16, 0)
    assert [bundle.constants[bundle.values[i].memory - 0x10000] for i in begin.inputs] == [FIRST.tobytes()]


def test_equal_initial_bytes_are_no_constant() -> None:
    make = Maker()
    x = make.tensor((16,))
    made = [make.state((size,), bytes([value] * size)) for size, value in ((16, 7), (3, 7), (1, 200), (32, 0))]
    for index in made[:1]:
        make.copy_into(index, x)
    bundle = translate(make.program((x,), (x,)), name="filled")
    assert bundle.constants == ()
    assert bundle.steps[0].params == (32, 7, 16, 200, 32, 0)
    executor = HostExecutor(bundle)
    assert executor.save_state()[16:] == bytes([7] * 32 + [200] * 16 + [0] * 32)
    executor.run([np.arange(16, dtype=np.int8)])
    assert executor.save_state()[16:32] == bytes(range(16))


@pytest.mark.parametrize("memory", [None, WHOLE, STRIPES], ids=["executorch", "whole", "stripes"])
def test_runs_carry_the_state_until_a_reset(memory: MemoryOptions | None) -> None:
    bundle = translate(summing(), name="summing")
    executor = HostExecutor(bundle if memory is None else planned(bundle, memory, CORE).bundle)
    for seed in range(3):
        reference = Summing()
        for x in stream(20, seed=seed):
            np.testing.assert_array_equal(executor.run([x])[0], reference.run(x))
        executor.reset()
    (x,) = stream(1)
    for _ in range(2):
        np.testing.assert_array_equal(executor.run_from_reset([x])[0], Summing().run(x))


def test_a_saved_state_goes_on_in_another_executor() -> None:
    bundle = planned(translate(summing(), name="summing"), WHOLE, CORE).bundle
    first, second, reference = HostExecutor(bundle), HostExecutor(bundle), Summing()
    samples = stream(10)
    for x in samples[:5]:
        first.run([x])
        reference.run(x)
    saved = first.save_state()
    assert len(saved) == bundle.state_bytes
    second.load_state(saved)
    for x in samples[5:]:
        np.testing.assert_array_equal(second.run([x])[0], reference.run(x))
    with pytest.raises(FormatError) as caught:
        second.load_state(saved[:-1] + bytes([saved[-1] ^ 1]))
    message = "a saved state is damaged or of another program, or this one has no state"
    assert caught.value.message == f"the state cannot be loaded: {message}"


def go_on(file: Path, begin: int, end: int) -> Floats:
    """Run samples of a stream from the saved state, if the file exists, save the state, and return the last output."""
    executor = HostExecutor(planned(translate(summing(), name="summing"), WHOLE, CORE).bundle)
    if file.exists():
        executor.load_state(file.read_bytes())
    outputs = [executor.run([x])[0] for x in stream(10)[begin:end]]
    file.write_bytes(executor.save_state())
    return outputs[-1]


@pytest.mark.full
def test_a_saved_state_goes_on_in_another_process(tmp_path: Path) -> None:
    code = "import sys, tests.board.test_state as t; t.go_on(t.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))"
    for part in ((0, 3), (3, 7)):
        command = [sys.executable, "-c", code, str(tmp_path / "state"), *map(str, part)]
        subprocess.run(command, cwd=Path(__file__).parents[2], check=True)
    reference = Summing()
    wanted = [reference.run(x) for x in stream(10)]
    np.testing.assert_array_equal(go_on(tmp_path / "state", 7, 10), wanted[-1])


def test_an_abandoned_run_leaves_the_state_as_it_was() -> None:
    executor, reference = HostExecutor(translate(summing(), name="summing")), Summing()
    for x in stream(4):
        abandoned = executor.values([2 * x])
        next(abandoned), next(abandoned)
        np.testing.assert_array_equal(executor.run([x])[0], reference.run(x))


def test_a_change_of_the_state_is_one_step() -> None:
    executor, reference = HostExecutor(translate(summing(), name="summing")), Summing()
    for x in stream(3):
        stepped = executor.values([x])
        for _ in range(3):  # the sums, and what begins the change
            next(stepped)
        reference.run(x)
        np.testing.assert_array_equal(executor.run([x])[0], reference.run(x))


def test_an_output_may_be_a_tensor_of_the_state() -> None:
    make = Maker()
    x, t = make.tensor((1, 4), "float32"), make.tensor((1, 4), "float32")
    a = make.state((1, 4), FIRST.tobytes(), "float32")
    add(make, x, a, t)
    make.copy_into(a, t)
    bundle = translate(make.program((x,), (a,)), name="direct")
    for each in (bundle, planned(bundle, WHOLE, CORE).bundle):
        executor, total = HostExecutor(each), FIRST
        for x in stream(5):
            total = x + total
            np.testing.assert_array_equal(executor.run([x])[0], total)


def test_views_are_the_same_state() -> None:
    """ExecuTorch gives a view the place and the initial content of its tensor."""
    make = Maker()
    x, t = make.tensor((2, 2), "float32"), make.tensor((2, 2), "float32")
    a = make.state((1, 4), FIRST.tobytes(), "float32", "a")
    view = make.value(make.values[a])
    make.change(view, spec=TensorSpec((2, 2), "float32", (0, 1)))
    add(make, x, view, t)
    make.copy_into(view, t)
    program = make.program((x,), (a,))
    assert [index for index, _ in program.methods[0].state] == [a]
    executor, total = HostExecutor(planned(translate(program, name="view"), WHOLE, CORE).bundle), FIRST
    for x in stream(5):
        total = x + total
        np.testing.assert_array_equal(executor.run([x.reshape(2, 2)])[0], total)


def test_a_state_as_input_is_refused() -> None:
    make = Maker()
    x = make.state((4,), bytes(4))
    with pytest.raises(UnsupportedError) as caught:
        translate(make.program((x,), (x,)), name="")
    assert caught.value.message == "input 0 is a tensor that keeps its content between runs"


def test_a_state_without_initial_value_is_refused() -> None:
    """ExecuTorch writes such files; its runtime starts with what happens to be in memory."""
    make = Maker()
    x, old, y = (make.tensor((1, 4), "float32") for _ in range(3))
    add(make, x, old, y)
    make.copy_into(old, x)
    with pytest.raises(UnsupportedError) as caught:
        translate(make.program((x,), (y,)), name="")
    assert caught.value.message == (
        "the tensor read by aten::add.out is read before it is written: it keeps its content between runs, and the "
        "file has no initial value for it"
    )
    assert caught.value.where == "instruction 1 of `forward`"
    assert caught.value.hint == (
        "build the model with `deuteron build`, or export it with ExecuTorch's `InitializedMutableBufferPass`"
    )


def test_a_copy_into_a_state_of_another_type_is_refused() -> None:
    make = Maker()
    x, a = make.tensor((4,), "int16"), make.state((4,), bytes(4))
    make.copy_into(a, x)
    with pytest.raises(UnsupportedError, match="`aten::copy_` converts int16 to int8, firmware copies within one type"):
        translate(make.program((x,), (x,)), name="")


def test_a_copy_into_a_state_repeats_its_source() -> None:
    make = Maker()
    x, a = make.tensor((1, 3)), make.state((2, 3), bytes(6))
    make.copy_into(a, x)
    executor = HostExecutor(translate(make.program((x,), (a,)), name="repeated"))
    (y,) = executor.run([np.array([[1, 2, 3]], np.int8)])
    assert y.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_the_header_names_the_memory_and_its_tensors() -> None:
    header = emit(translate(summing(), name="summing"))["dtn_bundle.h"].decode()
    assert (
        "#define DTN_BUNDLE_STATE_MEMORY 1\n#define DTN_BUNDLE_STATE_BYTES 48\n"
        "/* Bytes that `dtn_executor_save_state` writes. */\n#define DTN_BUNDLE_SAVED_STATE_BYTES 48\n"
        "/* byte 16: b, 16 bytes */\n/* byte 32: inner.a, 16 bytes */\n"
    ) in header
    make = Maker()
    x = make.tensor((4,))
    plain = emit(translate(make.program((x,), (x,)), name="plain"))
    assert not any("state" in text.decode(errors="replace").lower() for text in plain.values())


def test_steps_of_the_change_have_a_kind_of_their_own() -> None:
    text = emit(translate(summing(), name="summing"))["dtn_bundle.c"].decode()
    kinds = [line.split(",")[0].strip(" {") for line in text.splitlines() if line.startswith("    {DTN_STEP_")]
    assert kinds == ["DTN_STEP_OPERATOR"] * 2 + ["DTN_STEP_CHANGE"] * 4


def test_an_npu_reads_and_writes_a_state() -> None:
    """A partition whose first input is a state and whose first output becomes it, and a second output."""
    make = Maker()
    shape = (1, 3, 5, 4)
    b = make.tensor(shape)
    a = make.state(shape, bytes(60), name="a")
    s, m = make.tensor(shape), make.tensor(shape)
    make.partition(payload(ADD, (0, 0)), a, b, s, m)
    make.copy_into(a, s)
    program = make.program((b,), (m,))
    bundle = translate(program, name="partition")
    assert not any(value.memory == len(bundle.memories) - 1 for value in bundle.values)  # nothing in scratch
    make = Maker()
    a, b, s, m = (make.tensor(shape) for _ in range(4))
    make.partition(payload(ADD, (0, 0)), a, b, s, m)
    executor, plain = HostExecutor(bundle), HostExecutor(translate(make.program((a, b), (s, m)), name="plain"))
    last = np.zeros(shape, np.int8)
    generator = np.random.default_rng(1)
    for _ in range(10):
        x = generator.integers(-128, 128, shape, np.int8)
        wanted = plain.run([last, x])
        np.testing.assert_array_equal(executor.run([x])[0], wanted[1])
        last = wanted[0]


def test_a_budget_holds_the_state() -> None:
    bundle = translate(summing(), name="summing")
    whole = planned(bundle, WHOLE, CORE)
    needed = whole.memory.nbytes + bundle.state_bytes
    assert planned(bundle, MemoryOptions(sram_budget=needed), CORE).memory.nbytes == whole.memory.nbytes
    with pytest.raises(CapacityError) as caught:
        planned(bundle, MemoryOptions(sram_budget=needed - 1), CORE)
    assert caught.value.message == (
        f"inputs, outputs and intermediate tensors need {whole.memory.nbytes} bytes of SRAM in addition to 48 of the "
        f"state, the budget is {needed - 1}; the peak is at `aten::add.out`"
    )
    assert caught.value.hint
    assert f"give `--sram-budget {needed}`" in caught.value.hint


@pytest.mark.slow
@pytest.mark.parametrize("made", ["digits", "ethos-u"])
def test_a_network_on_an_npu_has_state_around_it(made: str, built: Built, tmp_path: Path) -> None:
    """On the host, and in one process of the emulator."""
    build = networks.built(networks.layer) if made == "ethos-u" else built(made)
    program = pte.read((build / manifests.PROGRAM).read_bytes())
    stateful, plain = translate(with_state(program), name="stateful"), translate(program, name="plain")
    samples = stream(5, plain.values[plain.inputs[0]].shape)
    wanted = streamed(plain, samples)
    executor = HostExecutor(stateful)
    for x, y in zip(samples, wanted, strict=True):
        np.testing.assert_array_equal(executor.run([x])[0], y)
    board, options = boards.load("an547"), firmware_record.FirmwareOptions()
    link(stateful, board, options, image.called(stateful), Toolchain.find(image.OBJECTS), tmp_path)
    firmware = replace(
        firmware_record.read(store.firmware(build, board)),
        inputs=tuple(stateful.values[i] for i in stateful.inputs),
        outputs=tuple(stateful.values[i] for i in stateful.outputs),
        state=stateful.state,
    )
    runs = qemu.run(tmp_path, firmware, board, [[x] for x in samples], resets=(0,)).runs
    for run, y in zip(runs, wanted, strict=True):
        np.testing.assert_array_equal(run.outputs[0], y)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [WHOLE, STRIPES], ids=["whole", "stripes"])
def test_a_plan_leaves_the_state_alone(
    striped: Bundle, whole: Bundle, memory: MemoryOptions, firmware: HostFirmware, tmp_path: Path
) -> None:
    """All that a plan says is free is painted before each step, and must be so after it, in each run of a stream."""
    arena = planned(striped, memory, CORE)
    assert bool(arena.chains) == (memory is STRIPES)
    samples = stream(6, whole.values[whole.inputs[0]].shape)
    wanted = streamed(whole, samples)
    executor = HostExecutor(arena.bundle)
    for x, y in zip(samples, wanted, strict=True):
        np.testing.assert_array_equal(executor.run([x])[0], y)
    painting = painted(arena)
    assert sum(painting.operators[step.index] == PAINT for step in painting.steps) >= len(striped.steps)
    loaded = firmware.load(painting, tmp_path / "painted", extra=[OPERATORS])
    order = striped.values[striped.inputs[0]].dim_order
    for x, y in zip(samples, wanted, strict=True):
        assert loaded.run([x.transpose(order).tobytes()]) == [y.tobytes()]


@pytest.mark.slow
@pytest.mark.parametrize("memory", [WHOLE, STRIPES], ids=["whole", "stripes"])
def test_the_checker_finds_what_is_over_the_state(
    striped: Bundle, memory: MemoryOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step that writes to the plan's memory writes to the state instead."""
    plans: list[tuple[Bundle, Bundle, list[KernelCall], list[KernelCall]]] = []
    monkeypatch.setattr("deuteron.board.arena.hazards", lambda *each: plans.append(each) or ())
    planned(striped, STRIPES, CORE)
    before, after, whole, cut = plans[0]
    if memory is WHOLE:
        after, cut = planned(striped, WHOLE, CORE).bundle, whole
    assert hazards(before, after, whole, cut) == []
    assert after.state is not None
    damaged_steps = 0
    for at, step in enumerate(after.steps):
        value = after.values[step.outputs[-1]]
        if value.memory == after.state.memory or value.bytes > after.state_bytes - 16:
            continue
        stray = replace(value, memory=after.state.memory, offset=16)
        others = [*step.inputs, *step.outputs[:-1]]
        if any(after.values[i].memory == after.state.memory for i in others):
            continue
        steps = list(after.steps)
        steps[at] = replace(step, outputs=(*step.outputs[:-1], len(after.values)))
        damaged = replace(after, values=(*after.values, stray), steps=tuple(steps))
        assert hazards(before, damaged, whole, cut), step.title
        damaged_steps += 1
    assert damaged_steps > 5


def test_a_program_without_state_has_nothing_to_reset_or_save() -> None:
    make = Maker()
    x = make.tensor((4,))
    executor = HostExecutor(translate(make.program((x,), (x,)), name="plain"))
    executor.reset()
    with pytest.raises(FormatError, match="this one has no state"):
        executor.save_state()
