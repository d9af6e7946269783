"""Profiles of a model that runs on the NPU and on the Cortex-M in turn, wherever it runs."""

from pathlib import Path

import pytest
import torch
from tests.views.profile.test_run import operators_of, operators_of_ours, profile, ticks
from torch import Tensor, nn

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.npu.neutron.kernels.event_names import base_name
from deuteron.runtime import pte
from deuteron.runtime.program import KernelCall
from deuteron.views.events import tables
from deuteron.views.events.events import SpanKind
from deuteron.views.events.gaps import attributed


class Mixed(nn.Module):
    """A convolution on the NPU, an activation that is kept on the CPU, and a convolution on the NPU again."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, padding=1)
        self.left = nn.Conv2d(4, 8, 3, padding=1)
        self.right = nn.Conv2d(4, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        left, right = torch.split(torch.relu(self.first(x)), 4, dim=1)
        return self.last(nn.functional.gelu(self.left(left) + self.right(right)))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build."""
    output = tmp_path_factory.mktemp("mixed") / "build"
    torch.manual_seed(0)
    x = torch.randn(1, 4, 8, 8)
    options = api.BuildOptions(use_profiling=True, operators_not_to_delegate=("gelu",))
    api.build(Mixed(), (x,), target="imxrt700cm", output=output, options=options, calibration=[(x,)], name="mixed")
    return output


@pytest.mark.full
@pytest.mark.slow
def test_each_listed_operator_has_the_instructions_that_call_it(mixed: Path):
    manifest = manifests.read(mixed)
    (method, *_) = pte.read((mixed / manifests.PROGRAM).read_bytes()).methods
    called = {i: method.operators[c.operator] for i, c in enumerate(method.chains[0]) if isinstance(c, KernelCall)}
    listed = [number for op in manifest.cpu_ops for number in op.instructions]
    assert listed == [*called]
    for op in manifest.cpu_ops:
        assert {base_name(called[number]) for number in op.instructions} <= {base_name(op.op)}
    assert len(manifest.partitions) > 1
    assert any(op.computes for op in manifest.cpu_ops)


@pytest.mark.slow
@pytest.mark.parametrize("on", ["host", "sim", "an505"])
def test_npu_and_cpu_are_in_one_profile(mixed: Path, on: str, tmp_path: Path):
    from executorch.devtools import Inspector

    made = profile(mixed, on, 1, tmp_path / "out")
    assert (attributed(made.stream.events) or 0) >= 0.999
    events = made.stream.events
    assert {event.partition for event in events if event.kind is SpanKind.KERNEL} == {*range(len(made.partitions))}
    listed = [i for i, op in enumerate(manifests.read(mixed).cpu_ops) if op.instructions]
    ran = list(dict.fromkeys(event.index for event in events if event.kind is SpanKind.OPERATOR))
    assert ran == ([] if on == "sim" else listed)
    assert all(
        base_name(event.name) == base_name(made.cpu_ops[event.index].name)
        for event in events
        if event.kind is SpanKind.OPERATOR
    )
    assert sum(row.ticks for row in tables.kernels(made)) == ticks(made, SpanKind.RUN)
    out = tmp_path / "out"
    (block,) = Inspector(etdump_path=str(out / "etdump.etdp"), etrecord=str(out / "etrecord.bin")).event_blocks
    assert operators_of(block.events) == pytest.approx(operators_of_ours(made), abs=0.01)
    calls = [event for event in block.events if event.name == "DELEGATE_CALL"]
    assert len(calls) == len(made.partitions)
    assert sum(sum(call.perf_data.raw) for call in calls) * 1e3 == pytest.approx(
        made.stream.clock.microseconds(ticks(made, SpanKind.DELEGATE)), abs=0.01
    )
