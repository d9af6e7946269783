"""From a PyTorch module to the files of a build, in memory: the steps in order, and the errors of each."""

import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

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
    Source,
    TensorInfo,
    entry_of,
)
from deuteron.builds.options import Activations, BuildOptions, WeightBits
from deuteron.errors import CapacityError, DeuteronError, OptionError, UnsupportedError
from deuteron.frontend import dim_orders, heterogeneous, mutable_buffers, output_dtypes, saved, upstream_caches
from deuteron.frontend.backends import select
from deuteron.frontend.cortex_m import numerical_check, program_checks
from deuteron.frontend.cpu import much_in_float, need_runnable, no_out_variant, with_instructions
from deuteron.frontend.eager import capture
from deuteron.frontend.eager.observe import Observed
from deuteron.frontend.eager.variables import Stepping, Variable, stepped, stepping
from deuteron.frontend.etrecord import etrecord
from deuteron.frontend.export import not_exported
from deuteron.frontend.exported_model import ExportedModel, export
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.pipeline import Flow, Stage
from deuteron.frontend.quality.calibration_subset import CalibrationSubset
from deuteron.frontend.quantize.training import Train, Trainer
from deuteron.frontend.source_lines import first_line, not_lowered

if TYPE_CHECKING:
    from deuteron.frontend.quality.evidence import Evidence

STEPS = ("export", "calibrate", "quantize", "partition and convert", "write program")
QAT_STEPS = (*STEPS[:2], "train", *STEPS[2:])

NO_CALIBRATION = (
    "no calibration data: ranges come from the example inputs alone, and so do the figures of quality, which mean "
    "nothing then; give a few dozen representative inputs"
)
PACKS_NOTHING = (
    "`--weights-bits 4` packs no weights: no convolution or linear layer of the CPU has constant weights of eight bits "
    "that take less flash in four"
)
NOTHING_DELEGATED = (
    "nothing was delegated to the NPU: none of the model's operators is one that it supports in the form found; "
    "the program runs on the CPU alone"
)


Score = Callable[[Callable[..., object]], float]
"""Measures a callable model: a larger number is better."""


