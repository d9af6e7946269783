#include "chain_buffers.h"
#include "operations.h"
#include "output_scale.h"

/* The parameter of the command. */
enum {
    MUL = 0,
    ADD = 1,
    SUB = 2,
    MIN = 3,
    MAX = 4,
    LRELU = 5,
    ABS = 6,
    CLZ = 7,
    SHR = 8,
    SHL = 9,
    LSR = 10,
    DIV = 11,
    CMP_EQ = 16,
    CMP_NE = 17,
    CMP_GE = 18,
    CMP_GT = 19,
    AND = 33,
    OR = 34,
    XOR = 35,
    NOT = 36,
    AND_NOT = 42
};

/* Axes along which an operand is broadcast; and a scalar operand. */
enum { SPREADS_H = 1, SPREADS_W = 2, SPREADS_C = 4, SCALAR = 8 };

/* Fields of the scales of operands. */
enum { DOUBLE_AT = 6, ROUNDING_AT = 13 };

/* The field of an input's precision for the size of its elements, and that of 32 bits. */
enum { SIZE_AT = 2, SIZE_32 = 2 };

/* Channels at a time. */
enum { CHANNELS = 16 };

/* A checked operand. */
typedef struct {
    dtn_ethosu_map_t map;
    bool is_scalar;
    int32_t scalar;
    uint32_t spreads;
    dtn_ethosu_factor_t factor;
    dtn_ethosu_rounding_t rounding;
    uint32_t before; /* left shift of the operand at the first of two roundings */
} operand_t;

/* A checked operation. */
typedef struct {
    operand_t a;
    operand_t b;
    dtn_ethosu_map_t out;
    dtn_ethosu_output_t output;
    dtn_ethosu_factor_t factor;
    uint32_t kind;
    bool has_b;
} elementwise_t;

static bool is_known(uint32_t kind)
{
    return kind <= DIV || (kind >= CMP_EQ && kind <= CMP_GT) || (kind >= AND && kind <= NOT) || kind == AND_NOT;
}

static dtn_ethosu_fault_t read_scale(dtn_ethosu_t *m, uint16_t scale, operand_t *operand)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(scale));
    uint32_t shifts = dtn_ethosu_payload_param(m, scale);
    operand->factor = (dtn_ethosu_factor_t){dtn_ethosu_payload(m, scale) & INT32_MAX, shifts & 0x3FU};
    operand->before = shifts >> DOUBLE_AT & 0x1FU;
    operand->rounding = (shifts >> ROUNDING_AT & 1U) != 0 ? DTN_ETHOSU_NATURAL : DTN_ETHOSU_DOUBLE;
    return fault;
}

static dtn_ethosu_fault_t read_scalar(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers, operand_t *operand)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_OP_SCALAR));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(registers->zero_point, registers->precision));
    }
    uint32_t zero_point = dtn_ethosu_short(m, registers->zero_point);
    bool is_signed = dtn_ethosu_field(m, registers->precision, 0, 1) != 0;
    operand->is_scalar = true;
    int32_t less = is_signed ? (int16_t)zero_point : (int32_t)zero_point;
    operand->scalar = (int32_t)(dtn_ethosu_payload(m, REG_OP_SCALAR) - (uint32_t)less);
    return fault;
}

static dtn_ethosu_fault_t read_operand(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers, uint16_t broadcast,
                                       const int32_t *sizes, operand_t *operand)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(broadcast, registers->precision));
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    uint32_t spreads = dtn_ethosu_short(m, broadcast);
    if (spreads > (SPREADS_H | SPREADS_W | SPREADS_C | SCALAR)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, broadcast);
    }
    operand->spreads = spreads;
    operand->is_scalar = false;
    if ((spreads & SCALAR) != 0 || dtn_ethosu_storage(m, registers) == DTN_ETHOSU_NOWHERE) {
        return read_scalar(m, registers, operand);
    }
    fault = dtn_ethosu_map(m, registers, (spreads & SPREADS_H) != 0 ? 1 : sizes[0],
                           (spreads & SPREADS_W) != 0 ? 1 : sizes[1], (spreads & SPREADS_C) != 0 ? 1 : sizes[2], false,
                           &operand->map);
    return fault == DTN_ETHOSU_OK && operand->map.bytes > 4
               ? dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, registers->precision)
               : fault;
}

