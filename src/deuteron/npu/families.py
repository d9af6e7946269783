"""NPU families by the delegate id of their partitions. No other module compares ids.

A package adds a family by an entry point of the group `deuteron.npu_families`. Its name is the delegate id, and its
object a `Family`. It is loaded when a program has a delegate that is not of a family here.
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
    """NPUs of one architecture, in all sizes.

    Attributes:
        delegate_id: the delegate id of their partitions.
        program: decodes a partition from its bytes and a name for errors; FormatError if it is damaged.
        host: the library with the backend for ExecuTorch's runtime on this computer; MissingToolError without it.
        firmware: how firmware runs partitions; None if it cannot.
        input_count: returns the number of leading arguments of a call that are inputs; None for a damaged partition.
        replan: compiles the partitions of a build again for other memories; None if the family cannot.
    """

    delegate_id: str
    program: Callable[[bytes, str], NpuProgram]
    host: Callable[[], Path]
    firmware: Firmware | None = None
    input_count: Callable[[bytes], int | None] | None = None
    replan: Callable[[ReplanRequest], Replanner] | None = None


def _replan_neutron(request: ReplanRequest) -> Replanner:
    from deuteron.npu.neutron.replan import replanner  # slow to import

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
"""The families in this package."""


def family_of(delegate_id: str) -> Family | None:
    """Return the family of this delegate id, or None for another backend.

    Raises:
        UnsupportedError: the entry point of a package cannot be loaded, or is not a family.
    """
    for family in FAMILIES:
        if family.delegate_id == delegate_id:
            return family
    for point in entry_points(group=GROUP, name=delegate_id):
        what = f"the NPU family `{delegate_id}`, `{point.value}`,"
        try:
            value: object = point.load()
        except Exception as e:  # a package may raise anything
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
