"""Partitions that share SRAM: the model is lowered once, and its program emitted again with other conversions."""

import hashlib
import io
import json
import zipfile

import pytest
import torch
from torch import Tensor, nn

from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.builds.manifest import ETRECORD, REFERENCE
from deuteron.builds.options import BuildOptions
from deuteron.frontend import build as building
from deuteron.frontend.backends.neutron import npu_backend
from deuteron.npu.neutron.convert import ConvertOptions, convert
from deuteron.runtime.pte import delegates

pytestmark = pytest.mark.slow
KEPT = ("aten::view_copy",)
INPUTS = (torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8),)


class View(nn.Module):
    """Two partitions, with a `flatten` on the CPU between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.linear = nn.Linear(256, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.conv(x).flatten(1))


def built(options: BuildOptions) -> tuple[building.BuildResult, list[str]]:
    """A build, and its steps but for batches."""
    steps: list[str] = []
    result = building.build(
        View(),
        INPUTS,
        target="imxrt700",
        calibration=[INPUTS],
        options=options,
        progress=lambda step, *_: steps.append(step),
    )
    return result, [step for step in steps if "batch" not in step]


def test_a_program_that_is_emitted_again_is_the_same_but_for_its_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    """With equal conversions it is equal in every byte, and so are the maps of profiles and the other files."""
    options = BuildOptions(
        operators_not_to_delegate=KEPT, use_profiling=True, dump_kernel_selection_code=True, intermediates=True
    )
    plain, _ = built(options)
    asked = ConvertOptions(profiling=True, memory=options.memory)
    again: list[bytes] = []

    def equal(recording, *_):
        again.extend(partition.tflite for partition in recording.partitions)
        return tuple(convert(tflite, "imxrt700", asked) for tflite in again)

    monkeypatch.setattr(npu_backend, "needs_joint_plan", lambda *_: True)
    monkeypatch.setattr(npu_backend, "plan_jointly", equal)
    emitted, _ = built(options)
    assert len(again) == 2
    assert emitted.files.keys() == plain.files.keys()
    addresses = {REFERENCE, ETRECORD}  # PyTorch writes those of its objects into these
    assert {name for name, data in plain.files.items() if emitted.files[name] != data} <= addresses
    assert _maps(emitted.files[ETRECORD]) == _maps(plain.files[ETRECORD])
    assert emitted.manifest.partitions == plain.manifest.partitions
    assert emitted.manifest.cpu_ops == plain.manifest.cpu_ops


def test_partitions_that_share_sram_are_lowered_once() -> None:
    memory = MemoryOptions(FetchPolicy.AUTO, sram_budget=3424)
    result, steps = built(BuildOptions(operators_not_to_delegate=KEPT, memory=memory))
    assert steps == list(building.STEPS)
    assert [partition.prefetch_bytes for partition in result.manifest.partitions] == [160, 1328]
    payloads = {hashlib.sha256(delegate.payload).hexdigest() for delegate in delegates(result.pte)}
    assert {partition.payload_sha256 for partition in result.manifest.partitions} == payloads


def _maps(record: bytes) -> dict[str, bytes]:
    """Return the debug handles with which ExecuTorch's Inspector resolves events."""
    with zipfile.ZipFile(io.BytesIO(record)) as archive:
        maps = {name: archive.read(name) for name in archive.namelist() if name.endswith("_map")}
    assert json.loads(maps["delegate_map"])["forward"]
    return maps
