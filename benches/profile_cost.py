"""What profiling costs on a Cortex-M33: instructions and bytes per event, and bytes of the image.

Counts one run of a model in an emulator, built and linked with profiling and without. The difference, over the number
of events that only profiling makes, is what the driver's records and the executor's events take together; those of
copies and steps are recorded, and counted, in both images.

    python benches/profile_cost.py [MODEL] [--json FILE]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from ending import finish

from deuteron import api
from deuteron.board import boards, image, qemu
from deuteron.board.record import Firmware, FirmwareOptions
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


def main() -> int:
    """Prints the costs; 1 when an event costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("model", nargs="?", default="digits", help="name of a reference model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain, without, _ = measured(options.model, Path(folder), profiling=False)
        profiled, with_, sha256 = measured(options.model, Path(folder), profiling=True)
    (packet,) = board.read(with_.packets, sha256, "events").packets
    before, after = without.runs[0].instructions, with_.runs[0].instructions
    events = sum(kind in OF_PROFILING for kind, *_ in packet.events)
    each = (after - before) / events
    print(f"{options.model} on {BOARD}, counted: {before:,} instructions without profiling, {after:,} with it")
    print(f"{events} events of profiling: {each:.1f} instructions and {EVENT_BYTES} bytes each")
    print(f"image: {plain.sizes.image:,} bytes without profiling, {profiled.sizes.image:,} with it")
    data = {
        "kind": "counted",
        "model": options.model,
        "board": BOARD,
        "events": events,
        "instructions": {"without": before, "with": after},
        "instructions_per_event": round(each, 1),
        "bytes_per_event": EVENT_BYTES,
        "image_bytes": {"without": plain.sizes.image, "with": profiled.sizes.image},
    }
    problems = [f"an event takes {each:.1f} instructions, at most {MOST_INSTRUCTIONS} are allowed"]
    return finish(data, problems if each > MOST_INSTRUCTIONS else [], options.json)


if __name__ == "__main__":
    sys.exit(main())
