"""How firmware runs partitions of Ethos-U: not yet."""

from typing import NoReturn

from deuteron.errors import UnsupportedError
from deuteron.npu.firmware import Firmware


def _refuse(payload: bytes, name: str) -> NoReturn:
    del payload
    message = "firmware is not made for partitions of Ethos-U"
    raise UnsupportedError(message, where=name, hint="run the program on this computer")


FIRMWARE = Firmware(symbol="dtn_npu_ethosu", partition=_refuse)
