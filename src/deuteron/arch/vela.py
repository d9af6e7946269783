"""What a user may tell Vela, the compiler of Arm Ethos-U, by its own names."""

from dataclasses import dataclass, fields
from enum import Enum

from deuteron.arch.targets import Arch, EthosU
from deuteron.errors import OptionError
from deuteron.records import Partial


class Optimise(Enum):
    """What Vela optimises for; the value is its spelling as an option."""

    PERFORMANCE = "Performance"
    SIZE = "Size"


@dataclass(frozen=True, slots=True)
class VelaOptions(Partial):
    """Options of Vela; None leaves what ExecuTorch chooses for the target.

    Attributes:
        vela_system_config: the section of Vela's configuration file that says what memories there are.
        memory_mode: the section that says what of a program lies in which of them.
        optimise: for few cycles, or for little SRAM.
        arena_cache_size: bytes of SRAM that Vela aims at when it optimises for performance; it may need more.
        vela_config: a configuration file in the place of that which Vela comes with, relative to the current folder.
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
        """Check that the options mean something for a target.

        Raises:
            OptionError: naming the option.
        """
        if isinstance(arch.npu, EthosU):
            return
        for option in fields(self):
            if getattr(self, option.name) != option.default:
                raise OptionError(
                    f"`--{option.name.replace('_', '-')}` is for Vela, which compiles for Arm Ethos-U alone; "
                    f"`{arch.name}` has none",
                    hint="leave it out, or choose another target: `deuteron targets` lists them",
                )
