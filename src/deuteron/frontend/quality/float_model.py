"""The float model that a quantized one was made from: the prepared model without its observers."""

from torch import fx
from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase


def without_observers(prepared: fx.GraphModule) -> fx.GraphModule:
    """A copy of a prepared model that measures and rounds nothing; its weights are the same tensors."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in prepared.graph.nodes:
        if node.op == "call_module" and isinstance(
            prepared.get_submodule(str(node.target)), ObserverBase | FakeQuantizeBase
        ):
            copies[node] = copies[node.args[0]]
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return fx.GraphModule(prepared, graph)
