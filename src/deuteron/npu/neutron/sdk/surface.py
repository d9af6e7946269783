"""The functions and classes of the vendor's converter that ExecuTorch uses; its spelling of names is kept."""
# ruff: noqa: N802, N815

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from deuteron.arch.memory import UNLIMITED, FetchPolicy, MemoryOptions
from deuteron.errors import OptionError
from deuteron.npu.neutron.convert import ConvertOptions, convert, source_ops, to_tflite
from deuteron.npu.neutron.kernels import selection
from deuteron.npu.neutron.sdk.library import NeutronTarget
from deuteron.npu.neutron.sdk.log import conversion_log
from deuteron.npu.neutron.sdk.session import Session

STDOUT = 1
"""The log goes to the file descriptor: that is where ExecuTorch captures it, even from another process."""

KNOWN_PASSES = ("HoistSliceAboveTranspose", "MergeTranspose")
"""Passes of the vendor's that may be excluded. ExecuTorch names them to avoid defects which ours do not share."""


@dataclass(slots=True)
class CompilationOptions:
    """The vendor's options, as far as ExecuTorch sets them."""

    minNumOpsPerGraph: int = 1
    excludeGraphPasses: str = ""
    fetchConstantsToSRAM: bool = False
    dumpKernelSelectionCode: bool = False
    useProfiling: bool = False
    dumpAfterImport: str = ""
    dumpAfterGenerate: str = ""
    verbose: bool = False


@dataclass(slots=True)
class CompilationContext:
    """Target and options of a conversion."""

    targetOpts: NeutronTarget | None = None
    compilationOpts: CompilationOptions = field(default_factory=CompilationOptions)


@dataclass(frozen=True, slots=True)
class Converter:
    """`convertModel`, bound to the session that takes its failures."""

    session: Session

    def convertModel(self, model: Iterable[int], cctx: CompilationContext) -> bytes:
        """The converted TFLite file for a TFLite file given as bytes or numbers; errors go to the session, too."""
        try:
            return _convert(bytes(model), cctx, self.session)
        except Exception as error:
            self.session.record(error)
            raise


def merge_kernel_selection_files(files: Iterable[str], out_path: str) -> None:
    """Write a file to `out_path`, which may be one of them, that selects all kernels that the files do."""
    selection.write(Path(out_path), selection.merge([Path(file) for file in files]))


def _convert(tflite: bytes, cctx: CompilationContext, session: Session) -> bytes:
    if cctx.targetOpts is None:
        raise OptionError("no target is set", hint="assign `getNeutronTarget(name)` to `CompilationContext.targetOpts`")
    options = _options(cctx.compilationOpts, session)
    conversion = convert(tflite, cctx.targetOpts.name, options)
    if cctx.compilationOpts.verbose or "console" in (
        cctx.compilationOpts.dumpAfterImport,
        cctx.compilationOpts.dumpAfterGenerate,
    ):
        _write_all(STDOUT, conversion_log(source_ops(tflite), conversion.provenance).encode())
    if options.dump_kernel_selection_code:
        selection.write(Path(selection.FILE_NAME), conversion.selection)  # ExecuTorch gives it the partition's name
    return to_tflite(tflite, conversion)


def _options(asked: CompilationOptions, session: Session) -> ConvertOptions:
    """Our options for the vendor's.

    Raises:
        OptionError: for a value that means something we do not do.
    """
    if asked.minNumOpsPerGraph != 1:
        raise OptionError(
            f"minNumOpsPerGraph is {asked.minNumOpsPerGraph}, only 1 is allowed",
            hint="choose what to delegate with ExecuTorch's partitioner",
        )
    for name in filter(None, (part.strip() for part in asked.excludeGraphPasses.split(","))):
        if name not in KNOWN_PASSES:
            raise OptionError(f"unknown pass `{name}` in excludeGraphPasses, allowed are {', '.join(KNOWN_PASSES)}")
    return ConvertOptions(
        profiling=asked.useProfiling,
        memory=session.memory or _memory(asked),
        dump_kernel_selection_code=asked.dumpKernelSelectionCode,
        verify_each=session.verify_each,
    )


def _memory(asked: CompilationOptions) -> MemoryOptions:
    """What the vendor's option means; without it, weights are where they are linked, whatever their size.

    Users of this surface alone know how much SRAM they have.
    """
    if asked.fetchConstantsToSRAM:
        return MemoryOptions(FetchPolicy.ALWAYS)
    return MemoryOptions(FetchPolicy.NEVER, sram_budget=UNLIMITED)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
