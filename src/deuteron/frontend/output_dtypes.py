"""Restores the dtypes of integer outputs in a lowered program: Arm's backend narrows int64 to int32."""

import importlib
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import fx
from torch.export import ExportedProgram

from deuteron.builds.manifest import Source
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.source_lines import source_of


def of(model: fx.GraphModule) -> tuple[torch.dtype, ...]:
    """The dtypes of the outputs of an exported model."""
    return tuple(cast(fx.Node, node).meta["val"].dtype for node in flat(model.graph.output_node().args[0]))


def exact(model: fx.GraphModule, count: int) -> dict[int, Source | None]:
    """Those of the first outputs that are computed from integers and bools alone, so that nothing rounds; their lines.

    Args:
        model: an exported model.
        count: how many outputs the user gets; those of variables are behind them.
    """
    outputs = cast("Sequence[fx.Node]", flat(model.graph.output_node().args[0]))
    return {index: source_of(node) for index, node in enumerate(outputs[:count]) if _is_exact(node)}


def _is_exact(output: fx.Node) -> bool:
    pending, seen = [output], {output}
    while pending:
        node = pending.pop()
        value: object = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
            return False
        pending += [arg for arg in node.all_input_nodes if arg not in seen]
        seen.update(node.all_input_nodes)
    return True


def restore(program: ExportedProgram, dtypes: Sequence[torch.dtype]) -> None:
    """Append casts on the CPU to integer and bool outputs of an edge program that have another dtype."""
    output = program.graph.output_node()
    nodes = cast("list[fx.Node]", flat(output.args[0]))
    first = len(nodes) - len(dtypes)
    for index, dtype in enumerate(dtypes, start=first):
        node = nodes[index]
        value: torch.Tensor = node.meta["val"]
        if value.dtype == dtype or dtype.is_floating_point or dtype.is_complex:
            continue
        operators: Any = importlib.import_module("executorch.exir.dialects._ops").ops.edge.dim_order_ops
        with program.graph.inserting_before(output):
            restored = program.graph.call_function(
                operators._to_dim_order_copy.default,  # noqa: SLF001 - the operator's name
                (node,),
                {"dtype": dtype, "dim_order": [*range(value.dim())]},
            )
        restored.meta = {**node.meta, "val": value.to(dtype)}
        nodes[index] = restored
        program.graph_signature.output_specs[index].arg.name = restored.name
    output.args = (tuple(nodes),)
    program.graph_module.recompile()
