"""Adapts ExecuTorch's NXP backend: its unmodified quantizer, partitioner and lowering, with a record of each partition.

The backend quantizes, partitions, and converts each partition to TFLite. It then calls the package `eiq_neutron_sdk`,
which compiles TFLite to microcode. That package is `deuteron.npu.neutron.sdk`, or the vendor's own. Four functions of
the backend are wrapped to record partitions; `multi_output_fixes.py` rewrites what the backend would convert wrongly.
"""

import importlib
import importlib.util
import multiprocessing
import operator
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.memory import FetchPolicy
from deuteron.builds.options import BuildOptions, Converter
from deuteron.errors import MissingToolError
from deuteron.frontend import lowering_record as recordings
from deuteron.frontend import upstream_caches
from deuteron.frontend.backends.interface import OnTagged
from deuteron.frontend.backends.neutron import inline_multiprocessing, tables
from deuteron.frontend.backends.neutron.delegation_reasons import explaining
from deuteron.frontend.backends.neutron.handles import debug_handle_map
from deuteron.frontend.backends.neutron.multi_output_fixes import merge_first_result, separate_readers, slice_splits
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.executorch_release import check_executorch
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.lowering_record import EdgeNode, edge_node
from deuteron.frontend.nodes import QUANTIZED, computing, name_of
from deuteron.frontend.operators import is_dequantize, is_qdq, is_quantize
from deuteron.frontend.quantize import norms, source_propagation
from deuteron.frontend.quantize.decompositions import constant, value_of
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import replaced
from deuteron.frontend.upstream.access import value_of as value_of_name
from deuteron.npu.neutron import sdk
from deuteron.npu.provenance import payload_mark

VENDOR_PACKAGE = "eiq_neutron_sdk"


@dataclass(frozen=True, slots=True)
class NeutronPartition(recordings.LoweredPartition):
    """One partition, as the NXP backend compiled it.

    Attributes:
        tflite: the backend's TFLite file of the partition.
        converted: the converter's TFLite file with one `NeutronGraph` operator.
        handles: ExecuTorch's debug handle of an edge node -> TFLite operators (indices) that carry it.
        nodes: TFLite operator index -> its edge nodes.
        formats: the backend's data formats of inputs and outputs, for its payload.
        kernel_selection: the converter's kernel selection file, if the build requested it.
        marks: the names at quantization of its nodes, on targets where the CPU may run them.
    """

    tflite: bytes = b""
    converted: bytes = b""
    handles: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    nodes: Mapping[int, tuple[EdgeNode, ...]] = field(default_factory=dict[int, tuple[EdgeNode, ...]])
    formats: Any = None
    kernel_selection: bytes = b""
    marks: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if the converter returned no operators, which the backend does not support."""
        return bool(self.converted) and not self.payload


Recording = recordings.Recording[NeutronPartition]
"""The record of partitions for a Neutron."""


@contextmanager
def converter(options: BuildOptions) -> Generator[sdk.Session]:
    """Install the chosen converter for the backend; the session keeps its errors, which the backend would lose."""
    check_executorch()
    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        session = sdk.Session(Path(folder), options.verify_each, options.memory)
        if options.converter is Converter.OPEN:
            sdk.install(session, shadow_vendor=True)
        else:
            sdk.uninstall()
            _need_vendor_package()
        try:
            is_open = options.converter is Converter.OPEN
            _bind_converter(inline_multiprocessing if is_open else multiprocessing)
            with tables.registered() if is_open else nullcontext():
                yield session
        finally:
            sdk.uninstall()


def _need_vendor_package() -> None:
    if importlib.util.find_spec(VENDOR_PACKAGE) is None:
        raise MissingToolError(
            f"the vendor's converter, package `{VENDOR_PACKAGE}`, is not installed",
            hint="install it from NXP, or leave out `--converter vendor` to use Deuteron's own",
        )


def _bind_converter(processes: ModuleType) -> None:
    """Bind the installed converter in the backend, which may have imported the other one before.

    `processes` replaces its `multiprocessing`.
    """
    package = importlib.import_module(VENDOR_PACKAGE)
    manager = importlib.import_module("executorch.backends.nxp.backend.neutron_converter_manager")
    vars(manager)["multiprocessing"] = processes
    for name in ("neutron_converter", "neutron_library_utils"):
        part: object = getattr(package, name, None)
        setattr(manager, name, part if part is not None else importlib.import_module(f"{VENDOR_PACKAGE}.{name}"))


def target_spec(target: str, converter: Converter) -> Any:
    """ExecuTorch's description of the target for its quantizer and partitioner."""
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec

    spec: Any = NeutronTargetSpec(target)
    if converter is Converter.OPEN:
        spec.neutron_target_info = _target_info(converter)
    return spec


