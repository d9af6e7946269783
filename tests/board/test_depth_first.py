"""A model that fits only depth first, all the way: told by every view, the same bits on the host and on a board."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests import store
from tests.board.models import stripes

from deuteron import api
from deuteron.arch.memory import DepthFirst
from deuteron.board import boards, qemu, record
from deuteron.errors import CapacityError
from deuteron.views.agreement.pytorch import compare
from deuteron.views.events import tables, text
from deuteron.views.simulate import open_build

BOARD = boards.load("an505")
STRIPE = "rows 0-7 in stripe 0 of chain 0"


@pytest.mark.slow
@pytest.mark.parametrize("target", ["imxrt700", "imxrt700cm"])
def test_a_model_that_fits_only_so_goes_all_the_way(target: str, tmp_path: Path) -> None:
    build = store.network(stripes, "stripes", target=target)
    manifest = api.read_manifest(build)
    memory = manifest.options.memory
    with pytest.raises(CapacityError):
        open_build(build).replanner()(replace(memory, depth_first=DepthFirst.NEVER))
    data = api.seeded_inputs(manifest, 1)
    assert replace(compare(build, data), outputs=()).failures() == ()
    _check_views(build, tmp_path / "profile")
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    firmware = store.firmware(build, BOARD)
    report = qemu.run(firmware, record.read(firmware), BOARD, data, time_out=300)
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted


def _check_views(build: Path, output: Path) -> None:
    """Check that every view says what runs depth first, of the same lines, and that the simulated run is sound."""
    simulation = api.simulate(build)
    assert simulation.passed
    (run,) = simulation.partitions
    chains = tuple(run.depth_first())
    assert chains[0].startswith("depth first: 5,888 B of scratch instead of 13,952 B, ")
    profile = api.profile(build, on="sim", output=output).profile
    assert set(text.summary(profile)) >= {f"npu 0: {sentence.strip()}" for sentence in chains}
    assert tables.with_lines(profile) == 1
    first = next(part for part in tables.parts(profile) if part.key[0] == "kernel")
    assert first.row.detail.endswith(f", {STRIPE}")
    assert [source.code for source in first.sources] == ["x = torch.relu(self.first(x))"]
    for view in (api.inspect(build), api.plan(build), simulation):
        assert STRIPE in "\n".join(view.lines())
    assert "       depth first, in 4 stripes of rows, with all of chain 0" in api.explain(build).lines()
    weights = [line for line in api.plan(build).lines() if ": weights of " in line]
    assert weights
    assert not any("stripe" in line for line in weights)
