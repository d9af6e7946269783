"""LiteRT as the second oracle of the tests."""

from deuteron.litert import one_op_graph, run_op
from deuteron.litert import run as run_bytes

__all__ = ["one_op_graph", "run_bytes", "run_op"]
