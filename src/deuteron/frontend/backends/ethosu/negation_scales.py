"""Gives operand and result of negations one scale, as TOSA's operator requires.

ExecuTorch's Arm backend negates stored values without regard to scales. Its quantizer lets operand and result share an
observer, but other operators with the same observer may change one of the scales.
"""

from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.operators import base_name, is_dequantize, is_quantize


def split_scales(module: fx.GraphModule) -> bool:
    """Quantize negations with two scales by the scale of their operand first; true if there are any.

    The zero point is mirrored around -1/2, so no stored value saturates, and the result is still rounded once.
    """
    changed = False
    for node in list(module.graph.nodes):
        if node.op != "call_function" or base_name(node.target) != "neg":
            continue
        before, readers = node.all_input_nodes[0], [user for user in node.users if is_quantize(user)]
        if not is_dequantize(before) or len(before.args) < 6:
            continue
        scale, zero_point = cast("tuple[float, int]", before.args[1:3])
        mirrored = -1 - zero_point if before.args[5] == torch.int8 else 0  # int16 requires zero point 0
        wanted = (scale, mirrored, *before.args[3:])
        for reader in readers:
            if reader.args[1] != scale or reader.args[5] != before.args[5]:
                _quantize_twice(module, node, reader, before.target, wanted)
                changed = True
    module.recompile()
    return changed


def _quantize_twice(
    module: fx.GraphModule, node: fx.Node, reader: fx.Node, dequantize: Any, first: tuple[object, ...]
) -> None:
    """Insert a quantize and a dequantize operator between a node and the node that quantizes it."""
    with module.graph.inserting_before(reader):
        stored = module.graph.call_function(cast(Any, reader.target), cast(Any, (node, *first)))
        value = module.graph.call_function(dequantize, cast(Any, (stored, *first)))
    stored.meta = {**reader.meta, "val": reader.meta["val"].to(first[-1])}
    value.meta = dict(node.meta)
    reader.replace_input_with(node, value)
