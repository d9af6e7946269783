"""The states of the harness against a model of `spec/harness.md`: sessions, sequence numbers, repeats, paused runs."""

import random
import struct
from collections import Counter

import pytest
from tests import full
from tests.board.harness_device import Device
from tests.board.test_harness import CALLS, bundle, device

from deuteron.board.bundle import Bundle
from deuteron.board.harness import frames
from deuteron.board.harness.protocol import ALL_STEPS, HEADER, VERSION, Area, Command, Status

__all__ = ["bundle", "device"]  # fixtures
UNKNOWN = 6
SESSIONS = (0, 7, 8)
FRAMES = 4000


class Model:
    """The specified states of a board with a program of `steps` steps, of which the last run together."""

    def __init__(self, steps: int) -> None:
        self.session = self.sequence = self.command = 0
        self.runs = self.step = 0
        self.run_status = Status.OK
        self.is_resumable = False
        self._steps = steps

    def status(self, version: int, command: int, sequence: int, session: int, data: bytes) -> Status:
        """Return the status of the reply to a request whose data are right for its command."""
        if version != VERSION:
            return Status.OTHER_VERSION
        is_new = command == Command.IDENTIFY and session != self.session
        if session == 0 or (session != self.session and not is_new):
            return Status.SESSION
        ahead = 1 if is_new else (sequence - self.sequence) % (1 << 16)
        if ahead > 1 or (ahead == 0 and command != self.command):
            return Status.SEQUENCE
        self.session, self.sequence, self.command = session, sequence, command
        if is_new:
            self.is_resumable = False
        if command == UNKNOWN:
            return Status.COMMAND
        if command in (Command.RESET, Command.WRITE):
            self.is_resumable = False
        if command == Command.RUN and ahead:
            self.run_status = self._run(*struct.unpack("<2I", data))
        return self.run_status if command == Command.RUN else Status.OK

    def _run(self, resume: int, stop: int) -> Status:
        if resume and not (self.is_resumable and self.step < self._steps):
            return Status.RUN_STATE
        self.runs += 1
        self.step = self.step if resume else 0
        while self.step < min(stop, self._steps):
            self.step = self.step + 1 if self.step < CALLS - 1 else self._steps
        self.is_resumable = True
        return Status.OK


def data_of(command: int, chance: random.Random) -> bytes:
    """Return data that fit a command."""
    part = struct.pack("<3I", Area.INPUT, 0, 0)
    if command == Command.WRITE:
        return part + bytes(16)
    if command in (Command.READ, Command.CHECKSUM):
        return part + struct.pack("<I", 16)
    if command == Command.RUN:
        return struct.pack("<2I", chance.randrange(2), chance.choice((0, 1, 2, 3, ALL_STEPS)))
    return b""


@pytest.mark.parametrize("seed", full.first(range(50), 3))
def test_the_board_has_the_states_of_the_specification(bundle: Bundle, device: Device, seed: int):
    """Random requests, most of them plausible, and restarts: statuses, runs and completed steps are the model's."""
    chance = random.Random(seed)
    device.start()
    model, before, seen = Model(len(bundle.steps)), device.runs, Counter[Status]()
    for _ in range(FRAMES):
        if chance.random() < 0.01:
            device.start()
            model, before = Model(len(bundle.steps)), device.runs
        version = VERSION if chance.random() < 0.97 else chance.choice((0, 2))
        session = model.session if chance.random() < 0.9 else chance.choice(SESSIONS)
        sequence = (model.sequence + chance.choice((1, 1, 1, 1, 0, 0, 2, -1))) % (1 << 16)
        command = model.command if chance.random() < 0.3 else chance.choice((*Command, Command.RUN, UNKNOWN))
        data = data_of(command, chance)
        header = HEADER.pack(version, command, sequence, session)
        (reply,) = frames.Decoder().feed(device.feed(frames.encode(header + data)))
        assert reply is not None
        wanted = model.status(version, command, sequence, session, data)
        assert HEADER.unpack_from(reply) == (VERSION, wanted, sequence, session)
        assert device.runs - before == model.runs
        if command == Command.RUN and wanted is Status.OK:
            assert struct.unpack_from("<2I", reply, HEADER.size) == (0, model.step)
        seen[wanted] += 1
    possible = {Status.OK, Status.OTHER_VERSION, Status.SESSION, Status.SEQUENCE, Status.COMMAND, Status.RUN_STATE}
    assert seen.keys() == possible
