"""The protocol of the serial line: no fault of the line or the board gives a wrong result, a hang, or a vague error."""

import json
import random
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import full, store
from tests.board import harness_device
from tests.board.harness_device import Device, Faults, FaultyLine, as_bytes
from tests.board.host import HERE, HostFirmware
from tests.board.test_state import stream, summing

from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.harness import frames
from deuteron.board.harness.client import Client
from deuteron.board.harness.line import open_line
from deuteron.board.harness.program import BoardProgram
from deuteron.board.harness.protocol import Area, Command, Identity, TickUnit
from deuteron.board.host_executor import HostExecutor
from deuteron.board.image import bundle_of
from deuteron.board.translate import translate
from deuteron.errors import BoardError, FormatError, InputError, OptionError
from deuteron.views.run import first_difference
from deuteron.views.run.first_difference import live_outputs
from deuteron.views.run.step_difference import Finding, StepDifference

RESETS = (0, 4)
CALLS = 3
"""Steps of the program at which a call of the executor starts: the others run together with the third."""


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """A program with state: a run that is repeated or left out changes all later results."""
    return translate(summing(), name="summing")


@pytest.fixture(scope="module")
def device(bundle: Bundle, firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory) -> Device:
    return Device(firmware, bundle, tmp_path_factory.mktemp("harness") / "device")


def on_host(bundle: Bundle, samples: list[list[np.ndarray]], resets: tuple[int, ...]) -> list[list[bytes]]:
    host = HostExecutor(bundle)
    results = []
    for number, sample in enumerate(samples):
        if number in resets:
            host.reset()
        results.append(host.run(sample))
    return as_bytes(results)


def on_host_arrays(bundle: Bundle, samples: list[list[np.ndarray]]) -> list[np.ndarray]:
    """The outputs of the last sample, from the initial state."""
    host = HostExecutor(bundle)
    host.reset()
    return [host.run(sample) for sample in samples][-1]


def connected(bundle: Bundle, device: Device, faults: Faults = Faults(), seed: int = 0, **options: float):
    device.start()
    device.restart_at(0xFFFFFFFE)
    program = harness_device.program(bundle, FaultyLine(device, faults, seed), **options)
    program.connect()
    return program


@given(st.lists(st.binary(max_size=600), max_size=4), st.randoms())
def test_frames_arrive_whole_in_any_pieces(contents: list[bytes], chance: random.Random):
    line = b"".join(frames.encode(content) for content in contents)
    decoder, arrived = frames.Decoder(), []
    while line:
        count = chance.randrange(1, len(line) + 1)
        arrived += decoder.feed(line[:count])
        line = line[count:]
    assert arrived == contents


