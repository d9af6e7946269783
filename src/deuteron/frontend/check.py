"""Checks a module for targets: the steps of a build until the model is quantised, which cost little.

The module is exported once. Targets with the same processors share the steps after it. Lowering refuses operators that
are not quantised, so a model with such an operator is built in memory: no second list of rules exists.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from torch import Tensor, fx

from deuteron.arch import targets
from deuteron.arch.targets import Arch, CpuOperators
from deuteron.builds.options import BuildOptions
from deuteron.builds.target_checks import ModelCheck, Outcome, TargetCheck
from deuteron.errors import DeuteronError, InternalError
from deuteron.frontend import heterogeneous, upstream_caches
from deuteron.frontend.backends import select
from deuteron.frontend.build import build, first_batches, run
from deuteron.frontend.cpu import has_kernel
from deuteron.frontend.eager import capture
from deuteron.frontend.eager.variables import Variable, stepped
from deuteron.frontend.inputs import Inputs, check_calibration, check_example_inputs, check_module
from deuteron.frontend.log_suppression import quiet
from deuteron.frontend.nodes import MARK, computing
from deuteron.frontend.operators import depends_on
from deuteron.frontend.pipeline import Flow
from deuteron.frontend.source_lines import first_line, source_of

_BATCHES = 4
"""The number of batches that ranges and errors are measured with."""

_ANNOTATION = "quantization_annotation"
"""PyTorch's key of a node's metadata for what its quantiser decided."""

_LOSSY = 25.0
"""Decibels below which an output gets a note."""

_MANY = 64
"""The number of operators of one line from which it gets a note: the line is unrolled."""

_LISTED = 3
"""The number of lines that a note names."""


@dataclass(frozen=True, slots=True)
class _Exported:
    """The exported module, two samples as the graph takes them, and the batches for ranges."""

    graph: fx.GraphModule
    variables: tuple[Variable, ...]
    samples: Sequence[Inputs]
    batches: tuple[Inputs, ...]


def check(
    module: object,
    example_inputs: object,
    names: Sequence[str],
    *,
    calibration: Iterable[object] | None = None,
    options: BuildOptions = BuildOptions(),
    name: str | None = None,
) -> ModelCheck:
    """Check a module for targets without building it, unless only a build can tell.

    Args:
        module: as for `build`.
        example_inputs: as for `build`.
        names: of the targets.
        calibration: as for `build`; the first batches are used.
        options: of the build.
        name: the model's name; its class by default.

    Raises:
        DeuteronError: the module or its inputs are of wrong types, or an option does not suit a target.
    """
    archs = [targets.load(target) for target in names]
    for arch in archs:
        options.check(arch)
    model, inputs = check_module(module), check_example_inputs(example_inputs)
    first, calibration = first_batches(calibration, inputs, None)
    given = [inputs] if calibration is None else calibration
    batches = tuple(islice(check_calibration(given, inputs), _BATCHES))
    title = name or type(model).__name__
    try:
        with quiet(), upstream_caches.exporting():
            observed, graph = capture.captured(model, [inputs, *first])
            _, *samples = stepped(graph, [inputs, *observed.samples[:2]], observed.variables)
    except DeuteronError as e:
        return ModelCheck(title, tuple(_refused(arch.name, e) for arch in archs))
    exported = _Exported(graph, observed.variables, samples, batches)
    checked: dict[tuple[object, ...], TargetCheck] = {}
    rows: list[TargetCheck] = []
    for arch in archs:
        if (kind := _kind(arch, options)) not in checked:
            checked[kind] = _checked(exported, arch, options, lambda: (model, inputs, batches))
        rows.append(replace(checked[kind], target=arch.name))
    return ModelCheck(title, tuple(rows))


def _kind(arch: Arch, options: BuildOptions) -> tuple[object, ...]:
    """Return what the steps until quantisation depend on: the processors, not their sizes."""
    with upstream_caches.importing(), quiet():
        npu_backend = select.of(arch, options)
        return type(npu_backend), npu_backend.quantizes_for, arch.cpu.operators


def _checked(exported: _Exported, arch: Arch, options: BuildOptions, given: Any) -> TargetCheck:
    """Check an exported module for one target."""
    variables = exported.variables

    def calibrated() -> Iterator[Inputs]:
        return stepped(exported.graph, iter(exported.batches), variables)

    flow = Flow(
        arch,
        options,
        calibrated,
        exported.samples[0],
        rejected=heterogeneous.RejectedNodes(),
        variables=variables,
        repeats=True,
        further=exported.samples[1:],
    )
    try:
        with quiet():
            run(flow, capture.Captured(exported.graph), exported.samples[0], lowers=False)
            row = _quantized(flow, arch)
            if next(_doubts(flow.float_model, arch), None) is None:
                return replace(row, notes=(*_slow(flow.float_model), *_lossy(row)))
        model, inputs, batches = given()
        made = build(model, inputs, target=arch.name, calibration=batches, options=options)
    except DeuteronError as e:
        return _refused(arch.name, e)
    except Exception as e:  # noqa: BLE001 - as a build reports it
        return TargetCheck(arch.name, Outcome.FAILS, message=f"{type(e).__name__}: {first_line(e)}")
    nodes = made.manifest.nodes
    npu = sum(node.partition is not None for node in nodes)
    row = replace(row, npu=npu, cpu=len(nodes) - npu - row.others, was_built=True)
    return replace(row, notes=(*_slow(flow.float_model), *_lossy(row), *made.manifest.warnings))


def _refused(target: str, error: DeuteronError) -> TargetCheck:
    outcome = Outcome.FAILS if isinstance(error, InternalError) else Outcome.REFUSED
    return TargetCheck(target, outcome, message=error.message, where=error.where, hint=error.hint)


def _quantized(flow: Flow, arch: Arch) -> TargetCheck:
    """Return the counts and the quality of a quantised model."""
    from deuteron.frontend.quality.measure import measure

    nodes = list(_operators(flow.float_model))
    known = [node for node in nodes if _ANNOTATION in node.meta]
    has_both = arch.cpu.operators is CpuOperators.CORTEX_M
    npu = [node for node in known if arch.npu and (not has_both or _is_marked(node))]
    batches = flow.calibration() if flow.calibration else [flow.sample]
    measured = measure(flow.float_model, flow.module, list(batches))
    ratios = [output.all.total() for output in measured.outputs.values()]
    sqnr = min(ratios) if ratios else None
    return TargetCheck(arch.name, Outcome.BUILDS, len(npu), len(known) - len(npu), len(nodes) - len(known), sqnr)


def _is_marked(node: fx.Node) -> bool:
    custom: Mapping[str, object] = node.meta.get("custom", {})
    return MARK in custom


def _operators(model: fx.GraphModule) -> Iterator[fx.Node]:
    """Yield the operators that compute something of the inputs."""
    inputs = {node for node in model.graph.nodes if node.op == "placeholder"}
    for node in computing(model.graph):
        if depends_on(node, inputs.__contains__):
            yield node


def _doubts(model: fx.GraphModule, arch: Arch) -> Iterator[fx.Node]:
    """Yield the operators of which only lowering can tell whether the CPU has them.

    These are not quantised. An int8 CPU has no others in float, and a portable one those of ExecuTorch's runtime.
    """
    is_portable = arch.cpu.operators is CpuOperators.PORTABLE
    for node in _operators(model):
        if _ANNOTATION in node.meta:
            continue
        value: object = node.meta.get("val")
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        if (is_float and not is_portable) or not has_kernel(node.target):
            yield node


def _slow(model: fx.GraphModule) -> Iterator[str]:
    """Yield a note about lines that become many operators."""
    lines = Counter(str(source) for node in _operators(model) if (source := source_of(node)))
    many = [(line, count) for line, count in lines.most_common(_LISTED) if count >= _MANY]
    if many:
        listed = ", ".join(f"{line} becomes {count} operators" for line, count in many)
        yield f"slow: {listed}"


def _lossy(row: TargetCheck) -> Iterator[str]:
    if row.sqnr is not None and row.sqnr < _LOSSY:
        yield (
            f"lossy: the worst output has {row.sqnr:.1f} dB of signal to quantisation noise; `deuteron build` names "
            "the layers that lose most"
        )
