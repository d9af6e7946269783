"""What a build would be with another budget: its partitions compiled again from its TFLite files."""

from dataclasses import replace
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import Manifest, Partition
from deuteron.builds.places import with_lines
from deuteron.errors import CapacityError, DeuteronError, UnsupportedError
from deuteron.npu.families import Family
from deuteron.npu.program import NpuProgram, ReplanRequest


def replanned(
    directory: Path, manifest: Manifest, family: Family, tensors: int, sram_budget: int, flash_bandwidth: int | None
) -> list[tuple[NpuProgram, Partition]]:
    """For each partition its program, and its entry with the kernel calls and values of that.

    Args:
        directory: the build.
        manifest: its manifest.
        family: of its partitions.
        tensors: bytes of SRAM that ExecuTorch plans.
        sram_budget: bytes of SRAM.
        flash_bandwidth: bytes per second to plan for; None for the build's own.

    Raises:
        CapacityError: they do not fit; lines of the model are named.
        UnsupportedError: partitions of this family cannot be planned anew.
    """
    if family.replan is None:
        raise UnsupportedError(
            f"partitions of `{family.delegate_id}` cannot be planned anew", hint="build the model again for the budget"
        )
    memory = replace(manifest.options.memory, sram_budget=sram_budget)
    if flash_bandwidth is not None:
        memory = replace(memory, flash_bandwidth=flash_bandwidth)

    def placed(number: int, error: CapacityError) -> DeuteronError:
        return with_lines(error, manifest.partitions[number].source_of)

    files = manifests.tflites(directory, manifest)
    request = ReplanRequest(files, manifest.target, memory, manifest.options.use_profiling, tensors, placed)
    return [
        (partition.program, replace(entry, kernels=partition.kernels, dataflow=partition.dataflow))
        for partition, entry in zip(family.replan(request), manifest.partitions, strict=True)
    ]
