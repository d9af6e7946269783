"""What a build would be with another budget: its partitions compiled again from the TFLite files beside the program."""

from dataclasses import replace
from pathlib import Path

from deuteron.convert import Conversion, ConvertOptions, convert
from deuteron.errors import CapacityError, InputError
from deuteron.frontend import manifest as manifests
from deuteron.frontend import saved
from deuteron.frontend.manifest import Manifest, Partition, PartitionKernel, Source
from deuteron.frontend.places import with_lines
from deuteron.microcode.container import Container


def replanned(
    directory: Path, manifest: Manifest, sram_budget: int, flash_bandwidth: int | None
) -> list[tuple[Container, Partition]]:
    """For each partition its container, and its entry with the kernel calls and values of that.

    Args:
        directory: the build.
        manifest: its manifest.
        sram_budget: bytes of SRAM.
        flash_bandwidth: bytes per second to plan for; None for the build's own.

    Raises:
        InputError: the build has lost its TFLite files.
        CapacityError: a partition does not fit; lines of the model are named.
    """
    path = directory / manifests.REFERENCE
    if not path.is_file():
        raise InputError(
            f"`{path}` is missing; it holds what is planned anew",
            hint=f"build again with `--sram-budget {sram_budget}`, and simulate that",
        )
    memory = replace(manifest.options.memory, sram_budget=sram_budget)
    if flash_bandwidth is not None:
        memory = replace(memory, flash_bandwidth=flash_bandwidth)
    options = ConvertOptions(profiling=manifest.options.use_profiling, memory=memory)
    found: list[tuple[Container, Partition]] = []
    for tflite, entry in zip(saved.load(path, len(manifest.partitions)).partitions, manifest.partitions, strict=True):
        try:
            conversion = convert(tflite, manifest.target, options)
        except CapacityError as error:
            raise with_lines(error, lambda op, entry=entry: _source(entry, op)) from error
        if conversion.container is not None:
            found.append((conversion.container, _entry(entry, conversion)))
    return found


def _entry(entry: Partition, conversion: Conversion) -> Partition:
    kernels = tuple(PartitionKernel(k.index, k.kernel, k.ops) for k in conversion.provenance.kernels)
    return replace(entry, kernels=kernels, dataflow=conversion.dataflow)


def _source(entry: Partition, op: int) -> Source | None:
    return entry.ops[op].source[0] if entry.ops[op].source else None
