"""Names of kernel calls and operators in events of ExecuTorch."""

from collections.abc import Sequence

from deuteron.npu.neutron.kernels.catalogue import BY_KIND, KERNELS

_CODES = {kernel.name: chr(kernel.kind) for kernel in KERNELS}


def kernel_name(kind: int) -> str:
    """Return the name of the kernel with this number."""
    return BY_KIND[kind].name if kind in BY_KIND else f"kernel {kind}"


def kernel_code(name: str) -> str:
    """Return the number of the kernel with this name as a character, or the name if there is no such kernel."""
    return _CODES.get(name, name)


def kernel_names(metadata: Sequence[bytes]) -> list[str]:
    """Return the names of kernels from the metadata of events; a `delegate_metadata_parser` for ExecuTorch's Inspector.

    Our delegate and ExecuTorch's give the number of a kernel, never 0, in one byte. Other events, such as the profiling
    dump of the latter, have an empty name.
    """
    return [kernel_name(data[0]) if len(data) == 1 and data[0] else "" for data in metadata]


def event_name(kernel: str, index: int) -> str:
    """Return the unique name of call `index` of a partition."""
    return f"{kernel} #{index}"


def base_name(operator: str) -> str:
    """Return an operator's name without namespace, which some events omit, and overload, which lowering changes."""
    return operator.rpartition("::")[2].partition(".")[0]
