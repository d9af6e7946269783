"""Runs a build or a TFLite file on this machine."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.board.build_directory import build_directory
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import TensorInfo
from deuteron.builds.options import TfliteOptions
from deuteron.errors import OptionError
from deuteron.runtime import tflite_model
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.run.subjects import FLOAT, Comparison, Progress, Subject

if TYPE_CHECKING:
    from deuteron.runtime.host import HostRunner


class OnHost(Subject):
    """A subject that runs sample by sample on this machine."""

    @abstractmethod
    def runner(self) -> Callable[[Sequence[Array]], list[Array]]:
        """Return a function that runs one sample."""

    def reset(self) -> None:
        """Give the program its initial state."""

    def run(self, samples: Sequence[Sample], progress: Progress | None = None) -> list[Sample]:
        """Return the outputs for each sample."""
        results: list[Sample] = []
        run_one = self.runner()
        for i, sample in enumerate(samples):
            if progress is not None:
                progress(f"sample {i}", i, len(samples))
            if self.is_reset(i):
                self.reset()
            results.append(tuple(run_one(sample)))
        return results

    def run_each(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """Yield the outputs for one sample after the other."""
        run_one = self.runner()
        for i, sample in enumerate(samples):
            if self.is_reset(i):
                self.reset()
            yield run_one(sample)

    def is_reset(self, sample: int) -> bool:
        """Return true for a sample that starts from the initial state."""
        return self.resets is None or sample in self.resets

    run_in_turn = run_each


class BuildOnHost(OnHost):
    """A build directory, which ExecuTorch's runtime runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._manifest = manifests.read(path)

    @property
    def build(self) -> Path:
        """Return the directory itself."""
        return self.path

    @property
    def model(self) -> manifests.Manifest:
        """Return the inputs and outputs of the program."""
        return self._manifest

    def check(self, reference: str | None) -> None:
        """Reject references that do not fit a build."""
        if reference == "host":
            raise OptionError("this already runs on the host", hint="name a board with `--on`")
        if reference == "litert":
            has_tflite = manifests.tflite_name(0) in self._manifest.files
            files = ", or run one of its TFLite files, `npu_0.tflite` and so on" if has_tflite else ""
            raise OptionError("a build is compared with PyTorch, not with LiteRT", hint=f"use `--compare`{files}")

    def runner(self) -> Callable[[Sequence[Array]], list[Array]]:
        """Return a function that runs one sample."""
        return self._runner.run

    def reset(self) -> None:
        """Give the program its initial state."""
        self._runner.reset()

    @cached_property
    def _runner(self) -> "HostRunner":
        from deuteron.runtime.host import HostRunner

        return HostRunner(self.path / manifests.PROGRAM)

    def compare_floats(self, progress: Progress | None = None) -> Comparison:
        """Compare the outputs for the stored samples, which are a stream if the program keeps state."""
        self.resets = (0,)
        return super().compare_floats(progress)

    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """Compare the build with the quantized PyTorch model."""
        from deuteron.views.compare import pytorch, stream

        if self.resets is None:
            return pytorch.compare(self.path, samples, progress)
        return stream.compare(self.path, samples, progress, self.resets)


