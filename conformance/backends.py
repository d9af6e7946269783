"""The backends of ExecuTorch whose tests are run."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
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
        where: where programs run that its tests give to a simulator.
        tests: the directory of its tests in the package; ids are relative to it.
        test_seconds: a test that takes longer hangs.
        marked: of the tests that expect to fail for a reason with these words, which alone are run; empty for all.
        configurations: what the report counts apart: a title, and a pattern for the ids of tests.
        tosa: whether they compile programs for an Ethos-U, which TOSA's reference model can run, too.
        environment: variables of their processes. `{runner}` is the runner of programs, `{folder}` the folder here,
            `{bin}` the simulators' stand-ins and `{images}` their images. `{package}` is ExecuTorch's package,
            `{python}` this Python, `{path}` the PATH so far.
    """

    name: str
    title: str
    command: str
    lifted: str
    where: str
    tests: str
    test_seconds: float
    environment: Mapping[str, str]
    marked: str = ""
    tosa: bool = False
    configurations: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        """With `deviations.toml`, the reviewed list, and `slice.txt`, the tests that `make test` runs."""
        return HERE / self.name

    @property
    def directory(self) -> Path:
        """The directory of the installed tests."""
        return Path(str(distribution("executorch").locate_file(f"executorch/backends/{self.tests}")))

    def environment_with(self, runner: Path, images: Path) -> dict[str, str]:
        """The environment for a runner, and a folder that `deuteron.runtime.fvp.install` has filled."""
        known = {
            "runner": str(runner),
            "images": str(images),
            "package": str(distribution("executorch").locate_file("executorch")),
            "folder": str(self.folder),
            "bin": str(HERE / "bin"),
            "python": sys.executable,
            "path": os.environ.get("PATH", ""),
        }
        return {name: value.format_map(known) for name, value in self.environment.items()}


NXP = Backend(
    name="nxp",
    title="NXP",
    command="conformance",
    lifted="a defect of the vendor's SDK",
    where="each on the host",
    tests="nxp/tests",
    test_seconds=1200,  # the slowest train a small network
    environment={"NXP_RUNNER_PATH": "{runner}"},
)
CORTEX_M = Backend(
    name="cortex_m",
    title="Cortex-M",
    command="conformance-cortex-m",
    lifted="an operator that upstream's runner lacks",
    where="each on the host and on an emulated board",
    tests="cortex_m/test",
    test_seconds=600,
    environment={
        # The simulator's stand-in is found by its name, the image that it would run below this root.
        "PATH": "{bin}" + os.pathsep + "{path}",
        "EXECUTORCH_ROOT": "{folder}/root",
        "DEUTERON_CONFORMANCE_PYTHON": "{python}",
        "DEUTERON_CONFORMANCE_RUNNER": "{runner}",
        "DEUTERON_CONFORMANCE_BOARD": "an547",
        # Weights are downloaded when files are imported; so that they do the same everywhere, none are.
        "https_proxy": "http://127.0.0.1:9",
        "TORCH_HOME": "{folder}/no-weights",
    },
)


def _of_widths(npu: str, accelerator: str) -> Iterator[tuple[str, str]]:
    """The configurations of an NPU's tests, whose ids say what is not int8."""
    wide, narrow = "16a8w|a16w8|INT16", "a8w4"
    yield f"{accelerator}, int8", f"^(?=.*_{npu})(?!.*({wide}|{narrow}))"
    yield f"{accelerator}, inputs of 16 bits", f"^(?=.*_{npu}).*({wide})"
    yield f"{accelerator}, weights of 4 bits", f"^(?=.*_{npu}).*{narrow}"


_ARM_ENVIRONMENT = {
    "PATH": "{bin}" + os.pathsep + "{path}",
    "EXECUTORCH_ROOT": "{images}",
    "FLATC_EXECUTABLE": "{package}/data/bin/flatc",
    "DEUTERON_CONFORMANCE_PYTHON": "{python}",
    "DEUTERON_CONFORMANCE_RUNNER": "{runner}",
    "https_proxy": "http://127.0.0.1:9",
    "TORCH_HOME": "{folder}/no-weights",
}
ETHOS_U = Backend(
    name="ethos_u",
    title="Ethos-U55 and -U65",
    command="conformance-ethos-u",
    lifted="what upstream's runner lacks",
    where="each on the host",
    tests="arm/test",
    test_seconds=600,
    environment=_ARM_ENVIRONMENT,
    marked="Corstone-300",
    tosa=True,
    configurations=(*_of_widths("u55", "ethos-u55-128"), ("ethos-u65-256", "_u65")),
)
ETHOS_U85 = replace(
    ETHOS_U,
    name="ethos_u85",
    title="Ethos-U85",
    command="conformance-ethos-u85",
    marked="Corstone-320",
    configurations=tuple(_of_widths("u85", "ethos-u85-128")),
)
BACKENDS = {backend.name: backend for backend in (NXP, CORTEX_M, ETHOS_U, ETHOS_U85)}
"""By name."""
