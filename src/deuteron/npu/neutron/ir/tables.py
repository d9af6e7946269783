"""Lookup tables with 256 entries for functions of one stored value."""

import numpy as np

from deuteron import numerics
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph

Computed = ops.Unary | ops.LeakyRelu | ops.Quantize
"""Operators with the table of a real function."""

Tabled = Computed | ops.Lookup
"""Operators whose results each depend on one stored value."""

ENTRIES = 256


def real_function(op: Computed) -> numerics.RealFunction | None:
    """Return the real function of the op, None if it only requantizes."""
    match op:
        case ops.Unary():
            return numerics.REAL_FUNCTIONS[op.function.value]
        case ops.LeakyRelu():
            return numerics.leaky_relu(op.alpha)
        case ops.Quantize():
            return None


def function_table(op: Tabled, graph: Graph) -> numerics.I8:
    """Return table[x + 128], the op's result for stored input x."""
    if isinstance(op, ops.Lookup):
        return np.array(op.entries, np.int8)
    return numerics.unary_table(real_function(op), graph.type(op.inputs[0]).q, graph.type(op.outputs[0]).q)
