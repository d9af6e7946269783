"""Commands of Ethos-U by number: operations, 16-bit registers, registers with a payload.

Names are those of Arm's interface without the prefix `NPU_SET_` or `NPU_OP_`. Numbers of `Short` registers have bit 8
set; a word follows `Long` ones. An Ethos-U85 has further numbers, and uses some for other registers, which have a
second name.
"""

from dataclasses import dataclass
from enum import IntEnum


class Op(IntEnum):
    """Operations; WAIT commands and the mask order or count operations and change no result."""

    STOP = 0x000
    IRQ = 0x001
    CONV = 0x002
    DEPTHWISE = 0x003
    POOL = 0x005
    ELEMENTWISE = 0x006
    RESIZE = 0x007
    DMA_START = 0x010
    DMA_WAIT = 0x011
    KERNEL_WAIT = 0x012
    PMU_MASK = 0x013


class Short(IntEnum):
    """Registers of 16 bits."""

    IFM_PAD_TOP = 0x100
    IFM_PAD_LEFT = 0x101
    IFM_PAD_RIGHT = 0x102
    IFM_PAD_BOTTOM = 0x103
    IFM_DEPTH_M1 = 0x104
    IFM_PRECISION = 0x105
    IFM_UPSCALE = 0x107
    IFM_ZERO_POINT = 0x109
    IFM_WIDTH0_M1 = 0x10A
    IFM_HEIGHT0_M1 = 0x10B
    IFM_HEIGHT1_M1 = 0x10C
    IFM_IB_END = 0x10D
    IFM_REGION = 0x10F
    OFM_WIDTH_M1 = 0x111
    OFM_HEIGHT_M1 = 0x112
    OFM_DEPTH_M1 = 0x113
    OFM_PRECISION = 0x114
    OFM_BLK_WIDTH_M1 = 0x115
    OFM_BLK_HEIGHT_M1 = 0x116
    OFM_BLK_DEPTH_M1 = 0x117
    OFM_ZERO_POINT = 0x118
    OFM_WIDTH0_M1 = 0x11A
    OFM_HEIGHT0_M1 = 0x11B
    OFM_HEIGHT1_M1 = 0x11C
    OFM_REGION = 0x11F
    KERNEL_WIDTH_M1 = 0x120
    KERNEL_HEIGHT_M1 = 0x121
    KERNEL_STRIDE = 0x122
    PARALLEL_MODE = 0x123
    ACC_FORMAT = 0x124
    ACTIVATION = 0x125
    ACTIVATION_MIN = 0x126
    ACTIVATION_MAX = 0x127
    WEIGHT_REGION = 0x128
    SCALE_REGION = 0x129
    AB_START = 0x12D
    BLOCKDEP = 0x12F
    DMA0_SRC_REGION = 0x130
    DMA0_DST_REGION = 0x131
    DMA0_SIZE0 = 0x132
    DMA0_SIZE1 = 0x133
    IFM2_BROADCAST = 0x180
    IFM2_SCALAR = 0x181
    IFM2_PRECISION = 0x185
    IFM2_ZERO_POINT = 0x189
    IFM2_WIDTH0_M1 = 0x18A
    IFM2_HEIGHT0_M1 = 0x18B
    IFM2_HEIGHT1_M1 = 0x18C
    IFM2_IB_START = 0x18D
    IFM2_REGION = 0x18F
    IFM_BROADCAST = 0x108
    RESIZE_X_SCALE_N_M1 = 0x12A
    RESIZE_Y_SCALE_N_M1 = 0x12B
    RESIZE_X_OFFSET = 0x12C
    RESIZE_Y_OFFSET = 0x12D
    WEIGHT_FORMAT = 0x12E
    DMA0_IDX_REGION = 0x134


