"""Paths for the tests: the suite imports a module of this name instead of the one it contains.

The suite's module looks for files that the installed package does not contain. The paths of NXP's simulator
have to exist; the runner ignores them.
"""

import os
from importlib.metadata import distribution
from pathlib import Path

_SIMULATOR = Path(__file__).resolve().parent / "no_simulator.txt"

PROJECT_DIR = str(distribution("executorch").locate_file("executorch"))
OUTPUTS_DIR = Path.cwd() / ".outputs"
NSYS_PATH = _SIMULATOR
NSYS_CONFIG_PATH = str(_SIMULATOR)
NSYS_FIRMWARE_PATH = str(_SIMULATOR)
NEUTRON_TEST_PATH = os.environ["NXP_RUNNER_PATH"]
