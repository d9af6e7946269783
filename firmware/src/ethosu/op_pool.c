#include "accesses.h"
#include "accumulators.h"
#include "operations.h"

#include <string.h>

/* The parameter of the command; an Ethos-U85 has all of them, other NPUs the first three. */
enum { MAXIMUM = 0, AVERAGE = 1, SUM_OF_CHANNELS = 2, SUM = 3, RESTORED = 4, MINIMUM = 5 };

/* Channels at a time. */
enum { CHANNELS = 16 };

/* The field of the accumulator format that says where the accumulators start and end, and the bit for another start
 * than those of the operation before. */
enum { SUMS_AT = 4, SUMS_BITS = 3, FROM_ELSEWHERE = 2 };

/* A checked pool. */
typedef struct {
    dtn_ethosu_geometry_t geometry;
    dtn_ethosu_map_t input;
    dtn_ethosu_map_t out;
    dtn_ethosu_output_t output;
    dtn_ethosu_sums_t sums;
    dtn_ethosu_factor_t factor;
    uint32_t kind;
    bool is_mean; /* the NPU divides by the number of positions inside the map */
} pool_t;

static bool is_extremum(const pool_t *pool)
{
    return pool->kind == MAXIMUM || pool->kind == MINIMUM;
}

static dtn_ethosu_fault_t read_factor_85(dtn_ethosu_t *m, pool_t *pool)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_ACC_FORMAT));
    pool->is_mean = pool->kind == AVERAGE;
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    /* Per-channel scales and accumulators of a map are for other operations. */
    if ((dtn_ethosu_field(m, REG_ACC_FORMAT, SUMS_AT, SUMS_BITS) & FROM_ELSEWHERE) != 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_ACC_FORMAT);
    }
    if (dtn_ethosu_field(m, REG_OFM_PRECISION, 8, 1) == 0 || pool->out.bytes > 4) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_PRECISION);
    }
    if (pool->input.bytes > 4) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    }
    fault = dtn_ethosu_ofm_factor(m, false, &pool->factor);
    bool is_one = pool->factor.scale == (int64_t)(UINT64_C(1) << pool->factor.shift);
    if (pool->geometry.kernel_h == 1 && pool->geometry.kernel_w == 1) {
        pool->is_mean = false;
    }
    /* Where a mean's additional scaling rounds is not publicly documented. */
    if (fault == DTN_ETHOSU_OK && pool->is_mean && !is_one) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_SCALE);
    }
    return fault;
}

static dtn_ethosu_fault_t read_factor(dtn_ethosu_t *m, pool_t *pool)
{
    if (dtn_ethosu_is_u85(m)) {
        return read_factor_85(m, pool);
    }
    bool is_global = dtn_ethosu_field(m, REG_OFM_PRECISION, 8, 1) != 0;
    pool->factor = (dtn_ethosu_factor_t){1, 0};
    pool->is_mean = pool->kind == AVERAGE && !is_global;
    if (!is_global) {
        return DTN_ETHOSU_OK;
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_ofm_factor(m, false, &pool->factor);
    /* With padding the number of positions differs between windows, and the factor is 1. */
    pool->is_mean =
        pool->kind == AVERAGE && pool->geometry.has_pads && pool->factor.scale == 1 && pool->factor.shift == 0;
    return fault;
}

static dtn_ethosu_fault_t read_pool(dtn_ethosu_t *m, pool_t *pool)
{
    pool->kind = m->event.param & 7U;
    if (pool->kind > SUM_OF_CHANNELS && !dtn_ethosu_is_u85(m)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, DTN_ETHOSU_OP_POOL);
    }
    if (pool->kind > MINIMUM || pool->kind == RESTORED) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_ARGMAX, DTN_ETHOSU_OP_POOL);
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_geometry(m, pool->kind == SUM_OF_CHANNELS, &pool->geometry);
    const dtn_ethosu_geometry_t *g = &pool->geometry;
    if (fault == DTN_ETHOSU_OK && g->out_c != (pool->kind == SUM_OF_CHANNELS ? 1 : g->in_c)) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_GEOMETRY, REG_OFM_DEPTH_M1);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_input(m, g, g->in_c, &pool->input);
    }
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_is_u85(m) && !is_extremum(pool) &&
        dtn_ethosu_field(m, REG_ACC_FORMAT, SUMS_AT, SUMS_BITS) != 0) { /* only extrema of several operations */
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_ACC_FORMAT);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_sums(m, g->out_h, g->out_w, g->out_c, &pool->sums);
    }
    if (fault == DTN_ETHOSU_OK && pool->sums.has_output) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ofm_registers, g->out_h, g->out_w, g->out_c, true, &pool->out);
    }
    if (fault == DTN_ETHOSU_OK && pool->sums.has_output) {
        fault = dtn_ethosu_output(m, &pool->out, &pool->output);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_factor(m, pool);
    }
    if (fault == DTN_ETHOSU_OK) {
        dtn_ethosu_report_accesses(m, &(dtn_ethosu_accesses_t){.inputs = {&pool->input},
                                                               .out = &pool->out,
                                                               .made = &pool->out,
                                                               .geometry = g,
                                                               .output = &pool->output});
    }
    return fault;
}

