"""From a PyTorch module to the files of a build, in memory: the steps in order, and the errors of each."""

import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from deuteron.arch import targets
from deuteron.arch.memory import UNLIMITED
from deuteron.arch.targets import Arch, CpuOperators
from deuteron.board import arena
from deuteron.builds import samples
from deuteron.builds.manifest import (
    ETRECORD,
    PROGRAM,
    REFERENCE,
    SAMPLES,
    CpuOp,
    Manifest,
    ModelInfo,
    Node,
    TensorInfo,
    entry_of,
)
from deuteron.builds.options import BuildOptions
from deuteron.errors import DeuteronError, OptionError, UnsupportedError
from deuteron.frontend import heterogeneous, npu_backends, output_dtypes, saved, upstream_caches
from deuteron.frontend.cortex_m import lowering_check, program_checks
from deuteron.frontend.cpu import much_in_float, need_runnable, no_out_variant, with_instructions
from deuteron.frontend.eager import capture
from deuteron.frontend.eager.observe import Observed
from deuteron.frontend.etrecord import etrecord
from deuteron.frontend.export import not_exported
from deuteron.frontend.inputs import Inputs, begun, check_calibration, check_example_inputs, check_module, copies
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.pipeline import Flow, Stage
from deuteron.frontend.quality.calibration_subset import Kept
from deuteron.frontend.quantise.training import Train, Trainer
from deuteron.frontend.source_lines import first_line, not_lowered

if TYPE_CHECKING:
    from deuteron.frontend.quality.evidence import Evidence

STEPS = ("export", "calibrate", "quantise", "partition and convert", "write program")
_OBSERVED = 2
"""Calibration batches on which the module itself is run, beside the example inputs."""

QAT_STEPS = (*STEPS[:2], "train", *STEPS[2:])

NO_CALIBRATION = (
    "no calibration data: ranges come from the example inputs alone, so accuracy will suffer; give a few dozen "
    "representative inputs"
)
NOTHING_DELEGATED = (
    "nothing was delegated to the NPU: none of the model's operators is one that it supports in the form found; "
    "the program runs on the CPU alone"
)


class Progress(Protocol):
    """Told when a step begins: its name, its index and the number of steps."""

    def __call__(self, step: str, index: int, count: int) -> None:
        """Step `index` of `count` begins."""
        ...


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A finished build.

    Attributes:
        manifest: of it.
        files: the bytes of every other file, by name.
        losses: in training.
        samples: those of `samples.npz`.
        floats: the float model that was quantised; writes into none of its inputs.
        stored: gives inputs of that as the program takes them.
        exact: of each output, whether it is computed of integers and bools alone.
    """

    manifest: Manifest
    files: Mapping[str, bytes]
    losses: tuple[float, ...]
    samples: samples.Stored
    floats: Callable[..., object]
    stored: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
    exact: tuple[bool, ...] = ()

    @property
    def pte(self) -> bytes:
        """The program for ExecuTorch's runtime."""
        return self.files[PROGRAM]


def build(
    module: object,
    example_inputs: object,
    *,
    target: str,
    calibration: Iterable[object] | None = None,
    train: Train | None = None,
    options: BuildOptions = BuildOptions(),
    name: str | None = None,
    progress: Progress | None = None,
    keep: Mapping[str, str] = MappingProxyType({}),
) -> BuildResult:
    """The build of a module for a target.

    Args:
        module: a `torch.nn.Module`, or an `ExportedProgram` of one; copies of it are built, in evaluation mode, and it
            stays as it is.
        example_inputs: one tensor per argument of `forward`, or the one tensor; their shapes are the build's shapes.
        target: a name that `deuteron targets` lists.
        calibration: batches like the example inputs, from which the ranges of all tensors are measured.
        train: trains the model that it is given, in place, and yields the loss of each step; for `options.use_qat`.
        options: everything else.
        name: what the manifest calls the model; its class by default.
        progress: told when each step begins.
        keep: nodes to keep on the CPU beside those that the NPU leaves, as `manifest.Node.quantised`, and why.

    Raises:
        DeuteronError: see the classes in `deuteron.errors`.
    """
    arch = targets.load(target)
    options.check(arch)
    model, inputs = check_module(module), check_example_inputs(example_inputs)
    first, calibration = _first_batches(calibration, inputs)
    steps = _Steps(progress, QAT_STEPS if options.use_qat else STEPS)
    trainer = _trainer(train, options, steps)
    seen = Kept()
    with quiet():
        steps.begin("export")
        observed, graph = capture.captured(model, [inputs, *first])
        compiled = _compile(graph, inputs, calibration, trainer, arch, options, steps, keep, seen)
    program, nodes = compiled.manager.exported_program(), compiled.flow.recording.placed()
    side, recording = compiled.flow.side, compiled.flow.recording
    files = {
        PROGRAM: bytes(compiled.manager.buffer),
        REFERENCE: saved.save(compiled.reference),
        **side.files(recording),
    }
    partitions = side.describe(recording)
    if options.use_profiling:
        files[ETRECORD] = etrecord(compiled.manager, [partition.kernels for partition in partitions])
    warnings = [NO_CALIBRATION] * (calibration is None)
    warnings += [NOTHING_DELEGATED] * (arch.npu is not None and not partitions)
    warnings += much_in_float(arch, nodes) if partitions else ()
    warnings += side.warnings(recording, partitions)
    warnings += _keeps_nothing(options.operators_not_to_delegate, compiled.kept, nodes)
    outputs = _outputs(program)
    batches = seen.some(sum(node.macs for node in nodes))
    evidence = _evidence(compiled.flow, program, outputs, batches, None if trainer else observed)
    files[SAMPLES] = samples.to_bytes(evidence.samples)
    warnings += seen.findings(inputs) if calibration is not None else ()
    warnings += evidence.findings
    manifest = Manifest(
        deuteron=importlib.metadata.version("deuteron"),
        executorch=importlib.metadata.version("executorch"),
        torch=torch.__version__,
        target=arch.name,
        converter=options.converter.value,
        options=options,
        model=ModelInfo(name or type(model).__name__),
        files={file: entry_of(data) for file, data in files.items()},
        inputs=_inputs(program),
        outputs=outputs,
        nodes=nodes,
        partitions=partitions,
        cpu_ops=compiled.on_cpu,
        warnings=tuple(warnings),
        quality=evidence.quality,
    )
    arena.check(files[PROGRAM], manifest)
    stored = partial(lowering_check.given, program, compiled.flow.module)

    def floats(*inputs: torch.Tensor) -> object:
        return compiled.flow.float_model(*copies(inputs))

    losses = tuple(trainer.losses) if trainer else ()
    return BuildResult(manifest, files, losses, evidence.samples, floats, stored, output_dtypes.are_exact(graph))


