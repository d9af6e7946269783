"""A slice of `benches/differential.py`: the first graphs of it, in this process, on both drivers."""

from collections import Counter
from pathlib import Path

import pytest
from benches import differential
from tests import full
from tests.differential import budgets, regressions
from tests.differential.check import TARGET, Kind, check
from tests.graphs import random_graph, random_inputs

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.printer import OPS
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.driver import Driver

GRAPHS, CHUNK = 400, 50
IN_BUDGETS, LEAST_STRIPED = range(100, 112), 2
"""Graphs that are planned in part of their memory, too, and how many of their programs are cut into stripes."""
DRIVERS = (Driver("driver"), Driver("driver_ref"))


@pytest.mark.parametrize("first", full.first(range(0, GRAPHS, CHUNK), 2))
def test_compiler_driver_litert_and_provenance_agree(first: int) -> None:
    kernels: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        graph = random_graph(seed, stock=True)
        checked = check(graph, random_inputs(graph, seed), DRIVERS)
        assert not checked.failures, f"seed {seed}"
        kernels.update(checked.kernels)
    assert len(kernels) > len(KERNELS) * 3 / 4


def test_the_slice_has_every_operator_and_function_alone_and_in_long_graphs() -> None:
    graphs = [random_graph(seed, stock=True) for seed in range(GRAPHS)]
    # LiteRT has no tables: tests/npu/neutron/passes/test_fuse.py compares all their values.
    assert {type(op) for graph in graphs for op in graph.ops} == set(OPS.values()) - {ops.Lookup}
    assert {op.function for graph in graphs for op in graph.ops if isinstance(op, ops.Unary)} == set(ops.Function)
    sizes = [len(graph.ops) for graph in graphs]
    assert min(sizes) <= 2
    assert max(sizes) >= 30


def test_programs_in_part_of_their_memory_compute_the_same() -> None:
    striped = 0
    for seed in IN_BUDGETS:
        graph, inputs = differential.case(seed)
        found = budgets.check(emit(graph), TARGET, [value.tobytes() for value in inputs], differential.drawn(seed))
        assert found.problems == (), f"seed {seed}"
        striped += found.striped
    assert striped >= LEAST_STRIPED


@pytest.mark.parametrize("path", sorted(regressions.DIRECTORY.glob("*.ir")), ids=lambda path: path.stem)
def test_what_failed_once(path: Path) -> None:
    graph, inputs = regressions.load(path)
    shares = differential.SHARES if path.stem.endswith(f"_{Kind.BUDGET.value}") else ()
    assert not check(graph, inputs, DRIVERS, shares).failures
