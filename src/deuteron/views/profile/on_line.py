"""Profiles of runs on a board at the end of a line: measured times of each step."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from deuteron.board import image
from deuteron.errors import BoardError
from deuteron.runtime.host import Array
from deuteron.views.events.sources import packets
from deuteron.views.memory import arena_planning
from deuteron.views.profile import on_board
from deuteron.views.profile import subject as builds
from deuteron.views.profile.estimates import with_estimates
from deuteron.views.profile.on_board import BoardProfile
from deuteron.views.profile.subject import Build
from deuteron.views.run.line import LineOptions, connected, expected_of_build
from deuteron.views.run.line_report import NPU_EMULATED


def profile(
    build: Build,
    options: LineOptions,
    inputs: Sequence[Sequence[Array]],
    progress: Callable[[int, int], object] | None = None,
) -> BoardProfile:
    """Profile runs on the board at a line, whose firmware was made from the build.

    `progress` is called with the number of complete runs and of all.

    Raises:
        BoardError: the board does not answer, or fails, or its counter is too short for a step.
        InputError: it has another program.
    """
    expected = expected_of_build(build.directory, image.bundle_of(build.directory))
    with connected(options, expected) as (program, identity):
        runs = program.run_all(inputs, None, progress)
    if reason := next((reason for run in runs if (reason := run.untimed(identity))), None):
        raise BoardError(
            f"the times of the steps are not known: {reason}",
            where=options.name,
            hint="lower the rate of the counter (`DTN_BOARD_COUNTER`, `DTN_TICKS_HZ` and `tick_hz` of the port), or "
            "run again if the line was silent",
        )
    sent = b"".join(
        packets.write(
            identity.program_sha256,
            identity.ticks_hz,
            number,
            run.result.start,
            run.result.stop,
            run.events,
            counts=identity.counts_instructions,
            lost=run.result.lost,
        )
        for number, run in enumerate(runs)
    )
    received = packets.read(sent, build.program_sha256, options.name)
    running = replace(build, arena=arena_planning(build.directory))
    profiled = builds.profile(running, identity.board, on_board.stream_of(build, received.packets, options.name))
    has_npu = not (identity.is_npu_emulated or identity.counts_instructions)
    if identity.core_hz:  # without the core's rate, cycles are no time
        profiled = with_estimates(running, profiled, identity.core_hz, has_npu=has_npu)
    emulated = (NPU_EMULATED,) if identity.is_npu_emulated else ()
    return BoardProfile(profiled, sent, (*received.warnings, *emulated))
