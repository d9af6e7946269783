"""Extends ExecuTorch's NXP partitioner to record why it leaves a node to the CPU; its decisions do not change."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.builds import manifest
from deuteron.frontend.backends.interface import OnTagged
from deuteron.frontend.backends.neutron.refusals import BACKEND, refusal
from deuteron.frontend.nodes import WHY, computing
from deuteron.frontend.operators import operator_name
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import replaced, value_of

KEPT = "NXP_DO_NOT_DELEGATE"
"""Key of a node's metadata: the partitioner must leave the node to the CPU."""


def keep(node: fx.Node, why: str) -> None:
    """Mark a node so that the partitioner leaves it to the CPU, with the reason."""
    node.meta |= {KEPT: True, WHY: why}


def explaining(base: Any, on_tagged: OnTagged) -> Any:
    """Return a subclass of ExecuTorch's partitioner `base` that calls `on_tagged` with each tagged program."""
    partition: Callable[[Any, ExportedProgram], Any] = base.partition
    validate: Callable[..., bool] = base.validate_partitioning_result

    class ExplainingPartitioner(base):
        def partition(self, exported_program: ExportedProgram) -> Any:
            results: list[Any] = []

            def recording(supports: Any) -> object:
                def support(*args: Any) -> Any:
                    results.append(supports(*args))
                    return results[-1]

                return support

            with replaced(private_apis.NXP_SUPPORTED, recording):
                result = partition(self, exported_program)
            program: ExportedProgram = result.tagged_exported_program
            for node in computing(program.graph):
                if "delegation_tag" not in node.meta and WHY not in node.meta:
                    node.meta[WHY] = _why(node, results[-1], value_of(private_apis.NXP_OPERATORS))
            on_tagged(program)
            return result

        def validate_partitioning_result(self, graph: fx.Graph, partitions: Any, options: Any, parameters: Any) -> bool:
            kept = {node for node in graph.nodes if node.meta.get(KEPT)}
            context = partitions, options, self.neutron_target_spec, parameters
            valid = validate(self, graph, partitions, options, parameters)
            for node in graph.nodes:
                if node.meta.get(KEPT) and node not in kept:
                    converter = value_of(private_apis.NXP_OPERATORS).get(node.target)
                    reason = refusal(converter.supports_partitioning_result, node, *context) if converter else ""
                    node.meta[WHY] = reason or (
                        f"{BACKEND} leaves it because all that could go to the NPU with it computes nothing there"
                    )
            return valid

    return ExplainingPartitioner


def _why(node: fx.Node, support: Any, converters: Mapping[object, Any]) -> str:
    """The reason: the first check of the partitioner that the node fails."""
    if not support.is_node_delegatable(node):
        names = ",".join(name for name in support.operators_not_to_delegate if name in node.name)
        return f"{manifest.KEPT} `--operators-not-to-delegate {names}`"
    converter = converters.get(node.target)
    cluster = support.qdq_clusters.get(node.meta.get("cluster"))
    if converter is None and (cluster is None or cluster.compute_node is node):
        return f"{BACKEND} has no converter for `{operator_name(node.target)}`"
    if cluster is None:
        return f"{BACKEND} supports quantized operators only; an input or output of this one is not quantized"
    context = support.neutron_target_spec, support.parameters_mapping, support.custom_delegation_options
    reason = refusal(converter.is_supported, node, *context) if converter else ""
    if not reason and cluster.compute_node is not node:
        with_ = operator_name(cluster.compute_node.target)
        return f"it belongs to `{with_}`, node {cluster.compute_node.name}, which the NPU does not take"
    return reason or refusal(support.is_node_supported, {}, node) or f"{BACKEND} leaves it and does not say why"
