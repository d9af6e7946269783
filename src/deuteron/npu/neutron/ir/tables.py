"""The 256-entry tables behind functions of one stored value."""

from deuteron import numerics
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph

Tabled = ops.Unary | ops.LeakyRelu | ops.Quantize
"""Operators of which each result depends on one stored value alone."""


def real_function(op: Tabled) -> numerics.RealFunction | None:
    """The real function of the op, None when it only requantises."""
    match op:
        case ops.Unary():
            return numerics.REAL_FUNCTIONS[op.function.value]
        case ops.LeakyRelu():
            return numerics.leaky_relu(op.alpha)
        case ops.Quantize():
            return None


def function_table(op: Tabled, graph: Graph) -> numerics.I8:
    """table[x + 128] = the op's result for stored input x."""
    return numerics.unary_table(real_function(op), graph.type(op.inputs[0]).q, graph.type(op.outputs[0]).q)