def test_a_run_and_what_is_around_it(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    identity, client = program.client.identity, program.client
    assert (identity.board, identity.steps, identity.inputs, identity.outputs) == ("host", len(bundle.steps), 1, 1)
    assert identity.state_bytes == bundle.state_bytes - 16
    x = stream(1)[0]
    run = program.run([x], is_reset=True)
    assert as_bytes([run.outputs]) == on_host(bundle, [[x]], (0,))
    assert [index for index, _ in run.steps] == list(range(len(bundle.steps)))
    assert (run.result.step, run.result.lost) == (len(bundle.steps), 0)
    # State: read, changed by a run, and written back.
    before = client.read(Area.STATE, 0, identity.state_bytes)
    second = program.run([x], is_reset=False).outputs[0]
    assert client.read(Area.STATE, 0, identity.state_bytes) != before
    client.write(Area.STATE, 0, before)
    assert program.run([x], is_reset=False).outputs[0].tobytes() == second.tobytes()


def test_intermediate_values_are_those_of_the_host(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    sample = [stream(1)[0]]
    host = HostExecutor(bundle)
    host.reset()
    program.client.reset()
    program.write_inputs(sample)
    done = 0
    for result in host.values(sample):
        if done <= result.index:  # else the executor has run the step together with the one before
            done = program.client.run(stop=result.index + 1, resume=done > 0).step
        assert done > result.index
        for value, array in zip(bundle.steps[result.index].outputs, result.outputs, strict=True):
            if value in live_outputs(bundle, result.index):
                assert program.client.read(Area.VALUE, value, array.nbytes) == array.tobytes()


FAULTS = {
    "lost": Faults(lost=0.004),
    "doubled": Faults(doubled=0.004),
    "flipped": Faults(flipped=0.004),
    "late": Faults(late=0.5),
    "repeated": Faults(repeated=0.2),
    "all": Faults(0.002, 0.002, 0.002, 0.3, 0.1),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_bad_line_changes_no_result(bundle: Bundle, device: Device, name: str):
    program = connected(bundle, device, FAULTS[name], seed=len(name))
    samples = [[x] for x in stream(12)]
    runs = program.run_all(samples, RESETS)
    assert as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, RESETS)
    assert program.restarts == 0
    assert program.client.sent_again > 0 or name in {"late", "repeated"}


def test_a_run_is_not_repeated_when_its_reply_is_lost(bundle: Bundle, device: Device):
    program = connected(bundle, device, Faults(lost=0.015), seed=5, seconds=20, run_seconds=20)
    program.client.reset()
    program.write_inputs([stream(1)[0]])
    before = device.runs
    program.client.run()
    assert device.runs == before + 1


@pytest.mark.parametrize("seed", full.first(range(40), 4))
def test_restarts_in_runs_lose_nothing(bundle: Bundle, device: Device, seed: int):
    """A program with state goes on from its last initial state."""
    program = connected(bundle, device, Faults(late=0.2, flipped=0.001), seed)
    chance = random.Random(seed)
    samples = [[x] for x in stream(9, seed=seed)]
    device.restart_at(chance.randrange(CALLS))
    runs = program.run_all(
        samples, RESETS, lambda done, _: device.restart_at(1) if done == 6 and program.restarts < 2 else None
    )
    assert as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, RESETS)
    assert program.restarts == 2


@pytest.mark.full
def test_a_hundred_thousand_frames(bundle: Bundle, device: Device):
    """Every fault at random, with restarts: all results are right, or an error says that the board restarts."""
    chance = random.Random(41)
    frames_sent = rounds = given_up = 0
    while frames_sent < 100_000:
        program = connected(bundle, device, Faults(0.001, 0.001, 0.001, 0.3, 0.05), chance.randrange(1 << 30))
        line = program.client.line
        assert isinstance(line, FaultyLine)
        samples = [[x] for x in stream(20, seed=chance.randrange(1 << 30))]

        def restart(done: int, of: int) -> None:
            if chance.random() < 0.05:
                device.restart_at(chance.randrange(CALLS))
            if chance.random() < 0.05:
                device.restart_after(chance.randrange(600))

        try:
            runs = program.run_all(samples, RESETS, restart)
        except BoardError as error:
            if "the board restarted 4 times" not in error.message:
                raise
            given_up += 1
        else:
            assert as_bytes([run.outputs for run in runs]) == on_host(bundle, samples, RESETS)
        frames_sent += line.sent
        rounds += 1
    assert given_up < rounds // 4


class _Lost(FaultyLine):
    """A line that is lost when `ends` is set."""

    ends = False

    def send(self, data: bytes) -> None:
        if self.ends:
            raise BoardError("the line `test line` is lost: input/output error", hint="check the cable")
        super().send(data)


def test_a_line_that_is_lost_in_the_third_sample(bundle: Bundle, device: Device):
    line = _Lost(device)
    program = harness_device.program(bundle, line)
    program.connect()

    def lose(done: int, of: int) -> None:
        line.ends = done == 2

    with pytest.raises(BoardError, match="is lost: input/output error; 2 of 5 samples had finished\n"):
        program.run_all([[x] for x in stream(5)], None, lose)


def test_a_board_that_restarts_in_every_run(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    connect = program.client.connect

    def connect_and_restart() -> Identity:
        identity = connect()
        device.restart_at(2)
        return identity

    program.client.connect = connect_and_restart  # type: ignore[method-assign]
    device.restart_at(2)
    with pytest.raises(BoardError) as error:
        program.run_all([[x] for x in stream(2)], None)
    assert str(error.value) == (
        "test line: the board restarted 4 times, last in sample 0; 0 of 2 samples had finished\n\n"
        "hint: check the board's supply, watchdog and reset, and that only one program uses the line"
    )


def test_silence(bundle: Bundle, device: Device):
    with pytest.raises(BoardError) as error:
        connected(bundle, device, Faults(lost=1), seconds=0.02)
    assert str(error.value) == (
        "test line: the board did not answer `identify` within 0.02 s\n\n"
        "hint: check host, port and board, that the image was built with `--harness serial` and does not hang when it "
        "starts, and that no other program uses the line"
    )


class _Noise(FaultyLine):
    """A line that never stops sending."""

    def receive(self, seconds: float) -> bytes:
        return bytes(range(1, 256))


def test_noise_without_end(bundle: Bundle, device: Device):
    with pytest.raises(
        BoardError,
        match=r"within 0.05 s; \d+ bytes came, with no reply in them: `\\x01\\x02.*\\x1f \.\.\.`\n\nhint: check the p",
    ):
        harness_device.program(bundle, _Noise(device), seconds=0.05).connect()


class _Banner(FaultyLine):
    """A line to an application that is not the harness."""

    is_new = True

    def receive(self, seconds: float) -> bytes:
        sent = b"SSH-2.0-x\r\n" if self.is_new else b""
        self.is_new = False
        return sent


def test_the_text_of_another_application_is_shown(bundle: Bundle, device: Device):
    with pytest.raises(BoardError, match=r"within 0.05 s; 11 bytes came, with no reply in them: `SSH-2.0-x\\r\\n`\n"):
        harness_device.program(bundle, _Banner(device), seconds=0.05).connect()


def test_the_time_of_a_checksum_is_rounded(bundle: Bundle, device: Device):
    client = Client(FaultyLine(device, Faults(lost=1)), first_wait=1e-3)
    with pytest.raises(BoardError, match=r"did not answer `checksum` within 1 s\n"):
        client.request(Command.CHECKSUM, seconds=1.0049)


class _Echo(FaultyLine):
    """A line whose two wires are connected."""

    def receive(self, seconds: float) -> bytes:
        return self._arrived(self._up)


def test_an_echo_is_no_reply(bundle: Bundle, device: Device):
    with pytest.raises(BoardError, match="test line: the line echoes what is sent\n"):
        harness_device.program(bundle, _Echo(device)).connect()


@pytest.mark.parametrize("command", Command)
def test_an_echo_of_each_command_is_no_reply(bundle: Bundle, device: Device, command: Command):
    with pytest.raises(BoardError, match="the line echoes what is sent"):
        Client(_Echo(device)).request(command)


def test_a_board_that_hangs_in_a_run(bundle: Bundle, device: Device):
    program = connected(bundle, device, run_seconds=0.02)
    device.sends = 0
    try:
        with pytest.raises(BoardError, match=r"the board did not end a run within 0\.02 s\n\nhint: it hangs,"):
            program.client.run()
    finally:
        device.sends = 1 << 16


@pytest.mark.parametrize("what", ["space", "sends"])
def test_buffers_that_are_always_full(bundle: Bundle, device: Device, what: str):
    """The receive buffer holds half a frame, or the line takes half of a reply: an error, and no part of a result."""
    program = connected(bundle, device, seconds=0.02)
    setattr(device, what, 12)
    try:
        with pytest.raises(BoardError, match="the board did not answer `write` within"):
            program.run([stream(1)[0]], is_reset=False)
    finally:
        setattr(device, what, 1 << 16)


def test_another_program(bundle: Bundle, device: Device):
    program = harness_device.program(bundle, FaultyLine(device))
    program.expected = harness_device.expected(bundle, bytes(32))
    with pytest.raises(InputError) as error:
        program.connect()
    assert str(error.value) == (
        "test line: the board `host` runs the program with SHA-256 000102030405, that of the build has 000000000000\n\n"
        "hint: load the firmware of this build (`deuteron firmware BUILD --board NAME --harness serial`), or give the "
        "build that the loaded firmware was made from; for a TFLite file, give its `--target`, too"
    )
    program.expected = replace(harness_device.expected(bundle), tables_crc=0)
    with pytest.raises(InputError, match="the tables of the program on the board have checksum 0x"):
        program.connect()


class _OlderHost(FaultyLine):
    """A line on which every request has another version of the protocol."""

    def send(self, data: bytes) -> None:
        super().send(_with_version(9, data))


class _NewerBoard(FaultyLine):
    """A line on which every reply has another version of the protocol."""

    def receive(self, seconds: float) -> bytes:
        return _with_version(2, super().receive(seconds))


def _with_version(version: int, data: bytes) -> bytes:
    """Change the version of the frames."""
    contents = [content for content in frames.Decoder().feed(data) if content is not None]
    return b"".join(frames.encode(bytes((version,)) + content[1:]) for content in contents)


@pytest.mark.parametrize(("line", "version"), [(_OlderHost, 1), (_NewerBoard, 2)])
def test_another_version_of_the_protocol(bundle: Bundle, device: Device, line: type[FaultyLine], version: int):
    """A board rejects requests of another version, and a host rejects replies of another."""
    program = harness_device.program(bundle, line(device))
    with pytest.raises(BoardError) as error:
        program.connect()
    assert str(error.value) == (
        f"test line: the board has version {version} of the protocol, this version of Deuteron has version 1\n\n"
        "hint: build the firmware with this version of Deuteron and load it, or use the one that built it"
    )


@pytest.mark.parametrize(
    ("command", "data", "status"),
    [
        (Command.READ, struct.pack("<4I", Area.INPUT, 1, 0, 4), "RANGE"),
        (Command.READ, struct.pack("<4I", Area.INPUT, 0, 12, 5), "RANGE"),
        (Command.READ, struct.pack("<4I", Area.INPUT, 0, 0xFFFFFFF0, 0x20), "RANGE"),
        (Command.READ, struct.pack("<4I", Area.VALUE, 0, 0, 257), "RANGE"),
        (Command.READ, struct.pack("<4I", 5, 0, 0, 1), "RANGE"),
        (Command.READ, b"", "LENGTH"),
        (Command.WRITE, struct.pack("<3I", Area.OUTPUT, 0, 0) + b"1234", "RANGE"),
        (Command.WRITE, struct.pack("<3I", Area.EVENTS, 0, 0), "RANGE"),
        (Command.WRITE, b"12345678901", "LENGTH"),
        (Command.RUN, struct.pack("<2I", 1, 2), "RUN_STATE"),
        (Command.RUN, b"", "LENGTH"),
        (Command.RESET, b"1", "LENGTH"),
        (6, b"", "COMMAND"),
    ],
)
def test_requests_that_are_wrong(bundle: Bundle, device: Device, command: Command, data: bytes, status: str):
    client = connected(bundle, device).client
    if command == 6:
        command = type("Unknown", (int,), {"name": "SIX"})(6)
    for _ in range(2):
        with pytest.raises(BoardError, match=f"the board rejects the command `{command.name.lower()}`: {status}\n"):
            client.request(command, data)


def test_a_frame_is_not_lost_when_the_one_before_it_ends_the_search():
    first, second = frames.encode(b"first frame"), frames.encode(b"second frame")
    decoder = frames.Decoder()
    assert next(iter(decoder.feed(first + second[:5]))) == b"first frame"
    assert list(decoder.feed(second[5:])) == [b"second frame"]


class _Changed(FaultyLine):
    """A line on which replies to a command have other data: words at these offsets."""

    changes: tuple[tuple[Command, int, bytes], ...] = ()
    command = Command.IDENTIFY

    def send(self, data: bytes) -> None:
        (content,) = frames.Decoder().feed(data)
        assert content is not None
        self.command = Command(content[1])
        super().send(data)

    def receive(self, seconds: float) -> bytes:
        changed = b""
        for content in frames.Decoder().feed(super().receive(seconds)):
            assert content is not None
            reply = bytearray(content)
            for command, offset, new in self.changes:
                if command == self.command:
                    reply[8 + offset : 8 + offset + len(new)] = new
            changed += frames.encode(bytes(reply))
        return changed


def word(value: int) -> bytes:
    return struct.pack("<I", value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([(Command.IDENTIFY, 0, word(0))], "its bytes of a block is 0, it must be a multiple of 4, 256 to 65536"),
        ([(Command.IDENTIFY, 0, word(258))], "its bytes of a block is 258, it must be a multiple of 4"),
        ([(Command.IDENTIFY, 0, word(0xFFFFFFFF))], "its bytes of a block is 4294967295, it must be"),
        ([(Command.IDENTIFY, 56, word(1 << 29))], "its number of events that fit is 536870912, it must be at most 2"),
        ([(Command.IDENTIFY, 60, word(2))], "the program on the board has 2 inputs, 1 outputs and 6 steps, that of"),
        ([(Command.IDENTIFY, 80, word(0))], "its rate of ticks is 0, it must be above 0 Hz"),
        ([(Command.IDENTIFY, 104, b"\x1b[2J")], r"its name is '\\x1b\[2J', it must be printable ASCII"),
        ([(Command.RUN, 4, word(7))], "the board's result of a run has 7 steps of 6, and 6 events of at most 64"),
        ([(Command.RUN, 20, word(1 << 29))], "the board's result of a run has 6 steps of 6, and 536,870,912 events of"),
    ],
)
def test_replies_that_no_board_gives(
    bundle: Bundle, device: Device, changes: list[tuple[Command, int, bytes]], text: str
):
    device.start()
    line = _Changed(device)
    line.changes = tuple(changes)
    program = harness_device.program(bundle, line)

    def connect_and_run() -> None:
        program.connect()
        program.run([stream(1)[0]], is_reset=True)

    with pytest.raises(FormatError, match=f"^test line: .*{text}"):
        connect_and_run()


def test_an_event_of_a_step_that_there_is_not(bundle: Bundle, device: Device):
    program = connected(bundle, device)
    result = program.run([stream(1)[0]], is_reset=True).result
    program.client._identity = replace(program.client.identity, steps=5)
    with pytest.raises(FormatError, match=r"^test line: an event of the board has step 5, the program has 5"):
        program.client.events(result)


@pytest.mark.parametrize("command", [Command.RESET, Command.CHECKSUM, Command.IDENTIFY])
def test_requests_to_a_slow_board_are_few(bundle: Bundle, device: Device, command: Command):
    """A board executes every request that it has received, so that requests at a fixed rate would delay it for good."""
    program = connected(bundle, device, seconds=0.3)
    line = program.client.line
    assert isinstance(line, FaultyLine)
    device.sends, before = 0, line.sent
    try:
        with pytest.raises(BoardError, match="the board did not answer"):
            program.client.request(command)
    finally:
        device.sends = 1 << 16
    assert line.sent - before < 12


class _Stopped(FaultyLine):
    """A line to a board that has stopped with a fault: it reports it whenever a frame arrives."""

    def receive(self, seconds: float) -> bytes:
        arrived, self._up = bytes(self._up), bytearray()
        return self.device.fault() if arrived else b""


@pytest.mark.parametrize("is_new", [True, False])
def test_a_processor_that_has_stopped(bundle: Bundle, device: Device, is_new: bool):
    """New connections learn it, too, also if no session ever started."""
    if is_new:
        device.start()
    else:
        connected(bundle, device)
    with pytest.raises(BoardError) as error:
        harness_device.program(bundle, _Stopped(device), seconds=0.1).connect()
    assert str(error.value) == (
        "test line: the processor stopped with a fault: BusFault, address 0x60000000, pc 0x00001234, lr 0x00005678, "
        "sp 0x20000F00, cfsr 0x00008200, hfsr 0x00000000\n\n"
        "hint: look up the addresses in `firmware.map`, and reset the board"
    )


def test_an_emulator_that_counts_no_instructions_is_refused(bundle: Bundle, device: Device):
    device.start()
    program = harness_device.program(bundle, FaultyLine(device))
    connect = program.client.connect
    program.client.connect = lambda: replace(connect(), tick_unit=TickUnit.NONE)  # type: ignore[method-assign]
    with pytest.raises(BoardError, match=r"does not count instructions .*\n\nhint: start QEMU with `-icount shift=6,"):
        program.connect()


def test_the_report_of_a_fault_has_at_most_a_block(bundle: Bundle, device: Device):
    connected(bundle, device)
    (content,) = frames.Decoder().feed(device.fault(512))
    assert content is not None
    assert len(content) == 8 + 256


@pytest.mark.parametrize("name", ["tcp:a..b:1", f"tcp:{'a' * 64}:1"])
def test_a_name_that_no_host_has(name: str):
    with pytest.raises(OptionError, match="is not the name of a host"):
        open_line(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tcp:127.0.0.1", "has no port"),
        ("tcp::5555", "has no host"),
        ("tcp:[]:5555", "has no host"),
        ("tcp:h:abc", "has the port `abc`, which is not a number of 1 to 65535"),
        ("tcp:h:99999", "has the port `99999`, which is not a number of 1 to 65535"),
        ("tcp:h:0", "has the port `0`, which is not a number of 1 to 65535"),
        ("udp:h:1", "does not name a line"),
    ],
)
def test_a_name_that_is_no_line(name: str, text: str):
    with pytest.raises(OptionError) as error:
        open_line(name)
    assert error.value.message == f"`--on {name}` {text}"