def _first_batches(
    calibration: Iterable[object] | None, inputs: Inputs
) -> tuple[tuple[Inputs, ...], Iterable[object] | None]:
    """The first calibration batches, and the calibration from its beginning."""
    if calibration is None:
        return (), None
    if isinstance(calibration, torch.Tensor | np.ndarray):
        head = batches = cast("Iterable[object]", calibration)
    else:
        head, batches = begun(calibration, _OBSERVED)
    return tuple(islice(check_calibration(head, inputs), _OBSERVED)), batches


def _trainer(train: Train | None, options: BuildOptions, steps: "_Steps") -> Trainer | None:
    """What trains the model, if the options ask for it."""
    if options.use_qat and train is None:
        raise OptionError("`use_qat` needs a function that trains the model", hint="give it as `train`")
    if train is None:
        return None
    if not options.use_qat:
        raise OptionError("a function that trains the model is given, but `use_qat` is not set", hint="set both")
    return Trainer(train, getattr(train, "__name__", "train"), steps.begin)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """What comes of the steps.

    Attributes:
        reference: the quantised program that the build is compared with.
        flow: the run that made it, with what was recorded.
        on_cpu: the operators that stay on the CPU.
        kept: names of the edge nodes that the NPU could have had.
        manager: ExecuTorch's program manager.
    """

    reference: ExportedProgram
    flow: Flow
    on_cpu: tuple[CpuOp, ...]
    kept: tuple[str, ...]
    manager: Any


def _compile(
    model: fx.GraphModule,
    inputs: Inputs,
    calibration: Iterable[object] | None,
    trainer: Trainer | None,
    arch: Arch,
    options: BuildOptions,
    steps: "_Steps",
    keep: Mapping[str, str],
    seen: Kept,
) -> _Compiled:
    """The program of an exported graph, by ExecuTorch's own session with the recipe that its users have, too."""
    asks = arch.npu is not None and arch.cpu.operators is CpuOperators.CORTEX_M
    is_read_again = asks or options.measuring
    batches = tuple(calibration) if is_read_again and calibration is not None else calibration
    flow = Flow(
        arch,
        replace(options, memory=replace(options.memory, sram_budget=UNLIMITED)),  # until all partitions are known
        lambda: seen.passing(
            steps.counted(check_calibration([inputs] if batches is None else batches, inputs), batches)
        ),
        inputs,
        trainer,
        told=steps.begin,
        refused=heterogeneous.Refused(keep),
        repeats=True,
    )
    session = run(flow, capture.Captured(model), inputs)
    manager = session.get_executorch_program_manager()
    manager = npu_backends.of(arch, options).placed_in_memory(manager, flow.recording)
    plan = manager.executorch_program.execution_plan[0]
    on_cpu = with_instructions(flow.on_cpu, manager.exported_program().graph, plan)
    need_runnable(plan, on_cpu)
    program_checks.check_orders(plan, on_cpu)
    kept = (*(op.node for op in on_cpu), *flow.refused.edge)
    return _Compiled(session.get_exported_program(), flow, on_cpu, kept, manager)


