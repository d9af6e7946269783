"""Quality of int8 programs against their float models, and the warnings of builds.

The ordinary networks of the zoo, the reference models and some of `zoo/planted.py` are sound: none may warn. The
planted defects must. "SQNR" is the manifest's worst output.

make bench-quality
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness import Results, main, only, option, progress, table
from torch import Tensor, nn
from zoo import NETWORKS, quality_defects

from deuteron import api
from deuteron.errors import DeuteronError
from deuteron.frontend.loader import load

TARGETS = ("imxrt700cm", "cortex-m55")
KNOWN = ("nothing was delegated",)
"""How warnings begin that say nothing of quality."""

Subject = tuple[nn.Module, tuple[Tensor, ...], Sequence[object]]
"""A module, its example inputs and calibration batches."""


@dataclass(frozen=True, slots=True)
class Row:
    """One model for one target: what a build says of it; `planted` is how its warning has to go on, if it has one."""

    model: str
    target: str
    planted: str = ""
    refused: str = ""
    sqnr: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The broken bound; empty if there is none."""
        if self.refused:
            return f"is not built: {self.refused}"
        if self.planted:
            return "" if any(self.planted in text for text in self.warnings) else "is not warned of"
        return "is warned of though it is sound" if self.warnings else ""


def subjects() -> Iterator[tuple[str, str, Callable[[], Subject]]]:
    """Every model by name, what the warning for it has to say, and how it is made."""
    for network in NETWORKS:
        yield network.name, "", lambda n=network: (n.module(), n.samples(1, seed=1)[0], n.samples(16, seed=2))
    for example in api.REFERENCES:
        yield example.name, "", lambda name=example.name: example_model(name)
    for name, make in quality_defects.SOUND.items():
        yield name, "", make
    for defect in quality_defects.DEFECTS:
        yield defect.name, defect.warning, defect.make


def example_model(name: str) -> Subject:
    """An example model by name, with its calibration."""
    model = load(name)
    assert model.calibration is not None
    return model.module, model.example_inputs, list(model.calibration)


def row(name: str, warning: str, make: Callable[[], Subject], target: str) -> Row:
    """One build."""
    module, example, calibration = make()
    try:
        manifest = api.build(module, example, target=target, calibration=calibration).manifest
    except DeuteronError as e:
        return Row(name, target, warning, str(e))
    sqnr = min((output.sqnr for output in manifest.quality.outputs if output.channels), default=0.0)
    warnings = tuple(text for text in manifest.warnings if not text.startswith(KNOWN))
    return Row(name, target, warning, "", sqnr, warnings)


def results(options: argparse.Namespace) -> Results:
    """Each model for each target; only planted defects may warn."""
    rows = [
        progress(row(name, warning, make, target))
        for name, warning, make in subjects()
        for target in options.target or TARGETS
        if name in (options.model or [name])
    ]
    columns = {"model": "model", "target": "target", "SQNR, dB": lambda r: "" if r.refused else f"{r.sqnr:.1f}"}
    problems = [f"{r.model} on {r.target} {r.problem}" for r in rows if r.problem]
    return Results("measured", rows, [table(rows, {**columns, "warnings": "warnings"})], problems)


if __name__ == "__main__":
    sys.exit(
        main(results, option("--model", action="append", help="only these; may be repeated"), only("--target", TARGETS))
    )
