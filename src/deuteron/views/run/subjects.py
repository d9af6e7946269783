"""The common interface of subjects that can be run, compared with a reference, and reported on."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from deuteron.builds import manifest as manifests
from deuteron.builds import samples
from deuteron.errors import OptionError
from deuteron.runtime.inputs import Array, Sample, Signature, drawn_inputs
from deuteron.views.compare import float_model

FLOAT = "float"
"""The float model of a build, known by its results for the build's stored samples."""

REFERENCES = ("reference", "pytorch", "litert", "host", FLOAT)
"""References of comparisons; the first is the one that fits the subject."""


class Progress(Protocol):
    """Called when a step begins, with its name, its index, and the number of steps."""

    def __call__(self, step: str, index: int, count: int) -> None:
        """Step `index` of `count` begins."""
        ...


class Comparison(Protocol):
    """Outputs compared with a reference's."""

    @property
    def passed(self) -> bool:
        """Return true if all bounds hold."""
        ...

    def text(self) -> str:
        """Return the report."""
        ...

    def to_json(self) -> Mapping[str, object]:
        """Return the report as plain values."""
        ...


class Model(Signature, Protocol):
    """Inputs and outputs of a program."""

    @property
    def outputs(self) -> Sequence[object]:
        """Return one entry per output."""
        ...


class Subject(ABC):
    """A program and its place.

    Attributes:
        is_compiled: true if its target is fixed.
        default_target: the target of a file that is not compiled yet if the user named none; otherwise empty.
        resets: numbers of the samples before which a program that keeps state gets its initial one; None for all.
    """

    is_compiled = True
    default_target = ""
    resets: Collection[int] | None = None

    @property
    @abstractmethod
    def model(self) -> Model:
        """Return its inputs and outputs."""

    @abstractmethod
    def check(self, reference: str | None) -> None:
        """Reject a reference, one of REFERENCES, that does not fit."""

    @abstractmethod
    def run(self, samples: Sequence[Sample], progress: Progress | None = None) -> list[Sample]:
        """Return the outputs for each sample."""

    def run_each(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """Yield the outputs for each sample; a subject that runs in batches takes all samples first."""
        return (list(outputs) for outputs in self.run(list(samples)))

    @abstractmethod
    def run_in_turn(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """Yield the outputs for each sample; the next sample is read after the run of the one before."""

    @property
    def build(self) -> Path | None:
        """Return the directory of its build, if it is known."""
        return None

    @property
    def board(self) -> str:
        """Return the name of the board that ran it last; empty for the host."""
        return ""

    def draw(self, count: int, seed: int = 0) -> list[Sample]:
        """Return random samples, like its build's stored samples if there are any."""
        stored = samples.read(self.build) if self.build else None
        return drawn_inputs(self.model, count, seed, stored.inputs if stored else ())

    def kept_samples(self) -> samples.Stored:
        """Return its build's stored samples, with the float model's results.

        Raises:
            OptionError: there are none.
        """
        stored = samples.read(self.build) if self.build else None
        if stored is None:
            raise OptionError(
                f"there is no build with a `{manifests.SAMPLES}`, which has the float model's results",
                hint="give a directory of `deuteron build`, or for firmware give that by `--build DIR`",
            )
        return stored

    def compare_floats(self, progress: Progress | None = None) -> Comparison:
        """Compare the outputs for its build's stored samples with the float model's."""
        kept = self.kept_samples()
        build = manifests.read(cast(Path, self.build))
        float_model.check(build)
        outputs = self.run(kept.inputs, progress)
        return float_model.compare(build, outputs, kept.outputs, self.board)

    @abstractmethod
    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """Compare the outputs for these samples with its reference's."""

    def text(self) -> str:
        """Return further facts about the last run as text; may be empty."""
        return ""

    def to_json(self) -> Mapping[str, object]:
        """Return these facts as entries of a report."""
        return {}
