"""Selects the NPU back end of a target."""

from collections.abc import Callable, Mapping

from deuteron.arch.targets import Arch, EthosU, Neutron
from deuteron.builds.options import BuildOptions
from deuteron.frontend.backends.ethosu.npu_backend import EthosUNpuBackend
from deuteron.frontend.backends.interface import NpuBackend
from deuteron.frontend.backends.neutron.npu_backend import NeutronNpuBackend
from deuteron.frontend.backends.none import NoNpuBackend

_BACKENDS: Mapping[type, Callable[[Arch, BuildOptions], NpuBackend]] = {
    Neutron: NeutronNpuBackend,
    EthosU: EthosUNpuBackend,
    type(None): NoNpuBackend,
}


def of(arch: Arch, options: BuildOptions) -> NpuBackend:
    """The NPU back end of a target."""
    return _BACKENDS[type(arch.npu)](arch, options)