def test_an_ipv6_address_keeps_its_brackets():
    with pytest.raises(BoardError, match=r"`tcp:\[::1\]:1` cannot be connected"):
        open_line("tcp:[::1]:1")


def test_a_file_is_no_serial_port(tmp_path: Path):
    (tmp_path / "file").touch()
    for name, reason in (
        ("/dev/null", "it is not a serial port"),
        (str(tmp_path / "file"), "it is not a serial port"),
        (str(tmp_path / "none"), "No such file or directory"),
    ):
        with pytest.raises(BoardError) as error:
            open_line(f"serial:{name}")
        assert error.value.message == f"the serial port `{name}` cannot be opened: {reason}"


@pytest.mark.parametrize("baud", [0, 1 << 31, 9_999_999_999])
def test_a_rate_out_of_range(baud: int):
    with pytest.raises(OptionError, match=f"`--baud` is {baud}, it must be 1 to 2147483647"):
        open_line("serial:/dev/null", baud)


def viewing(bundle: Bundle) -> Bundle:
    """The program whose second step reads the first one's result through a view."""
    steps = list(bundle.steps)
    steps[1] = replace(steps[1], inputs=(len(bundle.values), steps[1].inputs[1]))
    return replace(bundle, values=(*bundle.values, bundle.values[3]), steps=tuple(steps))


