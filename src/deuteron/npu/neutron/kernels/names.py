"""Names in events of ExecuTorch: of kernel calls and of operators."""

from collections.abc import Sequence

from deuteron.npu.neutron.kernels.catalogue import BY_KIND, KERNELS

_CODES = {kernel.name: chr(kernel.kind) for kernel in KERNELS}


def kernel_name(kind: int) -> str:
    """The name of the kernel with this number."""
    return BY_KIND[kind].name if kind in BY_KIND else f"kernel {kind}"


def kernel_code(name: str) -> str:
    """The number of the kernel with this name as a character; the name of what is no kernel of a Neutron's."""
    return _CODES.get(name, name)


def kernel_names(metadata: Sequence[bytes]) -> list[str]:
    """The names of kernels by the metadata of their events, as a `delegate_metadata_parser` of ExecuTorch's Inspector.

    Our delegate and ExecuTorch's own give the number of a kernel, never 0, in one byte; what is no kernel, such as the
    profiling dump of the latter, has no name here.
    """
    return [kernel_name(data[0]) if len(data) == 1 and data[0] else "" for data in metadata]


def event_name(kernel: str, index: int) -> str:
    """The name of call `index` of a partition, unlike that of any other call in it."""
    return f"{kernel} #{index}"


def base_name(operator: str) -> str:
    """An operator's name without namespace, which some events leave out, and overload, which lowering changes."""
    return operator.rpartition("::")[2].partition(".")[0]
