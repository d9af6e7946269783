"""The conversion as text in the form that ExecuTorch's `NeutronMap` reads, from which it maps kernels to edge nodes.

That reader takes a node of a kernel for a TFLite operator when it finds the operator's input names among the node's.
Each operator therefore has its own names for tensors, `x@3` for the tensor `x` that operator 3 reads. Then each node is
exactly one operator, however many others read the same tensors, and the map is the compiler's.
"""

from collections.abc import Iterable, Sequence

from deuteron.npu.neutron.convert import SourceOp
from deuteron.npu.provenance import Provenance


def conversion_log(ops: Sequence[SourceOp], provenance: Provenance) -> str:
    """The whole log: the source graph, then each kernel call as a separate operator.

    The reader wants the word `Graphs` before a colon exactly twice, and the calls' numbers to be their positions.
    """
    graph = len(provenance.kernels)  # a number that no call has
    lines = ["Graphs:", "Name: main"]
    for index, op in enumerate(ops):
        lines += _node(op.name, index, op)
    lines += ["= Optimize Graph =", "", "= Extract Graphs =", f'NeutronGraph "subgraph_{graph:03}":']
    for call in provenance.kernels:
        lines += [f'  NeutronOperator "subgraph_{call.index:03}":', "    Operators:"]
        lines += [f"      {ops[index].name}" for index in call.ops]
        lines += ["    Kernels:", f"      {call.kernel}"]
    lines += ["= Generate =", f'Generate code for NeutronGraph "subgraph_{graph:03}"', "", "Graphs:"]
    for call in provenance.kernels:
        lines += _subgraph(call.index, call.kernel, [(index, ops[index]) for index in call.ops])
    lines += _subgraph(graph, "", [])
    lines += [f'Statistics for NeutronGraph "subgraph_{graph:03}":', f"  Kernels: {len(provenance.kernels)}", ""]
    return "\n".join(lines)


def _subgraph(number: int, kernel: str, nodes: Sequence[tuple[int, SourceOp]]) -> list[str]:
    """A call and what it stands for.

    Its nodes have the kernel's type: of two that are called `AVERAGE_POOL_2D`, the reader would drop one.
    """
    lines = [f"Name: subgraph_{number:03}", "  Inputs:"]
    lines += _tensors(name for index, op in nodes for name in _own(op.inputs, index))
    lines += ["  Outputs:", *_tensors(name for index, op in nodes for name in _own(op.outputs, index)), "  Tensors:"]
    for index, op in nodes:
        lines += _node(kernel, index, op)
    return lines


def _node(kind: str, index: int, op: SourceOp) -> list[str]:
    inputs, outputs = _tensors(_own(op.inputs, index)), _tensors(_own(op.outputs, index))
    return [f"  Type: {kind}", "  Inputs:", *inputs, "  Outputs:", *outputs, f"  Location: {index}"]


def _own(names: Iterable[str], index: int) -> list[str]:
    """Tensors as operator `index` names them; the reader ends a name at a space."""
    return [f"{'_'.join(name.split())}@{index}" for name in names]


def _tensors(names: Iterable[str]) -> list[str]:
    return [f"    [{i}]: {name}" for i, name in enumerate(dict.fromkeys(names))]