def _target_info(converter: Converter) -> Any:
    """The part of the description that says which activations layers fuse.

    A vendor's NPU computes a sigmoid or tanh on the accumulator of the layer before it, so the backend's quantizer
    gives both the activation's range. Our kernels only fuse clamps: the layer before a sigmoid or tanh has its own
    range.
    """
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetNeutronC

    class OpenTarget(NeutronTargetNeutronC):
        @staticmethod
        def is_supported_fused_activation__aten(node_: fx.Node) -> bool:
            return not _is_sigmoid_or_tanh(node_) and NeutronTargetNeutronC.is_supported_fused_activation__aten(node_)

        @staticmethod
        def is_supported_fused_activation__edge(node_: fx.Node) -> bool:
            return not _is_sigmoid_or_tanh(node_) and NeutronTargetNeutronC.is_supported_fused_activation__edge(node_)

    return OpenTarget() if converter is Converter.OPEN else NeutronTargetNeutronC()


def _is_sigmoid_or_tanh(node: fx.Node) -> bool:
    """True for activations that our kernels do not fuse."""
    return re.search(r"\b(sigmoid|tanh)_?\.", str(node.target)) is not None


def quantizer(target: str, converter: Converter) -> Any:
    """ExecuTorch's quantizer for the NPU with corrected annotations."""
    from executorch.backends.nxp.quantizer.neutron_quantizer import NeutronQuantizer, act_qspec

    from deuteron.frontend.quantize import annotations, pointwise_chains

    class CorrectedQuantizer(NeutronQuantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            return _rewritten(spec, model)

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            source_propagation.name_functions(model.graph)
            if converter is Converter.OPEN:
                # Chains are annotated in place of the backend's groups, whose later nodes share the chain's scale.
                with upstream_caches.annotating_for_neutron():
                    NeutronQuantizer(spec).annotate(model)
                annotations.clear(model, set(model.graph.nodes) - pointwise_chains.annotate(model, act_qspec(False)))
            with upstream_caches.annotating_for_neutron():
                annotated = super().annotate(model)
            return annotations.correct_annotations(annotated, act_qspec(False), any_factor=converter is Converter.OPEN)

    spec = target_spec(target, converter)
    return CorrectedQuantizer(spec)


def rewriting_quantizer(converter: Converter) -> Any:
    """A quantizer with the rewrites of ExecuTorch's, for a CPU without an NPU; it annotates nothing."""
    from torchao.quantization.pt2e.quantizer import Quantizer

    class RewritingQuantizer(Quantizer):
        def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
            return _rewritten(SimpleNamespace(neutron_target_info=_target_info(converter)), model, keeps_groups=True)

        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            return model

        def validate(self, model: fx.GraphModule) -> None:
            pass

    return RewritingQuantizer()


def _rewritten(spec: Any, model: fx.GraphModule, *, keeps_groups: bool = False) -> fx.GraphModule:
    """Apply the rewrites of the backend's quantizer, without the split of grouped convolutions if `keeps_groups`."""
    from executorch.backends.nxp.aten_passes.decompose_split_to_slices_pass import DecomposeSplitToSlicesPass

    slice_splits(model)
    # The backend splits the inputs of grouped convolutions after it has replaced splits by slices.
    rewrite = partial(_run_passes, spec, keeps_groups)
    sliced: Any = DecomposeSplitToSlicesPass()(source_propagation.keep_sources(model, rewrite))
    return sliced.graph_module


def _run_passes(spec: Any, keeps_groups: bool, model: fx.GraphModule) -> fx.GraphModule:
    """Run the backend's passes, with a workaround for sums of linear layers."""
    from executorch.backends.nxp.aten_passes.fuse_linear_and_add_pass import FuseLinearAndAddPass
    from executorch.backends.nxp.aten_passes.neutron_aten_pass_manager import NeutronAtenPassManager
    from executorch.backends.nxp.aten_passes.split_group_convolution import SplitGroupConvolution

    model.graph.eliminate_dead_code()
    source_propagation.name_functions(model.graph)
    manager: Any = NeutronAtenPassManager(spec)
    # The manager wraps each pass in a function of the same name.
    steps = {step.__name__: step for step in manager.passes}
    fuse = FuseLinearAndAddPass.__name__
    steps[fuse] = partial(_fused, steps[fuse])
    if keeps_groups:
        del steps[SplitGroupConvolution.__name__]
    manager.passes = [*steps.values()]
    return manager(model).graph_module


def _fused(fuse: Callable[[fx.GraphModule], Any], model: fx.GraphModule) -> Any:
    """Run the backend's pass that fuses sums into linear layers, which fails at sums with numbers, without these."""
    add = torch.ops.aten.add.Tensor
    sums = [node for node in model.graph.find_nodes(op="call_function", target=add) if len(node.all_input_nodes) == 1]
    args = {node: node.args for node in sums}
    for node in sums:
        node.args = node.args[:1]  # the pass ignores sums with one argument
    result = fuse(model)
    for node in sums:
        node.args = (node.args[0], *args[node][1:])
    return result


def quantize(model: fx.GraphModule, batches: Iterable[Inputs], quantizer: Any) -> fx.GraphModule:
    """Insert quantize and dequantize operators into an exported model, with ranges measured on the batches."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from deuteron.frontend.quantize.calibration import calibrate, observe_integers

    prepared = prepare_pt2e(model, quantizer)
    observe_integers(prepared)
    calibrate(prepared, batches)
    return convert_pt2e(prepared)


def fold_batch_norms(model: fx.GraphModule) -> None:
    """Fold batch norms into the layers before them, as PT2E does for models without training."""
    _give_biases(model)
    frozen = {name for name, value in model.named_parameters() if not value.requires_grad}
    for function in (private_apis.FUSE_CONVOLUTION, private_apis.FUSE_LINEAR):
        value_of_name(function)(model)
    for name, value in model.named_parameters():
        value.requires_grad_(name not in frozen)  # PT2E's results do not require gradients


def _give_biases(model: fx.GraphModule) -> None:
    """Give layers before batch norms a bias of 0 if they have none, one for all calls of a layer.

    PT2E makes one for each call, of which the last call's is 0 where several calls share weights.
    """
    for norm in model.graph.find_nodes(op="call_function", target=torch.ops.aten.batch_norm.default):
        layer, mean = norm.args[0], norm.args[3]
        has_weight = isinstance(layer, fx.Node) and norms.is_layer(layer) and isinstance(mean, fx.Node)
        if has_weight and all(bias is None for bias in layer.args[2:3]):
            weight: fx.Node = layer.args[1]  # pyright: ignore[reportAssignmentType] - as `norms` has made sure
            zeros = torch.zeros_like(value_of(model, mean))
            bias = constant(model, layer, f"{weight.target}_bias", zeros, like=value_of(model, weight))
            layer.args = (*layer.args[:2], bias, *layer.args[3:])


def partitioner(state: Callable[[], Mapping[str, Any]], target: str, options: BuildOptions, on_tagged: OnTagged) -> Any:
    """ExecuTorch's partitioner, which records why it leaves nodes and calls `on_tagged` with tagged programs.

    `state` gives the quantized module's state dict when it is known.
    """
    from executorch.backends.nxp.backend.custom_delegation_options import CustomDelegationOptions
    from executorch.backends.nxp.neutron_partitioner import NeutronPartitioner
    from executorch.backends.nxp.nxp_backend import generate_neutron_compile_spec
    from executorch.exir.backend.partitioner import Partitioner, PartitionResult

    aten = torch.ops.aten

    def made() -> Any:
        return explaining(NeutronPartitioner, on_tagged)(
            generate_neutron_compile_spec(
                target,
                operators_not_to_delegate=list(options.operators_not_to_delegate),
                fetch_constants_to_sram=options.memory.fetch_constants_to_sram is FetchPolicy.ALWAYS,
                dump_kernel_selection_code=options.dump_kernel_selection_code,
                use_profiling=options.use_profiling,
            ),
            target_spec(target, options.converter),
            CustomDelegationOptions(),
            dict(state()),
            preserve_ops=[aten.prelu.default, aten.pad.default, aten.hardswish.default],
        )

    kept = options.operators_not_to_delegate
    has_tables = options.converter is Converter.OPEN

    class Late(Partitioner):
        def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[fx.Node], bool]]:
            operators, wanted = made().ops_to_not_decompose(ep)
            if not has_tables:
                return operators, wanted
            is_tabled = tables.part_of_table(ep.graph_module, tables.numbers_of(ep, state()), kept)
            return [*operators, *tables.preserved()], lambda node: wanted(node) or is_tabled(node)

        def partition(self, exported_program: ExportedProgram) -> PartitionResult:
            return made().partition(exported_program)

    return Late()


def edge_config() -> Any:
    """ExecuTorch's configuration of edge programs."""
    from executorch.backends.nxp.nxp_backend import core_aten_ops_exception_list
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False, _core_aten_ops_exception_list=core_aten_ops_exception_list)


