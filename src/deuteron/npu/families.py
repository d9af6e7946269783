"""The NPU families: what the id of a delegate in a program means. Nobody else compares ids."""

from dataclasses import dataclass

from deuteron.npu.firmware import Firmware
from deuteron.npu.neutron import firmware, payload


@dataclass(frozen=True, slots=True)
class Family:
    """NPUs of one architecture, whatever their size.

    Attributes:
        delegate_id: the id that their partitions have in a program.
        firmware: how firmware runs these.
    """

    delegate_id: str
    firmware: Firmware


FAMILIES = (Family(payload.BACKEND_ID, firmware.FIRMWARE),)


def family_of(delegate_id: str) -> Family | None:
    """The family whose partitions have this id, None for another backend's."""
    return next((family for family in FAMILIES if family.delegate_id == delegate_id), None)
