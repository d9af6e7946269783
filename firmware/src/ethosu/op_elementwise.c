#include "accesses.h"
#include "operations.h"

/* The parameter of the command. */
enum { MUL, ADD, SUB, MIN, MAX, LRELU, ABS, CLZ, SHR, SHL };

/* Scaling of operands of additions: both by 16 bits, or one by 32 and a shift, and the other by a power of two. */
enum { BOTH_16 = 0, A_32 = 1, B_32 = 2, POWER_8 = 19, POWER_16 = 14 };

/* Channels at a time. */
enum { CHANNELS = 16 };

/* A checked operation. */
typedef struct {
    dtn_ethosu_map_t a;
    dtn_ethosu_map_t b;
    dtn_ethosu_map_t out;
    dtn_ethosu_output_t output;
    dtn_ethosu_factor_t factor; /* of the output */
    dtn_ethosu_factor_t wide;   /* of the 32-bit operand */
    dtn_ethosu_rounding_t wide_rounding;
    int32_t a_scale;
    int32_t b_scale;
    uint32_t mode;
    uint32_t kind;
    int32_t scalar;
    bool has_b;
    bool b_is_scalar;
    bool is_reversed; /* b is the first operand */
    bool spreads_h;   /* b is broadcast along rows, columns, channels */
    bool spreads_w;
    bool spreads_c;
} elementwise_t;

static dtn_ethosu_fault_t read_b(dtn_ethosu_t *m, elementwise_t *e)
{
    dtn_ethosu_fault_t fault =
        dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_IFM2_BROADCAST, REG_IFM2_PRECISION, REG_IFM2_ZERO_POINT));
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    e->spreads_h = dtn_ethosu_field(m, REG_IFM2_BROADCAST, 0, 1) != 0;
    e->spreads_w = dtn_ethosu_field(m, REG_IFM2_BROADCAST, 1, 1) != 0;
    e->spreads_c = dtn_ethosu_field(m, REG_IFM2_BROADCAST, 2, 1) != 0;
    e->is_reversed = dtn_ethosu_field(m, REG_IFM2_BROADCAST, 6, 1) != 0;
    e->b_is_scalar = dtn_ethosu_field(m, REG_IFM2_BROADCAST, 7, 1) != 0;
    if (!e->b_is_scalar) {
        return dtn_ethosu_map(m, &dtn_ethosu_ifm2_registers, e->spreads_h ? 1 : e->out.height,
                              e->spreads_w ? 1 : e->out.width, e->spreads_c ? 1 : e->out.depth, false, &e->b);
    }
    bool is_signed = dtn_ethosu_field(m, REG_IFM2_PRECISION, 0, 1) != 0;
    uint32_t scalar = dtn_ethosu_short(m, REG_IFM2_SCALAR);
    uint32_t zero_point = dtn_ethosu_short(m, REG_IFM2_ZERO_POINT);
    e->scalar = is_signed ? (int16_t)scalar - (int16_t)zero_point : (int32_t)scalar - (int32_t)zero_point;
    return dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_IFM2_SCALAR));
}

static dtn_ethosu_fault_t read_scales(dtn_ethosu_t *m, elementwise_t *e)
{
    e->factor = (dtn_ethosu_factor_t){1, 0};
    /* Operations without their own factor use the mode of per-channel scales. */
    if (dtn_ethosu_field(m, REG_OFM_PRECISION, 8, 1) != 0) {
        dtn_ethosu_fault_t fault = dtn_ethosu_ofm_factor(m, true, &e->factor);
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
    }
    if (e->kind == MUL && e->a.bytes == 4) {
        e->factor.scale = 1; /* the register's scale has no effect: Vela gives it as an operand as well */
    }
    if (e->kind != ADD && e->kind != SUB) {
        return DTN_ETHOSU_OK;
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_OPA_SCALE, REG_OPB_SCALE));
    uint32_t rounding = dtn_ethosu_field(m, REG_IFM_PRECISION, 14, 2);
    e->mode = dtn_ethosu_field(m, REG_IFM_PRECISION, 8, 2);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (e->mode > B_32 || rounding > DTN_ETHOSU_NATURAL) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    }
    e->wide_rounding = (dtn_ethosu_rounding_t)rounding;
    /* OPA_SCALE has the 32 bits for either operand; OPB_SCALE is unused. */
    uint32_t first = dtn_ethosu_payload(m, REG_OPA_SCALE);
    uint32_t second = dtn_ethosu_payload(m, REG_OPB_SCALE);
    int32_t power = 1 << (e->a.bytes == 1 ? POWER_8 : POWER_16);
    e->wide = (dtn_ethosu_factor_t){(int64_t)(int32_t)first, dtn_ethosu_payload_param(m, REG_OPA_SCALE) & 0x3FU};
    e->a_scale = e->mode == BOTH_16 ? (int32_t)(first & 0xFFFFU) : power;
    e->b_scale = e->mode == BOTH_16 ? (int32_t)(second & 0xFFFFU) : power;
    return DTN_ETHOSU_OK;
}

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, elementwise_t *e)
{
    e->kind = m->event.param & 0x3FU;
    if (e->kind > SHL) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, DTN_ETHOSU_OP_ELEMENTWISE);
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(
        m, DTN_ETHOSU_LIST(REG_OFM_HEIGHT_M1, REG_OFM_WIDTH_M1, REG_OFM_DEPTH_M1, REG_IFM_UPSCALE));
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (dtn_ethosu_short(m, REG_IFM_UPSCALE) != 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_UPSCALE);
    }
    int32_t height = dtn_ethosu_count(m, REG_OFM_HEIGHT_M1);
    int32_t width = dtn_ethosu_count(m, REG_OFM_WIDTH_M1);
    int32_t depth = dtn_ethosu_count(m, REG_OFM_DEPTH_M1);
    fault = dtn_ethosu_work(m, (uint64_t)height * (uint64_t)width, (uint64_t)depth);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ofm_registers, height, width, depth, true, &e->out);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ifm_registers, height, width, depth, false, &e->a);
    }
    e->has_b = e->kind != LRELU && e->kind != ABS && e->kind != CLZ;
    if (fault == DTN_ETHOSU_OK && e->has_b) {
        fault = read_b(m, e);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_output(m, &e->out, &e->output);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_scales(m, e);
    }
    if (fault == DTN_ETHOSU_OK) {
        dtn_ethosu_report_accesses(
            m, &(dtn_ethosu_accesses_t){.inputs = {&e->a, e->has_b && !e->b_is_scalar ? &e->b : NULL},
                                        .out = &e->out,
                                        .made = &e->out,
                                        .output = &e->output});
    }
    return fault;
}

