"""The C file that an image with the harness has in addition to the bundle: facts about it, and memory for events."""

from pathlib import Path

from deuteron.board import qemu
from deuteron.board.boards import Board
from deuteron.board.bundle import Bundle
from deuteron.board.flash import Flash
from deuteron.board.toolchain import Source

_EVENTS_PER_PARTITION = 512
"""Space for events of the commands of a partition; a run reports events that did not fit."""

_LOOP_INSTRUCTIONS = 20_000
"""DTN_LOOP_INSTRUCTIONS of `firmware/harness/image.h`."""

_TEXT = """\
/* The image with this program, for deuteron/harness.h; written by `deuteron`: do not edit. */
#include "image.h"

#include "deuteron/profile.h"

static dtn_event_t events[{capacity}];

const dtn_harness_image_t dtn_harness_image = {{
    .board = "{board}",
    .program = dtn_profile_program,
    .tick_unit = {tick_unit},
    .loop_ticks = {loop_ticks},
    .is_npu_emulated = {emulated},
    .flash_latency_ns = {latency},
    .flash_bytes_per_second = {bandwidth},
    .events = events,
    .event_capacity = {capacity},
}};
"""


def write(
    bundle: Bundle, board: Board, flash: Flash, work: Path, *, profiling: bool, npu_driver: bool = False
) -> Source:
    """Write the file to the directory `work`; return it.

    With `npu_driver`, the image has the driver of an NPU's maker, and the core emulates only NPUs without stand-in.
    """
    path = work / "harness_image.c"
    made = text(
        bundle,
        board.name,
        flash,
        loop_ticks=qemu.ticks(_LOOP_INSTRUCTIONS, board.tick_hz) if board.machine else 0,
        profiling=profiling,
        is_npu_emulated=is_npu_emulated(bundle, npu_driver),
    )
    path.write_text(made, encoding="ascii")
    return Source("model.harness_image", path)


def text(bundle: Bundle, board: str, flash: Flash, *, loop_ticks: int, profiling: bool, is_npu_emulated: bool) -> str:
    """Return the file's text; `loop_ticks` are the ticks of a loop in the emulator, 0 on silicon."""
    events = len(bundle.steps) + (len(bundle.delegates) * _EVENTS_PER_PARTITION if profiling else 0)
    return _TEXT.format(
        board=board,
        tick_unit="DTN_PROFILE_INSTRUCTIONS" if loop_ticks else "DTN_PROFILE_TIME",
        loop_ticks=loop_ticks,
        emulated=str(is_npu_emulated).lower(),
        latency=flash.latency_ns,
        bandwidth=flash.bandwidth,
        capacity=max(1, events),
    )


def is_npu_emulated(bundle: Bundle, npu_driver: bool) -> bool:
    """Return true if the core executes commands of an NPU, so that times of these steps are not the NPU's."""
    return any(not (npu_driver and delegate.firmware.stand_in) for delegate in bundle.delegates)
