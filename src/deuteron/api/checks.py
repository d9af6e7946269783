"""Checks of models before a build: it is built in memory for each target; a PyTorch module is exported once.

Targets whose programs differ in their figures alone share one build, which the result names.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from deuteron.api import make
from deuteron.arch import targets as archs
from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import Arch, CpuOperators, Neutron
from deuteron.arch.vela import VelaOptions
from deuteron.board.build_directory import check_given, is_tflite
from deuteron.builds.manifest import Manifest
from deuteron.builds.options import BuildOptions
from deuteron.builds.target_checks import ModelCheck, Outcome, TargetCheck
from deuteron.errors import DeuteronError, InternalError
from deuteron.runtime import tflite_model

_BATCHES = 4
"""The number of batches that ranges are measured with."""

_LOSSY = 25.0
"""Decibels below which an output gets a note."""

_MANY = 64
"""The number of operators of one line from which it gets a note: the line is unrolled."""

_LISTED = 3
"""The number of lines that a note names."""

_TENSOR = re.compile(r"tensor `[^`]*`")
"""A tensor in a reason; reasons that differ in it alone are one."""


def check(
    module: object,
    example_inputs: object,
    *,
    targets: Sequence[str] = (),
    calibration: Iterable[object] | None = None,
    options: BuildOptions = BuildOptions(),
    name: str | None = None,
) -> ModelCheck:
    """Return what a build of a `torch.nn.Module` for each target would do; it writes no program.

    Args:
        module: the model, or a `torch.export.ExportedProgram`.
        example_inputs: one tensor per argument of `forward`, or the one tensor.
        targets: names of `deuteron targets`; all by default.
        calibration: batches like the example inputs, for the ranges of all tensors; only a few are used.
        options: of the build; with `use_qat` the model is prepared for training and not trained.
        name: name of the model in the table; its class by default.

    Raises:
        DeuteronError: the module, a target or an option cannot be used. The refusals of a build are in the result.
    """
    chosen = [archs.load(target) for target in targets or archs.names()]  # before PyTorch, which takes seconds to load
    title = name or type(module).__name__
    unfit: dict[str, DeuteronError] = {}
    for arch in chosen:
        try:
            make.check_options(title, arch.name, options)
        except DeuteronError as e:
            if targets:
                raise
            unfit[arch.name] = e  # with all targets, those without the option have a row that says so
    make.need_pytorch()
    from deuteron.frontend import inputs, upstream_caches
    from deuteron.frontend.log_suppression import quiet

    with quiet(), upstream_caches.importing():
        from deuteron.frontend.eager.observe import seeded
        from deuteron.frontend.exported_model import export
        from deuteron.frontend.quantize.recurrent_layers import lines as recurrent_lines

    inputs.check_module(module)
    examples = inputs.check_example_inputs(example_inputs, module)
    time = options.stream and options.stream.axis
    batches = None
    if calibration is not None:
        batches = [*islice(inputs.check_calibration(calibration, examples, time), _BATCHES)]
    with seeded(0):
        try:
            exported = export(module, examples, batches, options.stream)
        except DeuteronError as e:
            return ModelCheck(title, tuple(_refused(arch.name, e) for arch in chosen))
        recurrent = recurrent_lines(exported.graph)
        checked: dict[object, TargetCheck] = {}
        rows: list[TargetCheck] = []
        for arch in chosen:
            if arch.name in unfit:
                rows.append(_refused(arch.name, unfit[arch.name]))
                continue
            if (group := _group(arch, options)) not in checked:
                checked[group] = _checked(exported, examples, arch, options, recurrent)
            row = checked[group]
            rows.append(row if row.target == arch.name else replace(row, target=arch.name, built=row.target))
    return ModelCheck(title, tuple(rows))


def _group(arch: Arch, options: BuildOptions) -> object:
    """Return a key that targets have in common if they build the same models.

    The cores of a Cortex-M and the sizes of one Ethos-U have the same operators. A Neutron's SRAM limits its models.
    """
    if options.memory != MemoryOptions() or options.vela != VelaOptions() or isinstance(arch.npu, Neutron):
        return arch.name
    return arch.npu and arch.npu.family, arch.cpu.operators


def _checked(
    exported: object, example_inputs: object, arch: Arch, options: BuildOptions, recurrent: Collection[str]
) -> TargetCheck:
    """Build an exported module for one target, in memory; `recurrent` are lines with recurrent layers."""
    try:
        train = _untrained if options.use_qat else None
        manifest = make.build(exported, example_inputs, target=arch.name, train=train, options=options).manifest
    except DeuteronError as e:
        return _refused(arch.name, e)
    except Exception as e:  # noqa: BLE001 - as the command reports it
        return TargetCheck(arch.name, Outcome.FAILS, message=f"{type(e).__name__}: {str(e).partition(chr(10))[0]}")
    nodes = manifest.nodes
    npu = sum(node.partition is not None for node in nodes)
    outputs = manifest.quality.outputs
    sqnr = min((output.sqnr for output in outputs if output.channels and not output.constant), default=None)
    is_portable = arch.cpu.operators is CpuOperators.PORTABLE
    notes = (*_slow(manifest, f"{arch.name}cm", recurrent), *_lossy(sqnr), *manifest.warnings)
    return TargetCheck(arch.name, Outcome.BUILDS, npu, len(nodes) - npu, is_portable, sqnr, notes=notes)


def _check_tflite(model: str, chosen: Sequence[Arch], options: BuildOptions) -> ModelCheck:
    """Build a TFLite file in memory for each target; those whose processors have the same operators share a build."""
    checked: dict[object, TargetCheck] = {}
    rows: list[TargetCheck] = []
    for arch in chosen:
        has_c_operators = tflite_model.has_c_operators(arch.name)
        group = arch.name if isinstance(arch.npu, Neutron) else arch.npu and arch.npu.family
        if group not in checked:
            try:
                manifest = make.build_model(model, target=arch.name, options=options).manifest
            except DeuteronError as e:
                checked[group] = _refused(arch.name, e)
            else:
                npu = sum(node.partition is not None for node in manifest.nodes)
                cpu = len(manifest.nodes) - npu
                processors = "\n".join(_processors(manifest, has_npu=arch.npu is not None))
                notes = (processors, *manifest.warnings)
                checked[group] = TargetCheck(
                    arch.name, Outcome.BUILDS, npu, cpu, is_portable=not has_c_operators, notes=notes
                )
        row = checked[group]
        rows.append(row if row.target == arch.name else replace(row, target=arch.name, built=row.target))
    return ModelCheck(Path(model).name, tuple(rows))


def _processors(manifest: Manifest, *, has_npu: bool) -> Iterator[str]:
    """Yield the operators of each processor, and on a target with an NPU the reason of those on the CPU."""
    kinds = Counter(node.op for node in manifest.nodes if node.partition is not None)
    if kinds:
        yield f"on the NPU: {_listed(kinds)}"
    reasons: dict[str, Counter[str]] = {}
    for node in manifest.nodes:
        if node.partition is None:
            why = _TENSOR.sub("a tensor", node.why) if has_npu else ""
            reasons.setdefault(why, Counter())[node.op] += 1
    for why, ops in reasons.items():
        yield f"on the CPU: {_listed(ops)}{f': {why}' if why else ''}"


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in kinds.most_common())


def _untrained(_: object) -> Iterator[float]:
    """Train nothing, in one step."""
    yield 0.0


def _refused(target: str, error: DeuteronError) -> TargetCheck:
    outcome = Outcome.FAILS if isinstance(error, InternalError) else Outcome.REFUSED
    return TargetCheck(target, outcome, message=error.message, where=error.where, hint=error.hint)


def _slow(manifest: Manifest, other: str, recurrent: Collection[str]) -> Iterator[str]:
    """Yield a note about lines that become many operators; the CPU of target `other` computes a recurrent layer."""
    lines = Counter(str(node.source[0]) for node in manifest.nodes if node.source)
    many = [(line, count) for line, count in lines.most_common(_LISTED) if count >= _MANY]
    if many:
        listed = ", ".join(f"{line} becomes {count} operators" for line, count in many)
        is_recurrent = any(line in recurrent for line, _ in many) and other in archs.names()
        on_other = f"; on `{other}` the CPU computes a recurrent layer as one operator" if is_recurrent else ""
        yield f"slow: {listed}{on_other}"


def _lossy(sqnr: float | None) -> Iterator[str]:
    if sqnr is not None and sqnr < _LOSSY:
        yield (
            f"lossy: the worst output has {sqnr:.1f} dB of signal to quantization noise; `deuteron build` names "
            "the layers that lose most"
        )


def check_model(model: str, *, targets: Sequence[str] = (), options: BuildOptions = BuildOptions()) -> ModelCheck:
    """Check a model by name, as `build_model` takes it; otherwise as `check`. Also a TFLite file, without PyTorch."""
    chosen = [archs.load(target) for target in targets or archs.names()]
    if Path(model).suffix == ".tflite":
        check_given(Path(model))
    if is_tflite(Path(model)):
        return _check_tflite(model, chosen, options)
    options.tflite.check_unused(model)
    make.need_pytorch()
    from deuteron.frontend.loader import load

    loaded = load(model)
    return check(
        loaded.module,
        loaded.example_inputs,
        targets=targets,
        calibration=loaded.calibration,
        options=options,
        name=loaded.name,
    )
