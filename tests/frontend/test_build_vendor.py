"""Builds through the vendor's converter, and kernel selections."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.frontend.build_helpers import FC, Applies, X, failure
from torch import nn

from deuteron import api
from deuteron.errors import MissingToolError, UnsupportedError
from deuteron.npu.neutron.kernels import selection
from deuteron.npu.neutron.tflite.neutron_graph import unwrap

torch.set_num_threads(1)
pytestmark = pytest.mark.slow


VENDOR = api.BuildOptions(converter=api.Converter.VENDOR)


def test_the_vendors_converter_when_it_is_not_installed():
    assert failure(MissingToolError, FC, X, options=VENDOR) == (
        "the vendor's converter, package `eiq_neutron_sdk`, is not installed\n\n"
        "hint: install it from NXP, or leave out `--converter vendor` to use Deuteron's own"
    )


FAKE_VENDOR = """
import os
from types import SimpleNamespace

class neutron_converter:
    @staticmethod
    def getNeutronTarget(name):
        return SimpleNamespace(name=name, subsystem=False, numUnits=1, numPipes=8, numMacs=8, hwVersion=2)

    class CompilationContext:
        def __init__(self):
            self.compilationOpts = SimpleNamespace()

    @staticmethod
    def convertModel(model, context):
        from deuteron.npu.neutron.convert import convert
        from deuteron.npu.neutron.tflite.neutron_graph import wrap

        metadata = {"made by": b"the vendor", "process": str(os.getpid()).encode()}
        return wrap(bytes(model), convert(bytes(model), "imxrt700").container, metadata)

class neutron_library_utils:
    @staticmethod
    def isNeutronTarget(name):
        return name == "imxrt700"

    @staticmethod
    def getNeutronTargets():
        return [neutron_converter.getNeutronTarget("imxrt700")]
"""


def test_the_vendors_converter_is_used_when_asked_for_and_ours_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "eiq_neutron_sdk.py").write_text(FAKE_VENDOR)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        options = replace(VENDOR, intermediates=True)
        api.build(FC, X, calibration=[X], options=options, output=tmp_path / "vendor")
        api.build(
            FC, X, calibration=[X], options=replace(options, converter=api.Converter.OPEN), output=tmp_path / "open"
        )
    finally:
        sys.modules.pop("eiq_neutron_sdk", None)
    _, theirs = unwrap((tmp_path / "vendor" / "npu_0.converted.tflite").read_bytes())
    _, ours = unwrap((tmp_path / "open" / "npu_0.converted.tflite").read_bytes())
    assert "made by" in theirs
    assert int(theirs["process"]) != os.getpid()  # it may end the process that it is in
    assert "deuteron.version" in ours
    assert api.read_manifest(tmp_path / "vendor").partitions[0].kernels == ()


def test_ours_starts_no_process(monkeypatch: pytest.MonkeyPatch):
    forks: list[object] = []
    monkeypatch.setattr(os, "fork", lambda: forks.append(None) or 0)
    api.build(FC, X, calibration=[X])
    assert forks == []


DUMP = api.BuildOptions(dump_kernel_selection_code=True)


def test_each_partition_has_its_kernel_selection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    module = nn.Sequential(nn.Linear(8, 8), Applies(lambda x: x.cumsum(-1)), nn.Sigmoid())
    made = api.build(module, X, calibration=[X], options=DUMP, output=tmp_path / "out")
    assert len(made.manifest.partitions) == 2
    names = [f"npu_{i}_kernel_selection.c" for i in range(len(made.manifest.partitions))]
    assert [name for name in made.manifest.files if name.endswith(".c")] == names
    for name, partition in zip(names, made.manifest.partitions, strict=True):
        selected = [kernel.name for kernel in selection.read(tmp_path / "out" / name).kernels]
        assert set(selected) == {kernel.kernel for kernel in partition.kernels}
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("writes", [True, False])
def test_the_kernel_selection_of_the_vendors_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool):
    write = "open('_kernel_selection.c', 'w').write('theirs')\n        return wrap("
    (tmp_path / "eiq_neutron_sdk.py").write_text(FAKE_VENDOR.replace("return wrap(", write) if writes else FAKE_VENDOR)
    monkeypatch.syspath_prepend(tmp_path)
    options = replace(DUMP, converter=api.Converter.VENDOR)
    try:
        if writes:
            api.build(FC, X, calibration=[X], options=options, output=tmp_path / "out")
            assert (tmp_path / "out" / "npu_0_kernel_selection.c").read_text() == "theirs"
        else:
            assert failure(UnsupportedError, FC, X, options=options, output=tmp_path / "out") == (
                "the converter wrote no kernel selection file for partition 0\n\n"
                "hint: build without `--dump-kernel-selection-code`"
            )
            assert not (tmp_path / "out").exists()
    finally:
        sys.modules.pop("eiq_neutron_sdk", None)
