"""Which NPU's side a target has."""

from deuteron.arch.targets import Arch, EthosU
from deuteron.builds.options import BuildOptions
from deuteron.frontend.ethosu.npu_backend import EthosUSide
from deuteron.frontend.neutron.npu_backend import NeutronSide
from deuteron.frontend.npu_backend import Side


def of(arch: Arch, options: BuildOptions) -> Side:
    """The side of a target; a CPU alone has a Neutron's, which has nothing to do there."""
    return EthosUSide(arch.npu, options) if isinstance(arch.npu, EthosU) else NeutronSide(arch, options)
