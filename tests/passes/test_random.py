"""On random graphs, every pass keeps the outputs, the interface and the rules of the IR."""

import numpy as np
import pytest
from tests.graphs import random_graph, random_inputs

from deuteron.ir.interpret import run
from deuteron.ir.verify import verify
from deuteron.passes.pipeline import passes

GRAPHS = 300
CHUNK = 100


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_every_pass_keeps_what_the_graph_computes(first: int) -> None:
    changed: set[str] = set()
    for seed in range(first, first + CHUNK):
        source = random_graph(seed)
        verify(source)
        inputs = random_inputs(source, seed)
        expected = run(source, inputs)
        graph = source
        for step in passes():
            before, graph = graph, step.apply(graph)
            if graph is before:
                continue
            changed.add(step.name)
            verify(graph)
            assert (graph.inputs, graph.outputs) == (source.inputs, source.outputs)
            assert all(op.origin for op in graph.ops)
            found = run(graph, inputs)
            for name in source.outputs:
                np.testing.assert_array_equal(found[name], expected[name], f"seed {seed}, {step.name}, `{name}`")
    assert changed == {step.name for step in passes()}  # the graphs give every pass something to do