def _evidence(
    flow: Flow,
    program: ExportedProgram,
    outputs: Sequence[TensorInfo],
    batches: Sequence[Inputs],
    observed: Observed | None,
) -> "Evidence":
    """Measure the quantised model beside the module, or beside the float model where that was trained."""
    from deuteron.frontend.quality.evidence import gather

    with quiet():
        wanted = None if observed is None else observed.run(batches)
        return gather(flow.float_model, flow.module, program, outputs, batches, wanted)


def run(flow: Flow, model: torch.nn.Module, inputs: Inputs) -> Any:
    """ExecuTorch's session once it has made the program; what fails in it names the line of the model.

    Where the NPU leaves nodes that were quantised for it, they are among the refused from then on, and the model is
    quantised again, with these for the CPU.
    """
    recipe = flow.recipe()
    from executorch.export import ExportSession

    with upstream_caches.active(), capture.known():
        while True:
            session = ExportSession(model, [inputs], recipe, generate_etrecord=flow.options.use_profiling)
            if _is_exported(session, flow):
                return session


def _is_exported(session: Any, flow: Flow) -> bool:
    """Whether a session has made the program; if not, nodes were left over."""
    flow.stage = Stage.EXPORT
    try:
        session.export()
    except heterogeneous.LeftOverError:
        return False
    except DeuteronError:
        raise
    except Exception as e:
        failure = _failure(e, flow)
        if failure is e:
            raise
        raise failure from e
    finally:
        flow.close()
    return True


class _Steps:
    """Reports the steps of one build."""

    def __init__(self, progress: Progress | None, names: Sequence[str]) -> None:
        self._progress = progress
        self._names = names
        self._streams = sys.stdout, sys.stderr

    def begin(self, step: str) -> None:
        """Tells that a step begins, or, after a comma, where in the step the build is."""
        if self._progress is not None:
            stdout, stderr = self._streams
            with redirect_stdout(stdout), redirect_stderr(stderr):  # only the wheel's output is kept away
                self._progress(step, self._names.index(step.partition(",")[0]), len(self._names))

    def counted(self, batches: Iterator[Inputs], source: object) -> Iterator[Inputs]:
        """The batches, each reported when it begins."""
        total = f" of {len(cast('Sequence[object]', source))}" if isinstance(source, list | tuple) else ""
        for index, batch in enumerate(batches):
            self.begin(f"calibrate, batch {index + 1}{total}")
            yield batch


def _failure(error: Exception, flow: Flow) -> Exception:
    """What to tell a user of an error in a session; the error itself where that can only be a defect."""
    known = _told(error)
    if known is not None:
        return known
    match flow.stage:
        case Stage.EXPORT:
            return not_exported(error)
        case Stage.QUANTISE:
            return error
        case Stage.LOWER:
            backend = flow.side.backend if flow.arch.npu else "ExecuTorch"
            return flow.side.failure(flow.recording) or not_lowered(backend, error)
        case Stage.EMIT:
            missing = no_out_variant(error, flow.on_cpu) if isinstance(error, RuntimeError) else None
            return missing or UnsupportedError(
                f"ExecuTorch cannot make a program of this model: {type(error).__name__}: {first_line(error)}",
                hint="run again with `-v` to see its log",
            )


def _told(error: BaseException | None) -> DeuteronError | None:
    """Our own error, which stages of ExecuTorch's wrap."""
    return error if error is None or isinstance(error, DeuteronError) else _told(error.__cause__)


def _keeps_nothing(names: Iterable[str], kept: Sequence[str], nodes: Iterable[Node]) -> list[str]:
    """A warning for each operator that is to stay on the CPU, but none there has its name as the wheel compares it."""
    delegated = {node.op.partition(".")[0] for node in nodes if node.partition is not None}
    listed = ", ".join(f"`{name}`" for name in sorted(delegated)) or "nothing"
    return [
        f"`--operators-not-to-delegate {name}` keeps nothing on the CPU; the NPU has {listed}"
        for name in names
        if not any(name.replace("::", "_") in node for node in kept)
    ]


def _inputs(program: ExportedProgram) -> tuple[TensorInfo, ...]:
    """What the program takes, in the caller's order."""
    nodes = {node.name: node for node in program.graph.nodes}
    return tuple(_tensor(nodes[str(name)], str(name)) for name in program.graph_signature.user_inputs)


def _outputs(program: ExportedProgram) -> tuple[TensorInfo, ...]:
    """What the program returns; the nodes may have other names by now than the signature has."""
    values = program.graph.output_node().args[0]
    nodes = cast("Sequence[fx.Node]", values if isinstance(values, list | tuple) else (values,))
    specs = program.graph_signature.output_specs
    return tuple(_tensor(node) for node, spec in zip(nodes, specs, strict=True) if spec.kind is OutputKind.USER_OUTPUT)


def _tensor(node: fx.Node, name: str = "") -> TensorInfo:
    value: torch.Tensor = node.meta["val"]
    return TensorInfo(tuple(value.shape), str(value.dtype).removeprefix("torch."), name)
