"""Adds copies for graph outputs that no op computes."""

from dataclasses import replace

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Reshape
from deuteron.npu.neutron.passes.base import new_name


def copy_outputs(graph: Graph) -> Graph:
    """Return the graph with a reshape, which copies, for each output that is an input or a constant.

    The copy has another name, so this is no pass. It has no origin, because it comes from no TFLite operator.
    """
    taken = {tensor.name for tensor in graph.tensors}
    produced = graph.producers()
    names = {name: new_name(f"{name}/output", taken) for name in graph.outputs if name not in produced}
    if not names:
        return graph
    copies = tuple(Reshape(inputs=(name,), outputs=(copy,)) for name, copy in names.items())
    tensors = tuple(replace(graph.tensor(name), name=copy, data=None) for name, copy in names.items())
    outputs = tuple(names.get(name, name) for name in graph.outputs)
    return replace(graph, outputs=outputs, ops=(*graph.ops, *copies), tensors=(*graph.tensors, *tensors))
