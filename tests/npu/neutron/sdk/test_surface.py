"""The functions that ExecuTorch calls: what they return, what they refuse, and the log that it reads."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.npu.neutron.sdk.models import parallel

from deuteron.errors import InputError, OptionError
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.kernels import selection
from deuteron.npu.neutron.kernels.catalogue import CONV2D, LUT
from deuteron.npu.neutron.kernels.selection import Selection
from deuteron.npu.neutron.sdk import Session, library
from deuteron.npu.neutron.sdk.surface import CompilationContext, Converter, merge_kernel_selection_files
from deuteron.npu.neutron.tflite import neutron_graph


@pytest.fixture
def converter(tmp_path: Path) -> Converter:
    return Converter(Session(tmp_path))


def _context(**options: object) -> CompilationContext:
    context = CompilationContext()
    context.targetOpts = library.getNeutronTarget("imxrt700")
    context.compilationOpts.minNumOpsPerGraph = 1
    context.compilationOpts.excludeGraphPasses = "HoistSliceAboveTranspose,MergeTranspose"
    for name, value in options.items():
        setattr(context.compilationOpts, name, value)
    return context


def test_the_target_is_what_executorch_expects() -> None:
    target = library.getNeutronTarget("imxrt700")
    assert (target.name, target.subsystem, target.hwVersion, target.numMacs, target.numPipes) == (
        "imxrt700",
        False,
        2,
        8,
        8,
    )
    assert library.isNeutronTarget("imxrt700")
    assert not library.isNeutronTarget("imxrt701")
    assert [t.name for t in library.getNeutronTargets()] == ["imxrt700"]


def test_numbers_in_and_a_converted_file_out(converter: Converter, capfd: pytest.CaptureFixture[str]) -> None:
    source = parallel()
    converted = converter.convertModel(list(source), _context())
    assert neutron_graph.unwrap(converted)[0] == convert(source, "imxrt700").container
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"minNumOpsPerGraph": 2},
            "minNumOpsPerGraph is 2, only 1 is allowed\n\nhint: choose what to delegate with ExecuTorch's partitioner",
        ),
        (
            {"excludeGraphPasses": "MergeTranspose,Fuse"},
            "unknown pass `Fuse` in excludeGraphPasses, allowed are HoistSliceAboveTranspose, MergeTranspose",
        ),
    ],
)
def test_refused_options(converter: Converter, options: dict[str, object], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        converter.convertModel(parallel(), _context(**options))
    assert str(caught.value) == text
    with pytest.raises(OptionError):
        converter.session.raise_failure()


def test_a_context_without_target(converter: Converter) -> None:
    with pytest.raises(OptionError) as caught:
        converter.convertModel(parallel(), CompilationContext())
    assert str(caught.value) == (
        "no target is set\n\nhint: assign `getNeutronTarget(name)` to `CompilationContext.targetOpts`"
    )


def test_the_kernel_selection_lies_where_executorch_looks(
    converter: Converter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    converter.convertModel(parallel(), _context())
    assert not Path("_kernel_selection.c").exists()
    converter.convertModel(parallel(), _context(dumpKernelSelectionCode=True))
    kernels = {call.kernel for call in convert(parallel(), "imxrt700").program.calls}
    assert set(selection.read(Path("_kernel_selection.c")).kernels) == kernels


def test_a_kernel_selection_that_cannot_be_written(
    converter: Converter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("_kernel_selection.c").mkdir()
    with pytest.raises(InputError) as caught:
        converter.convertModel(parallel(), _context(dumpKernelSelectionCode=True))
    assert str(caught.value) == (
        "`_kernel_selection.c` cannot be written: Is a directory\n\nhint: choose a folder that you may write to"
    )
    with pytest.raises(InputError):
        converter.session.raise_failure()


def test_merging_replaces_even_one_of_the_inputs(tmp_path: Path) -> None:
    one, other = tmp_path / "a_kernel_selection.c", tmp_path / "b_kernel_selection.c"
    selection.write(one, Selection.of([LUT]))
    selection.write(other, Selection.of([CONV2D, LUT]))
    merge_kernel_selection_files([str(one), str(other)], str(one))
    assert selection.read(one) == Selection.of([CONV2D, LUT])


def test_the_vendors_command_merges(tmp_path: Path) -> None:
    for name, kernel in (("a.c", LUT), ("b.c", CONV2D)):
        selection.write(tmp_path / name, Selection.of([kernel]))
    command = [
        sys.executable,
        "-m",
        "deuteron.npu.neutron.sdk.merge_kernel_selection_code",
        "-output-file",
        "c.c",
        "-input-files",
    ]
    done = subprocess.run([*command, "a.c", "b.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert selection.read(tmp_path / "c.c") == Selection.of([CONV2D, LUT])
    done = subprocess.run([*command, "a.c", "d.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == "error: `d.c` cannot be read: No such file or directory\n\nhint: check its name and its folder\n"
    )