def edge_passes(program: ExportedProgram, state: Mapping[str, Any], options: BuildOptions) -> Any:
    """The passes that prepare an edge program for the partitioner; they also insert tables."""
    from executorch.backends.nxp.edge_passes.neutron_edge_pass_manager import NeutronEdgePassManager
    from torch.fx.passes.infra.pass_base import PassResult

    base: Any = NeutronEdgePassManager
    call: Callable[..., Any] = base.__call__

    numbers = tables.numbers_of(program, state)

    class Passes(base):
        def __call__(self, module: fx.GraphModule) -> Any:
            result: Any = call(self, module)
            separate_readers(result.graph_module)
            if options.converter is not Converter.OPEN:
                return result
            tables.lower(result.graph_module, numbers, options.operators_not_to_delegate)
            return PassResult(result.graph_module, modified=True)

    manager: Any = Passes()
    manager.passes = [partial(source_propagation.keep_sources, rewrite=each) for each in manager.passes]
    return manager


def io_passes(edge: Any, variables: int = 0) -> Any:
    """The passes that remove the quantization of inputs and the dequantization of outputs.

    The last `variables` inputs and outputs stay as they are.
    """
    from executorch.backends.nxp.edge_passes.remove_io_quant_ops_pass import RemoveIOQuantOpsPass

    if not variables:
        return [RemoveIOQuantOpsPass(edge_program_manager=edge)]
    from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs

    program: ExportedProgram = edge.exported_program()
    nodes = {node.name: node for node in program.graph.nodes}
    inputs = [nodes[str(name)] for name in program.graph_signature.user_inputs][:-variables]
    outputs = list(flat(program.graph.output_node().args[0]))[:-variables]
    read = [i for i, node in enumerate(inputs) if any(map(is_quantize, node.users))]
    written = [i for i, node in enumerate(outputs) if isinstance(node, fx.Node) and is_dequantize(node)]
    return [QuantizeInputs(edge, read), QuantizeOutputs(edge, written)]


