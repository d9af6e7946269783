"""Gives negations one scale for operand and result, as TOSA's operator has it.

ExecuTorch's Arm backend writes a negation as one of stored values, whatever the scales of its operand and its result
are. Its quantiser lets both share an observer, but other operators that share it too may end with another scale.
"""

from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.operators import base_name, is_dequantise, is_quantise


def part(module: fx.GraphModule) -> bool:
    """Quantise such negations of an edge program by the scale of their operand first; true where there are any.

    Stored values are mirrored around -1/2 then: none is cut off, and the result is rounded once, as it is without.
    """
    mended = False
    for node in list(module.graph.nodes):
        if node.op != "call_function" or base_name(node.target) != "neg":
            continue
        before, readers = node.all_input_nodes[0], [user for user in node.users if is_quantise(user)]
        if not is_dequantise(before) or len(before.args) < 6:
            continue
        scale, zero_point = cast("tuple[float, int]", before.args[1:3])
        mirrored = -1 - zero_point if before.args[5] == torch.int8 else 0  # of int16 the operator takes 0 alone
        wanted = (scale, mirrored, *before.args[3:])
        for reader in readers:
            if reader.args[1] != scale or reader.args[5] != before.args[5]:
                _quantise_twice(module, node, reader, before.target, wanted)
                mended = True
    module.recompile()
    return mended


def _quantise_twice(
    module: fx.GraphModule, node: fx.Node, reader: fx.Node, dequantise: Any, first: tuple[object, ...]
) -> None:
    """Put a quantise and a dequantise operator between a node and one that quantises it."""
    with module.graph.inserting_before(reader):
        stored = module.graph.call_function(cast(Any, reader.target), cast(Any, (node, *first)))
        value = module.graph.call_function(dequantise, cast(Any, (stored, *first)))
    stored.meta = {**reader.meta, "val": reader.meta["val"].to(first[-1])}
    value.meta = dict(node.meta)
    reader.replace_input_with(node, value)
