"""How good a build's program is: the program itself beside the float model, before the build is written."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from deuteron.builds.manifest import Manifest
from deuteron.builds.options import Converter
from deuteron.builds.quality import PROGRAM, Metric
from deuteron.errors import DeuteronError, InputError, UnsupportedError
from deuteron.frontend.cortex_m.values import flat
from deuteron.views.agreement.floats import measured

if TYPE_CHECKING:
    from deuteron.frontend.build import BuildResult
    from deuteron.runtime.host import HostRunner


Evaluate = Callable[[Callable[..., object]], object]
"""Gives a number, or numbers by name, for a model that it may call with tensors, one per input; `model(x)` gives the
output, or a tuple of them."""

GIVES = "return a number, such as the accuracy of the model that it is given, or numbers by name"


def of_program(result: "BuildResult", evaluate: Evaluate | None = None) -> Manifest:
    """The manifest of a build, with its outputs measured of the program, which runs in ExecuTorch's runtime.

    Where it does not run on this computer, what was measured of the quantised PyTorch model stays. `evaluate` is called
    with the float model and with the program.

    Raises:
        InputError: `evaluate` gives no numbers, or other names for the second.
        UnsupportedError: it is to be called, and the program does not run here.
    """
    manifest, kept = result.manifest, result.samples
    if manifest.options.converter is Converter.VENDOR:
        return _unless_asked(manifest, evaluate, None)
    from deuteron.runtime.host import HostRunner

    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        path = Path(folder) / "model.pte"
        path.write_bytes(result.pte)
        try:
            runner = HostRunner(path)
            outputs = [tuple(runner.run(sample)) for sample in kept.inputs]
        except DeuteronError as e:
            return _unless_asked(manifest, evaluate, e)
        metrics = _metrics(evaluate, result, runner) if evaluate else ()
    quality = manifest.quality
    of_outputs = measured(quality, outputs, kept.outputs)
    return replace(manifest, quality=replace(quality, measured=PROGRAM, outputs=of_outputs, metrics=metrics))


def _unless_asked(manifest: Manifest, evaluate: Evaluate | None, error: DeuteronError | None) -> Manifest:
    if evaluate is not None:
        raise UnsupportedError(
            f"the program does not run here, and cannot be evaluated{f': {error.message}' if error else ''}",
            hint="build without `--evaluate`",
        ) from error
    return manifest


def _metrics(evaluate: Evaluate, result: "BuildResult", runner: "HostRunner") -> tuple[Metric, ...]:
    """What the user's function gives for the float model and for the program."""
    import torch

    affines = [(output.scale, output.zero_point) for output in result.manifest.quality.outputs]

    def floats(*inputs: torch.Tensor) -> object:
        with torch.no_grad():
            return _one_or_all(flat(result.floats(*inputs)))

    def program(*inputs: torch.Tensor) -> object:
        values = runner.run([x.numpy() for x in result.stored(inputs)])
        outputs = [
            (torch.tensor(value).float() - zero_point) * scale if scale else torch.tensor(value)
            for value, (scale, zero_point) in zip(values, affines, strict=True)
        ]
        return _one_or_all(outputs)

    model, ours = (numbers(evaluate(one)) for one in (floats, program))
    if model.keys() != ours.keys():
        raise InputError("the function for `--evaluate` gives other names for the program", hint=GIVES)
    return tuple(Metric(name, model[name], ours[name]) for name in model)


def _one_or_all(values: Sequence[object]) -> object:
    """The one value, or a tuple of several."""
    return values[0] if len(values) == 1 else tuple(values)


def numbers(value: object) -> dict[str, float]:
    """The numbers that a user's function has returned, by name."""
    is_named = isinstance(value, Mapping)
    named = cast("Mapping[str, object]", value) if is_named else {"metric": value}
    try:
        return {str(name): float(cast("float", number)) for name, number in named.items()}
    except (TypeError, ValueError) as e:
        raise InputError(
            f"the function for `--evaluate` returned a value of type `{type(value).__name__}`", hint=GIVES
        ) from e
