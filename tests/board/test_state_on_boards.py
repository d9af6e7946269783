"""State in images: a build with state on emulated boards, its memory plan, and the steps of its profile."""

from pathlib import Path

import numpy as np
import pytest
from tests.board.test_state import stream
from tests.runtime.crafted_programs import Crafted, number, placed, truth
from tests.runtime.crafted_programs import state as state_value

from deuteron import api
from deuteron.board import boards, firmware_record, image, qemu, report
from deuteron.board import build_directory as directories
from deuteron.board.bundle import State, StateTensor
from deuteron.board.host_executor import HostExecutor
from deuteron.board.toolchain import Toolchain
from deuteron.views.events.instruction_map import Instructions
from deuteron.views.memory.arenas import arena_planning
from deuteron.views.profile.on_board import steps_of


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of a program with state, from its `.pte` file: `y = x + a + b; a = x + a; b = x`."""
    values = (
        number(1),
        placed(0),
        state_value(16, "inner.a"),
        placed(32),
        state_value(48, "b"),
        placed(64),
        truth(False),
    )
    calls = (
        ("call", "aten::add.out", 1, 2, 0, 3, 3),
        ("call", "aten::add.out", 3, 4, 0, 5, 5),
        ("call", "aten::copy_", 2, 3, 6, 2),
        ("call", "aten::copy_", 4, 1, 6, 4),
    )
    program = Crafted(values, calls, inputs=[1], outputs=[5], arena=80)
    path = tmp_path_factory.mktemp("state") / "summing.pte"
    path.write_bytes(program.data())
    return directories.build_directory(path, "cortex-m33")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["an505", "an547"])
def test_boards_stream_in_one_process(build: Path, name: str, tmp_path: Path) -> None:
    """A thousand samples, with resets in between, are the host's bit for bit, and all take equally long."""
    board = boards.load(name)
    made = image.build(build, board, firmware_record.FirmwareOptions(), Toolchain.find(image.OBJECTS))
    image.write(made, tmp_path / "firmware", force=False)
    firmware = firmware_record.read(tmp_path / "firmware")
    assert firmware.state == State(1, (StateTensor("inner.a", 16, 16), StateTensor("b", 32, 16)))
    assert "\nstate        48 B: state, which lasts from one run to the next\n" in report.text(firmware)
    samples = [[x] for x in stream(1000, (4,))]
    ran = qemu.run(tmp_path / "firmware", firmware, board, samples, resets=(0, 300, 301)).runs
    executor = HostExecutor(image.bundle_of(build))
    for i, (x, run) in enumerate(zip(samples, ran, strict=True)):
        if i in (300, 301):
            executor.reset()
        np.testing.assert_array_equal(run.outputs[0], executor.run(x)[0])
    counts = [run.instructions for run in ran]
    assert max(counts) - min(counts) <= 1  # of the counter's tick
    apart = qemu.run(tmp_path / "firmware", firmware, board, samples[:3]).runs
    for x, run in zip(samples, apart, strict=False):
        np.testing.assert_array_equal(run.outputs[0], executor.run_from_reset(x)[0])


@pytest.mark.slow
@pytest.mark.parametrize("resets", [(0,), (0, 2)])
def test_windows_that_run_in_turn_keep_the_state(build: Path, resets: tuple[int, ...]) -> None:
    """Each window has its own emulator, as with `--stream --stream INPUT=OUTPUT`."""
    subject = api.subject(build, on="an505")
    subject.resets = resets
    executor = HostExecutor(image.bundle_of(build))
    samples = [[x] for x in stream(4, (4,))]
    for i, (x, outputs) in enumerate(zip(samples, subject.run_in_turn(samples), strict=True)):
        if i in resets:
            executor.reset()
        np.testing.assert_array_equal(outputs[0], executor.run(x)[0])


@pytest.mark.slow
def test_a_plan_shows_the_state_by_itself(build: Path) -> None:
    plan = arena_planning(build)
    assert plan is not None
    assert plan.summary() == "SRAM: 48 B + 48 B state; nothing depth first"
    assert plan.to_json()["state"] == 48


@pytest.mark.slow
def test_a_profile_has_the_steps_of_the_state(build: Path) -> None:
    bundle = image.bundle_of(build)
    steps = steps_of(bundle, Instructions("", {}, {i: ("aten", i) for i in range(4)}, ()))
    assert [step.name for step in steps] == [
        "aten", "aten", "change of the state: begin", "aten", "aten", "change of the state: end"
    ]  # fmt: skip
