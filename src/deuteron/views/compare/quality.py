"""Measures a build's program against the float model, before the build is written."""

import math
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from deuteron.builds.manifest import REFERENCE, Manifest, Source
from deuteron.builds.options import Converter
from deuteron.builds.quality import PROGRAM, Metric, OutputQuality
from deuteron.builds.samples import Sample
from deuteron.errors import InputError, MissingToolError, UnsupportedError, counted
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.views.compare.float_model import measured
from deuteron.views.compare.windows import OnWindows

if TYPE_CHECKING:
    import torch

    from deuteron.frontend.build import BuildResult
    from deuteron.frontend.eager.variables import Variable
    from deuteron.runtime.host import HostRunner


Evaluate = Callable[[Callable[..., object]], object]
"""Returns a number, or numbers by name, for a model that it may call with tensors, one per input; `model(x)` returns
the output, or a tuple of several. The model of a stream takes windows too, each from the initial state."""

_RESULT_HINT = "return a number, such as the model's accuracy, or numbers by name"

_LOST = 6.0
"""Allowed dB below the quantized model; differences in rounding cost less."""

_LOST_OF_STATE = 10.0
"""Allowed dB below the quantized model for a program with state, whose errors may add up from run to run."""

_USELESS, _FAR = 10.0, 20.0
"""A program with less than the first (dB), and so far below the quantized model, is refused."""

_OTHERS = 0.1
"""Allowed share of different integers in addition to the quantized model's."""

_GOOD = 40.0
"""A program with this SQNR (dB) is as good as 8-bit values are, even if PyTorch is better by chance or by 16 bits."""


_CALL_HINT = "call the model with one tensor per input, of the shapes and dtypes of the example inputs"


def of_program(result: "BuildResult") -> Manifest:
    """Return the manifest of a build with its outputs measured on the program, which runs in ExecuTorch's runtime.

    If the program does not run on this computer, the figures of the quantized PyTorch model remain, with a warning,
    except for the vendor's converter, whose programs never run here.

    Raises:
        UnsupportedError: outputs of integers are not the model's, or the program is far below the quantized model.
    """
    manifest, kept = result.manifest, result.samples
    if manifest.options.converter is Converter.VENDOR:
        return manifest
    try:
        with _program(result) as runner:
            outputs = [tuple(runner.run(sample)) for sample in kept.inputs]
    except (UnsupportedError, MissingToolError) as e:
        warning = f"the program does not run here; the reported quality is quantized PyTorch's: {e.message}"
        return replace(manifest, warnings=(*manifest.warnings, warning))
    _need_exact(result.exact, outputs, kept.outputs)
    quality = manifest.quality
    of_outputs = measured(quality, outputs, kept.outputs)
    if result.variables:
        need_state(result.variables, len(outputs), _stepped(result), of_outputs)
    last = next((str(node.source[0]) for node in reversed(manifest.nodes) if node.source), None)
    need_like_pytorch(quality.outputs, of_outputs, last)
    warnings = (*manifest.warnings, *lost(quality.outputs, of_outputs))
    return replace(manifest, quality=replace(quality, measured=PROGRAM, outputs=of_outputs), warnings=warnings)


def _need_exact(exact: Mapping[int, Source | None], ours: Sequence[Sample], wanted: Sequence[Sample]) -> None:
    """Check that outputs that are computed of integers alone are those of the model.

    Raises:
        UnsupportedError: for the first that is not.
    """
    for index, source in exact.items():
        pairs = [(a[index], b[index]) for a, b in zip(ours, wanted, strict=True)]
        if differ := sum(int((a != b).sum()) for a, b in pairs):
            raise UnsupportedError(
                f"output {index} of the program differs from the model's in {differ} of "
                f"{sum(a.size for a, _ in pairs)} integers, though nothing rounds them"
                f"{f', at `{source.code}`' if source else ''}",
                where=str(source) if source else None,
                hint="keep integers within 32 bits, in which an Ethos-U computes, and floats of integers within 24, or "
                "compute them outside of the model",
            )


def _stepped(result: "BuildResult") -> tuple[OutputQuality, ...]:
    """Return the quality of the quantized model, stepped over the samples as the program is."""
    from deuteron.frontend import saved
    from deuteron.views.compare.pytorch import one_thread, real_inputs

    kept, quality = result.samples, result.manifest.quality
    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder, one_thread():
        path = Path(folder) / REFERENCE
        path.write_bytes(result.files[REFERENCE])
        reference = saved.load(path)
        steps = reference.steps(real_inputs(reference, sample) for sample in kept.inputs)
        outputs = [tuple(value.numpy() for value in step) for step in steps]
    real = replace(quality, outputs=tuple(replace(entry, scale=0.0) for entry in quality.outputs))
    return measured(real, outputs, kept.outputs)


