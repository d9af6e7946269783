"""Combines NPU and CPU in one model: the NPU runs what its partitioner accepts, the Cortex-M runs the rest in int8.

The NPU's partitioner sees the quantized model. Nodes that it rejects are quantized again for the CPU, until it accepts
all nodes that were quantized for the NPU. Most models need no repetition, so the first attempt is the real lowering. If
a repetition costs more than a trial, as with training, a trial quantized with one sample comes first.
"""

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram

from deuteron.arch.targets import Arch
from deuteron.builds.options import Activations
from deuteron.frontend import mixed_precision
from deuteron.frontend.backends.interface import NpuBackend
from deuteron.frontend.backends.neutron import upstream
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m import cpu_divisions, recurrent_lowering, unsupported_check
from deuteron.frontend.cortex_m.elementwise import is_function
from deuteron.frontend.cortex_m.layout import make_explicit, put_channels_last
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.lowering_record import EdgeNode, Recording, edge_node
from deuteron.frontend.nodes import MARK, QUANTIZED, WHY, computing, cpu_only_reason, nodes_of
from deuteron.frontend.quantize import annotations


class LeftOverError(Exception):
    """The NPU rejected nodes that were quantized for it; they are now among the rejected nodes."""


@dataclass(slots=True)
class RejectedNodes:
    """Nodes that the NPU's quantizer annotates and its partitioner rejects.

    Attributes:
        kept: nodes that must stay on the CPU, by their names at quantization, and why.
        left: nodes that the NPU's partitioner took and its backend cannot compile, by their names at quantization.
        on_cpu: all nodes that stay on the CPU, by their names at quantization, and why.
        edge: the edge operators that they became, by name.
        is_left_over: whether a lowering ended with LeftOverError, and the same model is to be quantized again.
    """

    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    left: dict[str, str] = field(default_factory=dict[str, str])
    on_cpu: dict[str, str] = field(default_factory=dict[str, str])
    edge: dict[str, EdgeNode] = field(default_factory=dict[str, EdgeNode])
    is_left_over: bool = False

    def __post_init__(self) -> None:
        self.on_cpu |= self.kept

    def clear(self) -> None:
        """Reset to the nodes that must stay on the CPU."""
        self.left.clear()
        self.on_cpu.clear()
        self.on_cpu |= self.kept
        self.edge.clear()

    def add(self, program: ExportedProgram) -> bool:
        """Add the rejected nodes of a partitioned edge program; True if there are any."""
        left: list[tuple[str, fx.Node]] = []
        for node in computing(program.graph):
            name = mark_of(node)
            if name is not None and "delegation_tag" not in node.meta:
                left.append((name, node))
        self.on_cpu |= {name: node.meta[WHY] for name, node in left}  # of several the last one computes it
        self.edge |= {node.name: edge_node(node) for _, node in left}
        return bool(left)

    def leave(self, reasons: Mapping[str, str]) -> bool:
        """Leave nodes that the NPU's backend cannot compile to the CPU; True if the model is to be quantized again.

        Args:
            reasons: by the names of the nodes at quantization.
        """
        self.is_left_over = not self.left.keys() >= reasons.keys()
        self.left |= reasons
        self.on_cpu |= self.left
        return self.is_left_over


def quantizer(
    arch: Arch,
    npu_backend: NpuBackend,
    rejected: RejectedNodes,
    recording: Recording[Any],
    sample: Callable[[], Inputs],
    activations: Activations = Activations.INT8,
    search: mixed_precision.Search | mixed_precision.StateNodes | None = None,
    *,
    runs_trials: bool = True,
) -> Any:
    """PT2E's quantizer for a target with Cortex-M operators, and with an NPU or without one.

    A `search` selects the nodes with int16 activations. With `runs_trials`, lowerings of a model that is quantized with
    one `sample` fill `rejected` first. Otherwise the real lowering fills it and ends with LeftOverError.
    """
    from torchao.quantization.pt2e.quantizer import Quantizer

    def on_cpu() -> Collection[str]:
        return {*rejected.on_cpu, *(search.int16_nodes if search else ())}

    class Trial(Quantizer):
        activations_of_cpu = activations

        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            cpu_divisions.rename(model)  # the NPU's quantizer would decompose them
            model = npu_backend.quantizer().transform_for_annotation(model)
            cpu_divisions.restore(model)
            model = cortex_m.prepare(model, self.activations_of_cpu)
            make_explicit(model)
            npu = _annotate_npu(model, npu_backend, on_cpu())
            unsupported_check.check(model, npu)
            annotations.clear(model)
            put_channels_last(model, {node.name for node in model.graph.nodes} - npu)
            return model

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            npu = _annotate_npu(model, npu_backend, on_cpu())
            mark(model, npu)
            cortex_m.annotate(model, self.activations_of_cpu, search.int16_nodes if search else ())
            annotations.resolve_dangling(model)
            return model

        def validate(self, model: fx.GraphModule) -> None:
            pass

    class Int16Trial(Trial):
        activations_of_cpu = Activations.INT16

    class HeterogeneousQuantizer(Trial):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            lowering = partial(partitioner, arch, npu_backend, rejected=rejected, recording=recording, delegates=False)
            tries = runs_trials and npu_backend.has_npu
            while tries and _rejects_more(model, npu_backend, Trial(), lowering, rejected, sample()):
                pass
            if search:  # neighbours of int16 nodes may fit no partition; the lowering then ends with LeftOverError
                search.run(model, Trial(), None if npu_backend.has_npu else Int16Trial())
                rejected.on_cpu |= dict.fromkeys(search.int16_nodes, search.why) if npu_backend.has_npu else {}
            return super().transform_for_annotation(model)

    return HeterogeneousQuantizer()


