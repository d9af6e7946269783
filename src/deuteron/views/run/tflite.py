"""A TFLite file for a target whose CPU runs C operators, on this machine: the firmware's executor runs its bundle."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from deuteron.board import image
from deuteron.board.bundle import Bundle, StepKind
from deuteron.board.host_executor import HostExecutor
from deuteron.builds import manifest as manifests
from deuteron.errors import OptionError
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
        """What the program takes and gives."""
        return self._manifest

    def check(self, reference: str | None) -> None:
        """Refuse what is no reference of a TFLite file."""
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
        """What runs one sample."""
        return self._executor.run

    def reset(self) -> None:
        """Give the program its initial state."""
        self._executor.reset()

    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """The build beside LiteRT on its file."""
        source = self._path / manifests.TFLITE
        if not source.is_file():
            raise OptionError(
                f"`{self._path}` has no `{manifests.TFLITE}` any more, which it is compared with",
                hint="build the file again",
            )
        values = _Values(self._path, self._manifest)

        def run(sample: Sequence[Array], *, is_reset: bool) -> tuple[Sequence[Array], tflite_operators.Values]:
            if is_reset:
                self.reset()
                values.reset()
            return self._executor.run(sample), values.of(sample)

        data = source.read_bytes()
        return tflite_operators.compare(data, self._manifest, run, samples, progress, is_reset=self.is_reset)


class _Values:
    """The values of a file's tensors, from a run in which every step computes whole tensors."""

    def __init__(self, build: Path, manifest: manifests.Manifest) -> None:
        self._bundle = image.translated(build, manifest)
        self._executor = HostExecutor(self._bundle)
        self._names = dict(_names(self._bundle, manifest))

    def reset(self) -> None:
        """Give the program its initial state."""
        self._executor.reset()

    def of(self, sample: Sequence[Array]) -> dict[str, Array]:
        """By the tensor's name."""
        values: dict[str, Array] = {}
        for result in self._executor.values(sample):
            names = self._names.get(result.index, ())
            values |= zip(names, result.outputs[len(result.outputs) - len(names) :], strict=True)
        return values


def _names(bundle: Bundle, manifest: manifests.Manifest) -> "list[tuple[int, tuple[str, ...]]]":
    """The tensors that each step writes last, by the step's number."""
    called = {number: (op.node,) for op in manifest.cpu_ops for number in op.instructions}
    return [
        (at, tuple(info.name for info in manifest.partitions[step.index].outputs))
        if step.kind is StepKind.DELEGATE
        else (at, called.get(step.instruction, ()))
        for at, step in enumerate(bundle.steps)
    ]
