"""Adapts ExecuTorch's Arm backend: its unmodified quantizer, partitioner and lowering, with a record of each partition.

The backend quantizes, partitions, writes each partition in TOSA and has Vela compile it. The function for the last two
steps is wrapped to record partitions.
"""

import logging
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import EthosU
from deuteron.arch.vela import VelaOptions
from deuteron.builds import manifest
from deuteron.builds.options import Activations, BuildOptions, WeightValues
from deuteron.errors import UnsupportedError
from deuteron.frontend import lowering_record as recordings
from deuteron.frontend import upstream_caches
from deuteron.frontend.backends.ethosu import (
    activations,
    constant_transposes,
    integers,
    negation_scales,
    unchanged_results,
)
from deuteron.frontend.backends.ethosu.origins import EdgeOrigin, by_operator, debug_handle_map, origins_of
from deuteron.frontend.backends.ethosu.stripe_writer import copied
from deuteron.frontend.backends.ethosu.vela_workarounds import separate
from deuteron.frontend.backends.interface import OnTagged
from deuteron.frontend.nodes import WHY, computing, cpu_only_reason, name_of
from deuteron.frontend.operators import base_name, is_quantize, operator_name
from deuteron.frontend.source_lines import source_of
from deuteron.frontend.upstream import private_apis
from deuteron.frontend.upstream.access import replaced
from deuteron.npu.ethosu.partition_record import NO_FILES, NO_RECORD, Record, VelaFiles, record_of
from deuteron.npu.ethosu.vela_process import run_vela
from deuteron.npu.provenance import payload_mark

BACKEND = "ExecuTorch's Ethos-U backend"

_KEPT = "deuteron_kept"
"""Key of a node's metadata: the partitioner must leave the node to the CPU."""

_TAG = "delegation_tag"
"""Key of a node's metadata: the partition, by ExecuTorch's partitioner."""

_CONFIG = "--config="

_AVERAGES = ("avg_pool2d", "_adaptive_avg_pool2d")

_TOSA, _DATABASE, _SUMMARY = Path("out.tosa"), Path("output/out_debug.xml"), "output/*_summary_*.csv"
"""Vela's input, its `--enable-debug-db` file, and its summary, in the folder for intermediate files."""


