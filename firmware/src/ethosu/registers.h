/**
 * @file
 * Registers that commands set.
 *
 * A command is a word: an opcode in its low 10 bits, the number of following words in bits 14 and 15, and a parameter
 * in the upper 16 bits. Opcodes with only a parameter set 16-bit registers; those with a payload word set the others.
 */
#pragma once

#include "deuteron/ethosu.h"

/** Registers of 16 bits, by opcode. */
typedef enum {
    REG_IFM_PAD_TOP = 0x100,
    REG_IFM_PAD_LEFT = 0x101,
    REG_IFM_PAD_RIGHT = 0x102,
    REG_IFM_PAD_BOTTOM = 0x103,
    REG_IFM_DEPTH_M1 = 0x104,
    REG_IFM_PRECISION = 0x105,
    REG_IFM_UPSCALE = 0x107,
    REG_IFM_BROADCAST = 0x108, /* Ethos-U85 */
    REG_IFM_ZERO_POINT = 0x109,
    REG_IFM_WIDTH0_M1 = 0x10A,
    REG_IFM_HEIGHT0_M1 = 0x10B,
    REG_IFM_HEIGHT1_M1 = 0x10C,
    REG_IFM_IB_END = 0x10D,
    REG_IFM_REGION = 0x10F,
    REG_OFM_WIDTH_M1 = 0x111,
    REG_OFM_HEIGHT_M1 = 0x112,
    REG_OFM_DEPTH_M1 = 0x113,
    REG_OFM_PRECISION = 0x114,
    REG_OFM_BLK_WIDTH_M1 = 0x115,
    REG_OFM_BLK_HEIGHT_M1 = 0x116,
    REG_OFM_BLK_DEPTH_M1 = 0x117,
    REG_OFM_ZERO_POINT = 0x118,
    REG_OFM_WIDTH0_M1 = 0x11A,
    REG_OFM_HEIGHT0_M1 = 0x11B,
    REG_OFM_HEIGHT1_M1 = 0x11C,
    REG_OFM_REGION = 0x11F,
    REG_KERNEL_WIDTH_M1 = 0x120,
    REG_KERNEL_HEIGHT_M1 = 0x121,
    REG_KERNEL_STRIDE = 0x122,
    REG_ACC_FORMAT = 0x124,
    REG_ACTIVATION = 0x125,
    REG_ACTIVATION_MIN = 0x126,
    REG_ACTIVATION_MAX = 0x127,
    REG_WEIGHT_REGION = 0x128,
    REG_SCALE_REGION = 0x129,
    REG_RESIZE_X_SCALE_N_M1 = 0x12A, /* Ethos-U85, as the next four */
    REG_RESIZE_Y_SCALE_N_M1 = 0x12B,
    REG_RESIZE_X_OFFSET = 0x12C,
    REG_RESIZE_Y_OFFSET = 0x12D,
    REG_WEIGHT_FORMAT = 0x12E,
    REG_AB_START = 0x12D,
    REG_BLOCKDEP = 0x12F,
    REG_DMA0_SRC_REGION = 0x130,
    REG_DMA0_DST_REGION = 0x131,
    REG_DMA0_SIZE0 = 0x132,
    REG_DMA0_SIZE1 = 0x133,      /* Ethos-U85 */
    REG_DMA0_IDX_REGION = 0x134, /* Ethos-U85 */
    REG_IFM2_BROADCAST = 0x180,
    REG_IFM2_SCALAR = 0x181,
    REG_IFM2_PRECISION = 0x185,
    REG_IFM2_ZERO_POINT = 0x189,
    REG_IFM2_WIDTH0_M1 = 0x18A,
    REG_IFM2_HEIGHT0_M1 = 0x18B,
    REG_IFM2_HEIGHT1_M1 = 0x18C,
    REG_IFM2_IB_START = 0x18D,
    REG_IFM2_REGION = 0x18F,
} dtn_ethosu_short_t;

/** Registers with a payload, by opcode. */
typedef enum {
    REG_IFM_BASE0 = 0x000,
    REG_IFM_STRIDE_X = 0x004,
    REG_OFM_BASE0 = 0x010,
    REG_OFM_STRIDE_X = 0x014,
    REG_WEIGHT_BASE = 0x020,
    REG_WEIGHT_LENGTH = 0x021,
    REG_SCALE_BASE = 0x022,
    REG_SCALE_LENGTH = 0x023,
    REG_OFM_SCALE = 0x024,
    REG_OPA_SCALE = 0x025,
    REG_OPB_SCALE = 0x026,
    REG_IFM_SCALE = 0x025, /* Ethos-U85, as the next two */
    REG_IFM2_SCALE = 0x026,
    REG_OP_SCALAR = 0x027,
    REG_DMA0_SRC = 0x030,
    REG_DMA0_DST = 0x031,
    REG_DMA0_LEN = 0x032,
    REG_DMA0_SKIP0 = 0x033,
    REG_DMA0_SRC_STRIDE0 = 0x033, /* Ethos-U85, as the next six */
    REG_DMA0_SRC_STRIDE1 = 0x034,
    REG_DMA0_DST_STRIDE0 = 0x035,
    REG_DMA0_DST_STRIDE1 = 0x036,
    REG_DMA0_IDX = 0x037,
    REG_DMA0_IDX_MAX = 0x038,
    REG_DMA0_IDX_SKIP1 = 0x039,
    REG_IFM2_BASE0 = 0x080,
    REG_IFM2_STRIDE_X = 0x084,
    REG_WEIGHT1_BASE = 0x090,
    REG_WEIGHT1_LENGTH = 0x091,
    REG_SCALE1_BASE = 0x092,
    REG_SCALE1_LENGTH = 0x093,
    REG_WEIGHT2_BASE = 0x092, /* Ethos-U85, as all that follow */
    REG_WEIGHT2_LENGTH = 0x093,
    REG_WEIGHT3_BASE = 0x094,
    REG_WEIGHT3_LENGTH = 0x095,
    REG_RESIZE_X_STEP = 0x096,
    REG_RESIZE_Y_STEP = 0x097,
} dtn_ethosu_long_t;

