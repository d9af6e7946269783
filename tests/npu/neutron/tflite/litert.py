"""LiteRT as the second oracle of the tests."""

from deuteron.views.agreement.litert import one_op_graph, run_op
from deuteron.views.agreement.litert import run as run_bytes

__all__ = ["one_op_graph", "run_bytes", "run_op"]
