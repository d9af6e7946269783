"""`benches/dispatch.py` on a small model: the target's costs of the driver are of the size that is counted there."""

from pathlib import Path

import pytest
from benches import dispatch
from tests.cli.memory_model import MODEL

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.board import image
from deuteron.board.toolchain import Toolchain


@pytest.mark.slow
@pytest.mark.full
def test_the_targets_costs_of_the_driver_are_what_is_counted(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    for policy in (FetchPolicy.NEVER, FetchPolicy.ALWAYS):
        output = tmp_path / policy.value / "net"
        output.parent.mkdir()
        options = api.BuildOptions(memory=MemoryOptions(policy))
        api.build_model(f"{tmp_path / 'net.py'}:net", output=output, options=options)
    result = dispatch.measure("net", tmp_path, Toolchain.find(image.OBJECTS))
    driver = targets.load("imxrt700").need_neutron().driver
    assert result.calls == 5
    assert result.fetches >= 1
    assert result.per_call == pytest.approx(driver.call_dispatch.value, rel=0.4)
    assert result.per_fetch == pytest.approx(driver.fetch_setup.value, rel=0.4)
