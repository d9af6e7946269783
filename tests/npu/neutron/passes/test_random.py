"""On random graphs, every pass keeps the outputs, the interface and the rules of the IR."""

from dataclasses import replace

import numpy as np
import pytest
from tests import full
from tests.graphs import random_graph, random_inputs

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.ops import Op
from deuteron.npu.neutron.ir.types import Tensor
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.passes.base import rename_tensors
from deuteron.npu.neutron.passes.merge_moves import Moves
from deuteron.npu.neutron.passes.pipeline import passes

GRAPHS = 300
CHUNK = 100


def with_twins(graph: Graph) -> Graph:
    """The graph in which the last of several readers of a transposed or reshaped tensor gets a separate one."""
    readers, tensors, ops = graph.consumers(), list[Tensor](), list[Op]()
    twins: dict[Op, dict[str, str]] = {}
    for read in graph.ops:
        (op,) = rename_tensors((read,), twins.get(read, {}))
        ops.append(op)
        name = op.outputs[0]
        if isinstance(op, Moves) and len(readers.get(name, ())) > 1:
            twin = f"{name}/twin"
            tensors.append(replace(graph.tensor(name), name=twin))
            ops.append(replace(op, outputs=(twin,)))
            twins.setdefault(readers[name][-1], {})[name] = twin
    return graph.with_ops(tuple(ops), tuple(tensors))


@pytest.mark.parametrize("first", full.first(range(0, GRAPHS, CHUNK), 1))
def test_every_pass_keeps_what_the_graph_computes(first: int) -> None:
    changed: set[str] = set()
    for seed in range(first, first + CHUNK):
        source = with_twins(random_graph(seed))
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
