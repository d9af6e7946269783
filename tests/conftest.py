"""Settings of all tests: their order, their compiler options, Hypothesis, and the garbage collector."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from deuteron.board import toolchain
from deuteron.planner import depth_first

toolchain.FLAGS += ("-Werror", "-pedantic", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wconversion", "-Wvla")
"""Whatever a test compiles for a board compiles without a warning, and has the objects that others had made."""

depth_first.STRICT = True
"""A bound above any plan is a defect."""

if ccache := shutil.which("ccache"):
    os.environ.setdefault("CCACHE_DIR", str(Path(__file__).parents[1] / "build" / "ccache"))
    os.environ |= {"CMAKE_C_COMPILER_LAUNCHER": ccache, "CMAKE_CXX_COMPILER_LAUNCHER": ccache}
    os.environ["CCACHE_NOHASHDIR"] = "1"  # what several targets and build directories compile alike is compiled once


settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
"""No test fails because the computer is busy."""

os.environ["XDG_CONFIG_HOME"] = str(Path(__file__).parents[1] / "build" / "no-configuration")
"""Reports do not have a developer's own measurements."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run tests that are marked `full`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put slow tests first: what is left for the end of a run is then short, and workers end together."""
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        items[:] = [item for item in items if not item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    """Collect less often, and leave out what the imports have made, which stays: a tenth of a build's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
