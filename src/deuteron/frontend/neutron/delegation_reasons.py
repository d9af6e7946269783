"""ExecuTorch's NXP partitioner, unmodified in what it takes, that also tells why it leaves a node."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.builds import manifest
from deuteron.frontend.neutron.refusals import BACKEND, refusal
from deuteron.frontend.nodes import WHY, computing
from deuteron.frontend.npu_backend import Tell
from deuteron.frontend.operators import operator_name

KEPT = "NXP_DO_NOT_DELEGATE"
"""Key of a node's metadata: the partitioner is to leave it."""


def keep(node: fx.Node, why: str) -> None:
    """Tell that the partitioner leaves the node, for this reason."""
    node.meta |= {KEPT: True, WHY: why}


def telling(base: Any, tell: Tell) -> Any:
    """The class of the wheel's partitioner, `base`, whose objects call `tell` whenever they have tagged a program."""
    module: Any = importlib.import_module(base.__module__)
    supports: Callable[..., Any] = module.NeutronSupportedOperators
    partition: Callable[[Any, ExportedProgram], Any] = base.partition
    validate: Callable[..., bool] = base.validate_partitioning_result

    class Telling(base):
        def partition(self, exported_program: ExportedProgram) -> Any:
            results: list[Any] = []

            def supporting(*args: Any) -> Any:
                results.append(supports(*args))
                return results[-1]

            module.NeutronSupportedOperators = supporting
            try:
                result = partition(self, exported_program)
            finally:
                module.NeutronSupportedOperators = supports
            program: ExportedProgram = result.tagged_exported_program
            for node in computing(program.graph):
                if "delegation_tag" not in node.meta and WHY not in node.meta:
                    node.meta[WHY] = _why(node, results[-1], module.supported_ops)
            tell(program)
            return result

        def validate_partitioning_result(self, graph: fx.Graph, partitions: Any, options: Any, parameters: Any) -> bool:
            kept = {node for node in graph.nodes if node.meta.get(KEPT)}
            context = partitions, options, self.neutron_target_spec, parameters
            valid = validate(self, graph, partitions, options, parameters)
            for node in graph.nodes:
                if node.meta.get(KEPT) and node not in kept:
                    converter = module.supported_ops.get(node.target)
                    asked = refusal(converter.supports_partitioning_result, node, *context) if converter else ""
                    node.meta[WHY] = asked or (
                        f"{BACKEND} leaves it because all that could go to the NPU with it computes nothing there"
                    )
            return valid

    return Telling


def _why(node: fx.Node, support: Any, converters: Mapping[object, Any]) -> str:
    """Why a node is left: the first of the partitioner's own questions that it answers with no."""
    if not support.is_node_delegatable(node):
        names = ",".join(name for name in support.operators_not_to_delegate if name in node.name)
        return f"{manifest.KEPT} `--operators-not-to-delegate {names}`"
    converter = converters.get(node.target)
    cluster = support.qdq_clusters.get(node.meta.get("cluster"))
    if converter is None and (cluster is None or cluster.compute_node is node):
        return f"{BACKEND} has no converter for `{operator_name(node.target)}`"
    if cluster is None:
        return f"{BACKEND} takes quantised operators only, and not all that this one reads and writes is quantised"
    context = support.neutron_target_spec, support.parameters_mapping, support.custom_delegation_options
    asked = refusal(converter.is_supported, node, *context) if converter else ""
    if not asked and cluster.compute_node is not node:
        with_ = operator_name(cluster.compute_node.target)
        return f"it belongs to `{with_}`, node {cluster.compute_node.name}, which the NPU does not take"
    return asked or refusal(support.is_node_supported, {}, node) or f"{BACKEND} leaves it and does not say why"
