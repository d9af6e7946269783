"""Partitions beside TOSA's reference model: equal ones, others, and what cannot be compared."""

from pathlib import Path

import pytest
from conformance import tosa
from conformance.tosa import Difference
from tests.frontend.ethosu.networks import built, layer

from deuteron.npu.ethosu import blob
from deuteron.runtime import pte


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a layer was compiled from, and to."""
    directory = built(layer)
    (delegate,) = pte.delegates((directory / "model.pte").read_bytes())
    (tmp_path / "layer.tosa").write_bytes((directory / "npu_0.tosa").read_bytes())
    (tmp_path / "layer.partition").write_bytes(delegate.payload)
    return tmp_path


def test_a_partition_gives_the_bytes_of_the_reference(folder: Path) -> None:
    told: list[str] = []
    compared = tosa.compare(folder, folder, told.append)
    assert (compared.partitions, compared.values, compared.differences, told) == (1, 8, (), ["layer"])
    assert list(compared.lines()) == ["1 partitions beside TOSA's reference model: 8 outputs, 0 of them differ"]


def test_other_constants_differ(folder: Path) -> None:
    path = folder / "layer.partition"
    payload = path.read_bytes()
    weights = blob.parse(payload, "layer").weights
    at = payload.index(weights)
    # The biases of the first channels, in the scales before the weights.
    path.write_bytes(payload[:at] + bytes(x ^ 0x40 for x in weights[:16]) + payload[at + 16 :])
    compared = tosa.compare(folder, folder, print)
    assert [difference.name for difference in compared.differences] == ["layer"]
    assert 0 < compared.differences[0].values <= 8
    assert list(compared.lines())[1] == f"  layer: {compared.differences[0].values} outputs differ"


def test_what_cannot_be_compared_is_told(folder: Path) -> None:
    path = folder / "layer.partition"
    path.write_bytes(path.read_bytes()[:-32])
    (difference,) = tosa.compare(folder, folder, print).differences
    assert difference == Difference(
        "layer", 0, f"FormatError: layer: the partition ends at byte {path.stat().st_size}, before its last block"
    )
