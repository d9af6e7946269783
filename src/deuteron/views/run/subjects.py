"""What can be run, compared with a reference, and told of: the form that all of them have."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

from deuteron.builds import manifest as manifests
from deuteron.builds import samples
from deuteron.errors import OptionError
from deuteron.runtime.inputs import Array, Sample, Signature, drawn_inputs
from deuteron.views.compare import float_model

FLOAT = "float"
"""The float model that a build was made from, known by what it gave for the samples that the build has kept."""

REFERENCES = ("reference", "pytorch", "litert", "host", FLOAT)
"""What a subject may be compared with; the first is the one that fits it."""


class Progress(Protocol):
    """Told when a step begins: its name, its index, and the number of steps."""

    def __call__(self, step: str, index: int, count: int) -> None:
        """Step `index` of `count` begins."""
        ...


class Comparison(Protocol):
    """Outputs beside a reference's."""

    @property
    def passed(self) -> bool:
        """Whether all bounds hold."""
        ...

    def text(self) -> str:
        """The report."""
        ...

    def to_json(self) -> Mapping[str, object]:
        """The report as plain values."""
        ...


class Model(Signature, Protocol):
    """What a program takes and gives."""

    @property
    def outputs(self) -> Sequence[object]:
        """One entry per output."""
        ...


class Subject(ABC):
    """What is run, and where.

    Attributes:
        is_compiled: whether its target is settled.
    """

    is_compiled = True

    @property
    @abstractmethod
    def model(self) -> Model:
        """What it takes and gives."""

    @abstractmethod
    def check(self, reference: str | None) -> None:
        """Refuse a reference, one of REFERENCES, that it cannot be compared with."""

    @abstractmethod
    def run(self, samples: Sequence[Sample], progress: Progress | None = None) -> list[Sample]:
        """The outputs for each sample."""

    def run_each(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """The outputs for one sample after the other; what runs all at once takes all at once."""
        return (list(outputs) for outputs in self.run(list(samples)))

    @abstractmethod
    def run_in_turn(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
        """The outputs for one sample after the other, each of which has run before the next one is taken."""

    @property
    def build(self) -> Path | None:
        """The directory of the build that it comes from, where that is known."""
        return None

    def draw(self, count: int, seed: int = 0) -> list[Sample]:
        """Random samples, like those that its build has kept where there are such."""
        stored = samples.read(self.build) if self.build else None
        return drawn_inputs(self.model, count, seed, stored.inputs if stored else ())

    def kept_samples(self) -> samples.Stored:
        """The samples that its build has kept, with what the float model gives for them.

        Raises:
            OptionError: there are none.
        """
        stored = samples.read(self.build) if self.build else None
        if stored is None:
            raise OptionError(
                f"there is no build with a `{manifests.SAMPLES}`, which says what the float model gives",
                hint="give the directory that `deuteron build` wrote, or with firmware name that by `--build DIR`",
            )
        return stored

    def compare_floats(self, progress: Progress | None = None) -> Comparison:
        """The outputs for the samples that its build has kept beside those of the float model."""
        kept = self.kept_samples()
        build = manifests.read(cast(Path, self.build))
        float_model.check(build)
        return float_model.compare(build, self.run(kept.inputs, progress), kept.outputs)

    @abstractmethod
    def compare(self, samples: Sequence[Sample], progress: Callable[[int, int], object] | None = None) -> Comparison:
        """The outputs for these samples beside those of its reference."""

    def text(self) -> str:
        """What there is to tell of the last run beside its outputs; may be empty."""
        return ""

    def to_json(self) -> Mapping[str, object]:
        """The same as entries of a report."""
        return {}
