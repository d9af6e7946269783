"""A thin slice of `make bench-ethosu-graphs`: random PyTorch graphs beside TOSA's reference model, bit for bit."""

import pytest
from tests.npu.ethosu.graphs import check


@pytest.mark.slow
def test_random_graphs_are_what_tosa_defines() -> None:
    counts = check([2, 5], "ethos-u65-256")
    assert counts.failures == ()
    assert (counts.graphs, counts.partitions > 0, counts.results > 0, counts.values > 0) == (2, True, True, True)
