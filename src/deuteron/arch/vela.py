"""Options of Vela, the compiler of Arm Ethos-U, under Vela's names."""

from dataclasses import dataclass, fields
from enum import Enum

from deuteron.arch.targets import Arch
from deuteron.errors import OptionError
from deuteron.records import Partial

DEFAULTS = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}
"""The system configuration and the memory mode that ExecuTorch names where a build names none."""


class Optimise(Enum):
    """Vela's optimisation goal; the value is its name as an option."""

    PERFORMANCE = "Performance"
    SIZE = "Size"


@dataclass(frozen=True, slots=True)
class VelaOptions(Partial):
    """Options of Vela; None leaves what ExecuTorch chooses for the target.

    Attributes:
        vela_system_config: section of Vela's configuration file with the memories.
        memory_mode: section with the use of these memories.
        optimise: minimise cycles, or SRAM.
        arena_cache_size: bytes of SRAM that Vela aims at when it optimises for performance; it may need more.
        vela_config: a configuration file instead of Vela's, relative to the current folder.
    """

    vela_system_config: str | None = None
    memory_mode: str | None = None
    optimise: Optimise = Optimise.PERFORMANCE
    arena_cache_size: int | None = None
    vela_config: str | None = None

    def __post_init__(self) -> None:
        if self.arena_cache_size is not None and self.arena_cache_size <= 0:
            raise OptionError(f"`--arena-cache-size` is {self.arena_cache_size}, it must be above 0")

    def check(self, arch: Arch) -> None:
        """Check that the options are valid for a target.

        Raises:
            OptionError: naming the option.
        """
        if arch.npu is not None and arch.npu.uses_vela:
            return
        for option in fields(self):
            if getattr(self, option.name) != option.default:
                raise OptionError(
                    f"`--{option.name.replace('_', '-')}` is for Vela, which compiles for Arm Ethos-U alone; "
                    f"`{arch.name}` has none",
                    hint="leave it out, or choose another target: `deuteron targets` lists them",
                )