def last_passes() -> Any:
    """The passes over an edge program after delegation."""
    from executorch.backends.nxp.edge_passes.neutron_edge_pass_manager import NeutronEdgePassManager
    from executorch.backends.nxp.edge_passes.remove_additional_quantize_dequantize_nodes_pass import (
        RemoveAdditionalQDQClustersPass,
    )

    return NeutronEdgePassManager([RemoveAdditionalQDQClustersPass()])


@contextmanager
def observed(recording: Recording) -> Generator[None]:
    """Record partitions in the backend's functions that handle them."""
    from executorch.backends.nxp.backend.edge_program_converter import EdgeProgramToIRConverter
    from executorch.backends.nxp.backend.ir import logger
    from executorch.backends.nxp.backend.ir.converter.builder import quantization_verification
    from executorch.backends.nxp.backend.neutron_converter_manager import NeutronConverterManager
    from executorch.backends.nxp.nxp_backend import NeutronBackend

    preprocess: Callable[..., Any] = NeutronBackend.preprocess
    to_tflite: Callable[..., Any] = EdgeProgramToIRConverter.convert_program
    convert: Callable[..., Any] = NeutronConverterManager.convert
    verify: Callable[[Any], None] = quantization_verification.verify_quantization_integrity
    refused: list[int] = []

    def preprocess_(edge_program: ExportedProgram, specs: Any) -> Any:
        nodes = list(computing(edge_program.graph))
        marks = frozenset(node.meta.get("custom", {}).get(QUANTIZED, "") for node in nodes) - {""}
        recording.partitions.append(NeutronPartition(names=tuple(map(name_of, nodes)), marks=marks))
        merge_first_result(edge_program)
        result = preprocess(edge_program, specs)
        if result.debug_handle_map:  # the backend makes one for profiling only, from names in the converter's log
            last = recording.partitions[-1]
            exact = debug_handle_map(last.tflite, last.converted, last.handles)
            own = exact or result.debug_handle_map
            result.debug_handle_map = {**own, payload_mark(result.processed_bytes): ()}
        recording.extend_last(payload=result.processed_bytes)
        return result

    def to_tflite_(self: Any, edge_program: ExportedProgram, *args: Any, **kwargs: Any) -> Any:
        try:
            tflite, formats, handles = to_tflite(self, edge_program, *args, **kwargs)
        finally:
            by_handle = _nodes_by_handle(edge_program)
            recording.refused += [node for handle in refused for node in by_handle.get(handle, ())]
        nodes = _nodes_by_op(edge_program, handles)
        recording.extend_last(tflite=tflite, formats=formats, handles=handles, nodes=nodes)
        return tflite, formats, handles

    def convert_(self: Any, *args: Any, **kwargs: Any) -> bytes:
        if not self.dump_kernel_selection_code:
            converted = convert(self, *args, **kwargs)
            recording.extend_last(converted=converted)
            return converted
        # The converter writes the file into the working directory; the backend only logs if there is none.
        with tempfile.TemporaryDirectory(prefix="deuteron-") as folder, chdir(folder):
            converted = convert(self, *args, **kwargs)
            recording.extend_last(converted=converted, kernel_selection=_selection_in(Path(folder)))
        return converted

    def verify_(model: Any) -> None:
        operators = model.sub_graphs.vector[0].operators
        every = operators.vector
        try:
            verify(model)
        except logger.Error:
            for op in every:  # the backend does not name the operator, so each is verified alone
                operators.vector = [op]
                try:
                    verify(model)
                except logger.Error:
                    refused.append(op.tmp_edge_debug_handle)
            raise
        finally:
            operators.vector = every

    with (
        replaced(private_apis.NXP_VERIFY, lambda _: verify_),
        replaced(private_apis.NXP_PREPROCESS, lambda _: staticmethod(preprocess_)),
        replaced(private_apis.NXP_TO_TFLITE, lambda _: to_tflite_),
        replaced(private_apis.NXP_CONVERT, lambda _: convert_),
    ):
        yield


def _selection_in(folder: Path) -> bytes:
    """The kernel selection file of the partition that was converted in a folder; empty if there is none."""
    return b"".join(path.read_bytes() for path in folder.glob("_kernel_selection*.c"))


def _nodes_by_op(program: ExportedProgram, handles: Mapping[int, tuple[int, ...]]) -> dict[int, tuple[EdgeNode, ...]]:
    """Map TFLite operators (by index) to edge nodes; the backend knows their debug handles."""
    by_handle = _nodes_by_handle(program)
    by_op: dict[int, tuple[EdgeNode, ...]] = {}
    for handle, indices in handles.items():
        for index in indices:
            by_op[index] = (*by_op.get(index, ()), *by_handle.get(handle, ()))
    return by_op


def _nodes_by_handle(program: ExportedProgram) -> dict[int, list[EdgeNode]]:
    """Map ExecuTorch's debug handles to computing edge nodes."""
    by_handle: dict[int, list[EdgeNode]] = {}
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target is not operator.getitem and not is_qdq(node):
            by_handle.setdefault(node.meta.get("debug_handle"), []).append(edge_node(node))
    return by_handle
