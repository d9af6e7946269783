"""A published time on silicon beside what the cycle model says of the same model: nothing is fitted to it.

Of the ten times that NXP publishes of Neutron-C NPUs this is the one whose conditions are best known: its example
`tflm_label_image_ext_mem` (MCUXpresso SDK examples) states 51,982 us with SDK 26.06 for MobileNetV1 1.0 224 in int8 on
the i.MX RT700 EVK, weights fetched from flash; 53,376 us with SDK 26.03, and 69,769 us before. Its prefetch area is
1,200 KiB, and so is the one here. Three predictions, all with the figures of the target's preset: weights fetched by a
DMA while kernels run, in every run; the same microcode with each fetch a copy by the CPU, which blocks, as the
example's hook does; and what Deuteron does, which keeps as many weights in the area as fit. Simulated; the weights are
seeded, the microcode is Deuteron's, not NXP's.

make bench-anchor
"""

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.npu.timeline import Activity
from deuteron.views.simulate import Simulation, simulate_build

MODEL = "mobilenet_v1"
TARGET = "imxrt700"
SILICON = 51_982.0
"""Microseconds, with the newest software of which a figure is published."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says, in microseconds."""

    what: str
    microseconds: float

    @property
    def error(self) -> float:
        """As a share of the time on silicon."""
        return self.microseconds / SILICON - 1


def predictions(build: Path) -> tuple[Prediction, ...]:
    """The three predictions for a build."""
    every, kept = simulate_build(build, first_run=True), simulate_build(build)
    fetchings = [(run.program.fetching(every.engine), run.timeline.cycles) for run in every.partitions]
    copied = sum(fetching.serial if fetching else cycles for fetching, cycles in fetchings)
    return (
        Prediction("fetched by DMA in every run", _total(every)),
        Prediction("copied by the CPU in every run", every.engine.microseconds(copied)),
        Prediction("weights that fit kept in SRAM", _total(kept)),
    )


def parts(build: Path) -> dict[str, float]:
    """Microseconds of everything that takes time in the first prediction: per kernel, and what is no kernel."""
    found: Counter[str] = Counter()
    simulation = simulate_build(build, first_run=True)
    for run in simulation.partitions:
        for event in run.timeline.events:
            named = event.name if event.activity is Activity.KERNEL else event.activity.value
            found[named] += event.cycles
    return {name: simulation.engine.microseconds(cycles) for name, cycles in found.most_common()}


def _total(simulation: Simulation) -> float:
    return sum(run.timeline.microseconds for run in simulation.partitions)


def main() -> None:
    """Print the predictions beside the published time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--build", type=Path, help="a build of the model, made if it does not exist")
    options = parser.parse_args()
    area = targets.load(TARGET).need_neutron().prefetch_area.value
    memory = MemoryOptions(FetchPolicy.ALWAYS, weights_budget=area)
    with tempfile.TemporaryDirectory() as scratch:
        build = options.build or Path(scratch) / MODEL
        if not build.is_dir():
            api.build_model(MODEL, target=TARGET, output=build, options=api.BuildOptions(memory=memory))
        rows, spent = predictions(build), parts(build)
    print(f"MobileNetV1 1.0 224 on {TARGET}, us; on silicon {SILICON:,.0f} (quoted), below simulated")
    for row in rows:
        print(f"  {row.what:<34}{row.microseconds:>12,.1f}{row.error:>+9.1%}")
    print("of which, in the first (transfers run beside kernels):")
    for name, microseconds in spent.items():
        print(f"  {name:<34}{microseconds:>12,.1f}")
    if options.json:
        data = {"silicon": SILICON, "predictions": [{**asdict(r), "error": r.error} for r in rows], "parts": spent}
        options.json.write_text(json.dumps(data, indent=2) + "\n")


if __name__ == "__main__":
    main()
