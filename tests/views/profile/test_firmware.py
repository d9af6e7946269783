"""Profiling in firmware: nothing of it where it is off; what it costs where it is on; what it says on a board."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.views.profile.conftest import Build

from deuteron.board import boards, library
from deuteron.errors import InternalError
from deuteron.runtime.host import Array
from deuteron.views.events.events import Measure, SpanKind
from deuteron.views.events.gaps import attributed
from deuteron.views.profile import on_board as board
from deuteron.views.profile import run
from deuteron.views.profile import subject as builds

SWITCH = re.compile(r"#if DTN_PROFILING\n.*?(?:#else\n(?P<off>.*?))?#endif\n", re.DOTALL)
CHANGED = ("src/executor/executor.c", "src/executor/delegate.c", "semihost/main.c", "semihost/options.c")


def objects(root: Path, folder: Path) -> dict[str, bytes]:
    """The objects of the files that know of profiling, compiled from one tree without it."""
    made: dict[str, bytes] = {}
    folder.mkdir()
    for name in CHANGED:
        target = folder / (Path(name).stem + ".o")
        command = ["arm-none-eabi-gcc", "-std=c99", "-Os", "-mcpu=cortex-m33", "-mthumb", "-ffunction-sections"]
        command += [f"-I{folder}" for folder in ("include", "port/an505", "port/cortex_m", "runner", "semihost")]
        command += ["-c", name, "-o", str(target)]
        subprocess.run(command, cwd=root, check=True)
        made[name] = target.read_bytes()
    return made


def test_without_profiling_the_objects_are_those_of_sources_without_it(tmp_path: Path):
    stripped = tmp_path / "firmware"
    shutil.copytree(library.FIRMWARE, stripped)
    switches = 0
    for path in [*stripped.rglob("*.c"), *stripped.rglob("*.h")]:
        text = path.read_text("utf-8")
        bare, count = SWITCH.subn(lambda found: found["off"] or "", text)
        switches += count
        path.write_text(bare, "utf-8")
    assert switches >= 8
    assert objects(library.FIRMWARE, tmp_path / "a") == objects(stripped, tmp_path / "b")


def linked(folder: Path, of_library: int, of_application: int, function: str) -> str:
    """Return the linker's message for a library and an application compiled with these values of DTN_PROFILING."""
    include = f"-I{library.FIRMWARE / 'include'}"
    application = f"#include <deuteron/executor.h>\nvoid *used = {function};\nint main(void)\n{{\n    return 0;\n}}\n"
    (folder / "application.c").write_text(application, "utf-8")
    for name in ("executor", "shared_contexts"):
        source = library.FIRMWARE / f"src/executor/{name}.c"
        words = "cc", include, f"-DDTN_PROFILING={of_library}", "-c", source, "-o", folder / f"{name}.o"
        subprocess.run(words, check=True)
    words = "cc", include, f"-DDTN_PROFILING={of_application}", "application.c", "executor.o", "shared_contexts.o"
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("function", ["dtn_executor_init", "dtn_executor_init_shared"])
@pytest.mark.parametrize("profiled", [0, 1])
def test_a_library_and_an_application_of_which_one_profiles_do_not_link(function: str, profiled: int, tmp_path: Path):
    missing = f"undefined reference to `{function}{'_with_profiling' if profiled else ''}'"
    assert missing in linked(tmp_path, 1 - profiled, profiled, function)
    assert missing not in linked(tmp_path, profiled, profiled, function)


def test_the_events_of_an_image_without_profiling_are_refused():
    source = library.FIRMWARE / "src/profile/profile.c"
    words = "cc", f"-I{library.FIRMWARE / 'include'}", "-fsyntax-only", source
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (
        '#error "profile.c needs -DDTN_PROFILING=1, which all files of the image must be compiled with"' in done.stderr
    )


def test_only_images_with_profiling_have_its_files():
    an505 = boards.load("an505")
    plain = {source.name for source in (*library.core(an505), *library.runner())}
    profiled = {source.name for source in (*library.core(an505, profiling=True), *library.runner(profiling=True))}
    assert profiled - plain == {"profile.profile", "semihost.events"}


@pytest.mark.slow
def test_a_board_attributes_its_time(build: Build, tmp_path: Path):
    found = builds.read(build("residual"))
    sent = board.profile(found, "an505", [_zeros(found)] * 2)
    profile, stream = sent.profile, sent.profile.stream
    run.write(profile, found, tmp_path / "out", sent.packets)
    assert board.from_events(found, tmp_path / "out/events.bin").profile.stream == stream
    assert (stream.measure, stream.runs, stream.lost, stream.clock.tick) == (Measure.COUNTED, 2, 0, "instruction")
    share = attributed(stream.events)
    assert share is not None  # there are events
    assert share >= 0.999
    assert profile.partitions
    for number, partition in enumerate(profile.partitions):
        seen = [e.index for e in stream.events if e.kind is SpanKind.KERNEL and e.partition == number and e.run == 1]
        assert seen == list(range(len(partition.kernels)))
    assert {section.group for section in profile.sections} >= {"driver", "kernels", "profile"}


@pytest.mark.slow
def test_events_beyond_the_room_are_counted(build: Build):
    found = builds.read(build("residual"))
    whole = board.profile(found, "an505", [_zeros(found)]).profile
    short = board.profile(found, "an505", [_zeros(found)], event_capacity=3).profile
    recorded = sum(len(calls.commands) for calls in found.instructions.calls)
    assert short.stream.lost > 0
    assert short.stream.lost + 3 > recorded
    of_short, of_whole = (attributed(profile.stream.events, SpanKind.RUN) for profile in (short, whole))
    assert of_short is not None  # there are events
    assert of_whole is not None
    assert of_short < 0.1  # nobody knows what the rest was
    assert of_whole > 0.999


@pytest.mark.slow
def test_more_room_than_the_board_has_is_refused(build: Build):
    found = builds.read(build("residual"))
    most = (1 << 28) + 1  # events of 16 bytes: 16 bytes more than a 32-bit size can say
    with pytest.raises(InternalError) as caught:
        board.profile(found, "an505", [_zeros(found)], event_capacity=most)
    assert str(caught.value) == (
        "firmware.elf: the firmware does not understand its command line: the board's memory is too small for "
        "the buffers of inputs, outputs and events"
    )


def _zeros(build: builds.Build) -> tuple[Array, ...]:
    return tuple(np.zeros(i.shape, i.dtype) for i in build.manifest.inputs)


@pytest.fixture(autouse=True)
def _needs_a_compiler() -> None:
    assert shutil.which("arm-none-eabi-gcc"), "install gcc-arm-none-eabi"
