"""Checks of models before a build."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from deuteron.api.make import need_pytorch
from deuteron.arch import targets as archs
from deuteron.builds.options import BuildOptions
from deuteron.builds.target_checks import ModelCheck
from deuteron.errors import OptionError
from deuteron.runtime.build_directory import is_tflite


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
        options: of the build.
        name: name of the model in the table; its class by default.

    Raises:
        DeuteronError: the module, a target or an option cannot be used. The refusals of a build are in the result.
    """
    for target in targets:
        archs.load(target)  # before PyTorch, which takes seconds to load
    need_pytorch()
    from deuteron.frontend import upstream_caches
    from deuteron.frontend.log_suppression import quiet

    with quiet(), upstream_caches.importing():
        from deuteron.frontend.check import check as checked

    return checked(
        module, example_inputs, targets or archs.names(), calibration=calibration, options=options, name=name
    )


def check_model(model: str, *, targets: Sequence[str] = (), options: BuildOptions = BuildOptions()) -> ModelCheck:
    """Check a model by name, as `build_model` takes it; otherwise as `check`.

    Raises:
        DeuteronError: as for `check`, or the model is a TFLite file.
    """
    for target in targets:
        archs.load(target)
    if is_tflite(Path(model)):
        raise OptionError(
            f"`{model}` is a TFLite file, and `deuteron check` is for PyTorch models",
            hint=f"`deuteron explain {model} --target NAME` shows where its operators run",
        )
    need_pytorch()
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