class Progress(Protocol):
    """Called when a step begins, with its name, its index and the number of steps."""

    def __call__(self, step: str, index: int, count: int) -> None:
        """Step `index` of `count` begins."""
        ...


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A finished build.

    Attributes:
        manifest: the manifest.
        files: the bytes of all other files, by name.
        losses: the losses of training.
        samples: the content of `samples.npz`.
        floats: the float model before quantization; it does not change its inputs. Its variables live from call to
            call.
        stored: quantizes float inputs to the program's input format.
        exact: the outputs that are computed from integers and bools alone, with their lines.
        variables: the tensors that the program keeps from run to run.
        packed: nodes of layers with weights of four bits.
    """

    manifest: Manifest
    files: Mapping[str, bytes]
    losses: tuple[float, ...]
    samples: samples.Stored
    floats: Stepping
    stored: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
    exact: Mapping[int, Source | None] = field(default_factory=dict[int, Source | None])
    variables: tuple[Variable, ...] = ()
    packed: tuple[str, ...] = ()

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
    score: Score | None = None,
) -> BuildResult:
    """Build a module for a target.

    Args:
        module: a `torch.nn.Module`, or an `ExportedProgram` of one; copies of it are built, in evaluation mode, and it
            stays as it is. An `ExportedModel` has the example inputs and the calibration batches too.
        example_inputs: one tensor per argument of `forward`, or the one tensor; their shapes are the build's shapes.
        target: a name that `deuteron targets` lists.
        calibration: batches like the example inputs, from which the ranges of all tensors are measured.
        train: trains the given model in place and yields the loss of each step; for `options.use_qat`.
        options: all other options.
        name: the model's name in the manifest; its class by default.
        progress: called when each step begins.
        keep: nodes that must stay on the CPU, as `manifest.Node.quantised`, and why.
        score: measures a callable model, for `options.max_loss`: a larger number is better.

    Raises:
        DeuteronError: see the classes in `deuteron.errors`.
    """
    arch = targets.load(target)
    options.check(arch)
    steps = _StepReporter(progress, QAT_STEPS if options.use_qat else STEPS)
    trainer = _trainer(train, options, steps)
    steps.begin("export")
    if not isinstance(module, ExportedModel):
        module = export(module, example_inputs, calibration, options.stream)
    made = partial(_built, arch=arch, options=options, name=name, trainer=trainer, steps=steps, keep=keep, score=score)
    budget = options.memory.flash_budget
    if options.weights_bits is not WeightBits.AUTO or budget is None:
        result = made(module)
    else:
        batches = None if module.calibration is None else [*module.calibration]
        module = replace(module, calibration=batches)
        flash_left = budget - _constant_bytes(build(module, (), target=target, options=_int8(options), keep=keep))
        result, oversized = made(module, flash_left=flash_left), frozenset[int]()
        while _constant_bytes(result) > budget:  # the layers share fewer factors than those of eight bits
            oversized |= {len(result.packed)}
            try:
                result = made(module, flash_left=flash_left, oversized=oversized)
            except CapacityError:
                break
    arena.check(result.pte, result.manifest)
    return result


def _constant_bytes(result: BuildResult) -> int:
    return arena.constant_bytes(result.pte, result.manifest)


def _built(
    exported: ExportedModel,
    *,
    arch: Arch,
    options: BuildOptions,
    name: str | None,
    trainer: Trainer | None,
    steps: "_StepReporter",
    keep: Mapping[str, str],
    score: Score | None,
    flash_left: int | None = None,
    oversized: frozenset[int] = frozenset(),
) -> BuildResult:
    """Return a finished build, which may exceed budgets of the CPU's memories."""
    observed, stream = exported.observed, exported.stream
    generators: Any = torch.random
    with quiet(), generators.fork_rng(devices=[], enabled=trainer is None):  # only training draws
        variables = observed.variables
        if variables and trainer:
            raise _no_training(variables[0])
        if not variables and options.state_dtype is Activations.INT16:
            raise OptionError("`--state-dtype int16`: the model keeps nothing from run to run", hint="leave it out")
        subset = CalibrationSubset(variables)
        if variables and score:
            raise _no_score(variables[0])
        compiled = _compile(exported, trainer, arch, options, steps, keep, subset, score, flash_left, oversized)
    program, nodes = compiled.manager.exported_program(), compiled.flow.recording.placed()
    npu_backend, recording = compiled.flow.npu_backend, compiled.flow.recording
    files = {
        PROGRAM: bytes(compiled.manager.buffer),
        REFERENCE: saved.save(mutable_buffers.write(compiled.reference, variables, {}, torch.ops.aten.clone.default)),
        **npu_backend.files(recording),
    }
    partitions = npu_backend.describe(recording)
    if options.use_profiling:
        files[ETRECORD] = etrecord(compiled.manager, [partition.kernels for partition in partitions])
    warnings = [NO_CALIBRATION] * (exported.calibration is None)
    warnings += [NOTHING_DELEGATED] * (arch.npu is not None and not partitions)
    warnings += much_in_float(arch, nodes) if partitions else ()
    warnings += npu_backend.warnings(recording, partitions)
    warnings += [PACKS_NOTHING] * (options.weights_bits is WeightBits.FOUR and not compiled.flow.packed)
    warnings += _keeps_nothing(options.operators_not_to_delegate, compiled.kept, nodes)
    outputs = _outputs(program)
    batches = subset.some(sum(node.macs for node in nodes))
    evidence = _evidence(compiled.flow, program, outputs, batches, None if trainer else observed)
    files[SAMPLES] = samples.to_bytes(evidence.samples)
    warnings += subset.findings(exported.examples) if exported.calibration is not None else ()
    warnings += subset.clipped(compiled.flow.state_ranges)
    warnings += compiled.flow.state_notes
    warnings += evidence.findings
    warnings += () if stream is None else stream.info.warnings
    manifest = Manifest(
        deuteron=importlib.metadata.version("deuteron"),
        executorch=importlib.metadata.version("executorch"),
        torch=torch.__version__,
        target=arch.name,
        converter=options.converter.value,
        options=options,
        model=ModelInfo(name or exported.name),
        files={file: entry_of(data) for file, data in files.items()},
        inputs=_inputs(program),
        outputs=outputs,
        nodes=nodes,
        partitions=partitions,
        cpu_ops=compiled.on_cpu,
        warnings=tuple(warnings),
        quality=evidence.quality,
        stream=None if stream is None else stream.info,
        stripes=npu_backend.stripes(recording),
    )
    stored = partial(numerical_check.program_inputs, program, compiled.flow.module)

    losses = tuple(trainer.losses) if trainer else ()
    floats, exact = stepping(compiled.flow.float_model, variables), output_dtypes.exact(exported.graph, len(outputs))
    return BuildResult(
        manifest, files, losses, evidence.samples, floats, stored, exact, variables, compiled.flow.packed
    )


def _trainer(train: Train | None, options: BuildOptions, steps: "_StepReporter") -> Trainer | None:
    """Return the training step if the options ask for training."""
    if options.use_qat and train is None:
        raise OptionError("`use_qat` needs a function that trains the model", hint="give it as `train`")
    if train is None:
        return None
    if not options.use_qat:
        raise OptionError("a function that trains the model is given, but `use_qat` is not set", hint="set both")
    return Trainer(train, getattr(train, "__name__", "train"), steps.begin)