static int64_t sum(const elementwise_t *e, int64_t a, int64_t b)
{
    int64_t left = e->mode == A_32 ? dtn_ethosu_scaled(a, e->wide, e->wide_rounding) : a * e->a_scale;
    int64_t right = e->mode == B_32 ? dtn_ethosu_scaled(b, e->wide, e->wide_rounding) : b * e->b_scale;
    return e->kind == ADD ? left + right : left - right;
}

/* a / 2^b, rounded as the output's register selects; b is 0 to 31. */
static int64_t shifted_right(const elementwise_t *e, int64_t a, int64_t b)
{
    return dtn_ethosu_scaled(a, (dtn_ethosu_factor_t){1, (uint32_t)b & 31U}, e->output.rounding);
}

static int64_t result(const elementwise_t *e, int32_t a, int32_t b)
{
    dtn_ethosu_rounding_t rounding = e->output.rounding;
    switch (e->kind) {
    case MUL:
        return dtn_ethosu_scaled((int64_t)a * b, e->factor, rounding);
    case ADD:
    case SUB:
        return dtn_ethosu_scaled(sum(e, a, b), e->factor, rounding);
    case MIN:
        return a < b ? a : b;
    case MAX:
        return a > b ? a : b;
    case LRELU:
        return a < 0 ? dtn_ethosu_scaled(a, e->factor, rounding) : a;
    case ABS:
        return dtn_ethosu_scaled(a < 0 ? -(int64_t)a : a, e->factor, rounding);
    case CLZ:
        return dtn_ethosu_leading_zeros(a);
    case SHR:
        return shifted_right(e, a, b);
    default:
        return (int64_t)(int32_t)((uint32_t)a << ((uint32_t)b & 31U));
    }
}

/* Reads `count` channels of b from `first` on. */
static void read_second(const elementwise_t *e, int32_t y, int32_t x, int32_t first, int32_t count, int32_t *values)
{
    if (!e->has_b || e->b_is_scalar) {
        for (int32_t i = 0; i < count; i++) {
            values[i] = e->has_b ? e->scalar : 0;
        }
        return;
    }
    const uint8_t *pixel = dtn_ethosu_pixel(&e->b, e->spreads_h ? 0 : y, e->spreads_w ? 0 : x);
    dtn_ethosu_read(&e->b, pixel, e->spreads_c ? 0 : first, e->spreads_c ? 1 : count, values);
    for (int32_t i = 1; e->spreads_c && i < count; i++) {
        values[i] = values[0];
    }
}

static void pixel(const elementwise_t *e, int32_t y, int32_t x)
{
    for (int32_t first = 0; first < e->out.depth; first += CHANNELS) {
        int32_t left = e->out.depth - first;
        int32_t count = left < CHANNELS ? left : CHANNELS;
        int32_t a[CHANNELS];
        int32_t b[CHANNELS];
        dtn_ethosu_read(&e->a, dtn_ethosu_pixel(&e->a, y, x), first, count, a);
        read_second(e, y, x, first, count, b);
        for (int32_t i = 0; i < count; i++) {
            int64_t value = e->is_reversed ? result(e, b[i], a[i]) : result(e, a[i], b[i]);
            a[i] = dtn_ethosu_requantize(&e->output, value);
        }
        dtn_ethosu_write(&e->out, dtn_ethosu_pixel(&e->out, y, x), first, count, a);
    }
}

dtn_ethosu_fault_t dtn_ethosu_elementwise(dtn_ethosu_t *m)
{
    elementwise_t e = {.has_b = false};
    dtn_ethosu_fault_t fault = read_registers(m, &e);
    if (fault != DTN_ETHOSU_OK || m->is_check) {
        return fault;
    }
    for (int32_t y = 0; fault == DTN_ETHOSU_OK && y < e.out.height; y++) {
        for (int32_t x = 0; x < e.out.width; x++) {
            pixel(&e, y, x);
        }
    }
    return fault;
}