static dtn_ethosu_fault_t read_operands(dtn_ethosu_t *m, elementwise_t *e)
{
    const int32_t sizes[3] = {dtn_ethosu_count(m, REG_OFM_HEIGHT_M1), dtn_ethosu_count(m, REG_OFM_WIDTH_M1),
                              dtn_ethosu_count(m, REG_OFM_DEPTH_M1)};
    dtn_ethosu_fault_t fault = dtn_ethosu_work(m, (uint64_t)sizes[0] * (uint64_t)sizes[1] * (uint64_t)sizes[2], 1);
    if (fault == DTN_ETHOSU_OK) {
        fault = read_operand(m, &dtn_ethosu_ifm_registers, REG_IFM_BROADCAST, sizes, &e->a);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_scale(m, REG_IFM_SCALE, &e->a);
    }
    if (fault == DTN_ETHOSU_OK && e->has_b) {
        fault = read_operand(m, &dtn_ethosu_ifm2_registers, REG_IFM2_BROADCAST, sizes, &e->b);
    }
    /* The second scale of a leaky ReLU is for negative numbers. */
    if (fault == DTN_ETHOSU_OK && (e->has_b || e->kind == LRELU)) {
        fault = read_scale(m, REG_IFM2_SCALE, &e->b);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ofm_registers, sizes[0], sizes[1], sizes[2], true, &e->out);
    }
    if (fault == DTN_ETHOSU_OK && e->out.bytes > 4) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
    }
    return fault;
}

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, elementwise_t *e)
{
    e->kind = m->event.param & 0x3FU;
    e->has_b = e->kind != LRELU && e->kind != ABS && e->kind != CLZ && e->kind != NOT;
    if (!is_known(e->kind)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, DTN_ETHOSU_OP_ELEMENTWISE);
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(
        m, DTN_ETHOSU_LIST(REG_OFM_HEIGHT_M1, REG_OFM_WIDTH_M1, REG_OFM_DEPTH_M1, REG_IFM_UPSCALE));
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_short(m, REG_IFM_UPSCALE) != 0) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_IFM_UPSCALE);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_operands(m, e);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_output(m, &e->out, &e->output);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_ofm_factor(m, false, &e->factor);
    }
    if (fault == DTN_ETHOSU_OK && e->kind == MUL && dtn_ethosu_field(m, REG_IFM_PRECISION, SIZE_AT, 2) == SIZE_32) {
        e->factor.scale = 1; /* the register's scale has no effect: Vela gives it as an operand as well */
    }
    return fault;
}

/* The scaled operand. */
static int64_t scaled(const operand_t *operand, int32_t value)
{
    if (operand->before == 0 || operand->factor.shift <= 31 - operand->before ||
        operand->rounding != DTN_ETHOSU_DOUBLE) {
        dtn_ethosu_rounding_t rounding = operand->before > 0 ? DTN_ETHOSU_NATURAL : operand->rounding;
        return dtn_ethosu_scaled(value, operand->factor, rounding);
    }
    /* The first rounding applies to the value before the shift to the right. */
    uint64_t first = operand->before < 31 ? UINT64_C(1) << (30 - operand->before) : 0;
    uint64_t half = UINT64_C(1) << (operand->factor.shift - 1);
    uint64_t product = (uint64_t)(value * operand->factor.scale);
    return (int64_t)(product + half + (value < 0 ? 0 - first : first)) >> operand->factor.shift;
}

