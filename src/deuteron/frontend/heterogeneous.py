"""A model on the NPU and the CPU together: the NPU has what it really takes, the Cortex-M all the rest in int8.

Which nodes the NPU takes is asked of its own partitioner, on the quantised model: what it leaves is quantised again for
the CPU, until nothing that was quantised for the NPU is left over. Most models leave nothing, so the first to be asked
is the real one; where it costs more to make than a trial, as with training, it is a trial quantised by one sample.
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
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m import unsupported_check
from deuteron.frontend.cortex_m.elementwise import is_function
from deuteron.frontend.cortex_m.layout import make_explicit, put_channels_last
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.lowering_record import EdgeNode, Recording, edge_node
from deuteron.frontend.neutron import upstream
from deuteron.frontend.nodes import MARK, QUANTISED, WHY, computing, nodes_of
from deuteron.frontend.npu_backend import Side
from deuteron.frontend.quantise import annotations


class LeftOverError(Exception):
    """Nodes that were quantised for the NPU and that it has left; they are among the refused from now on."""


@dataclass(slots=True)
class Refused:
    """What the NPU's quantiser would have and its partitioner leaves.

    Attributes:
        kept: nodes to keep on the CPU whatever the partitioner says, by their names when they are quantised, and why.
        on_cpu: all, by their names when they are quantised, and why the NPU leaves them.
        edge: the edge operators that they became, by name.
        is_left_over: whether a lowering has ended with LeftOverError, and the same model is to be quantised again.
    """

    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    on_cpu: dict[str, str] = field(default_factory=dict[str, str])
    edge: dict[str, EdgeNode] = field(default_factory=dict[str, EdgeNode])
    is_left_over: bool = False

    def __post_init__(self) -> None:
        self.on_cpu |= self.kept

    def clear(self) -> None:
        """Forget what has been found."""
        self.on_cpu.clear()
        self.on_cpu |= self.kept
        self.edge.clear()

    def add(self, program: ExportedProgram) -> bool:
        """True when a partitioned edge program has new ones."""
        left: list[tuple[str, fx.Node]] = []
        for node in computing(program.graph):
            name = mark_of(node)
            if name is not None and "delegation_tag" not in node.meta:
                left.append((name, node))
        self.on_cpu |= {name: node.meta[WHY] for name, node in left}  # of several the last one computes it
        self.edge |= {node.name: edge_node(node) for _, node in left}
        return bool(left)


def quantizer(
    arch: Arch,
    side: Side,
    refused: Refused,
    recording: Recording[Any],
    sample: Callable[[], Inputs],
    activations: Activations = Activations.INT8,
    search: mixed_precision.Search | None = None,
    *,
    tries: bool = True,
) -> Any:
    """PT2E's quantiser for a target with both.

    A `search` says what has activations of 16 bits where others have 8. Before that `refused` is filled by trials, for
    which it quantises a `sample`; unless it `tries`, the lowering fills it, which ends with LeftOverError then.
    """
    from torchao.quantization.pt2e.quantizer import Quantizer

    def on_cpu() -> Collection[str]:
        return {*refused.on_cpu, *(search.wide if search else ())}

    class Trial(Quantizer):
        chosen = activations

        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            model = cortex_m.prepare(side.quantizer().transform_for_annotation(model), self.chosen)
            make_explicit(model)
            npu = _annotate_npu(model, side, on_cpu()) if arch.npu else frozenset[str]()
            unsupported_check.check(model, npu)
            annotations.clear(model)
            put_channels_last(model, {node.name for node in model.graph.nodes} - npu)
            return model

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            npu = _annotate_npu(model, side, on_cpu()) if arch.npu else frozenset[str]()
            for node in model.graph.nodes:
                marks = {QUANTISED: node.name} | ({MARK: node.name} if node.name in npu else {})
                node.meta["custom"] = {**node.meta.get("custom", {}), **marks}
            cortex_m.annotate(model, self.chosen, search.wide if search else ())
            annotations.mend_dangling(model)
            return model

        def validate(self, model: fx.GraphModule) -> None:
            pass

    class Whole(Trial):
        chosen = Activations.INT16

    class Composed(Trial):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            asks = partial(partitioner, arch, side, refused=refused, recording=recording, delegates=False)
            while tries and arch.npu and _leaves_more(model, side, Trial(), asks, refused, sample()):
                pass
            if search:  # whose neighbours may go with none any more: then the lowering ends with LeftOverError
                search.choose(model, Trial(), None if arch.npu else Whole())
                refused.on_cpu |= dict.fromkeys(search.wide, mixed_precision.WHY) if arch.npu else {}
            return super().transform_for_annotation(model)

    return Composed()


def _leaves_more(
    model: fx.GraphModule, side: Side, trial: Any, asks: Callable[..., Any], refused: Refused, sample: Inputs
) -> bool:
    """True when the NPU leaves nodes of the model that are not among the refused yet."""
    known = len(refused.on_cpu)
    module = upstream.quantise(copy.deepcopy(model), [sample], trial)
    quantise_once(module)
    side.ask(torch.export.export(module, sample, strict=True), asks(state=module.state_dict), module.state_dict())
    return len(refused.on_cpu) > known


def _annotate_npu(model: fx.GraphModule, side: Side, on_cpu: Collection[str]) -> frozenset[str]:
    """The names of the nodes that are now annotated for the NPU, which are none of those on the CPU."""
    side.quantizer().annotate(model)
    for group in annotations.groups(model):
        if any(node.name in on_cpu for node in group):
            annotations.clear(model, group)
    return frozenset(node.name for group in annotations.groups(model) for node in group)


def quantise_once(module: fx.GraphModule) -> None:
    """Quantise what the CPU computes with one scale, and for readers that want another once more.

    A delegate may have an output for each. The Cortex-M's operators have one, and would leave out the others.
    """
    quantise, dequantise = (
        torch.ops.quantized_decomposed.quantize_per_tensor.default,
        torch.ops.quantized_decomposed.dequantize_per_tensor.default,
    )
    for node in list(module.graph.nodes):
        first, *others = [user for user in node.users if user.target is quantise] or [None]
        for other in others:
            if first is not None and mark_of(node) is None and other.args[1:] != first.args[1:]:
                with module.graph.inserting_after(first):
                    value = module.graph.call_function(dequantise, first.args, first.kwargs)
                value.update_arg(0, first)
                value.meta = {key: data for key, data in node.meta.items() if key != "custom"}
                other.replace_input_with(node, value)
    module.graph.lint()
    module.recompile()


def partitioner(
    arch: Arch,
    side: Side,
    state: Callable[[], Mapping[str, Any]],
    refused: Refused,
    recording: Recording[Any],
    *,
    delegates: bool = True,
) -> Any:
    """ExecuTorch's partitioner for a target with both, in which each finds undecomposed the operators that it wants so.

    Args:
        arch: the target.
        side: its NPU's.
        state: the quantised module's state dict, when it is known.
        refused: gets what the NPU leaves.
        recording: gets all nodes of the model, and why the NPU does not take them.
        delegates: whether the NPU gets its nodes, or is only asked.
    """
    from executorch.exir.backend.partitioner import Partitioner, PartitionResult

    preserved = cortex_m.preserved()
    npu = side.partitioner(state, recording.tell) if arch.npu else None

    class Composed(Partitioner):
        def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[fx.Node], bool]]:
            operators: list[Any] = []
            kept = {*preserved, *(node.target for node in ep.graph.nodes if _is_kept(node))}
            wanted: Callable[[fx.Node], bool] = _nothing
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
                name = node.meta.get("custom", {}).get(QUANTISED, "")
                if name in refused.kept:
                    side.keep(node, refused.kept[name])
                elif name in refused.on_cpu:
                    node.meta[WHY] = refused.on_cpu[name]
            result = npu.partition(exported_program)
            if refused.add(result.tagged_exported_program) and delegates:
                refused.is_left_over = True
                raise LeftOverError(", ".join(sorted(refused.on_cpu)))
            if delegates:
                return result
            for node in result.tagged_exported_program.graph.nodes:
                node.meta.pop("delegation_tag", None)
            return PartitionResult(result.tagged_exported_program, {})

    return Composed()


def _is_kept(node: fx.Node) -> bool:
    """True for a function of one tensor that the CPU computes: its table is that of the whole.

    In an edge program, of which ExecuTorch asks again, nobody must want such an operator.
    """
    return isinstance(node.target, OpOverload) and mark_of(node) is None and is_function(node)


def _nothing(_: fx.Node) -> bool:
    return False


def mark_of(node: fx.Node) -> str | None:
    """The name that a node had when it was quantised for the NPU, if it was."""
    custom: Mapping[str, Any] = node.meta.get("custom", {})
    return custom.get(MARK)
