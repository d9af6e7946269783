"""`deuteron check` prints a table or JSON, and its exit code says whether the model builds for every target."""

import json
import re
from pathlib import Path

import pytest
from tests.views.test_needed_sram import svdf_and_layer

from deuteron import api
from deuteron.builds.target_checks import Outcome
from deuteron.errors import DeuteronError

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


@pytest.mark.slow
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
    ("args", "code", "error"),
    [
        (("net.py:net", "--target", "cortex-m4x"), 2, "unknown target `cortex-m4x`"),
        (("net.py:net", "--keep-dead-channels"), 2, "is for TFLite files"),
        (("missing.tflite",), 1, "`missing.tflite` does not exist"),
    ],
)
def test_what_it_does_not_check(deuteron, args: tuple[str, ...], code: int, error: str):
    found = deuteron("check", *args)
    assert found.code == code
    assert error in found.err


def test_a_tflite_file(deuteron, tmp_path: Path):
    path = svdf_and_layer(tmp_path / "m.tflite")
    found = deuteron("check", path, "--target", "cortex-m4,cortex-m55,ethos-u55-128,imxrt700,imxrt700cm")
    assert found.code == 1
    assert (
        found.out
        == f"""\
m.tflite: what a build does, and how many operators of the model each processor gets

target         outcome    NPU    CPU  SQNR, dB
cortex-m4      builds       0      2         -
cortex-m55     builds       0      2         -  as cortex-m4
ethos-u55-128  builds       1      1         -
imxrt700       refused
imxrt700cm     builds       1      1         -

cortex-m4, cortex-m55:
  on the CPU: SVDF, FULLY_CONNECTED

ethos-u55-128:
  on the NPU: FULLY_CONNECTED
  on the CPU: SVDF: Vela leaves it to the CPU: Unsupported opType

imxrt700:
  `{path}`: tensor `state` is the state of an operator that this target's CPU does not run
  hint: name a target whose CPU has C operators, such as `imxrt700cm` or `cortex-m55`

imxrt700cm:
  on the NPU: FULLY_CONNECTED
  on the CPU: SVDF: a tensor is a variable; state between runs cannot be compiled
"""
    )


@pytest.mark.parametrize("target", ["cortex-m0plus", "ethos-u85-1024", "imxrt700", "mcxn947"])
def test_a_check_of_a_tflite_file_is_what_the_build_does(tmp_path: Path, target: str):
    path = str(svdf_and_layer(tmp_path / "m.tflite"))
    (row,) = api.check_model(path, targets=[target]).targets
    if row.outcome is not Outcome.BUILDS:
        with pytest.raises(DeuteronError, match=re.escape(row.message)):
            api.build_model(path, target=target)
        return
    nodes = api.build_model(path, target=target).manifest.nodes
    assert row.npu == sum(node.partition is not None for node in nodes)
    assert row.cpu == len(nodes) - row.npu