/* Combines two operands before the output's scale; `b` has as many bits as a shift needs. */
static int64_t combined(const elementwise_t *e, int32_t a, int32_t b)
{
    uint32_t places = (uint32_t)b & 31U;
    switch (e->kind) {
    case MUL:
        return (int64_t)a * b;
    case ADD:
        return scaled(&e->a, a) + scaled(&e->b, b);
    case SUB:
        return scaled(&e->a, a) - scaled(&e->b, b);
    case MIN:
        return scaled(&e->a, a) < scaled(&e->b, b) ? scaled(&e->a, a) : scaled(&e->b, b);
    case MAX:
        return scaled(&e->a, a) > scaled(&e->b, b) ? scaled(&e->a, a) : scaled(&e->b, b);
    case LRELU:
        return a < 0 ? scaled(&e->b, a) : scaled(&e->a, a);
    case ABS: {
        int64_t value = scaled(&e->a, a);
        return value < 0 ? -value : value;
    }
    case CLZ:
        return dtn_ethosu_leading_zeros(a);
    case SHR:
        return dtn_ethosu_scaled(a, (dtn_ethosu_factor_t){1, places}, e->output.rounding);
    case SHL:
        return (int32_t)((uint32_t)a << places);
    case LSR:
        return (int32_t)((uint32_t)a >> places);
    default:
        return b == 0 ? 0 : (int64_t)a / b;
    }
}

/* Comparisons, whose results are all ones if true, and bitwise operations. */
static int64_t logical(const elementwise_t *e, int32_t a, int32_t b)
{
    switch (e->kind) {
    case CMP_EQ:
        return scaled(&e->a, a) == scaled(&e->b, b) ? -1 : 0;
    case CMP_NE:
        return scaled(&e->a, a) != scaled(&e->b, b) ? -1 : 0;
    case CMP_GE:
        return scaled(&e->a, a) >= scaled(&e->b, b) ? -1 : 0;
    case CMP_GT:
        return scaled(&e->a, a) > scaled(&e->b, b) ? -1 : 0;
    case AND:
        return a & b;
    case OR:
        return a | b;
    case XOR:
        return a ^ b;
    case NOT:
        return ~a;
    default:
        return a & ~b;
    }
}

static int32_t result(const elementwise_t *e, int32_t a, int32_t b)
{
    int64_t value = e->kind < CMP_EQ ? combined(e, a, b) : logical(e, a, b);
    return dtn_ethosu_requantize(&e->output, dtn_ethosu_scaled(value, e->factor, e->output.rounding));
}

/* Reads `count` channels of an operand from `first` on. */
static void read(const operand_t *operand, int32_t y, int32_t x, int32_t first, int32_t count, int32_t *values)
{
    if (operand->is_scalar) {
        for (int32_t i = 0; i < count; i++) {
            values[i] = operand->scalar;
        }
        return;
    }
    bool spreads = (operand->spreads & SPREADS_C) != 0;
    const uint8_t *pixel = dtn_ethosu_pixel(&operand->map, (operand->spreads & SPREADS_H) != 0 ? 0 : y,
                                            (operand->spreads & SPREADS_W) != 0 ? 0 : x);
    dtn_ethosu_read(&operand->map, pixel, spreads ? 0 : first, spreads ? 1 : count, values);
    for (int32_t i = 1; spreads && i < count; i++) {
        values[i] = values[0];
    }
}

static void pixel(const elementwise_t *e, int32_t y, int32_t x)
{
    for (int32_t first = 0; first < e->out.depth; first += CHANNELS) {
        int32_t left = e->out.depth - first;
        int32_t count = left < CHANNELS ? left : CHANNELS;
        int32_t a[CHANNELS];
        int32_t b[CHANNELS] = {0};
        read(&e->a, y, x, first, count, a);
        if (e->has_b) {
            read(&e->b, y, x, first, count, b);
        }
        for (int32_t i = 0; i < count; i++) {
            a[i] = result(e, a[i], b[i]);
        }
        dtn_ethosu_write(&e->out, dtn_ethosu_pixel(&e->out, y, x), first, count, a);
    }
}

dtn_ethosu_fault_t dtn_ethosu_elementwise_85(dtn_ethosu_t *m)
{
    elementwise_t e = {.has_b = false};
    dtn_ethosu_fault_t fault = read_registers(m, &e);
    if (fault != DTN_ETHOSU_OK || m->is_check) {
        return fault;
    }
    for (int32_t y = 0; y < e.out.height; y++) {
        for (int32_t x = 0; x < e.out.width; x++) {
            pixel(&e, y, x);
        }
    }
    return fault;
}