/** Products of the configuration word. */
enum { DTN_ETHOSU_U55 = 0, DTN_ETHOSU_U65 = 1, DTN_ETHOSU_U85 = 2 };

/** True for an Ethos-U85. */
static inline bool dtn_ethosu_is_u85(const dtn_ethosu_t *m)
{
    return m->config->word >> 28 == DTN_ETHOSU_U85;
}

/** Records a fault with its detail, and returns it. */
static inline dtn_ethosu_fault_t dtn_ethosu_fault(dtn_ethosu_t *m, dtn_ethosu_fault_t fault, uint64_t detail)
{
    m->event.detail = detail;
    return fault;
}

/** Counts the work of an operation; a fault if the total exceeds that of any valid stream.
 */
static inline dtn_ethosu_fault_t dtn_ethosu_work(dtn_ethosu_t *m, uint64_t outputs, uint64_t terms)
{
    const uint64_t most = DTN_ETHOSU_MOST_WORK;
    if (terms > most || outputs > most / (terms > 0 ? terms : 1)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_WORK, outputs);
    }
    m->work += outputs * terms;
    return m->work <= most ? DTN_ETHOSU_OK : dtn_ethosu_fault(m, DTN_ETHOSU_WORK, m->work);
}

/** Index of a 16-bit register: its opcode has 0x00 to 0x3F or 0x80 to 0x9F in the low 8 bits. */
static inline uint32_t dtn_ethosu_slot(uint32_t opcode)
{
    return (opcode & 0x3FU) + ((opcode & 0x80U) >> 1);
}

/** Index of a register with a payload: at most the first 10 of 16 opcodes are registers. */
static inline uint32_t dtn_ethosu_long_slot(uint32_t opcode)
{
    return dtn_ethosu_slot(opcode) / 16 * 10 + opcode % 16;
}

/** DTN_ETHOSU_OK if commands have set all these registers, which are `above` their slots. */
dtn_ethosu_fault_t dtn_ethosu_need(dtn_ethosu_t *m, const uint16_t *opcodes, size_t count, uint32_t above);

/** The same for 16-bit registers. */
static inline dtn_ethosu_fault_t dtn_ethosu_need_shorts(dtn_ethosu_t *m, const uint16_t *opcodes, size_t count)
{
    return dtn_ethosu_need(m, opcodes, count, 0);
}

/** The same for registers with a payload. */
static inline dtn_ethosu_fault_t dtn_ethosu_need_longs(dtn_ethosu_t *m, const uint16_t *opcodes, size_t count)
{
    return dtn_ethosu_need(m, opcodes, count, DTN_ETHOSU_SHORTS);
}

/** The arguments as an array of opcodes and its length. */
#define DTN_ETHOSU_LIST(...) (const uint16_t[]){__VA_ARGS__}, sizeof((const uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t)

/** A 16-bit register. */
static inline uint32_t dtn_ethosu_short(const dtn_ethosu_t *m, uint32_t opcode)
{
    return m->parameters[dtn_ethosu_slot(opcode)];
}

/** A field of a 16-bit register. */
static inline uint32_t dtn_ethosu_field(const dtn_ethosu_t *m, uint32_t opcode, uint32_t low, uint32_t bits)
{
    return dtn_ethosu_short(m, opcode) >> low & ((1U << bits) - 1U);
}

/** A 16-bit register with a count minus one. */
static inline int32_t dtn_ethosu_count(const dtn_ethosu_t *m, uint32_t opcode)
{
    return (int32_t)dtn_ethosu_short(m, opcode) + 1;
}

/** The address in a register, its low 40 bits. */
static inline uint64_t dtn_ethosu_address(const dtn_ethosu_t *m, uint32_t opcode)
{
    return m->addresses[dtn_ethosu_long_slot(opcode)] & UINT64_C(0xFFFFFFFFFF);
}

/** The signed 40-bit stride in a register. */
static inline int64_t dtn_ethosu_stride(const dtn_ethosu_t *m, uint32_t opcode)
{
    uint64_t stride = dtn_ethosu_address(m, opcode);
    return (int64_t)(stride ^ UINT64_C(0x8000000000)) - INT64_C(0x8000000000);
}

/** The payload of a register. */
static inline uint32_t dtn_ethosu_payload(const dtn_ethosu_t *m, uint32_t opcode)
{
    return (uint32_t)m->addresses[dtn_ethosu_long_slot(opcode)];
}

/** The parameter of a register with a payload. */
static inline uint32_t dtn_ethosu_payload_param(const dtn_ethosu_t *m, uint32_t opcode)
{
    return (uint32_t)(m->addresses[dtn_ethosu_long_slot(opcode)] >> 32);
}

/** Returns a region by its number; NULL, with a fault, if there is none. */
static inline const dtn_ethosu_region_t *dtn_ethosu_region(dtn_ethosu_t *m, uint32_t number)
{
    if (number >= DTN_ETHOSU_REGIONS || m->memory.regions[number].bytes == 0) {
        m->event.detail = number;
        return NULL;
    }
    return &m->memory.regions[number];
}
