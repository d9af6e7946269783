"""A model on the NPU and the CPU together: the NPU has what it really takes, the Cortex-M all the rest in int8.

Which nodes the NPU takes is asked of its own partitioner, on the quantised model: what it leaves is quantised again for
the CPU, until nothing that was quantised for the NPU is left over.
"""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from deuteron.arch import targets
from deuteron.arch.targets import Arch
from deuteron.frontend import annotations, cortex_m, lints, seam
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.layout import make_explicit, put_channels_last
from deuteron.frontend.nodes import QUANTISED, WHY, computing, nodes_of
from deuteron.frontend.operators import is_qdq
from deuteron.frontend.options import BuildOptions
from deuteron.frontend.telling import keep as keep_on_cpu

MARK = "deuteron_npu"
"""Key among a node's custom metadata: the name that it had when it was quantised for the NPU."""


@dataclass(frozen=True, slots=True)
class Composition:
    """A quantised model whose parts each belong to one processor.

    Attributes:
        module: the quantised model.
        inputs: of the model, for a comparison.
        edge: its edge program manager, with every operator that will be delegated marked by the partitioner.
        partitioner: the NPU's, or None where there is no NPU.
        refused: edge operators that the NPU's quantiser had and its partitioner left.
    """

    module: fx.GraphModule
    inputs: Inputs
    edge: Any
    partitioner: Any
    refused: tuple[seam.EdgeNode, ...]


def compose(
    program: ExportedProgram,
    batches: Sequence[Inputs],
    arch: Arch,
    options: BuildOptions,
    recording: seam.Recording,
    keep: Mapping[str, str] = MappingProxyType({}),
) -> Composition:
    """The quantised model, ranges measured on the batches; `keep` are nodes to keep on the CPU, and why."""
    on_cpu: set[str] = set(keep)
    refused: dict[str, seam.EdgeNode] = {}
    reasons: dict[str, str] = {}
    while True:
        module = seam.quantise(program, batches, quantizer(arch, options, on_cpu))
        _quantise_once(module)
        npu = seam.partitioner(module.state_dict(), arch.npu.target, options, recording.tell) if arch.npu else None
        edge = _to_edge(torch.export.export(module, batches[0], strict=True), npu)
        _mark_kept(edge, keep, reasons)
        left = _left_over(edge, npu) if npu else {}
        if not left:
            return Composition(module, batches[0], edge, npu, tuple(refused.values()))
        refused |= {node.name: seam.edge_node(node) for nodes in left.values() for node in nodes}
        reasons |= {name: nodes[-1].meta[WHY] for name, nodes in left.items()}  # the last one computes it
        on_cpu |= left.keys()


def lower(composition: Composition, arch: Arch, options: BuildOptions, recording: seam.Recording) -> Any:
    """The edge program manager after delegation, with the Cortex-M's operators."""
    edge = composition.edge
    if composition.partitioner is not None:
        with seam.observed(recording):
            edge = edge.to_backend(composition.partitioner)
    else:
        recording.nodes = nodes_of(edge.exported_program(), f"the target `{arch.name}` has no NPU")
    if options.remove_quant_io_ops:
        edge = seam.remove_quant_io_ops(edge)
    cortex_m.lower(edge, arch.cpu.name)
    lints.check_values(edge.exported_program(), composition.module, composition.inputs)
    return edge


