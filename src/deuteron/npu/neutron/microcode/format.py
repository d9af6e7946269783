"""Numbers of the microcode format: `spec/microcode.md` as constants.

The encoder, the decoder and the generated C header (`tools/gen_headers.py`) use them.
"""

from enum import IntEnum, IntFlag

from deuteron.npu.neutron.kernels.version import MINOR_OF_PLACES as MINOR_OF_PLACES
from deuteron.npu.neutron.kernels.version import MINOR_OF_SCRATCH_FETCHES as MINOR_OF_SCRATCH_FETCHES
from deuteron.npu.neutron.kernels.version import VERSION_MAJOR as VERSION_MAJOR
from deuteron.npu.neutron.kernels.version import VERSION_MINOR as VERSION_MINOR
from deuteron.operators.limits import ALIGNMENT as ALIGNMENT
from deuteron.operators.limits import CHANNELS as CHANNELS
from deuteron.operators.limits import LUT_BYTES as LUT_BYTES
from deuteron.operators.limits import MAX_DIMENSION as MAX_DIMENSION
from deuteron.operators.limits import MAX_MATMUL_DEPTH as MAX_MATMUL_DEPTH
from deuteron.operators.limits import MAX_MEAN_SHIFT as MAX_MEAN_SHIFT
from deuteron.operators.limits import MAX_REDUCTION as MAX_REDUCTION
from deuteron.operators.limits import MAX_RESIZE_UNIT as MAX_RESIZE_UNIT
from deuteron.operators.limits import REQUANT_ROW_BYTES as REQUANT_ROW_BYTES
from deuteron.operators.limits import SOFTMAX_TABLE_BYTES as SOFTMAX_TABLE_BYTES
from deuteron.operators.regions import WRITABLE as WRITABLE
from deuteron.operators.regions import Region as Region

MAGIC = 0x64434D6E
"""Word 0: the bytes `nMCd`, common to every Neutron microcode."""

DEUTERON_MAGIC = 0x314E5444
"""Word 1: the bytes `DTN1`; a vendor's microcode has another word."""

VERSION = VERSION_MAJOR << 16 | VERSION_MINOR
"""The newest supported minor version; a program has the oldest one with its features."""

HEADER_WORDS = 20
WORD_BYTES = 4
NO_ORIGIN = 0xFFFFFFFF
"""Word 2 of a call without a TFLite operator."""

MAX_MICROCODE_BYTES = 16 << 20
MIN_WEIGHTS_BYTES = 16
MAX_TENSORS = 255

UNALIGNED_KERNELS = frozenset({"copy_s8", "fill_s8"})
"""Kernels whose operands need no alignment."""

OPERAND_WORDS = 3
SOFTMAX_ONE = 1 << 30
"""First and largest word of a softmax table: fixed-point 1.0."""

FETCH_TO_SCRATCH = 1 << 8
"""Flag next to the channel of a fetch to scratch."""

ELSEWHERE = 0xFFFFFFFF
"""Entry in the table of places for an input or output outside scratch."""

PROFILE_RECORD_BYTES = 16


class Header(IntEnum):
    """Index of each header word; `LayoutA` and `LayoutB` have those that depend on the layout, from 10 on."""

    MAGIC = 0
    DEUTERON_MAGIC = 1
    VERSION = 2
    FLAGS = 3
    COMMANDS = 4
    CRC = 5
    MICROCODE_BYTES = 6
    WEIGHTS_BYTES = 7
    WEIGHTS_CRC = 8
    SCRATCH_BYTES = 9
    FIRST_COMMAND = 15
    RESIDENT_BYTES = 16


class LayoutA(IntEnum):
    """Header words 10 to 14 without profiling; 13 and 14 are 0."""

    PREFETCH_BYTES = 10
    INPUTS = 11
    OUTPUTS = 12


class LayoutB(IntEnum):
    """Header words 10 to 14 with profiling."""

    PROFILE_BYTES = 10
    DEBUG_BYTES = 11
    PREFETCH_BYTES = 12
    INPUTS = 13
    OUTPUTS = 14


class Flag(IntFlag):
    """Bits of the flags word."""

    PROFILING = 1
    PLACES = 2


class Opcode(IntEnum):
    """First byte of a command."""

    CALL = 1
    FETCH = 2
    WAIT = 3
    END = 4
