"""Damaged programs: an error that says what to do, or a bundle; never anything else."""

import random
from collections.abc import Iterator

import pytest
from tests.board import programs
from tests.board.conftest import Built

from deuteron.board.emit import emit
from deuteron.board.translate import translate
from deuteron.builds import manifest
from deuteron.errors import DeuteronError, FormatError
from deuteron.npu.neutron.microcode.container import Container
from deuteron.runtime import pte

FLIPS = 1500


def flipped(data: bytes, seed: int) -> Iterator[bytes]:
    """Copies with one bit turned over."""
    generator = random.Random(seed)
    for _ in range(FLIPS):
        broken = bytearray(data)
        broken[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        yield bytes(broken)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two", "view"])
def test_damaged_programs_are_refused_or_translated(name: str, built: Built) -> None:
    data = (built(name) / manifest.PROGRAM).read_bytes()
    refused: list[DeuteronError] = []
    for broken in flipped(data, 1):
        try:
            emit(translate(pte.read(broken), name="damaged"))
        except DeuteronError as error:
            refused.append(error)
    assert all("hint: " in str(error) for error in refused)  # of several operators, one under each
    assert {type(error) for error in refused} >= {FormatError}
    # Most of the file is what a CRC protects: microcode and weights.
    assert len(refused) > FLIPS / 2


def test_a_damaged_partition_is_refused() -> None:
    whole = programs.payload(programs.ADD, (0, 0))
    used = 16 + len(programs.ADD.microcode) + len(programs.ADD.weights) + len(programs.ADD.kernels)
    refused, accepted = 0, list[Container]()
    for broken in flipped(whole, 2):
        make = programs.Maker()
        tensors = [make.tensor((1, 3, 5, 4)) for _ in range(4)]
        make.partition(broken, *tensors)
        try:
            bundle = translate(make.program(tuple(tensors[:2]), tuple(tensors[2:])), name="damaged")
        except FormatError:
            refused += 1
        else:
            assert broken[:12] == whole[:12] or broken[12:used] == whole[12:used]
            accepted += (programs.container_of(delegate.partition) for delegate in bundle.delegates)
    # Formats and maps of arguments may become others that are as good; the blocks may not change.
    assert refused > FLIPS / 2
    assert set(accepted) == {programs.ADD}
