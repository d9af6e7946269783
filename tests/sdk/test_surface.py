"""The functions that ExecuTorch calls: what they return, what they refuse, and the log that it reads."""

from pathlib import Path

import pytest
from tests.sdk.models import parallel

from deuteron.convert import convert
from deuteron.errors import DeuteronError, OptionError
from deuteron.sdk import Session, library
from deuteron.sdk.surface import CompilationContext, Converter, merge_kernel_selection_files
from deuteron.tflite import neutron


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
    assert neutron.unwrap(converted)[0] == convert(source, "imxrt700").container
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
        (
            {"fetchConstantsToSRAM": True},
            "fetching constants to SRAM is not yet available\n\n"
            "hint: build without `--fetch-constants-to-sram`; weights are then read where they are linked",
        ),
        (
            {"dumpKernelSelectionCode": True},
            "kernel selection code is not yet available\n\n"
            "hint: build without `--dump-kernel-selection-code`; the driver then links every kernel",
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


def test_merging_kernel_selections_is_not_yet_there() -> None:
    with pytest.raises(DeuteronError, match="merging kernel selection files is not yet available"):
        merge_kernel_selection_files([], "out.c")