@pytest.mark.parametrize(("value", "step", "written_by"), [(3, 1, 0), (4, 1, -1), (0, 0, -1)])
def test_inputs_that_change_are_found_through_views(
    bundle: Bundle, firmware: HostFirmware, tmp_path: Path, value: int, step: int, written_by: int
):
    """A result that is read as another value, a tensor of the state, and an input of the program."""
    viewed = viewing(bundle)
    device = Device(firmware, viewed, tmp_path / "device")
    program = connected(viewed, device)
    device.damage_at(step, value)
    samples = [[x] for x in stream(1)]
    found = first_difference.find(viewed, program, [], samples[0], 0, on_host_arrays(bundle, samples))
    assert (found.finding, found.step, found.written_by) == (Finding.INPUT, step, written_by)


def test_steps_that_the_executor_runs_together(bundle: Bundle, device: Device, monkeypatch: pytest.MonkeyPatch):
    """The board may complete more steps than it was asked for; no step is asked for again."""
    program = connected(bundle, device)
    run, asked = program.client.run, list[int]()

    def together(*, stop: int, resume: bool = False):
        asked.append(stop)
        return run(stop=len(bundle.steps) if stop > 2 else stop, resume=resume)

    monkeypatch.setattr(program.client, "run", together)
    samples = [[x] for x in stream(1)]
    reference = on_host_arrays(bundle, samples)
    found = first_difference.find(bundle, program, [], samples[0], 0, reference)
    assert found.finding is Finding.NOT_AGAIN
    assert asked == [1, 2, 3, len(bundle.steps)]
    device.damage_at(1, 3)
    try:
        found = first_difference.find(bundle, program, [], samples[0], 0, reference)
    finally:
        device.damage_at(0xFFFFFFFE, 0)
    assert (found.finding, found.step, found.written_by) == (Finding.INPUT, 1, 0)