def mark(model: fx.GraphModule, npu: Collection[str]) -> None:
    """Note the name at quantization of each node, and whether it is quantized for the NPU."""
    for node in model.graph.nodes:
        marks = {QUANTIZED: node.name} | ({MARK: node.name} if node.name in npu else {})
        node.meta["custom"] = {**node.meta.get("custom", {}), **marks}


def _rejects_more(
    model: fx.GraphModule,
    npu_backend: NpuBackend,
    trial: Any,
    lowering: Callable[..., Any],
    rejected: RejectedNodes,
    sample: Inputs,
) -> bool:
    """True if the NPU rejects nodes of the model that are not among the rejected nodes yet."""
    count = len(rejected.on_cpu)
    module = upstream.quantize(copy.deepcopy(model), [sample], trial)
    quantize_once(module)
    exported = torch.export.export(module, sample, strict=True)
    npu_backend.tag(exported, lowering(state=module.state_dict), module.state_dict())
    return len(rejected.on_cpu) > count


def _annotate_npu(model: fx.GraphModule, npu_backend: NpuBackend, on_cpu: Collection[str]) -> frozenset[str]:
    """Annotate the model for the NPU and return the annotated nodes' names.

    Groups with nodes in `on_cpu`, or with 16-bit states of recurrent layers, are for the CPU.
    """
    npu_backend.quantizer().annotate(model)
    marked = (node.name for node in model.graph.nodes if cpu_only_reason(node))
    kept = {*on_cpu, *recurrent_lowering.state_moves(model), *marked}
    for group in annotations.groups(model):
        if any(node.name in kept for node in group):
            annotations.clear(model, group)
    return frozenset(node.name for group in annotations.groups(model) for node in group)


def quantize_once(module: fx.GraphModule) -> None:
    """Lower recurrent layers, give each value that the CPU computes one scale, and quantize it again for other readers.

    A delegate may have one output per scale. A Cortex-M operator has one output, so lowering would drop other scales.
    """
    quantize, dequantize = (
        torch.ops.quantized_decomposed.quantize_per_tensor.default,
        torch.ops.quantized_decomposed.dequantize_per_tensor.default,
    )
    recurrent_lowering.lower(module)
    for node in [node for node in module.graph.nodes if node.target is not dequantize]:
        first, *others = [user for user in node.users if user.target is quantize] or [None]
        for other in others:
            if first is not None and mark_of(node) is None and other.args[1:] != first.args[1:]:
                with module.graph.inserting_after(first):
                    value = module.graph.call_function(dequantize, first.args, first.kwargs)
                value.update_arg(0, first)
                value.meta = {key: data for key, data in node.meta.items() if key != "custom"}
                other.replace_input_with(node, value)
    module.graph.lint()
    module.recompile()


def partitioner(
    arch: Arch,
    npu_backend: NpuBackend,
    state: Callable[[], Mapping[str, Any]],
    rejected: RejectedNodes,
    recording: Recording[Any],
    *,
    delegates: bool = True,
) -> Any:
    """ExecuTorch's partitioner for such a target; each processor gets the operators that it wants undecomposed.

    Args:
        arch: the target.
        npu_backend: the back end of its NPU.
        state: returns the quantized module's state dict, once there is one.
        rejected: gets the nodes that the NPU rejects.
        recording: gets all nodes of the model, and why the NPU does not run them.
        delegates: whether the partitioner delegates the nodes, or only tags them.
    """
    from executorch.exir.backend.partitioner import Partitioner, PartitionResult

    preserved = cortex_m.preserved()
    npu = npu_backend.partitioner(state, recording.record_nodes)

    class HeterogeneousPartitioner(Partitioner):
        def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[fx.Node], bool]]:
            operators: list[Any] = []
            kept = {*preserved, *(node.target for node in ep.graph.nodes if _is_kept(node))}
            wanted: Callable[[fx.Node], bool] = _never
            if npu:
                operators, wanted = npu.ops_to_not_decompose(ep)

            def keeps(node: fx.Node) -> bool:
                return wanted(node) if mark_of(node) else node.target in kept

            return list(dict.fromkeys([*operators, *kept])), keeps

        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            if npu is None:
                recording.nodes = nodes_of(exported_program, f"the target `{arch.name}` has no NPU")
                return PartitionResult(exported_program, {})
            for node in computing(exported_program.graph):
                name = node.meta.get("custom", {}).get(QUANTIZED, "")
                if reason := rejected.kept.get(name) or rejected.left.get(name) or cpu_only_reason(node):
                    npu_backend.keep(node, reason)
                elif name in rejected.on_cpu:
                    node.meta[WHY] = rejected.on_cpu[name]
            result = npu.partition(exported_program)
            if rejected.add(result.tagged_exported_program) and delegates:
                rejected.is_left_over = True
                raise LeftOverError(", ".join(sorted(rejected.on_cpu)))
            if delegates:
                return result
            for node in result.tagged_exported_program.graph.nodes:
                node.meta.pop("delegation_tag", None)
            return PartitionResult(result.tagged_exported_program, {})

    return HeterogeneousPartitioner()


def _is_kept(node: fx.Node) -> bool:
    """True for a function of one tensor on the CPU, which becomes one table and must not be decomposed.

    ExecuTorch asks again about edge programs; there the answer must be no.
    """
    return isinstance(node.target, OpOverload) and mark_of(node) is None and is_function(node)


def _never(_: fx.Node) -> bool:
    return False


def mark_of(node: fx.Node) -> str | None:
    """The name at quantization of a node that was quantized for the NPU; None for other nodes."""
    custom: Mapping[str, Any] = node.meta.get("custom", {})
    return custom.get(MARK)
