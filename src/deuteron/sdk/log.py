"""The conversion as text in the form that ExecuTorch's `NeutronMap` reads, from which it maps kernels to edge nodes."""

from collections.abc import Iterable, Sequence

from deuteron.convert import Provenance, SourceOp


def conversion_log(ops: Sequence[SourceOp], provenance: Provenance) -> str:
    """The whole log: the source graph, then each kernel call as an operator of its own.

    The reader wants the word `Graphs` before a colon exactly twice, and the calls' numbers to be their positions.
    """
    graph = len(provenance.kernels)  # a number that no call has
    lines = ["Graphs:", "Name: main", *_nodes(enumerate(ops), ops, exact=False), "= Optimize Graph =", ""]
    lines += ["= Extract Graphs =", f'NeutronGraph "subgraph_{graph:03}":']
    for call in provenance.kernels:
        lines += [f'  NeutronOperator "subgraph_{call.index:03}":', "    Operators:"]
        lines += [f"      {ops[index].name}" for index in call.ops]
        lines += ["    Kernels:", f"      {call.kernel}"]
    lines += ["= Generate =", f'Generate code for NeutronGraph "subgraph_{graph:03}"', "", "Graphs:"]
    for call in provenance.kernels:
        lines += _subgraph(call.index, [(index, ops[index]) for index in call.ops], ops)
    lines += _subgraph(graph, [], ops)
    lines += [f'Statistics for NeutronGraph "subgraph_{graph:03}":', f"  Kernels: {len(provenance.kernels)}", ""]
    return "\n".join(lines)


def _subgraph(number: int, nodes: Sequence[tuple[int, SourceOp]], ops: Sequence[SourceOp]) -> list[str]:
    lines = [f"Name: subgraph_{number:03}", "  Inputs:"]
    lines += _tensors(dict.fromkeys(name for _, op in nodes for name in op.inputs))
    lines += ["  Outputs:", *_tensors(dict.fromkeys(name for _, op in nodes for name in op.outputs)), "  Tensors:"]
    return [*lines, *_nodes(nodes, ops, exact=True)]


def _nodes(nodes: Iterable[tuple[int, SourceOp]], ops: Sequence[SourceOp], *, exact: bool) -> list[str]:
    """One paragraph per node; `exact` lists the inputs that make the reader tell the node from all others."""
    lines: list[str] = []
    for index, op in nodes:
        inputs = _telling_inputs(op, ops) if exact else op.inputs
        lines += [f"  Type: {op.name}", "  Inputs:", *_tensors(inputs), "  Outputs:", *_tensors(op.outputs)]
        lines += [f"  Location: {index}"]
    return lines


def _tensors(names: Iterable[str]) -> list[str]:
    return [f"    [{i}]: {name}" for i, name in enumerate(names)]


def _telling_inputs(op: SourceOp, ops: Sequence[SourceOp]) -> tuple[str, ...]:
    """Inputs by which the reader finds this operator only.

    It takes a node for an operator when all inputs of the operator are among the node's, whatever the outputs: two
    pools of one tensor look alike to it. With one input missing it compares the outputs, which differ.
    """
    for left_out in dict.fromkeys(op.inputs):
        listed = tuple(name for name in op.inputs if name != left_out)
        alone = op.inputs.count(left_out) == 1
        if alone and not any(other != op and set(other.inputs) <= set(listed) for other in ops):
            return listed
    return op.inputs
