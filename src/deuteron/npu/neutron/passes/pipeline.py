"""The passes in order."""

from collections.abc import Collection

from deuteron.errors import VerifyError
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.passes.base import Pass
from deuteron.npu.neutron.passes.canonicalise import Canonicalise
from deuteron.npu.neutron.passes.fold_constants import FoldConstants
from deuteron.npu.neutron.passes.fuse_activation import FuseActivation
from deuteron.npu.neutron.passes.fuse_padding import FusePadding
from deuteron.npu.neutron.passes.fuse_tables import FuseTables
from deuteron.npu.neutron.passes.merge_moves import MergeMoves
from deuteron.npu.neutron.passes.push_transposes import PushTransposes
from deuteron.npu.neutron.passes.remove_no_ops import RemoveNoOps
from deuteron.npu.neutron.passes.simplify_transposes import SimplifyTransposes


def passes() -> tuple[Pass, ...]:
    """One round of the pipeline."""
    return (
        FoldConstants(),
        Canonicalise(),
        SimplifyTransposes(),
        PushTransposes(),
        RemoveNoOps(),
        FuseActivation(),
        FusePadding(),
        FuseTables(),
        MergeMoves(),  # last, because ops with several readers are not moved
    )


def optimise(graph: Graph, *, verify_each: bool = False, excluded: Collection[str] = ()) -> Graph:
    """Run all passes until the graph does not change; each round that changes it simplifies it.

    Args:
        graph: the graph to simplify.
        verify_each: verify the graph after every pass.
        excluded: names of passes to skip.
    """
    steps = tuple(step for step in passes() if step.name not in excluded)
    while True:
        before = graph
        for step in steps:
            graph = step.apply(graph)
            if verify_each:
                _verify_after(step, graph)
        if graph == before:
            return graph


def _verify_after(step: Pass, graph: Graph) -> None:
    try:
        verify(graph)
    except VerifyError as error:
        where = f"after pass `{step.name}`" + (f": {error.where}" if error.where else "")
        raise VerifyError(error.message, hint=error.hint, where=where) from error
