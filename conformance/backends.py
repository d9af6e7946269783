"""The backends of ExecuTorch whose tests are run."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend, whose tests come with ExecuTorch's package.

    Attributes:
        name: of the option `--backend`, and of the folder here with all that the tests of this backend need.
        title: what messages call it.
        command: the target of `make` that runs all of its tests.
        lifted: why its tests expect failures whose marks are taken away.
        tests: the directory of its tests in the package; ids are relative to it.
        test_seconds: a test that takes longer hangs.
        environment: what their processes find in the environment. `{runner}` stands for the runner of programs,
            `{folder}` for the folder here, `{python}` for this Python, `{path}` for the PATH so far.
    """

    name: str
    title: str
    command: str
    lifted: str
    tests: str
    test_seconds: float
    environment: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """With `deviations.toml`, the reviewed list, and `slice.txt`, the tests that `make test` runs."""
        return HERE / self.name

    @property
    def directory(self) -> Path:
        """Of the installed tests."""
        return Path(str(distribution("executorch").locate_file(f"executorch/backends/{self.tests}")))

    def environment_with(self, runner: Path) -> dict[str, str]:
        """The environment for a runner."""
        known = {
            "runner": str(runner),
            "folder": str(self.folder),
            "python": sys.executable,
            "path": os.environ.get("PATH", ""),
        }
        return {name: value.format_map(known) for name, value in self.environment.items()}


NXP = Backend(
    name="nxp",
    title="NXP",
    command="conformance",
    lifted="a defect of the vendor's SDK",
    tests="nxp/tests",
    test_seconds=1200,  # the slowest train a small network
    environment={"NXP_RUNNER_PATH": "{runner}"},
)
CORTEX_M = Backend(
    name="cortex_m",
    title="Cortex-M",
    command="conformance-cortex-m",
    lifted="an operator that upstream's runner lacks",
    tests="cortex_m/test",
    test_seconds=600,
    environment={
        # The simulator's stand-in is found by its name, the image that it would run below this root.
        "PATH": "{folder}/bin" + os.pathsep + "{path}",
        "EXECUTORCH_ROOT": "{folder}/root",
        "DEUTERON_CONFORMANCE_PYTHON": "{python}",
        "DEUTERON_CONFORMANCE_RUNNER": "{runner}",
        # Weights are downloaded when files are imported; so that they do the same everywhere, none are.
        "https_proxy": "http://127.0.0.1:9",
        "TORCH_HOME": "{folder}/no-weights",
    },
)
BACKENDS = {backend.name: backend for backend in (NXP, CORTEX_M)}
"""By name."""
