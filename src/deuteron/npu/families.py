"""The NPU families: what the id of a delegate in a program means. Nobody else compares ids.

A package adds a family by an entry point of the group `deuteron.npu_families`, whose name is the id of its delegates
and which names a `Family`. It is looked for where a program has a delegate that no family here has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from deuteron.errors import UnsupportedError
from deuteron.native import library
from deuteron.npu.ethosu import blob as ethosu_blob
from deuteron.npu.ethosu import firmware as ethosu_firmware
from deuteron.npu.ethosu import program as ethosu_program
from deuteron.npu.firmware import Firmware
from deuteron.npu.neutron import firmware, payload, program
from deuteron.npu.program import NpuProgram, Replanner, ReplanRequest

GROUP = "deuteron.npu_families"


@dataclass(frozen=True, slots=True)
class Family:
    """NPUs of one architecture, whatever their size.

    Attributes:
        delegate_id: the id that their partitions have in a program.
        program: a partition, from its bytes in a program and what errors call these; FormatError when it is damaged.
        host: the library that gives ExecuTorch's runtime on this computer the backend; MissingToolError without it.
        firmware: how firmware runs these; None for families that it cannot run.
        input_count: how many arguments of a call are inputs, which come first; None where a partition is damaged.
        replan: the partitions of a build compiled again for other memories; None for families that cannot.
    """

    delegate_id: str
    program: Callable[[bytes, str], NpuProgram]
    host: Callable[[], Path]
    firmware: Firmware | None = None
    input_count: Callable[[bytes], int | None] | None = None
    replan: Callable[[ReplanRequest], Replanner] | None = None


def _replan_neutron(request: ReplanRequest) -> Replanner:
    from deuteron.npu.neutron.replan import replanner  # the compiler takes a while to load

    return replanner(request)


NEUTRON = Family(
    delegate_id=payload.BACKEND_ID,
    program=program.program_of,
    firmware=firmware.FIRMWARE,
    input_count=payload.input_count,
    host=lambda: library("delegate"),
    replan=_replan_neutron,
)

ETHOSU = Family(
    delegate_id=ethosu_blob.BACKEND_ID,
    program=ethosu_program.program_of,
    firmware=ethosu_firmware.FIRMWARE,
    input_count=ethosu_blob.input_count,
    host=lambda: library("ethosu"),
)

FAMILIES = (NEUTRON, ETHOSU)
"""Those that Deuteron has itself."""


def family_of(delegate_id: str) -> Family | None:
    """The family whose partitions have this id, None for another backend's.

    Raises:
        UnsupportedError: a package offers one that cannot be loaded, or something else.
    """
    for family in FAMILIES:
        if family.delegate_id == delegate_id:
            return family
    for point in entry_points(group=GROUP, name=delegate_id):
        what = f"the NPU family `{delegate_id}`, `{point.value}`,"
        try:
            value: object = point.load()
        except Exception as e:  # whatever a package does when it is loaded
            said = str(e) if isinstance(e, ImportError | AttributeError) else f"{type(e).__name__}: {e}"
            raise UnsupportedError(
                f"{what} cannot be loaded: {said}", hint="install its package again, or remove it"
            ) from e
        if not isinstance(value, Family):
            raise UnsupportedError(
                f"{what} is of type `{type(value).__name__}`, allowed is `{Family.__module__}.{Family.__name__}`",
                hint="install a release of its package that fits this one of Deuteron, or remove it",
            )
        return value
    return None
