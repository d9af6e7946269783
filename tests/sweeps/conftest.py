"""A sweep that takes no time to lower: its models are TFLite files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.views.report.conftest import browser as browser

from deuteron import api
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.tflite.emit import emit

SPEC = """models = ["small.tflite", "large.tflite", "absent.tflite"]
targets = ["imxrt700"]
sram_budget = ["600", "4Ki", "1Mi"]
flash_bandwidth = ["20MB/s", "100MB/s", "200MB/s", "400MB/s"]
clock = ["150M", "324M"]
"""
POINTS = 3 * 3 * 4 * 2


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep's file and its models."""
    path = tmp_path_factory.mktemp("sweep")
    for name, size in (("small", 16), ("large", 96)):
        (path / f"{name}.tflite").write_bytes(emit(parse_graph(_graph(size))))
    (path / "sweep.toml").write_text(SPEC)
    return path


def _graph(size: int) -> str:
    values = ", ".join(str(i * 7 % 19 - 9) for i in range(size * size))
    return (
        f"graph dense {{\n  input %x: i8[1,{size}] q(0.5:0)\n  const %w: i8[{size},{size}] q(0.25:0) = [{values}]\n"
        f"  %y: i8[1,{size}] q(4.0:0) = fully_connected(%x, %w) @[0]\n  output %y\n}}\n"
    )


@pytest.fixture(scope="session")
def whole(folder: Path) -> Path:
    """The sweep, undisturbed, by this process alone."""
    directory = folder / "whole"
    assert api.sweep(folder / "sweep.toml", directory, workers=1).points == POINTS
    return directory


def files(directory: Path) -> dict[str, bytes]:
    """Return the files of a sweep except its builds."""
    paths: Iterator[Path] = (path for path in directory.rglob("*") if path.is_file() and path.name[0] != ".")
    kept = (path for path in paths if "builds" not in path.parts)
    return {str(path.relative_to(directory)): path.read_bytes() for path in kept}