def need_state(
    variables: "Sequence[Variable]", steps: int, pytorch: Sequence[OutputQuality], program: Sequence[OutputQuality]
) -> None:
    """Check that no output of a program with state is far below the quantized model's, over the same steps.

    Raises:
        UnsupportedError: for the first that is.
    """
    for index, (theirs, ours) in enumerate(zip(pytorch, program, strict=True)):
        if ours.sqnr < min(theirs.sqnr - _LOST_OF_STATE, _GOOD):
            names = ", ".join(f"`{one.name}`" for one in variables)
            source = next((one.source for one in variables if one.source), None)
            raise UnsupportedError(
                f"output {index} of the program has {ours.sqnr:.1f} dB of signal to noise against the float model, "
                f"quantized PyTorch {theirs.sqnr:.1f} dB, over {counted(steps, 'step')} of the state {names}: the "
                "program computes something else",
                where=str(source) if source else None,
                hint="report the model; until then make the state an input and an output of `forward`",
            )


def need_like_pytorch(pytorch: Sequence[OutputQuality], program: Sequence[OutputQuality], where: str | None) -> None:
    """Check that no output of a program is useless where the quantized model's is not: something is lowered wrong.

    Raises:
        UnsupportedError: for the first that is; `where` is the model's last line.
    """
    for index, (theirs, ours) in enumerate(zip(pytorch, program, strict=True)):
        if ours.channels and not theirs.constant and ours.sqnr < min(_USELESS, theirs.sqnr - _FAR):
            raise UnsupportedError(
                f"output {index} of the program has {ours.sqnr:.1f} dB of signal to noise against the float model, "
                f"quantized PyTorch {theirs.sqnr:.1f} dB: the program computes something else",
                where=where,
                hint="report the model, for this is a defect; until then build for another target, or leave "
                "operators to the CPU with `--operators-not-to-delegate`",
            )


def lost(pytorch: Sequence[OutputQuality], program: Sequence[OutputQuality]) -> tuple[str, ...]:
    """Return a sentence for each output that is much worse than the quantized model's."""
    worse = "the program computes something else; `deuteron run --compare` compares operator by operator"
    pairs = list(enumerate(zip(pytorch, program, strict=True)))
    return (
        *(
            f"output {i} of the program has {ours.sqnr:.1f} dB of signal to noise against the float model, quantized "
            f"PyTorch {theirs.sqnr:.1f} dB: {worse}"
            for i, (theirs, ours) in pairs
            if ours.sqnr < min(theirs.sqnr - _LOST, _GOOD)
        ),
        *(
            f"output {i} of the program has {ours.equal:.1%} of the float model's integers, of quantized PyTorch "
            f"{theirs.equal:.1%}: {worse}"
            for i, (theirs, ours) in pairs
            if ours.equal < theirs.equal - _OTHERS
        ),
    )


def evaluated(manifest: Manifest, result: "BuildResult", evaluate: Evaluate) -> Manifest:
    """Return the manifest of a build with the user function's results for the float model and for the program.

    Raises:
        InputError: the function returns no numbers, or other names for the program, or calls the model with wrong
            inputs.
        UnsupportedError: the program does not run here.
    """
    try:
        if manifest.options.converter is Converter.VENDOR:
            raise UnsupportedError("the vendor's converter made it")
        with _program(result) as runner:
            metrics = _metrics(evaluate, result, runner)
    except (UnsupportedError, MissingToolError) as e:
        raise UnsupportedError(
            f"the program does not run here, and cannot be evaluated: {e.message}", hint="build without `--evaluate`"
        ) from e
    return replace(manifest, quality=replace(manifest.quality, metrics=metrics))


def check_sqnr(manifest: Manifest) -> None:
    """Check the outputs of a finished program against `--min-sqnr`.

    Raises:
        UnsupportedError: an output has less, or none has an SQNR.
    """
    least, quality = manifest.options.min_sqnr, manifest.quality
    if least is None:
        return
    found = {index: output.sqnr for index, output in enumerate(quality.outputs) if output.channels}
    if not found:
        raise UnsupportedError(
            "all outputs of the model are integers, which have no SQNR, and `--min-sqnr` requires one",
            hint="leave it out, and measure the model with `--evaluate`",
        )
    worst = min(found, key=found.__getitem__)
    if found[worst] < least:
        most = int(found[worst])
        raise UnsupportedError(
            f"output {worst} of the {quality.measured} has an SQNR of {found[worst]:.2f} dB, {least:g} dB are required "
            "by `--min-sqnr`",
            hint=(f"ask for at most `--min-sqnr {most}`, or " if most >= 1 else "")
            + "lose less elsewhere: with `--equalise --correct-biases`",
        )


def check_loss(manifest: Manifest) -> None:
    """Check the number of the user's function for a finished program against `--max-loss`.

    Raises:
        UnsupportedError: it is too far below that of the float model.
    """
    most = manifest.options.max_loss
    if most is None:
        return
    (metric,) = manifest.quality.metrics  # `score` has seen one number
    if (loss := metric.model - metric.program) > most:
        raise UnsupportedError(
            f"the program loses {loss:.6g}, {most:g} are allowed by `--max-loss`: {metric.text()}",
            hint=f"allow `--max-loss {_above(loss)}`, or build without `--weights-bits auto`",
        )