def test_a_forgotten_clean_of_the_cache_is_found_at_the_npus_step(firmware: HostFirmware, tmp_path: Path):
    """The NPU reads old bytes of its input, which the core has right."""
    bundle = bundle_of(store.model("digits", target="imxrt700"))
    device = Device(HostFirmware(firmware.build, HERE / "harness_cache.c"), bundle, tmp_path / "device")
    program = connected(bundle, device)
    value = bundle.values[bundle.inputs[0]]
    sample = [np.random.default_rng(1).random(value.shape, np.float32)]
    reference = on_host_arrays(bundle, [sample])
    assert first_difference.find(bundle, program, [], sample, 0, reference).finding is Finding.NOT_AGAIN
    device.forget_clean(True)
    found = first_difference.find(bundle, program, [], sample, 0, reference)
    (npu,) = (index for index, step in enumerate(bundle.steps) if step.kind is StepKind.DELEGATE)
    assert (found.finding, found.step, found.is_npu) == (Finding.STEP, npu, True)
    assert any(cause.startswith("the data cache is not cleaned before the NPU reads") for cause in found.causes)


@pytest.mark.parametrize("before", [0, 2])
def test_the_host_is_blamed_if_only_the_reference_differs(bundle: Bundle, device: Device, before: int):
    """Board and executor agree in all steps; an output of the reference has one other number."""
    program = connected(bundle, device)
    samples = [[x] for x in stream(before + 1)]
    history, sample = samples[:before], samples[before]
    reference = on_host_arrays(bundle, samples)
    assert first_difference.find(bundle, program, history, sample, 7, reference).finding is Finding.NOT_AGAIN
    wrong = [array.copy() for array in reference]
    wrong[0].reshape(-1)[-1] += 1
    found = first_difference.find(bundle, program, history, sample, 7, wrong)
    assert (found.finding, found.sample, found.step) == (Finding.HOST, 7, -1)
    assert found.text().splitlines() == [
        f"sample 7: {Finding.HOST.value}",
        "  usual causes:",
        "    a defect of Deuteron: please report the build",
    ]
    assert found.to_json()["finding"] == "host"


def test_a_number_that_json_has_not():
    found = StepDifference(0, Finding.STEP, board=float("nan"), host=float("-inf"))
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["board"] == "nan"


def test_two_hosts_on_one_line(bundle: Bundle, device: Device):
    first = connected(bundle, device)
    second = BoardProgram(Client(FaultyLine(device)), first.expected)
    second.connect()
    with pytest.raises(BoardError, match="the board does not know this session at `reset`: it restarted, or another"):
        first.client.reset()
    second.client.reset()
