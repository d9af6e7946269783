"""Boards that restart, fault, start slowly or change their memory: nothing is lost, and errors say what happened."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
from tests import full
from tests.board import harness_device
from tests.board.harness_device import Device, FaultyLine, as_bytes
from tests.board.test_harness import RESETS, bundle, connected, device, on_host, on_host_arrays
from tests.board.test_state import stream

from deuteron.board.bundle import Bundle
from deuteron.board.harness.client import Client
from deuteron.board.harness.program import BoardProgram, BoardRun, UnfinishedError
from deuteron.board.harness.protocol import Area, Command, Identity, RunResult, TickUnit
from deuteron.errors import BoardError
from deuteron.views.compare.board import HostComparison, compare
from deuteron.views.run import first_difference
from deuteron.views.run.line import LineComparison
from deuteron.views.run.step_difference import Finding, StepDifference

__all__ = ["bundle", "device"]  # fixtures
NEVER = 0xFFFFFFFE


class _FaultsAfterRestart(FaultyLine):
    """A line to a board that restarts at the next request after `is_broken` is set, and faults in its preparation."""

    is_broken = False
    reports = 0

    def receive(self, seconds: float) -> bytes:
        if not self.is_broken or not self._up:
            return super().receive(seconds)
        self._up.clear()
        self.device.start()
        self.reports += 1
        return self.device.fault()


@pytest.mark.parametrize("command", [Command.RUN, Command.RESET])
def test_a_fault_after_a_restart_is_reported_at_once(bundle: Bundle, device: Device, command: Command):
    """The report has session 0: the board knows none. The first one counts, long before the time limit."""
    device.start()
    line = _FaultsAfterRestart(device)
    program = harness_device.program(bundle, line, seconds=60, run_seconds=60)
    program.connect()
    line.is_broken = True
    with pytest.raises(BoardError, match="the board restarted, and the processor stopped with a fault: BusFault"):
        program.client.run() if command is Command.RUN else program.client.reset()
    assert line.reports == 1


class _FaultsBeforeRequest(_FaultsAfterRestart):
    """A line to a board that faults before it accepts the next request."""

    def receive(self, seconds: float) -> bytes:
        if not self.is_broken or not self._up:
            return FaultyLine.receive(self, seconds)
        self._up.clear()
        return self.device.fault()


def test_a_fault_before_a_request_is_accepted_is_reported(bundle: Bundle, device: Device):
    """The report has the sequence number of the request before."""
    device.start()
    line = _FaultsBeforeRequest(device)
    program = harness_device.program(bundle, line, seconds=60)
    program.connect()
    line.is_broken = True
    with pytest.raises(BoardError, match=r"^test line: the processor stopped with a fault: BusFault, "):
        program.client.reset()


class _Slow(FaultyLine):
    """A line to a board that loses all bytes until it has started."""

    started = 0.0

    def receive(self, seconds: float) -> bytes:
        if time.monotonic() >= self.started:
            return super().receive(seconds)
        self._up.clear()
        time.sleep(min(seconds, 0.01))
        return b""


def test_a_board_that_starts_slowly_is_waited_for(bundle: Bundle, device: Device):
    """It checks its program before it answers, which may take longer than any request."""
    device.start()
    line = _Slow(device)
    program = harness_device.program(bundle, line, seconds=0.05, start_seconds=60)
    program.connect()

    connect = program.client.connect

    def connect_slowly() -> Identity:
        line.started = time.monotonic() + 0.3
        return connect()

    program.client.connect = connect_slowly  # type: ignore[method-assign]

    def restart(done: int, of: int) -> None:
        if done == 2 and program.restarts == 0:
            device.restart_at(1)

    samples = [[x] for x in stream(4)]
    runs = program.run_all(samples, RESETS, restart)
    assert as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, RESETS)
    assert program.restarts == 1


def test_only_a_run_has_a_limit_that_can_be_raised(bundle: Bundle, device: Device):
    program = connected(bundle, device, seconds=0.02, run_seconds=0.02)
    device.sends = 0
    try:
        with pytest.raises(BoardError, match=r"did not answer `reset` within 0.02 s\n\nhint: it hangs, .*reset the b"):
            program.client.reset()
        with pytest.raises(BoardError, match="raise the limit with `--time-out`"):
            program.client.run()
    finally:
        device.sends = 1 << 16


@pytest.mark.parametrize("seed", full.first(range(60), 6))
def test_restarts_at_any_byte_lose_nothing(bundle: Bundle, device: Device, seed: int):
    """In requests and replies of every command, also of the new session."""
    chance = random.Random(seed)
    program = connected(bundle, device)
    samples = [[x] for x in stream(6, seed=seed)]

    def restart(done: int, of: int) -> None:
        device.restart_after(chance.randrange(900) if program.restarts < 3 else 1 << 30)

    restart(0, 0)
    runs = program.run_all(samples, RESETS, restart)
    assert as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, RESETS)
    assert program.restarts > 0


@pytest.mark.parametrize(
    ("command", "count"),
    [(Command.WRITE, 20), (Command.READ, 12), (Command.CHECKSUM, 12), (Command.RUN, 9), (Command.RESET, 4)],
)
@pytest.mark.parametrize("is_reply", [False, True])
def test_a_restart_in_each_command(bundle: Bundle, device: Device, command: Command, count: int, is_reply: bool):
    """The restart is inside the request or inside its reply."""
    program = connected(bundle, device)
    client, hit = program.client, 0
    request = client.request

    def restarting(asked: Command, data: bytes = b"", **limits: float) -> bytes:
        nonlocal hit
        if asked is command and not hit:
            hit += 1
            device.restart_after(count + (len(data) + 4 if is_reply else 0))
        return request(asked, data, **limits)

    client.request = restarting  # type: ignore[method-assign]
    samples = [[x] for x in stream(2)]
    runs = program.run_all(samples, (0,))
    assert (hit, program.restarts) == (1, 1)
    assert as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, (0,))


@pytest.mark.parametrize("count", [30, 150, 300, 450, 600])
def test_a_restart_in_the_search_repeats_it(bundle: Bundle, device: Device, count: int):
    program = connected(bundle, device)
    sample = [stream(1)[0]]
    device.damage_at(1, 3)
    device.restart_after(count)
    try:
        found = first_difference.find(bundle, program, [], sample, 0, on_host_arrays(bundle, [sample]))
    finally:
        device.damage_at(NEVER, 0)
    assert program.restarts == 1
    assert (found.finding, found.step, found.written_by) == (Finding.INPUT, 1, 0)


LATE = {
    0: (Finding.UNINTERRUPTED, 1),  # the result is there before its checksum, and is missing without a pause
    1: (Finding.UNSTABLE, 0),  # between checksum and read
    2: (Finding.UNSTABLE, 0),  # between read and its checksum
    3: (Finding.STEP, 0),
    9: (Finding.STEP, 0),
}


@pytest.mark.parametrize("requests", LATE)
def test_a_result_that_arrives_late_is_found_with_any_delay(bundle: Bundle, device: Device, requests: int):
    """The delay counts requests after the run; it may end between two reads of the result."""
    program = connected(bundle, device)
    sample = [stream(1)[0]]
    device.late(0, 3, requests)
    try:
        found = first_difference.find(bundle, program, [], sample, 0, on_host_arrays(bundle, [sample]))
    finally:
        device.late(NEVER, 0, 0)
    assert (found.finding, found.step) == LATE[requests]
    if found.finding is Finding.UNSTABLE:
        lines = found.text().splitlines()
        assert lines[:3] == [
            f"first difference of sample 0: step 0, {bundle.steps[0].title}",
            "  a tensor was wrong, and changed between two reads while no step ran",
            f"  {bundle.values[3].note}",
        ]
        assert "DMA" in found.causes[0]


def test_a_difference_that_is_gone_in_the_last_run(bundle: Bundle, device: Device):
    """The bisection has seen the wrong value, and names its step."""
    program = connected(bundle, device)
    sample = [stream(1)[0]]
    checksum = program.client.checksum

    def sometimes(area: Area, index: int, size: int) -> int:
        """Wrong in four runs without a pause, after three runs for the steps."""
        is_wrong = (area, index) == (Area.VALUE, bundle.outputs[0]) and 3 < device.runs - before <= 7
        return checksum(area, index, size) ^ is_wrong

    before = device.runs
    program.client.checksum = sometimes  # type: ignore[method-assign]
    found = first_difference.find(bundle, program, [], sample, 0, on_host_arrays(bundle, [sample]))
    assert device.runs - before == 8
    assert (found.finding, found.step) == (Finding.SOMETIMES, 1)
    assert "wrong in some runs" in found.text()


def test_a_board_that_always_restarts_in_the_search_is_given_up(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    sample = [stream(1)[0]]
    connect = program.client.connect

    def connected_again() -> Identity:
        identity = connect()
        device.restart_at(1)
        return identity

    program.client.connect = connected_again  # type: ignore[method-assign]
    device.restart_at(1)
    with pytest.raises(BoardError, match="the board restarted 4 times, last in the search for the first wrong step of"):
        first_difference.find(bundle, program, [], sample, 0, on_host_arrays(bundle, [sample]))


def test_a_failed_search_leaves_the_comparison():
    """The report has the outputs, and why no step is named."""
    a, b = np.zeros(2, np.float32), np.ones(2, np.float32)
    outputs: HostComparison = compare("mine", [(a,)], [(b,)])
    comparison = LineComparison(outputs, None, BoardError("the line is lost", hint="check the cable"))
    assert not comparison.passed
    assert comparison.text() == (
        f"{outputs.text()}\n\nthe search for the first step that differs has failed: the line is lost\n\n"
        "hint: check the cable"
    )
    assert comparison.to_json()["search_error"] == "the line is lost\n\nhint: check the cable"


def test_finished_samples_are_kept(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    samples = [[x] for x in stream(8)]
    connect = program.client.connect

    def connect_and_restart() -> Identity:
        identity = connect()
        device.restart_at(1)
        return identity

    def restart(done: int, of: int) -> None:
        if done == 6:
            program.client.connect = connect_and_restart  # type: ignore[method-assign]
            device.restart_at(1)

    with pytest.raises(UnfinishedError, match=r"the board restarted 4 times, .*; 6 of 8 samples had finished") as error:
        program.run_all(samples, None, restart)
    assert as_bytes(error.value.outputs) == on_host(bundle, samples[:6], tuple(range(6)))


@pytest.mark.parametrize(
    ("board", "host", "text"),
    [
        (np.float32(0.1), np.nextafter(np.float32(0.1), np.float32(1)), "0.1 on the board, 0.10000001 on the host"),
        (np.int32(1234567), np.int32(1234568), "1234567 on the board, 1234568 on the host"),
        (np.int64(1 << 60), np.int64((1 << 60) + 1), "1152921504606846976 on the board, 1152921504606846977 on the"),
        (np.float32(-0.0), np.float32(0), "-0.0 on the board, 0.0 on the host"),
        (
            np.uint32(0x7FC00001).view(np.float32),
            np.uint32(0x7FC00000).view(np.float32),
            "nan (0x7fc00001) on the board, nan (0x7fc00000) on the host",
        ),
    ],
)
def test_values_with_other_bits_are_shown_apart(board: np.generic, host: np.generic, text: str):
    assert text in StepDifference(0, Finding.STEP, step=1, board=board, host=host).text()


def test_a_state_can_be_read_and_written_while_a_run_is_paused(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    client, size = program.client, program.client.identity.state_bytes
    client.reset()
    before = client.read(Area.STATE, 0, size)
    program.write_inputs([stream(1)[0]])
    client.run(stop=2)
    assert client.read(Area.STATE, 0, size) == before  # the last step changes it
    client.write(Area.STATE, 0, before)
    with pytest.raises(BoardError, match="the board rejects the command `run`: RUN_STATE"):
        client.run(resume=True)


def test_a_new_session_finds_the_state_and_no_run(bundle: Bundle, device: Device):
    """A run that another host has paused cannot continue, and the state is there."""
    first = connected(bundle, device)
    first.client.reset()
    first.write_inputs([stream(1)[0]])
    first.client.run(stop=2)
    second = BoardProgram(Client(FaultyLine(device)), first.expected)
    assert second.connect() == first.client.identity
    with pytest.raises(BoardError, match="the board rejects the command `run`: RUN_STATE"):
        second.client.run(resume=True)


def test_the_step_pin_has_an_edge_for_each_call_of_the_executor(bundle: Bundle, device: Device):
    """Three edges for two additions and the change of the state, which has four steps; low at the end."""
    program = connected(bundle, device)
    device.edges()
    program.run([stream(1)[0]], is_reset=True)
    assert device.edges() == [1, 0, 1, 0]
    program.client.run(stop=2)
    assert device.edges() == [1, 0, 0]


@pytest.mark.parametrize("hz", [1 << 20, 400_000_000])
@pytest.mark.parametrize("periods", [0, 1, 3])
def test_a_step_that_is_longer_than_the_counter_is_noticed(bundle: Bundle, device: Device, hz: int, periods: int):
    """Its ticks are short by whole periods; the host's clock, here 2 percent fast or slow, shows that."""
    identity = replace(connected(bundle, device).client.identity, ticks_hz=hz)
    ticks = (periods << 32) + 12345
    for clock in (0.98, 1.02):
        result = RunResult(0, 1, 5, (5 + ticks) % (1 << 32), 0, 1, 0, clock * ticks / hz + 0.2)
        run = BoardRun((), result, ((1, 0, 5, result.stop),))
        assert (run.untimed(identity) is None) == (periods == 0)
        assert run.untimed(replace(identity, tick_unit=TickUnit.INSTRUCTIONS)) is None
    if periods:
        assert f"longer than the {(1 << 32) / hz:.1f} s in which the board's counter wraps" in str(
            run.untimed(identity)
        )


def test_many_short_steps_may_be_longer_than_the_counter(bundle: Bundle, device: Device):
    """The sum of the steps has the whole periods."""
    identity = replace(connected(bundle, device).client.identity, ticks_hz=1 << 30)
    events = tuple((1, i, (i << 31) % (1 << 32), (i + 1 << 31) % (1 << 32)) for i in range(6))
    run = BoardRun((), RunResult(0, 6, 0, 0, 0, 6, 0, 12.1), events)
    assert run.ticks == 6 << 31
    assert run.untimed(identity) is None


def test_a_board_that_is_loaded_anew_keeps_the_finished_samples(bundle: Bundle, device: Device):
    """After the restart it has another program."""
    program = connected(bundle, device)

    def load(done: int, of: int) -> None:
        if done == 3:
            program.expected = harness_device.expected(bundle, bytes(32))
            device.restart_at(1)

    with pytest.raises(
        UnfinishedError, match=r"the board `host` runs the program with SHA-256 .*; 3 of 5 samples"
    ) as error:
        program.run_all([[x] for x in stream(5)], None, load)
    assert len(error.value.outputs) == 3
