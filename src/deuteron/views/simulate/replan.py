"""What a build would be with another budget: its partitions compiled again from its TFLite files."""

from dataclasses import replace
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest, Partition
from deuteron.builds.places import with_lines
from deuteron.errors import CapacityError, DeuteronError
from deuteron.npu.neutron.convert import Conversion, ConvertOptions
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.partitions import convert_together


def replanned(
    directory: Path, manifest: Manifest, tensors: int, sram_budget: int, flash_bandwidth: int | None
) -> list[tuple[Container, Partition]]:
    """For each partition its container, and its entry with the kernel calls and values of that.

    Args:
        directory: the build.
        manifest: its manifest.
        tensors: bytes of SRAM that ExecuTorch plans.
        sram_budget: bytes of SRAM.
        flash_bandwidth: bytes per second to plan for; None for the build's own.

    Raises:
        CapacityError: they do not fit; lines of the model are named.
    """
    memory = replace(manifest.options.memory, sram_budget=sram_budget)
    if flash_bandwidth is not None:
        memory = replace(memory, flash_bandwidth=flash_bandwidth)
    options = ConvertOptions(profiling=manifest.options.use_profiling, memory=memory)

    def placed(number: int, error: CapacityError) -> DeuteronError:
        return with_lines(error, manifest.partitions[number].source_of)

    conversions = convert_together(manifests.tflites(directory, manifest), manifest.target, options, tensors, placed)
    return [
        (conversion.container, _entry(entry, conversion))
        for conversion, entry in zip(conversions, manifest.partitions, strict=True)
        if conversion.container is not None
    ]


def _entry(entry: Partition, conversion: Conversion) -> Partition:
    return replace(entry, kernels=conversion.provenance.kernels, dataflow=conversion.dataflow)
