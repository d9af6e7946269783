"""The memory budget of a target with a Neutron."""

from deuteron.arch.engine import engine
from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import Arch, MemoryKind
from deuteron.npu.neutron.kernels.processor import NeutronProcessor
from deuteron.planner import Budget


def budget(arch: Arch, options: MemoryOptions) -> Budget:
    """The budget of a target, where the options do not set another.

    Raises:
        OptionError: the options give weights more SRAM than there is.
    """
    return Budget(
        NeutronProcessor(engine(arch, flash_bandwidth=options.flash_bandwidth)),
        options.sram(arch),
        options.weights_budget,
        options.fetch_constants_to_sram,
        options.effort,
        arch.memory(MemoryKind.SRAM).size.value,
        depth_first=options.depth_first,
    )
