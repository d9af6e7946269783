"""Partitions of an Ethos-U by Arm's driver API: as ExecuTorch's runtime runs them, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.npu.ethosu.test_family import layer, program
from tests.npu.ethosu.vela import compiled

from deuteron.errors import FormatError, InternalError
from deuteron.npu.ethosu import blob
from deuteron.npu.ethosu.blob import Blob
from deuteron.runtime.ethosu import Partition
from deuteron.runtime.host import HostRunner

X = np.random.default_rng(5).integers(-128, 128, (1, 6, 5, 3)).astype(np.int8)


@pytest.fixture(scope="module", params=["ethos-u55-32", "ethos-u65-512", "ethos-u85-256"])
def payload(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = compiled(layer(), request.param, tmp_path_factory.mktemp("layer"))
    assert made is not None
    return made


@pytest.fixture
def parsed(payload: bytes) -> Blob:
    return blob.parse(payload, "npu 0")


def test_it_runs_as_by_executorch(payload: bytes, parsed: Blob, tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_bytes(program(payload, (X.shape,), ((1, 3, 3, 9),)))
    (expected,) = HostRunner(tmp_path / "model.pte").run([X])
    partition = Partition(parsed, "npu 0")
    for _ in range(2):
        assert partition.run([X.tobytes()]) == [expected.tobytes()]


def test_commands_that_leave_their_memory_are_refused(parsed: Blob) -> None:
    with pytest.raises(FormatError) as raised:
        Partition(replace(parsed, weights=parsed.weights[:16]), "npu 0")
    assert str(raised.value).startswith(
        "npu 0: the commands are refused: an operation leaves its region (command at byte"
    )
    assert str(raised.value).endswith(")\n\nhint: lower the model again")


def test_an_input_of_another_size_is_a_defect_of_ours(parsed: Blob) -> None:
    with pytest.raises(InternalError, match="npu 0: an input has 3 bytes, not 90"):
        Partition(parsed, "npu 0").run([b"abc"])