class Long(IntEnum):
    """Registers with a payload of 32 bits, and in the command itself 16 more."""

    IFM_BASE0 = 0x000
    IFM_BASE1 = 0x001
    IFM_BASE2 = 0x002
    IFM_BASE3 = 0x003
    IFM_STRIDE_X = 0x004
    IFM_STRIDE_Y = 0x005
    IFM_STRIDE_C = 0x006
    OFM_BASE0 = 0x010
    OFM_BASE1 = 0x011
    OFM_BASE2 = 0x012
    OFM_BASE3 = 0x013
    OFM_STRIDE_X = 0x014
    OFM_STRIDE_Y = 0x015
    OFM_STRIDE_C = 0x016
    WEIGHT_BASE = 0x020
    WEIGHT_LENGTH = 0x021
    SCALE_BASE = 0x022
    SCALE_LENGTH = 0x023
    OFM_SCALE = 0x024
    OPA_SCALE = 0x025
    OPB_SCALE = 0x026
    DMA0_SRC = 0x030
    DMA0_DST = 0x031
    DMA0_LEN = 0x032
    DMA0_SKIP0 = 0x033
    DMA0_SKIP1 = 0x034
    IFM2_BASE0 = 0x080
    IFM2_BASE1 = 0x081
    IFM2_BASE2 = 0x082
    IFM2_BASE3 = 0x083
    IFM2_STRIDE_X = 0x084
    IFM2_STRIDE_Y = 0x085
    IFM2_STRIDE_C = 0x086
    WEIGHT1_BASE = 0x090
    WEIGHT1_LENGTH = 0x091
    SCALE1_BASE = 0x092
    SCALE1_LENGTH = 0x093
    IFM_SCALE = 0x025
    IFM2_SCALE = 0x026
    OP_SCALAR = 0x027
    DMA0_SRC_STRIDE0 = 0x033
    DMA0_SRC_STRIDE1 = 0x034
    DMA0_DST_STRIDE0 = 0x035
    DMA0_DST_STRIDE1 = 0x036
    DMA0_IDX = 0x037
    DMA0_IDX_MAX = 0x038
    DMA0_IDX_SKIP1 = 0x039
    WEIGHT2_BASE = 0x092
    WEIGHT2_LENGTH = 0x093
    WEIGHT3_BASE = 0x094
    WEIGHT3_LENGTH = 0x095
    RESIZE_X_STEP = 0x096
    RESIZE_Y_STEP = 0x097
    BRANCH = 0x100


POOLS = ("max_pool", "average_pool", "reduce_sum")
"""By the parameter of `Op.POOL`."""
ELEMENTWISE = ("mul", "add", "sub", "min", "max", "lrelu", "abs", "clz", "shr", "shl")
"""By the parameter of `Op.ELEMENTWISE`."""
UNARY = frozenset(("lrelu", "abs", "clz"))
"""Those that have one input."""

POOLS_85 = (*POOLS, "sum_pool", "restore", "min_pool", "argmax_x", "argmax_y")
"""The pools of an Ethos-U85; `restore` loads accumulators from the second input."""
ELEMENTWISE_85 = {
    **dict(enumerate(ELEMENTWISE)), 10: "lsr", 11: "div", 16: "cmp_eq", 17: "cmp_ne", 18: "cmp_ge", 19: "cmp_gt",
    33: "and", 34: "or", 35: "xor", 36: "not", 42: "and_not",
}  # fmt: skip
"""The elementwise operations of an Ethos-U85, by the parameter of `Op.ELEMENTWISE`."""
UNARY_85 = UNARY | {"not"}
"""Those that have one input."""
RESIZES = ("resize_bilinear", "resize_replicate", "resize_nearest")
"""By the parameter of `Op.RESIZE`."""
TURNS = ("HWC", "WHC", "HCW", "WCH", "", "", "CHW", "CWH")
"""Axes of an Ethos-U85's output that become rows, columns and channels, by the field of `OFM_PRECISION`."""


@dataclass(frozen=True, slots=True)
class Config:
    """An accelerator configuration: Vela's name for it, and the word of it in a driver's header."""

    name: str
    word: int

    @property
    def is_u85(self) -> bool:
        """True if it is an Ethos-U85, which has other commands."""
        return self.word >> 28 == _U85

    @property
    def weight_streams(self) -> int:
        """Number of weight streams that an Ethos-U85 reads."""
        return 1 << (self.word >> 12 & 3)

    @property
    def sram_port(self) -> int:
        """Bytes per cycle between the NPU and SRAM in Vela's model; an Ethos-U85 can have several ports."""
        return _U55_PORT if self.word >> 28 == 0 else 2 * _U55_PORT << (self.word >> 8 & 3 if self.is_u85 else 0)


_U85 = 2
_U55_PORT = 8


def _word_85(log2_macs: int, log2_sram_ports: int, log2_ports: int, log2_streams: int) -> int:
    return _U85 << 28 | log2_streams << 12 | log2_ports << 10 | log2_sram_ports << 8 | 1 << 4 | log2_macs


def _word(product: int, log2_macs: int, shram_kib: int) -> int:
    return product << 28 | shram_kib << 8 | log2_macs


CONFIGS = (
    Config("ethos-u55-32", _word(0, 5, 16)),
    Config("ethos-u55-64", _word(0, 6, 16)),
    Config("ethos-u55-128", _word(0, 7, 24)),
    Config("ethos-u55-256", _word(0, 8, 48)),
    Config("ethos-u65-256", _word(1, 8, 48)),
    Config("ethos-u65-512", _word(1, 9, 96)),
    Config("ethos-u85-128", _word_85(7, 1, 0, 0)),
    Config("ethos-u85-256", _word_85(8, 1, 0, 0)),
    Config("ethos-u85-512", _word_85(9, 1, 0, 1)),
    Config("ethos-u85-1024", _word_85(10, 1, 1, 2)),
    Config("ethos-u85-2048", _word_85(11, 2, 1, 2)),
)
"""Those whose command streams are decoded here."""
