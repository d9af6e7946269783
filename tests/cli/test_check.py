"""`deuteron check` prints a table or JSON, and its exit code says whether the model builds for every target."""

import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

MODEL = """
import torch
from torch import nn


class Sorts(nn.Module):
    def forward(self, x):
        return x.sort(-1).values


def net():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), (torch.rand(1, 4),)


def sorts():
    return Sorts(), (torch.rand(1, 200),)
"""


def test_a_check(deuteron, tmp_path: Path):
    file = tmp_path / "net.py"
    file.write_text(MODEL)
    found = deuteron("check", f"{file}:net", "--target", "cortex-m4,imxrt700", "--json")
    assert found.code == 0
    rows = json.loads(found.out)["targets"]
    assert [(one["target"], one["outcome"], one["npu"], one["cpu"]) for one in rows] == [
        ("cortex-m4", "builds", 0, 2),
        ("imxrt700", "builds", 3, 0),
    ]
    refused = deuteron("check", f"{file}:sorts", "--target", "cortex-m4")
    assert refused.code == 1
    assert f"cortex-m4:\n  {file}:8: `aten::sort` has no int8 kernel on the CPU, at `return" in refused.out


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("net.py:net", "--target", "cortex-m4x"), "unknown target `cortex-m4x`"),
        (("NET.tflite",), "NET.tflite` is a TFLite file, and `deuteron check` is for PyTorch models"),
    ],
)
def test_what_it_does_not_check(deuteron, tmp_path: Path, args: tuple[str, ...], error: str):
    (tmp_path / "NET.tflite").write_bytes(b"")
    found = deuteron("check", *(str(tmp_path / arg) if arg == "NET.tflite" else arg for arg in args))
    assert found.code == 2
    assert error in found.err
