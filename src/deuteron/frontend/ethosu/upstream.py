"""The one place that touches ExecuTorch's Arm backend: the wheel's pipeline, run unmodified and observed.

The wheel quantises, partitions, writes each partition in TOSA and has Vela compile it, in this process. What passes
through is recorded by wrapping the function that does the last two, whose behaviour stays as it is.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from deuteron.arch.targets import EthosU
from deuteron.arch.vela import VelaOptions
from deuteron.builds import manifest
from deuteron.builds.options import Activations, BuildOptions, WeightValues
from deuteron.errors import UnsupportedError
from deuteron.frontend import lowering_record as recordings
from deuteron.frontend.ethosu import activations, integers, negation
from deuteron.frontend.ethosu.origins import Origin, by_operator, debug_handle_map, noted
from deuteron.frontend.ethosu.vela_workarounds import keep_apart
from deuteron.frontend.log_suppression import overheard
from deuteron.frontend.nodes import WHY, computing, name_of
from deuteron.frontend.npu_backend import Tell
from deuteron.frontend.operators import base_name, operator_name
from deuteron.frontend.source_lines import source_of
from deuteron.npu.ethosu.partition_record import NO_FILES, NO_RECORD, Record, VelaFiles, record_of
from deuteron.npu.provenance import payload_mark

BACKEND = "ExecuTorch's Ethos-U backend"

_KEPT = "deuteron_kept"
"""Key of a node's metadata: the partitioner is to leave it."""

_FAULT = re.compile(r"^\s*(?:Error|ERROR)\b:?\s*(.*)$", re.MULTILINE)
"""A line of Vela about something that is wrong; its exit code is 0 all the same."""

_CONFIG = "--config="

_AVERAGES = ("avg_pool2d", "_adaptive_avg_pool2d")

_TOSA, _DATABASE, _SUMMARY = Path("out.tosa"), Path("output/out_debug.xml"), "output/*_summary_*.csv"
"""What the wheel gives to Vela, what Vela writes for `--enable-debug-db`, and what always, in the folder for all."""


@dataclass(frozen=True, slots=True)
class Lowered(recordings.Lowered):
    """One partition as it passed through the seam.

    Attributes:
        nodes: its edge nodes as they were before the wheel's passes.
        files: what Vela got, in which each operator has the nodes and lines of the model that it comes from, and what
            Vela wrote: what became of each operator, and what it estimates.
        record: what these say of the operations.
    """

    nodes: tuple[Origin, ...] = ()
    files: VelaFiles = NO_FILES
    record: Record = NO_RECORD


Recording = recordings.Recording[Lowered]
"""What is noted of partitions for an Ethos-U."""


def compile_spec(npu: EthosU, options: VelaOptions) -> Any:
    """What the wheel is told of an NPU."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    flags = [f"--optimise={options.optimise.value}"]
    if options.arena_cache_size is not None:
        flags.append(f"--arena-cache-size={options.arena_cache_size}")
    config = options.vela_config and Path(options.vela_config).name  # `observed` has Vela read it from where it is
    return EthosUCompileSpec(npu.target, options.vela_system_config, options.memory_mode, flags, config)


def quantizer(npu: EthosU, options: BuildOptions) -> Any:
    """The wheel's quantiser, for all operators; with training `flow.trainable` makes its observers round, too."""
    from executorch.backends.arm import quantizer as wheel
    from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config

    if options.activations is Activations.INT16:
        config: Any = wheel.get_symmetric_a16w8_quantization_config()
    elif options.weights is WeightValues.INT4:
        config = get_symmetric_a8w4_quantization_config(is_qat=False)
    else:
        config = wheel.get_symmetric_quantization_config()
    made = wheel.EthosUQuantizer(compile_spec(npu, options.vela))
    made.set_global(config)
    return made


def keep(node: fx.Node, why: str) -> None:
    """Tell that the partitioner leaves the node, for this reason."""
    node.meta |= {_KEPT: True, WHY: why}


def partitioner(npu: EthosU, options: BuildOptions, tell: Tell) -> Any:
    """What picks the nodes that the NPU takes and tells why it leaves others; `tell` is called with tagged programs."""
    from executorch.backends.arm import ethosu
    from executorch.backends.arm.tosa import partitioner as module
    from torch.fx.passes.operator_support import OperatorSupportBase

    base: Any = ethosu.EthosUPartitioner

    class Kept(OperatorSupportBase):
        """Leaves what the options name, and what is marked."""

        def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
            named = _named(node, options)
            if integers.stays_on_cpu(node):
                keep(node, integers.KEPT)
            if named and WHY not in node.meta:
                keep(node, f"{manifest.KEPT} `--operators-not-to-delegate {named}`")
            return _KEPT not in node.meta

    class Telling(base):
        def partition(self, exported_program: ExportedProgram) -> Any:
            reporters: list[Any] = []
            reporter: Any = vars(module)["WhyNoPartitionReporter"]

            def reporting() -> Any:
                reporters.append(reporter())
                return reporters[-1]

            with _replaced(module, "WhyNoPartitionReporter", reporting):
                result: Any = base.partition(self, exported_program)
            reasons: dict[fx.Node, str] = getattr(reporters[-1], "_rejected_nodes")  # noqa: B009 - it only prints them
            for node in computing(exported_program.graph):
                if "delegation_tag" not in node.meta and WHY not in node.meta:
                    node.meta[WHY] = _why(node, reasons)
            tell(exported_program)
            return result

    return Telling(compile_spec(npu, options.vela), [Kept()])


