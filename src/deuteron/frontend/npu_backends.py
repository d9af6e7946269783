"""Selects the NPU back end of a target."""

from deuteron.arch.targets import Arch, EthosU
from deuteron.builds.options import BuildOptions
from deuteron.frontend.ethosu.npu_backend import EthosUNpuBackend
from deuteron.frontend.neutron.npu_backend import NeutronNpuBackend
from deuteron.frontend.npu_backend import NpuBackend


def of(arch: Arch, options: BuildOptions) -> NpuBackend:
    """The NPU back end of a target; without an NPU that of a Neutron, which then does nothing."""
    return EthosUNpuBackend(arch.npu, options) if isinstance(arch.npu, EthosU) else NeutronNpuBackend(arch, options)