@dataclass(frozen=True, slots=True)
class _Program:
    """Inputs and outputs of a `.pte`."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class ProgramOnHost(OnHost):
    """A `.pte` file without its build, which ExecuTorch's runtime runs."""

    def __init__(self, path: Path, etrecord: Path | None = None) -> None:
        self.path = path
        self._etrecord = etrecord

    @cached_property
    def _runner(self) -> "HostRunner":
        """Return ExecuTorch's runtime, which takes seconds to load; `check` works without it."""
        from deuteron.runtime.host import HostRunner

        return HostRunner(self.path)

    @property
    def model(self) -> _Program:
        """Return the inputs and outputs of the program."""
        return self._model

    @cached_property
    def _model(self) -> _Program:
        sides = (self._runner.inputs, self._runner.outputs)
        return _Program(
            *(
                tuple(TensorInfo(spec.shape, spec.dtype, f"{side} {i}") for i, spec in enumerate(specs))
                for side, specs in zip(("input", "output"), sides, strict=True)
            )
        )

    def check(self, reference: str | None) -> None:
        """Reject references that do not fit a program; PyTorch fits if there is an ETRecord."""
        if reference is None and self._etrecord:
            raise OptionError(
                "`--etrecord` is used only with `--compare` and for boards",
                hint="leave it out, or add `--compare`",
            )
        if reference not in (None, "reference", "pytorch"):
            raise OptionError(
                f"`{self.path}` is a program without its build and cannot be compared with `{reference}`",
                hint="use `--compare` with its ETRecord, or give a directory of `deuteron build`",
            )
        if reference and not self._etrecord:
            raise OptionError(
                f"`{self.path}` is a program without its build and has no reference",
                hint="give its ETRecord with `--etrecord`, or the directory that `deuteron build` wrote",
            )

    def runner(self) -> Callable[[Sequence[Array]], list[Array]]:
        """Return a function that runs one sample."""
        return self._runner.run

    def reset(self) -> None:
        """Give the program its initial state."""
        self._runner.reset()

    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """Compare the program with the edge program of its ETRecord, which PyTorch runs."""
        from deuteron.views.compare import pytorch, stream

        build = build_directory(self.path, etrecord=self._etrecord)
        if self.resets is None:
            return pytorch.compare(build, samples, progress)
        return stream.compare(build, samples, progress, self.resets)


class TfliteOnHost(OnHost):
    """A TFLite file, which the driver or the executor of Ethos-U command streams runs."""

    def __init__(self, path: Path, target: str, options: TfliteOptions = TfliteOptions()) -> None:
        self._model = tflite_model.load(path, target, tflite=options)
        self._kept = self._model.initial
        self.is_compiled = self._model.conversion is None and self._model.mixed is None

    @property
    def model(self) -> tflite_model.TfliteModel:
        """Return the inputs and outputs of the file, without its variables."""
        given, own = (len(ends) - len(self._model.states) for ends in (self._model.inputs, self._model.outputs))
        return replace(self._model, inputs=self._model.inputs[:given], outputs=self._model.outputs[:own])

    def check(self, reference: str | None) -> None:
        """Reject references that do not fit a TFLite file."""
        if reference == FLOAT:
            raise OptionError("the float model of a TFLite file is unknown", hint="use `--compare litert`")
        if reference == "host":
            raise OptionError("this already runs on the host", hint="use `--compare litert`")
        if reference is not None and self._model.vela is not None:
            raise OptionError(
                "LiteRT does not run files that Vela compiled",
                hint="write outputs with `--output`, and compare them with those of the file before Vela",
            )
        if reference == "pytorch":
            raise OptionError("a TFLite file is compared with LiteRT, not with PyTorch", hint="use `--compare litert`")

    def runner(self) -> Callable[[Sequence[Array]], list[Array]]:
        """Return a function that runs one sample."""
        return self._run

    def _run(self, inputs: Sequence[Array]) -> list[Array]:
        outputs = self._model.run([*inputs, *self._kept])
        own = len(outputs) - len(self._kept)
        self._kept = outputs[own:]
        return outputs[:own]

    def _with_variables(self, samples: Sequence[Sample]) -> Iterator[Sample]:
        """Yield samples with the values of the variables before each."""
        for i, sample in enumerate(samples):
            if self.is_reset(i):
                self.reset()
            yield (*sample, *self._kept)
            self._run(sample)

    def reset(self) -> None:
        """Give the variables their initial values."""
        self._kept = self._model.initial

    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """Compare the file with LiteRT, operator by operator."""
        from deuteron.views.compare import litert, tflite_partitioned

        samples = [*self._with_variables(samples)]
        if self._model.mixed is not None:
            return tflite_partitioned.compare(self._model.source, self._model.mixed, samples, progress)
        return litert.compare(self._model, samples, progress)
