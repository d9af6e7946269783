"""A TFLite file for a target whose CPU runs C operators, on this machine: the firmware's executor runs its bundle."""

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.board.host_executor import HostExecutor
from deuteron.board.step_values import StepValues
from deuteron.builds import manifest as manifests
from deuteron.builds.options import TfliteOptions
from deuteron.errors import OptionError, UnsupportedError
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.compare import tflite_operators
from deuteron.views.run.host import OnHost
from deuteron.views.run.subjects import FLOAT, Comparison


class BundleOnHost(OnHost):
    """A build that was made from a TFLite file."""

    def __init__(self, build: Path, *, is_compiled: bool = True) -> None:
        """`is_compiled` says whether the build itself was given, and not the file."""
        self._path = build
        self._manifest = manifests.read(build)
        self.is_compiled = is_compiled

    @property
    def build(self) -> Path:
        """The build's directory."""
        return self._path

    @property
    def model(self) -> manifests.Manifest:
        """The build's manifest, with the program's inputs and outputs."""
        return self._manifest

    def check(self, reference: str | None) -> None:
        """Refuse a reference that is not for TFLite files."""
        if reference == FLOAT:
            raise OptionError(
                "the float model that a TFLite file was made from is not known", hint="use `--compare litert`"
            )
        if reference == "host":
            raise OptionError(
                "this runs on the host already", hint="use `--compare litert`, or name a board with `--on`"
            )
        if reference == "pytorch":
            raise OptionError("a TFLite file is compared with LiteRT, not with PyTorch", hint="use `--compare litert`")

    @cached_property
    def _executor(self) -> HostExecutor:
        return HostExecutor(image.bundle_of(self._path))

    def runner(self) -> Callable[[Sequence[Array]], list[Array]]:
        """Return a function that runs one sample."""
        return self._executor.run

    def reset(self) -> None:
        """Give the program its initial state."""
        self._executor.reset()

    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """Compare the build with LiteRT on its file."""
        source = self._path / manifests.TFLITE
        if not source.is_file():
            raise OptionError(
                f"`{self._path}` has no `{manifests.TFLITE}` any more, which it is compared with",
                hint="build the file again",
            )
        manifest = self._manifest
        values = StepValues(image.translated(self._path, manifest), manifest.partitions, manifest.cpu_ops)

        def run(sample: Sequence[Array], *, is_reset: bool) -> tuple[Sequence[Array], tflite_operators.Values]:
            if is_reset:
                self.reset()
                values.reset()
            return self._executor.run(sample), values.of(sample)

        with tempfile.TemporaryDirectory(prefix="deuteron-operators-") as scratch:

            def compiled(data: bytes) -> tflite_operators.Program:
                file = Path(scratch) / f"{hashlib.sha256(data).hexdigest()}.tflite"
                file.write_bytes(data)
                options = TfliteOptions(keep_dead_channels=True)
                build = build_directory(file, self._manifest.target, tflite=options)
                if not manifests.read(build).partitions:  # such as a QUANTIZE, which is an end of a file of its own
                    raise UnsupportedError("by itself, the operator is not the NPU's")
                return HostExecutor(image.bundle_of(build)).run_from_reset

            return tflite_operators.compare(
                source.read_bytes(),
                self._manifest,
                run,
                samples,
                progress,
                compiled if self._manifest.partitions else None,
                is_reset=self.is_reset,
            )
