"""A thin slice of `make bench-ethosu-graphs`: random PyTorch graphs against TOSA's reference model, bit for bit."""

import pytest
from tests import full
from tests.npu.ethosu.graphs import check


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "wide"), full.first([((2, 5), False), ((1, 3), True)], 1))
def test_random_graphs_are_what_tosa_defines(seeds: tuple[int, ...], wide: bool) -> None:
    counts = check(seeds, "ethos-u65-256", wide=wide)
    assert counts.failures == ()
    assert (counts.graphs, counts.partitions > 0, counts.results > 0, counts.values > 0) == (2, True, True, True)
