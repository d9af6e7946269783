"""How good a build's program is: the program itself beside the float model, before the build is written."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.builds.manifest import Manifest
from deuteron.builds.options import Converter
from deuteron.builds.quality import PROGRAM
from deuteron.errors import DeuteronError
from deuteron.views.agreement.floats import measured

if TYPE_CHECKING:
    from deuteron.frontend.build import BuildResult


def of_program(result: "BuildResult") -> Manifest:
    """The manifest of a build, with its outputs measured of the program, which runs in ExecuTorch's runtime.

    Where it does not run on this computer, what was measured of the quantised PyTorch model stays.
    """
    manifest, kept = result.manifest, result.samples
    if manifest.options.converter is Converter.VENDOR:
        return manifest
    from deuteron.runtime.host import HostRunner

    with tempfile.TemporaryDirectory(prefix="deuteron-") as folder:
        path = Path(folder) / "model.pte"
        path.write_bytes(result.pte)
        try:
            runner = HostRunner(path)
            outputs = [tuple(runner.run(sample)) for sample in kept.inputs]
        except DeuteronError:
            return manifest
    quality = manifest.quality
    return replace(
        manifest, quality=replace(quality, measured=PROGRAM, outputs=measured(quality, outputs, kept.outputs))
    )
