"""Intermediate tensors in memory compared with TOSA's reference model: all visible ones, and the first that differs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.npu.ethosu.commands import Command, read, written
from tests.npu.ethosu.mixed_network import built

from deuteron.builds import manifest as manifests
from deuteron.npu.ethosu import blob as blobs
from deuteron.npu.ethosu.blob import Blob
from deuteron.npu.ethosu.isa import Op, Short
from deuteron.npu.ethosu.stream import decode
from deuteron.runtime import pte
from deuteron.runtime.partitions import partitions_of
from deuteron.views.compare import tosa_intermediates
from deuteron.views.compare.pytorch import compare
from deuteron.views.compare.tosa_intermediates import TosaIntermediates

SEEN = [
    "TRANSPOSE", "RESCALE", "RESCALE", "TABLE", "RESCALE", "MAX_POOL2D", "REDUCE_SUM", "RESCALE", "RESCALE", "RESCALE",
    "REDUCE_MAX", "RESCALE", "RESCALE", "SUB", "TABLE", "TABLE", "RESCALE",
]  # fmt: skip


@pytest.fixture(scope="module")
def directory() -> Path:
    return built()


def intermediates_of(directory: Path) -> TosaIntermediates:
    """The one partition of the build."""
    (part,) = partitions_of(pte.read((directory / manifests.PROGRAM).read_bytes()).methods[0])
    (entry,) = manifests.read(directory).partitions
    return TosaIntermediates(0, entry, part.payload, directory / manifests.tosa_name(0))


def sample() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)


def off_by_one(blob: Blob, kind: Op) -> Blob:
    """The partition whose first operation of a kind adds 1 to its results."""
    commands = read(blob.command_data)
    at = next(i for i, command in enumerate(commands) if command.code is kind)
    sets = [c for c in commands[:at] if c.code is Short.OFM_ZERO_POINT]
    zero = sets[-1].param if sets else 0
    more = Command(int(Short.OFM_ZERO_POINT), (zero + 1) & 0xFFFF)
    changed = (*commands[:at], more, commands[at], replace(more, param=zero), *commands[at + 1 :])
    config = decode(blob.command_data, "npu 0").config.word
    return replace(blob, command_data=written(changed, config))


def test_every_tensor_in_memory_is_what_tosa_says(directory: Path) -> None:
    comparison = compare(directory, [[sample()], [-sample()]])
    assert comparison.passed, comparison.failures()
    assert [tensor.op for tensor in comparison.tensors] == SEEN
    assert [tensor.mismatches for tensor in comparison.tensors] == [0] * len(SEEN)
    assert comparison.tensors[1].elements == 2 * 8 * 8 * 16
    assert comparison.text().splitlines()[4:15] == [
        "  intermediate tensors in memory",
        "  operator              tensors       results   differ  largest",
        "  TRANSPOSE                   1         1,536        0        0",
        "  RESCALE                     9         6,270        0        0",
        "  TABLE                       3         2,070        0        0",
        "  MAX_POOL2D                  1           512        0        0",
        "  REDUCE_SUM                  1           128        0        0",
        "  REDUCE_MAX                  1             2        0        0",
        "  SUB                         1            20        0        0",
        "  17 of 36 operators are compared; 19 results stay inside the NPU, 0 are in memory in parts only",
        "",
    ]


def test_the_first_operator_that_differs_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parse = blobs.parse
    monkeypatch.setattr(tosa_intermediates.blobs, "parse", lambda *given: off_by_one(parse(*given), Op.DEPTHWISE))
    (failure,) = compare(directory, [[sample()]]).failures()
    assert failure.startswith("partition 0, op 38 RESCALE, ")
    assert (
        failure.removeprefix("partition 0, op 38 RESCALE, ")
        .split(": ", 1)[0]
        .endswith("tests/npu/ethosu/mixed_network.py:30")
    )
    assert failure.endswith(
        " of 1,024 results in memory differ from TOSA's reference model; all earlier ones are equal"
    )


def test_what_is_never_whole_in_memory_is_counted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a tensor is none."""
    whole = decode

    def halved(data: bytes, where: str) -> object:
        stream = whole(data, where)
        operations = [*stream.operations]
        at = next(i for i, operation in enumerate(operations) if operation.kind == "depthwise")
        output = operations[at].output
        assert output is not None
        operations[at] = replace(operations[at], output=replace(output, shape=(4, 8, 16)))
        return replace(stream, operations=tuple(operations))

    monkeypatch.setattr(tosa_intermediates, "decode", halved)
    way = intermediates_of(directory)
    assert (way.coverage.operators, way.coverage.compared, way.coverage.parted) == (36, 16, 1)
    assert [result.op for result in way.results] == [*SEEN[:2], *SEEN[3:]]