def _int8(options: BuildOptions) -> BuildOptions:
    """Return the options of the same build with int8 weights and the same constants otherwise, without limits."""
    memory = replace(options.memory, flash_budget=None, sram_budget=None)
    biases = options.corrects_biases  # which layers without any get
    plain = replace(options, weights_bits=WeightBits.EIGHT, max_loss=None, min_sqnr=None, use_qat=False, memory=memory)
    return replace(plain, correct_biases=biases)


def _called(module: fx.GraphModule, *inputs: object) -> object:
    """Return the outputs of a model for a user's inputs."""
    with torch.no_grad():
        outputs = numerical_check.flat(module(*(torch.as_tensor(x).clone() for x in inputs)))
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _no_score(variable: Variable) -> UnsupportedError:
    source = variable.source
    return UnsupportedError(
        f"the model keeps the variable `{variable.name}` from run to run, and `--max-loss` measures models without "
        "variables",
        where=str(source) if source else None,
        hint="use `--min-sqnr` or `--flash-budget`",
    )


def _no_training(variable: Variable) -> UnsupportedError:
    source = variable.source
    return UnsupportedError(
        f"the model keeps the variable `{variable.name}` from run to run{f', at `{source.code}`' if source else ''}, "
        "and `use_qat` trains models without variables",
        where=str(source) if source else None,
        hint="build without `use_qat`",
    )


@dataclass(frozen=True, slots=True)
class _Compiled:
    """The results of the steps.

    Attributes:
        reference: the quantized program for comparison.
        flow: the run that made it, with its records.
        on_cpu: the operators that stay on the CPU.
        kept: names of the edge nodes on the CPU, including those that the NPU's quantizer annotated.
        manager: ExecuTorch's program manager.
    """

    reference: ExportedProgram
    flow: Flow
    on_cpu: tuple[CpuOp, ...]
    kept: tuple[str, ...]
    manager: Any


def _compile(
    exported: ExportedModel,
    trainer: Trainer | None,
    arch: Arch,
    options: BuildOptions,
    steps: "_StepReporter",
    keep: Mapping[str, str],
    subset: CalibrationSubset,
    score: Score | None,
    flash_left: int | None,
    oversized: frozenset[int],
) -> _Compiled:
    """Compile an exported graph with ExecuTorch's session and the same recipe that users of recipes have."""
    asks = arch.npu is not None and arch.cpu.operators is CpuOperators.CORTEX_M
    given = [exported.examples] if exported.calibration is None else exported.calibration
    is_read_again = asks or options.measuring or options.has_packed_weights or isinstance(given, Iterator)
    batches = tuple(given) if is_read_again else given
    graph, variables = exported.graph, exported.observed.variables

    def calibrated() -> Iterator[Inputs]:
        return subset.observe(stepped(graph, steps.counted(exported.checked(batches), batches), variables))

    samples = exported.observed.samples[:2]
    _, sample, *further = stepped(graph, [samples[0], *samples], variables)
    flow = Flow(
        arch,
        replace(options, memory=replace(options.memory, sram_budget=UNLIMITED)),  # until all partitions are known
        calibrated,
        sample,
        trainer,
        on_step=steps.begin,
        rejected=heterogeneous.RejectedNodes(keep),
        variables=variables,
        repeats=True,
        score=None if score is None else lambda module: score(partial(_called, module)),
        flash_left=flash_left,
        further=further,
        oversized=oversized,
    )
    session = run(flow, capture.Captured(graph), sample)
    manager = session.get_executorch_program_manager()
    manager = select.of(arch, options).placed_in_memory(manager, flow.recording)
    plan = manager.executorch_program.execution_plan[0]
    on_cpu = with_instructions(flow.on_cpu, manager.exported_program().graph, plan)
    need_runnable(plan, on_cpu)
    program_checks.check_orders(plan, on_cpu)
    kept = (*(op.node for op in on_cpu), *flow.rejected.edge)
    return _Compiled(session.get_exported_program(), flow, on_cpu, kept, manager)


def _evidence(
    flow: Flow,
    program: ExportedProgram,
    outputs: Sequence[TensorInfo],
    batches: Sequence[Inputs],
    observed: Observed | None,
) -> "Evidence":
    """Compare the quantized model with the module; with the float model after training."""
    from deuteron.frontend.quality.evidence import gather

    with quiet():
        count = len(program.graph_signature.user_inputs)
        wanted = None if observed is None else observed.run([batch[:count] for batch in batches])
        return gather(flow.float_model, flow.module, program, outputs, batches, wanted)


