"""The length of a sweep on more workers than there are here, as the bench simulates it."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "benches" / "sweep.py"


@pytest.mark.parametrize(
    ("times", "workers", "seconds"), [((3, 1, 1, 1), 2, 3), ((3, 1, 1, 1), 1, 6), ((1, 1, 1, 3), 2, 4), ((2,), 256, 2)]
)
def test_whoever_is_free_takes_the_next_shard(times: tuple[float, ...], workers: int, seconds: float) -> None:
    described = importlib.util.spec_from_file_location("bench_sweep", PATH)
    assert described
    assert described.loader
    bench = importlib.util.module_from_spec(described)
    described.loader.exec_module(bench)
    assert bench.simulated(times, workers) == seconds