def _above(value: float) -> str:
    """Return a number that is at least a positive value, in few digits."""
    return next(text for digits in range(2, 18) if float(text := f"{value:.{digits}g}") >= value)


def score(evaluate: Evaluate, model: Callable[..., object]) -> float:
    """Return the one number of the user function for a model.

    Raises:
        InputError: the function returns several numbers, or none.
    """
    found = numbers(evaluate(model))
    if len(found) != 1:
        raise InputError(
            f"the function for `--evaluate` returns {len(found)} numbers, and `--max-loss` is for one",
            hint="let it return one number that is larger for a better model",
        )
    return next(iter(found.values()))


@contextmanager
def _program(result: "BuildResult") -> "Generator[HostRunner]":
    """Yield a runner of a build's program."""
    from deuteron.runtime.host import HostRunner

    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        path = Path(folder) / "model.pte"
        path.write_bytes(result.pte)
        yield HostRunner(path)


def _metrics(evaluate: Evaluate, result: "BuildResult", runner: "HostRunner") -> tuple[Metric, ...]:
    """Return the user function's results for the float model and for the program."""
    import torch

    affines = [(output.scale, output.zero_point) for output in result.manifest.quality.outputs]

    def floats(*inputs: object) -> list[Any]:
        tensors, _ = _checked(inputs, result, runner)
        with torch.no_grad():
            return list(flat(result.floats(*tensors)))

    def program(*inputs: object) -> list[Any]:
        _, stored = _checked(inputs, result, runner)
        values = runner.run([x.numpy() for x in stored])
        return [
            (torch.tensor(value).float() - zero_point) * scale if scale else torch.tensor(value)
            for value, (scale, zero_point) in zip(values, affines, strict=True)
        ]

    def called(step: Callable[..., list[Any]], reset: Callable[[], None]) -> Callable[..., object]:
        stream = result.manifest.stream
        model: Callable[..., Any] = step if stream is None else OnWindows(stream, step, reset)
        return lambda *inputs: _one_or_all(model(*inputs))

    steps = (floats, result.floats.reset), (program, runner.reset)
    model, ours = (numbers(evaluate(called(*one))) for one in steps)
    if model.keys() != ours.keys():
        raise InputError("the function for `--evaluate` returns other names for the program", hint=_RESULT_HINT)
    return tuple(Metric(name, model[name], ours[name]) for name in model)


def _checked(
    inputs: Sequence[object], result: "BuildResult", runner: "HostRunner"
) -> "tuple[list[torch.Tensor], Sequence[torch.Tensor]]":
    """Return copies of the user function's inputs for the float model, and inputs for the program; both accept both.

    Raises:
        InputError: they do not fit the program.
    """
    import torch

    wanted = [spec.shape for spec in runner.inputs]
    tensors = [x.detach().clone() for x in inputs if isinstance(x, torch.Tensor)]
    shapes = [tuple(x.shape) for x in tensors]
    if len(tensors) != len(inputs) or shapes != wanted:
        kinds = [tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__ for x in inputs]
        raise InputError(
            f"the function for `--evaluate` calls the model with {_listed(kinds)}, but it takes {_listed(wanted)}",
            hint=_CALL_HINT,
        )
    stored = result.stored(tensors)
    for i, (x, value, spec) in enumerate(zip(tensors, stored, runner.inputs, strict=True)):
        ours = str(x.dtype if value is x else value.dtype).removeprefix("torch.")
        if ours != str(spec.dtype) or (value is not x and x.dtype is not torch.float32):
            dtype = str(x.dtype).removeprefix("torch.")
            raise InputError(
                f"the function for `--evaluate` calls the model with {dtype} as input {i}", hint=_CALL_HINT
            )
    return tensors, stored


def _listed(shapes: Sequence[object]) -> str:
    """Return shapes as text."""
    return " and ".join(str(shape) for shape in shapes) or "nothing"


def _one_or_all(values: Sequence[object]) -> object:
    """Return the one value, or a tuple of several."""
    return values[0] if len(values) == 1 else tuple(values)


def numbers(value: object) -> dict[str, float]:
    """Return the numbers that a user's function returned, by name."""
    is_named = isinstance(value, Mapping)
    named = cast("Mapping[str, object]", value) if is_named else {"metric": value}
    try:
        values = {str(name): float(cast("float", number)) for name, number in named.items()}
    except (TypeError, ValueError) as e:
        raise InputError(
            f"the function for `--evaluate` returned a value of type `{type(value).__name__}`",
            hint=_RESULT_HINT,
        ) from e
    for name, number in values.items():
        if not math.isfinite(number):
            raise InputError(f"the function for `--evaluate` returned {number} for `{name}`", hint=_RESULT_HINT)
    return values
