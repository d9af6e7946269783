#include "operations.h"
#include "weighted_layer.h"

/* Channels at a time. */
enum { CHANNELS = 16 };

/* The field of the output's precision for one factor for all channels. */
enum { IS_GLOBAL_AT = 8 };

/* A checked operation. */
typedef struct {
    dtn_ethosu_map_t out;
    dtn_ethosu_output_t output;
    dtn_ethosu_sums_t sums;
    dtn_ethosu_factor_t factor;
    const uint8_t *scales; /* of the channels, if they have their own */
    bool is_global;
    bool is_wide;
} restore_t;

static dtn_ethosu_fault_t read_scales(dtn_ethosu_t *m, int32_t depth, restore_t *r)
{
    r->is_wide = dtn_ethosu_field(m, REG_ACC_FORMAT, 0, 2) == 1;
    r->is_global = dtn_ethosu_field(m, REG_OFM_PRECISION, IS_GLOBAL_AT, 1) != 0;
    if (r->is_global) {
        return dtn_ethosu_ofm_factor(m, false, &r->factor);
    }
    size_t count = 0;
    dtn_ethosu_fault_t fault =
        dtn_ethosu_read_bytes(m, REG_SCALE_REGION, REG_SCALE_BASE, REG_SCALE_LENGTH, &r->scales, &count);
    if (fault == DTN_ETHOSU_OK && count < (size_t)depth * DTN_ETHOSU_SCALE_BYTES) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_SCALES, REG_SCALE_LENGTH);
    }
    return fault;
}

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, const int32_t *sizes, restore_t *r)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_work(m, (uint64_t)sizes[0] * (uint64_t)sizes[1] * (uint64_t)sizes[2], 1);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_sums(m, sizes[0], sizes[1], sizes[2], &r->sums);
    }
    if (fault != DTN_ETHOSU_OK || !r->sums.has_output) {
        return fault;
    }
    fault = dtn_ethosu_map(m, &dtn_ethosu_ofm_registers, sizes[0], sizes[1], sizes[2], true, &r->out);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_output(m, &r->out, &r->output);
    }
    return fault == DTN_ETHOSU_OK ? read_scales(m, sizes[2], r) : fault;
}

static void pixel(const restore_t *r, int32_t y, int32_t x, int32_t depth)
{
    for (int32_t first = 0; first < depth; first += CHANNELS) {
        int32_t count = depth - first < CHANNELS ? depth - first : CHANNELS;
        int64_t values[CHANNELS] = {0};
        dtn_ethosu_channel_t channels[CHANNELS];
        for (int32_t i = 0; i < count && r->sums.has_output; i++) {
            channels[i] =
                r->is_global
                    ? (dtn_ethosu_channel_t){0, r->factor}
                    : dtn_ethosu_channel_of_85(r->scales + (size_t)(first + i) * DTN_ETHOSU_SCALE_BYTES, r->is_wide);
        }
        dtn_ethosu_sums_output(&r->sums, &r->out, &r->output, channels, y, x, first, count, values);
    }
}

dtn_ethosu_fault_t dtn_ethosu_restore(dtn_ethosu_t *m)
{
    restore_t r;
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(
        m, DTN_ETHOSU_LIST(REG_OFM_HEIGHT_M1, REG_OFM_WIDTH_M1, REG_OFM_DEPTH_M1, REG_OFM_PRECISION, REG_ACC_FORMAT));
    const int32_t sizes[3] = {dtn_ethosu_count(m, REG_OFM_HEIGHT_M1), dtn_ethosu_count(m, REG_OFM_WIDTH_M1),
                              dtn_ethosu_count(m, REG_OFM_DEPTH_M1)};
    if (fault == DTN_ETHOSU_OK) {
        fault = read_registers(m, sizes, &r);
    }
    for (int32_t y = 0; fault == DTN_ETHOSU_OK && !m->is_check && y < sizes[0]; y++) {
        for (int32_t x = 0; x < sizes[1]; x++) {
            pixel(&r, y, x, sizes[2]);
        }
    }
    return fault;
}