def quantizer(arch: Arch, options: BuildOptions, on_cpu: Collection[str] = ()) -> Any:
    """PT2E's quantiser for a target; `on_cpu` are the nodes that the NPU has refused."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    known = arch.npu.target if arch.npu else targets.npu_names()[0]

    def neutron() -> Any:
        return seam.quantizer(known, options.converter)

    class Composed(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            model = cortex_m.prepare(neutron().transform_for_annotation(model))
            make_explicit(model)
            npu = _annotate_npu(model, neutron, on_cpu) if arch.npu else frozenset[str]()
            annotations.clear(model)
            put_channels_last(model, {node.name for node in model.graph.nodes} - npu)
            return model

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            npu = _annotate_npu(model, neutron, on_cpu) if arch.npu else frozenset[str]()
            for node in model.graph.nodes:
                marks = {QUANTISED: node.name} | ({MARK: node.name} if node.name in npu else {})
                node.meta["custom"] = {**node.meta.get("custom", {}), **marks}
            cortex_m.annotate(model)
            annotations.mend_dangling(model)
            return model

        def validate(self, model: fx.GraphModule) -> None:
            pass

    return Composed()


def _annotate_npu(model: fx.GraphModule, neutron: Callable[[], Any], on_cpu: Collection[str]) -> frozenset[str]:
    """The names of the nodes that are now annotated for the NPU, which are none of those on the CPU."""
    neutron().annotate(model)
    for group in annotations.groups(model):
        if any(node.name in on_cpu for node in group):
            annotations.clear(model, group)
    return frozenset(node.name for group in annotations.groups(model) for node in group)


def _quantise_once(module: fx.GraphModule) -> None:
    """Nothing; what the CPU computes is quantised with one scale, and for readers that want another once more.

    A delegate may have an output for each. The Cortex-M's operators have one, and would leave out the others.
    """
    quantise, dequantise = (
        torch.ops.quantized_decomposed.quantize_per_tensor.default,
        torch.ops.quantized_decomposed.dequantize_per_tensor.default,
    )
    for node in list(module.graph.nodes):
        first, *others = [user for user in node.users if user.target is quantise] or [None]
        for other in others:
            if first is not None and _mark(node) is None and other.args[1:] != first.args[1:]:
                with module.graph.inserting_after(first):
                    value = module.graph.call_function(dequantise, first.args, first.kwargs)
                value.update_arg(0, first)
                value.meta = {key: data for key, data in node.meta.items() if key != "custom"}
                other.replace_input_with(node, value)
    module.graph.lint()
    module.recompile()


def _mark_kept(edge: Any, keep: Mapping[str, str], refused: Mapping[str, str]) -> None:
    """Nothing; keeps nodes on the CPU, and says why it has those that the NPU refused as they were quantised for it.

    Both are given by the names that nodes have when they are quantised.
    """
    for node in computing(edge.exported_program().graph):
        name = node.meta.get("custom", {}).get(QUANTISED, "")
        if name in keep:
            keep_on_cpu(node, keep[name])
        elif name in refused:
            node.meta[WHY] = refused[name]


def _to_edge(program: ExportedProgram, npu: Any) -> Any:
    """The edge program manager, in which each side finds undecomposed the operators that it wants so.

    ExecuTorch's `to_edge` keeps or decomposes all nodes of an operator alike; per node it asks partitioners.
    """
    from executorch.backends.nxp.nxp_backend import core_aten_ops_exception_list
    from executorch.exir import EdgeCompileConfig
    from executorch.exir.program import _program

    preserved = cortex_m.preserved()

    class Keeper:
        def transform_for_pre_decomposition(self, program: ExportedProgram) -> ExportedProgram:
            return program

        def ops_to_not_decompose(self, program: ExportedProgram) -> tuple[list[Any], Callable[[fx.Node], bool]]:
            operators: list[Any] = []
            wanted: Callable[[fx.Node], bool] = _nothing
            if npu:
                operators, wanted = npu.ops_to_not_decompose(program)

            def keeps(node: fx.Node) -> bool:
                return wanted(node) if _mark(node) else node.target in preserved

            return list(dict.fromkeys([*operators, *preserved])), keeps

    config = EdgeCompileConfig(_check_ir_validity=False, _core_aten_ops_exception_list=core_aten_ops_exception_list)
    make: Any = getattr(_program, "_gen_edge_manager_for_partitioners")  # noqa: B009
    edge = make({"forward": [Keeper()]}, {"forward": program}, config, None)
    return seam.prepare_edge(edge) if npu else edge


def _nothing(_: fx.Node) -> bool:
    return False


def _mark(node: fx.Node) -> str | None:
    """The name that a node had when it was quantised for the NPU, if it was."""
    custom: Mapping[str, Any] = node.meta.get("custom", {})
    return custom.get(MARK)


def _left_over(edge: Any, npu: Any) -> dict[str, list[fx.Node]]:
    """The nodes that were quantised for the NPU and that its partitioner leaves, by the names they had then."""
    program = npu.partition(edge.exported_program()).tagged_exported_program
    left: dict[str, list[fx.Node]] = {}
    for node in program.graph.nodes:
        delegated = node.meta.pop("delegation_tag", None) is not None
        computes = node.op == "call_function" and node.target is not operator.getitem and not is_qdq(node)
        name = _mark(node)
        if computes and name is not None and not delegated:
            left.setdefault(name, []).append(node)
    return left
