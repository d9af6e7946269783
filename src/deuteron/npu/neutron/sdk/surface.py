"""Functions and classes of the vendor's converter that ExecuTorch uses, with its names."""
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
"""The log is written to the file descriptor, where ExecuTorch captures it, also from another process."""

KNOWN_PASSES = ("HoistSliceAboveTranspose", "MergeTranspose")
"""Passes of the vendor that may be excluded. ExecuTorch does so to avoid defects that ours do not have."""


@dataclass(slots=True)
class CompilationOptions:
    """The vendor's options that ExecuTorch sets."""

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
    """`convertModel` with the session for its failures."""

    session: Session

    def convertModel(self, model: Iterable[int], cctx: CompilationContext) -> bytes:
        """Convert a TFLite file given as bytes or numbers; errors are also stored in the session."""
        try:
            return _convert(bytes(model), cctx, self.session)
        except Exception as error:
            self.session.record(error)
            raise


def merge_kernel_selection_files(files: Iterable[str], out_path: str) -> None:
    """Write a file to `out_path`, which may be one of the files, that selects the kernels of all files."""
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
    """Return our options for the vendor's.

    Raises:
        OptionError: a value is not supported.
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
    """Return the memory options for the vendor's option; without it, weights are read where they are linked.

    There is no SRAM budget, because only the caller knows its size.
    """
    if asked.fetchConstantsToSRAM:
        return MemoryOptions(FetchPolicy.ALWAYS)
    return MemoryOptions(FetchPolicy.NEVER, sram_budget=UNLIMITED)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