/* 1 / count, as in TOSA's average pools: the scale is at most 2^31. */
static dtn_ethosu_factor_t reciprocal(uint32_t count)
{
    uint32_t bits = 0;
    while (bits < 31 && (UINT32_C(1) << bits) < count) {
        bits++;
    }
    uint64_t numerator = ((UINT64_C(1) << 30) + 1U) << bits;
    return (dtn_ethosu_factor_t){(int64_t)(numerator / count), 30 + bits};
}

/* Start values of a window's channels: an extremum without positions inside the map is beyond all values. */
static void start(const pool_t *pool, int32_t oy, int32_t ox, int32_t first, int32_t count, int64_t *sums)
{
    for (int32_t i = 0; i < count; i++) {
        sums[i] = pool->kind == MAXIMUM ? INT32_MIN : pool->kind == MINIMUM ? INT32_MAX : 0;
    }
    if (pool->sums.is_started) {
        const dtn_ethosu_map_t *kept = &pool->sums.start; /* dense */
        const uint8_t *pixel = dtn_ethosu_channel_at(kept, dtn_ethosu_pixel(kept, oy, ox), first);
        memcpy(sums, pixel, (size_t)count * sizeof *sums);
    }
}

/* Sums, or extrema, of a window's channels from `first` on; returns the number of positions inside the map. */
static uint32_t gather(const pool_t *pool, int32_t oy, int32_t ox, int32_t first, int32_t count, int64_t *sums)
{
    const dtn_ethosu_geometry_t *g = &pool->geometry;
    uint32_t positions = 0;
    for (int32_t ky = 0; ky < g->kernel_h; ky++) {
        for (int32_t kx = 0; kx < g->kernel_w; kx++) {
            const uint8_t *pixel = dtn_ethosu_window_pixel(g, &pool->input, oy, ox, ky, kx);
            int32_t values[CHANNELS];
            if (pixel == NULL) {
                continue;
            }
            dtn_ethosu_read(&pool->input, pixel, first, count, values);
            for (int32_t i = 0; i < count; i++) {
                if (!is_extremum(pool)) {
                    sums[i] += values[i];
                } else if (pool->kind == MAXIMUM ? values[i] > sums[i] : values[i] < sums[i]) {
                    sums[i] = values[i];
                }
            }
            positions++;
        }
    }
    return positions;
}

/* Sums all channels of a pixel. */
static void sum_channels(const pool_t *pool, int32_t oy, int32_t ox)
{
    int64_t sum = 0;
    for (int32_t first = 0; first < pool->geometry.in_c; first += CHANNELS) {
        int32_t left = pool->geometry.in_c - first;
        int32_t count = left < CHANNELS ? left : CHANNELS;
        int64_t sums[CHANNELS] = {0};
        (void)gather(pool, oy, ox, first, count, sums);
        for (int32_t i = 0; i < count; i++) {
            sum += sums[i];
        }
    }
    int32_t value = dtn_ethosu_requantize(&pool->output, dtn_ethosu_scaled(sum, pool->factor, pool->output.rounding));
    dtn_ethosu_write(&pool->out, dtn_ethosu_pixel(&pool->out, oy, ox), 0, 1, &value);
}

static void pool_pixel(const pool_t *pool, int32_t oy, int32_t ox)
{
    const dtn_ethosu_map_t *map = pool->sums.has_output ? &pool->out : &pool->sums.kept;
    uint8_t *out = dtn_ethosu_pixel(map, oy, ox);
    for (int32_t first = 0; first < pool->geometry.out_c; first += CHANNELS) {
        int32_t left = pool->geometry.out_c - first;
        int32_t count = left < CHANNELS ? left : CHANNELS;
        int64_t sums[CHANNELS];
        int32_t values[CHANNELS];
        start(pool, oy, ox, first, count, sums);
        uint32_t positions = gather(pool, oy, ox, first, count, sums);
        if (!pool->sums.has_output) {
            dtn_ethosu_write_wide(map, out, first, count, sums);
            continue;
        }
        dtn_ethosu_factor_t factor = pool->is_mean ? reciprocal(positions > 0 ? positions : 1) : pool->factor;
        for (int32_t i = 0; i < count; i++) {
            values[i] = dtn_ethosu_requantize(&pool->output, dtn_ethosu_scaled(sums[i], factor, pool->output.rounding));
        }
        dtn_ethosu_write(&pool->out, out, first, count, values);
    }
}

dtn_ethosu_fault_t dtn_ethosu_pool(dtn_ethosu_t *m)
{
    pool_t pool = {.kind = MAXIMUM};
    if (dtn_ethosu_is_u85(m) && (m->event.param & 7U) == RESTORED) {
        return dtn_ethosu_restore(m);
    }
    dtn_ethosu_fault_t fault = read_pool(m, &pool);
    if (fault != DTN_ETHOSU_OK || m->is_check) {
        return fault;
    }
    for (int32_t oy = 0; fault == DTN_ETHOSU_OK && oy < pool.geometry.out_h; oy++) {
        for (int32_t ox = 0; ox < pool.geometry.out_w; ox++) {
            if (pool.kind == SUM_OF_CHANNELS) {
                sum_channels(&pool, oy, ox);
            } else {
                pool_pixel(&pool, oy, ox);
            }
        }
    }
    return fault;
}
