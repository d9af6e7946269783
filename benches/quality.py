"""How far int8 programs are from their float models, and which of them a build warns of.

The ordinary networks of `networks.py`, the reference models and some of `planted.py` are sound: none may be warned of.
The planted defects are not: each must be. "SQNR" is what the build's manifest says of the program's outputs, the worst
of several.

make bench-quality
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import planted
from ending import finish
from networks import NETWORKS
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

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
        """What is not as it must be; empty if all is."""
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
    for name, make in planted.SOUND.items():
        yield name, "", make
    for defect in planted.DEFECTS:
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


def main() -> int:
    """1 when a sound model is warned of, or a planted defect is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument("--model", action="append", help="of these only; may be repeated")
    parser.add_argument("--target", action="append", choices=TARGETS, help="of these only; may be repeated")
    options = parser.parse_args()
    rows: list[Row] = []
    for name, warning, make in subjects():
        for target in options.target or TARGETS:
            if name in (options.model or [name]):
                rows.append(row(name, warning, make, target))
                print(rows[-1], file=sys.stderr, flush=True)
    table = Table("model", "target", "SQNR, dB", "warned of")
    for r in rows:
        table.add_row(r.model, r.target, "-" if r.refused else f"{r.sqnr:.1f}", "\n".join(r.warnings))
    Console(width=160).print(table)
    problems = [f"{r.model} on {r.target} {r.problem}" for r in rows if r.problem]
    return finish({"schema": 1, "rows": [asdict(r) for r in rows]}, problems, options.json)


if __name__ == "__main__":
    sys.exit(main())
