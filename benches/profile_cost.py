"""Cost of profiling on a Cortex-M33: instructions and bytes per event, and bytes of the image.

Counts one run of a model in an emulator, built and linked with profiling and without. The difference, over the events
that only profiling makes, is the cost of the driver's records and the executor's events.

make bench-profile-cost
"""

import argparse
import sys
import tempfile
from pathlib import Path

from harness import Results, main, option, table

from deuteron import api
from deuteron.board import boards, image, qemu
from deuteron.board.firmware_record import Firmware, FirmwareOptions
from deuteron.board.toolchain import Toolchain
from deuteron.views.events.sources import packets as board

BOARD = "an505"
EVENT_BYTES = 16
MOST_INSTRUCTIONS = 80
OF_PROFILING = (3, 4, 5)
"""The kinds of `deuteron/executor.h` that only images with profiling record: commands, the driver, the recording."""


def measured(model: str, work: Path, *, profiling: bool) -> tuple[Firmware, qemu.EmulatorReport, str]:
    """Firmware, what a run of it counted, and the hash of its program."""
    directory, firmware = work / f"build_{profiling}", work / f"firmware_{profiling}"
    build = api.build_model(model, output=directory, options=api.BuildOptions(use_profiling=profiling))
    options = FirmwareOptions(use_profiling=profiling)
    made = image.build(directory, boards.load(BOARD), options, Toolchain.find(image.OBJECTS))
    image.write(made, firmware, force=False)
    samples = api.seeded_inputs(build.manifest, 1)
    return made.record, qemu.run(firmware, made.record, boards.load(BOARD), samples), made.record.program_sha256


def results(options: argparse.Namespace) -> Results:
    """The costs; an event must not cost more than it may."""
    with tempfile.TemporaryDirectory() as folder:
        plain, without, _ = measured(options.model, Path(folder), profiling=False)
        profiled, with_, sha256 = measured(options.model, Path(folder), profiling=True)
    (packet,) = board.read(with_.packets, sha256, "events").packets
    before, after = without.runs[0].instructions, with_.runs[0].instructions
    events = sum(kind in OF_PROFILING for kind, *_ in packet.events)
    each = (after - before) / events
    row = {"model": options.model, "events": events, "instructions": before, "with profiling": after}
    row |= {"per event": round(each, 1), "bytes per event": EVENT_BYTES}
    row |= {"image B": plain.sizes.image, "image B with profiling": profiled.sizes.image}
    problems = [f"an event takes {each:.1f} instructions, at most {MOST_INSTRUCTIONS} are allowed"]
    shown = table([row], {name: name for name in row}, f"on {BOARD}")
    return Results("counted", [row], [shown], problems if each > MOST_INSTRUCTIONS else [])


if __name__ == "__main__":
    sys.exit(main(results, option("model", nargs="?", default="digits", help="name of a reference model")))
