"""LiteRT as the second oracle of the tests."""

from deuteron.runtime.litert import run as run_bytes
from deuteron.views.compare.litert import one_op_graph, run_op

__all__ = ["one_op_graph", "run_bytes", "run_op"]