@dataclass(frozen=True, slots=True)
class EthosUPartition(recordings.LoweredPartition):
    """One partition, as Arm's backend compiled it.

    Attributes:
        nodes: its edge nodes before the backend's passes.
        files: what Vela got, in which each operator has the nodes and lines of the model that it comes from, and what
            Vela wrote: what became of each operator, and what it estimates.
        record: what these say of the operations.
        lowered: what compiles it again.
        stripes: segments that were cut to need less SRAM.
        notes: about the search for these.
    """

    nodes: tuple[EdgeOrigin, ...] = ()
    files: VelaFiles = NO_FILES
    record: Record = NO_RECORD
    lowered: "LoweredProgram | None" = None
    stripes: tuple[manifest.StripedSegment, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """A partition in TOSA operators, before the backend writes it.

    Attributes:
        module: the operators.
        program: has its constants, and the names of its inputs.
        nodes: the edge nodes.
        chains: whether the accelerator chains operators, for the workarounds.
    """

    module: fx.GraphModule
    program: ExportedProgram
    nodes: tuple[fx.Node, ...]
    chains: bool


Recording = recordings.Recording[EthosUPartition]
"""The record of partitions for an Ethos-U."""


def compile_spec(npu: EthosU, options: VelaOptions) -> Any:
    """ExecuTorch's compile specification of an NPU."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    flags = [f"--optimise={options.optimise.value}"]
    if options.arena_cache_size is not None:
        flags.append(f"--arena-cache-size={options.arena_cache_size}")
    config = options.vela_config and Path(options.vela_config).name  # `observed` gives Vela a copy of the file
    return EthosUCompileSpec(npu.target, options.vela_system_config, options.memory_mode, flags, config)


def quantizer(npu: EthosU, options: BuildOptions) -> Any:
    """ExecuTorch's quantizer for all operators; `pipeline.trainable` adds fake quantization for training."""
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config

    from deuteron.frontend.quantize.annotations import share_earlier  # here, because torchao is not quiet

    if options.activations is Activations.INT16:
        config: Any = arm.get_symmetric_a16w8_quantization_config()
    elif options.weights is WeightValues.INT4:
        config = get_symmetric_a8w4_quantization_config(is_qat=False)
    else:
        config = arm.get_symmetric_quantization_config()
    base: Any = arm.EthosUQuantizer

    class SharesEarlier(base):
        def annotate(self, model: fx.GraphModule) -> fx.GraphModule:
            annotated: fx.GraphModule = base.annotate(self, model)
            share_earlier(annotated)
            return annotated

    made = SharesEarlier(compile_spec(npu, options.vela))
    made.set_global(config)
    return made


def keep(node: fx.Node, why: str) -> None:
    """Mark a node so that the partitioner leaves it to the CPU, with the reason."""
    node.meta |= {_KEPT: True, WHY: why}


def partitioner(npu: EthosU, options: BuildOptions, on_tagged: OnTagged) -> Any:
    """ExecuTorch's partitioner, which records why it leaves nodes and calls `on_tagged` with tagged programs."""
    from executorch.backends.arm import ethosu
    from torch.fx.passes.operator_support import OperatorSupportBase

    base: Any = ethosu.EthosUPartitioner

    class _KeptNodes(OperatorSupportBase):
        """Rejects the nodes that options name, and marked nodes."""

        def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
            named = _named(node, options)
            if integers.stays_on_cpu(node):
                keep(node, integers.KEPT)
            if reason := cpu_only_reason(node):
                keep(node, reason)
            if named and WHY not in node.meta:
                keep(node, f"{manifest.KEPT} `--operators-not-to-delegate {named}`")
            return _KEPT not in node.meta

    class ExplainingPartitioner(base):
        def partition(self, exported_program: ExportedProgram) -> Any:
            reporters: list[Any] = []

            def reporting(reporter: Any) -> object:
                def report() -> Any:
                    reporters.append(reporter())
                    return reporters[-1]

                return report

            with replaced(private_apis.ARM_REPORTER, reporting):
                result: Any = base.partition(self, exported_program)
            _quantize_outputs(exported_program.graph)
            unchanged_results.leave_to_cpu(exported_program, _TAG)
            reasons: dict[fx.Node, str] = getattr(reporters[-1], "_rejected_nodes")  # noqa: B009 - it only prints them
            for node in computing(exported_program.graph):
                if _TAG not in node.meta and WHY not in node.meta:
                    node.meta[WHY] = _why(node, reasons)
            on_tagged(exported_program)
            return result

    return ExplainingPartitioner(compile_spec(npu, options.vela), [_KeptNodes()])


def _quantize_outputs(graph: fx.Graph) -> None:
    """Move the operators that quantize a partition's results into the partition, which computes integers only.

    ExecuTorch's partitioner may propose them for the partition that reads them, and then leaves them to the CPU.
    """
    for node in graph.nodes:
        tag = node.all_input_nodes[0].meta.get(_TAG) if is_quantize(node) else None
        if tag is not None:
            node.meta[_TAG] = tag


def _named(node: fx.Node, options: BuildOptions) -> str:
    """The names in `--operators-not-to-delegate` that match the node."""
    return ",".join(name for name in options.operators_not_to_delegate if name.replace("::", "_") in node.name)


def _why(node: fx.Node, reasons: dict[fx.Node, str]) -> str:
    reason = reasons.get(node)
    if reason is None:
        return f"{BACKEND} leaves `{operator_name(node.target)}` and does not say why"
    return f"{BACKEND}: {reason.strip().rstrip('.')}"


def edge_config() -> Any:
    """ExecuTorch's configuration of edge programs."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


def keep_bounds(module: fx.GraphModule) -> Any:
    """The edge pass that keeps bounds of activations and gives negations one scale."""
    from torch.fx.passes.infra.pass_base import PassResult

    changed = [activations.keep_bounds(module), negation_scales.split_scales(module)]
    return PassResult(module, any(changed))


@contextmanager
def observed(recording: Recording, config: str | None = None) -> Generator[None]:
    """Record the partitions of the backend, and insert the workarounds for Vela.

    Args:
        recording: of what passes.
        config: Vela's configuration file; None for its own.
    """
    from executorch.backends.arm._passes import (
        ArmPassManager,
        InsertTableOpsPass,
        MatchArgDtypePass,
        RewriteAdaptiveAvgPool2dPass,
    )
    from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec

    preprocess: Callable[..., Any] = EthosUBackend.preprocess
    from_list: Callable[[Any], Any] = getattr(EthosUCompileSpec, "_from_list")  # noqa: B009 - as the backend does

    def preprocess_(edge_program: ExportedProgram, specs: Any) -> Any:
        nodes = tuple(computing(edge_program.graph))
        number = len(recording.partitions)
        recording.partitions.append(EthosUPartition(names=tuple(map(name_of, nodes)), nodes=origins_of(edge_program)))
        result, files = _compiled(partial(preprocess, edge_program), from_list(specs), config, number, nodes)
        record = record_of(result.processed_bytes, files, f"npu {number}")
        lowered = LoweredProgram(latest[0], edge_program, nodes, latest[1])
        recording.extend_last(payload=result.processed_bytes, files=files, record=record, lowered=lowered)
        result.debug_handle_map = handle_map(recording.partitions[-1])
        return result

    latest: list[Any] = []
    to_tosa: Callable[..., fx.GraphModule] = ArmPassManager.transform_to_backend_pipeline

    def to_tosa_(passes: Any, exported_program: ExportedProgram, graph_module: fx.GraphModule) -> Any:
        if any(base_name(node.target) in _AVERAGES for node in computing(graph_module.graph)):
            # The backend writes average pools before tables, which are float until then, and would refuse these.
            passes.insert_passes_before(RewriteAdaptiveAvgPool2dPass, [InsertTableOpsPass(exported_program)])
        passes.insert_passes_before(MatchArgDtypePass, [_stored_dtypes()])
        module = to_tosa(passes, exported_program, graph_module)
        chains = not passes.tosa_spec.is_U55_subset  # the backend's flag also covers Ethos-U65
        constant_transposes.fold(module, exported_program)
        separate(module, chains=chains)
        latest[:] = [copied(module), chains]
        return module

    with (
        integers.exact(),
        upstream_caches.annotating(),
        replaced(private_apis.ARM_EQUAL_USERS, _with_metadata),
        replaced(private_apis.ARM_TO_TOSA, lambda _: to_tosa_),
        replaced(private_apis.ARM_PREPROCESS, lambda _: staticmethod(preprocess_)),
    ):
        yield


def compiled_again(
    lowered: LoweredProgram, module: fx.GraphModule, npu: EthosU, options: VelaOptions, number: int
) -> tuple[bytes, VelaFiles]:
    """Compile other TOSA operators of a partition, and return the payload and Vela's files.

    Args:
        lowered: the partition.
        module: a changed copy of its operators, which gets the workarounds for Vela.
        npu: the NPU.
        options: of Vela.
        number: the partition's.

    Raises:
        UnsupportedError: Vela compiles it wrong.
    """
    from executorch.backends.arm.ethosu import EthosUBackend

    run = partial(EthosUBackend.preprocess, lowered.program)

    def to_tosa(passes: Any, exported_program: ExportedProgram, graph_module: fx.GraphModule) -> Any:
        del passes, exported_program, graph_module
        separate(module, chains=lowered.chains)
        return module

    with integers.exact(), replaced(private_apis.ARM_TO_TOSA, lambda _: to_tosa):
        spec = compile_spec(npu, options)
        result, files = _compiled(run, spec, options.vela_config, number, lowered.nodes)
    return bytes(result.processed_bytes), files


def _compiled(
    run: Callable[[Any], Any], spec: Any, config: str | None, number: int, nodes: Sequence[fx.Node]
) -> tuple[Any, VelaFiles]:
    """Run the backend with a specification, and return its result and Vela's files."""
    from executorch.backends.arm.common.arm_compile_spec import ArmCompileSpec

    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        spec.dump_intermediate_artifacts_to(folder)
        spec.dump_debug_info(ArmCompileSpec.DebugMode.TOSA)
        spec.compiler_flags.append("--enable-debug-db")
        if config is not None:
            # ExecuTorch splits flags at spaces, and Vela searches its own files for some paths.
            moved = shutil.copy(config, Path(folder) / "vela.ini")
            flags = spec.compiler_flags
            flags[:] = [f"{_CONFIG}{moved}" if flag.startswith(_CONFIG) else flag for flag in flags]
        with replaced(private_apis.ARM_VELA, lambda _: SimpleNamespace(main=partial(_vela, number, nodes))):
            result = run(getattr(spec, "_to_list")())  # noqa: B009 - as the backend does
        return result, _files(Path(folder))


def handle_map(partition: EthosUPartition) -> dict[Any, tuple[int, ...]]:
    """Return the debug handles of each operation.

    The backend makes no map; without one, Inspector shows the whole partition as one event.
    """
    origins = by_operator(partition.nodes, partition.record.graph)
    return {
        **debug_handle_map(partition.record.provenance.kernels, origins),
        payload_mark(partition.payload): (),
    }


_METADATA = ("input_qparams", "output_qparams", "float_alpha", "float_scale", "float_input_scale")


def _with_metadata(signature: Callable[..., tuple[Any, ...] | None]) -> Callable[..., tuple[Any, ...] | None]:
    """Add an operator's metadata to its signature: the backend merges operators with equal signatures.

    The metadata are the quantization, and the parameters of functions of the ELU family.
    """

    def signature_(fused: Any, node: fx.Node) -> tuple[Any, ...] | None:
        found = signature(fused, node)
        return None if found is None else (*found, *(repr(node.meta.get(name)) for name in _METADATA))

    return signature_


def _stored_dtypes() -> Any:
    """Return a pass that gives operands of choices and differences the dtypes of their stored values.

    Results of functions are float until tables replace these. The backend would cast the other operand to float.
    """
    from executorch.exir.pass_base import ExportPass
    from torch.fx.passes.infra.pass_base import PassResult

    class StoredDtypes(ExportPass):
        def call(self, graph_module: fx.GraphModule) -> PassResult:
            for node in computing(graph_module.graph):
                for operand in node.all_input_nodes if base_name(node.target) in ("where", "sub") else ():
                    stored = operand.meta.get("output_qparams", {}).get(0)
                    if stored is not None:
                        operand.meta["val"] = operand.meta["val"].to(stored.dtype)
            return PassResult(graph_module, False)

    return StoredDtypes()


def _files(folder: Path) -> VelaFiles:
    """Vela's input and output files in a folder."""
    (summary,) = folder.glob(_SUMMARY)
    return VelaFiles((folder / _TOSA).read_bytes(), (folder / _DATABASE).read_text("utf-8"), summary.read_text("utf-8"))


def _vela(partition: int, nodes: Sequence[fx.Node], arguments: Sequence[str]) -> None:
    """Run Vela for a partition.

    Raises:
        UnsupportedError: Vela fails, or reports an error, after which it continues.
    """
    done = run_vela(arguments)
    logging.getLogger(__name__).debug(done.output)
    if not done.fault and not done.failure:
        return
    source = next(filter(None, map(source_of, nodes)), None)
    begin = f", which begins at `{source.code}`," if source else ""
    raise UnsupportedError(
        f"Vela compiled partition {partition}{begin} wrong, and says: {done.fault}"
        if done.fault
        else f"{done.failure}; it does not compile partition {partition}{begin.removesuffix(',')}",
        where=str(source) if source else None,
        hint="keep an operator on the CPU with `--operators-not-to-delegate`, or build for another accelerator",
    )