def _named(node: fx.Node, options: BuildOptions) -> str:
    """What of the operators to keep on the CPU names the node."""
    return ",".join(name for name in options.operators_not_to_delegate if name.replace("::", "_") in node.name)


def _why(node: fx.Node, reasons: dict[fx.Node, str]) -> str:
    reason = reasons.get(node)
    if reason is None:
        return f"{BACKEND} leaves `{operator_name(node.target)}` and does not say why"
    return f"{BACKEND}: {reason.strip().rstrip('.')}"


def edge_config() -> Any:
    """How edge programs are made."""
    from executorch.exir import EdgeCompileConfig

    return EdgeCompileConfig(_check_ir_validity=False)


def keep_bounds(module: fx.GraphModule) -> Any:
    """The pass over an edge program after which activations have their bounds, and negations one scale."""
    from torch.fx.passes.infra.pass_base import PassResult

    changed = [activations.part(module), negation.part(module)]
    return PassResult(module, any(changed))


@contextmanager
def observed(recording: Recording, config: str | None = None) -> Generator[None]:
    """Records partitions that pass through the wheel; Vela gets apart what it would join wrong.

    Args:
        recording: of what passes.
        config: Vela's configuration file; None for its own.
    """
    from executorch.backends.arm._passes import ArmPassManager, InsertTableOpsPass, RewriteAdaptiveAvgPool2dPass
    from executorch.backends.arm.common.arm_compile_spec import ArmCompileSpec
    from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec

    preprocess: Callable[..., Any] = EthosUBackend.preprocess
    from_list: Callable[[Any], Any] = getattr(EthosUCompileSpec, "_from_list")  # noqa: B009 - as the wheel does

    def preprocess_(edge_program: ExportedProgram, specs: Any) -> Any:
        nodes = list(computing(edge_program.graph))
        recording.partitions.append(Lowered(names=tuple(map(name_of, nodes)), nodes=noted(edge_program)))
        with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
            spec = from_list(specs)
            spec.dump_intermediate_artifacts_to(folder)
            spec.dump_debug_info(ArmCompileSpec.DebugMode.TOSA)
            spec.compiler_flags.append("--enable-debug-db")
            if config is not None:
                # ExecuTorch parts flags at spaces, and Vela looks among its own files for some paths.
                copied = shutil.copy(config, Path(folder) / "vela.ini")
                flags = spec.compiler_flags
                flags[:] = [f"{_CONFIG}{copied}" if flag.startswith(_CONFIG) else flag for flag in flags]
            with overheard() as said:
                result = preprocess(edge_program, getattr(spec, "_to_list")())  # noqa: B009 - as the wheel does
            _check_said(said[0], len(recording.partitions) - 1, nodes)
            files = _files(Path(folder))
        record = record_of(result.processed_bytes, files, f"npu {len(recording.partitions) - 1}")
        recording.extend_last(payload=result.processed_bytes, files=files, record=record)
        # The wheel makes no map; without one, Inspector takes the whole partition for one event.
        origins = by_operator(recording.partitions[-1].nodes, record.graph)
        result.debug_handle_map = {
            **debug_handle_map(record.provenance.kernels, origins),
            payload_mark(result.processed_bytes): (),
        }
        return result

    to_tosa: Callable[..., fx.GraphModule] = ArmPassManager.transform_to_backend_pipeline

    def to_tosa_(passes: Any, exported_program: ExportedProgram, graph_module: fx.GraphModule) -> Any:
        if any(base_name(node.target) in _AVERAGES for node in computing(graph_module.graph)):
            # The wheel writes average pools before tables, of which it has floats until then, and refuses these.
            passes.insert_passes_before(RewriteAdaptiveAvgPool2dPass, [InsertTableOpsPass(exported_program)])
        module = to_tosa(passes, exported_program, graph_module)
        keep_apart(module, chains=not passes.tosa_spec.is_U55_subset)  # so the wheel has an Ethos-U65, too
        return module

    with (
        integers.exact(),
        _replaced(ArmPassManager, "transform_to_backend_pipeline", to_tosa_),
        _replaced(EthosUBackend, "preprocess", staticmethod(preprocess_)),
    ):
        yield


def _files(folder: Path) -> VelaFiles:
    """What Vela got and wrote there."""
    (summary,) = folder.glob(_SUMMARY)
    return VelaFiles((folder / _TOSA).read_bytes(), (folder / _DATABASE).read_text("utf-8"), summary.read_text("utf-8"))


def _check_said(said: str, partition: int, nodes: list[fx.Node]) -> None:
    """Check that Vela found nothing wrong; it says so, and goes on."""
    fault = _FAULT.search(said)
    if fault is None:
        return
    source = next(filter(None, map(source_of, nodes)), None)
    raise UnsupportedError(
        f"Vela compiled partition {partition}, which begins at `{source.code}`, wrong, and says: {fault[1]}"
        if source
        else f"Vela compiled partition {partition} wrong, and says: {fault[1]}",
        where=str(source) if source else None,
        hint="keep an operator on the CPU with `--operators-not-to-delegate`, or build for another accelerator",
    )


@contextmanager
def _replaced(owner: object, name: str, value: object) -> Generator[None]:
    """Another value in a class or module for a while."""
    original = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
