"""A build for an Ethos-U whose commands Vela made wait too little: what each command says of it, and which go on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.frontend.ethosu import networks

from deuteron.builds import manifest as manifests

from .conftest import Result

Run = Callable[..., Result]

LINE = Path(networks.__file__).read_text("utf-8").splitlines().index("        return torch.sigmoid(y) * x") + 1
HAZARD = (
    "command 4: `mul` at 0x0030c reads byte 0x21b of scratch as its input, which `average_pool` at 0x00244 still "
    f"writes with its last blocks: BLOCKDEP is too large (RESCALE networks.py:{LINE} MUL)"
)
ADVICE = (
    "Vela wrote the commands; Deuteron's model of concurrent operations, which was never compared with silicon, finds "
    "the hazard: write the line in another form, such as with a Conv2d for a Conv1d, or keep one of its operators on "
    "the CPU with `--operators-not-to-delegate`"
)
WARNING = f"the commands of npu 0 are wrong: {HAZARD}; {ADVICE}"


@pytest.fixture(scope="module")
def build() -> Path:
    """A build with a transpose and a table; Vela 5.1.0 schedules it as if it were no transpose.

    The last block of the pool has rows 10 and 11 of 12x24. These are channels 10 and 11 of the tensor that the only
    block of the product reads: its BLOCKDEP must be 0, and is 1.
    """
    return networks.built(networks.gate)


def test_it_is_built_with_a_warning(build: Path) -> None:
    assert WARNING in manifests.read(build).warnings


def test_sim_lists_it_and_fails(build: Path, deuteron: Run) -> None:
    result = deuteron("sim", build)
    assert (result.code, result.err) == (1, "")
    assert result.out.splitlines()[-2:] == [f"  wrong: {HAZARD}", f"  {ADVICE}"]


def test_plan_and_profile_show_their_tables_and_warn(build: Path, deuteron: Run, tmp_path: Path) -> None:
    planned = deuteron("plan", build)
    assert (planned.code, planned.err) == (0, f"warning: {WARNING}\n")
    assert "result of average_pool TRANSPOSE" in planned.out
    for place in ("host", "sim"):
        output = tmp_path / place
        profiled = deuteron("profile", build, "--on", place, "-o", output)
        assert profiled.code == 0
        assert f"warning: {WARNING}\n" in profiled.err
        assert "average_pool" in profiled.out