def run(flow: Flow, model: torch.nn.Module, inputs: Inputs) -> Any:
    """Run ExecuTorch's session until it has made the program; errors name the line of the model.

    If the NPU rejects nodes that were quantized for it, the session runs again with these on the CPU.
    """
    recipe = flow.recipe()
    from executorch.export import ExportSession

    with upstream_caches.active(), capture.known(), mutable_buffers.emitted(), dim_orders.plain():
        while True:
            session = ExportSession(model, [inputs], recipe, generate_etrecord=flow.options.use_profiling)
            if _is_exported(session, flow):
                return session


def _is_exported(session: Any, flow: Flow) -> bool:
    """Run a session; False if the NPU rejected nodes that the CPU can compute."""
    flow.stage = Stage.EXPORT
    try:
        session.export()
    except heterogeneous.LeftOverError:
        return False
    except DeuteronError:
        raise
    except Exception as e:
        if _leaves_to_cpu(flow):
            return False
        failure = _failure(e, flow)
        if failure is e:
            raise
        # An error of ours is the cause of `e` already.
        raise failure from failure.__cause__ if _own_error(e) is failure else e
    finally:
        flow.close()
    return True


def _leaves_to_cpu(flow: Flow) -> bool:
    """Leave nodes that ended a lowering to the CPU; True if the model is to be quantized again."""
    if (
        flow.stage is not Stage.LOWER
        or not flow.has_cortex_m
        or not flow.rejected.leave(flow.npu_backend.left_to_cpu(flow.recording))
    ):
        return False
    flow.recording.clear()
    return True


class _StepReporter:
    """Reports the steps of one build."""

    def __init__(self, progress: Progress | None, names: Sequence[str]) -> None:
        self._progress = progress
        self._names = names
        self._streams = sys.stdout, sys.stderr

    def begin(self, step: str) -> None:
        """Report the beginning of a step; text after a comma is progress within the step."""
        if self._progress is not None:
            stdout, stderr = self._streams
            with redirect_stdout(stdout), redirect_stderr(stderr):  # a build redirects ExecuTorch's output
                self._progress(step, self._names.index(step.partition(",")[0]), len(self._names))

    def counted(self, batches: Iterator[Inputs], source: object) -> Iterator[Inputs]:
        """Yield the batches and report each of them."""
        total = f" of {len(cast('Sequence[object]', source))}" if isinstance(source, list | tuple) else ""
        for index, batch in enumerate(batches):
            self.begin(f"calibrate, batch {index + 1}{total}")
            yield batch


def _failure(error: Exception, flow: Flow) -> Exception:
    """Convert an error in a session to an error for the user; return other errors unchanged."""
    known = _own_error(error)
    if known is not None:
        return known
    match flow.stage:
        case Stage.EXPORT:
            return not_exported(error)
        case Stage.QUANTIZE:
            return error
        case Stage.LOWER:
            backend = flow.npu_backend
            return backend.failure(flow.recording) or not_lowered(backend.backend, error)
        case Stage.EMIT:
            missing = no_out_variant(error, flow.on_cpu) if isinstance(error, RuntimeError) else None
            return missing or UnsupportedError(
                f"ExecuTorch cannot make a program of this model: {type(error).__name__}: {first_line(error)}",
                hint="run again with `-v` to see its log",
            )


def _own_error(error: BaseException | None) -> DeuteronError | None:
    """Return our own error, which ExecuTorch's stages wrap; None if there is none."""
    return error if error is None or isinstance(error, DeuteronError) else _own_error(error.__cause__)


def _keeps_nothing(names: Iterable[str], kept: Sequence[str], nodes: Iterable[Node]) -> list[str]:
    """Warn about each operator in `--operators-not-to-delegate` that matches no operator on the CPU."""
    delegated = {node.op.partition(".")[0] for node in nodes if node.partition is not None}
    listed = ", ".join(f"`{name}`" for name in sorted(delegated)) or "nothing"
    return [
        f"`--operators-not-to-delegate {name}` keeps nothing on the CPU; the NPU has {listed}"
        for name in names
        if not any(name.replace("::", "_") in node for node in kept)
    ]


def _inputs(program: ExportedProgram) -> tuple[TensorInfo, ...]:
    """The inputs of the program in the caller's order."""
    nodes = {node.name: node for node in program.graph.nodes}
    return tuple(_tensor(nodes[str(name)], str(name)) for name in program.graph_signature.user_inputs)


def _outputs(program: ExportedProgram) -> tuple[TensorInfo, ...]:
    """The outputs of the program; nodes may have other names than in the signature, where mutable buffers are first."""
    values = program.graph.output_node().args[0]
    nodes = cast("Sequence[fx.Node]", values if isinstance(values, list | tuple) else (values,))
    count = sum(spec.kind is OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs)
    return tuple(map(_tensor, nodes[len(nodes) - count :]))


def _tensor(node: fx.Node, name: str = "") -> TensorInfo:
    value: torch.Tensor = node.meta["val"]
    return TensorInfo(tuple(value.shape), str(value.dtype).removeprefix("torch."), name)
