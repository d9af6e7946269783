#include "operations.h"
#include "scale.h"

/* Channels at a time. */
enum { CHANNELS = 16 };

/* Where accumulators come from, and whether they are put out. */
enum { FROM_IFM2 = 2, INPUT_AT = 4, NO_OUTPUT_AT = 6, IS_GLOBAL_AT = 8 };

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, dtn_eu_map_t *in, dtn_eu_map_t *out, dtn_eu_output_t *output,
                                         dtn_eu_factor_t *factor)
{
    dtn_ethosu_fault_t fault =
        dtn_eu_need_shorts(m, DTN_EU_LIST(REG_OFM_HEIGHT_M1, REG_OFM_WIDTH_M1, REG_OFM_DEPTH_M1, REG_OFM_PRECISION,
                                          REG_IFM2_PRECISION, REG_ACC_FORMAT));
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (dtn_eu_field(m, REG_ACC_FORMAT, INPUT_AT, 2) != FROM_IFM2 ||
        dtn_eu_field(m, REG_ACC_FORMAT, NO_OUTPUT_AT, 1) != 0) {
        return dtn_eu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_ACC_FORMAT);
    }
    if (dtn_eu_field(m, REG_OFM_PRECISION, IS_GLOBAL_AT, 1) == 0) {
        return dtn_eu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_PRECISION);
    }
    int32_t height = dtn_eu_count(m, REG_OFM_HEIGHT_M1);
    int32_t width = dtn_eu_count(m, REG_OFM_WIDTH_M1);
    int32_t depth = dtn_eu_count(m, REG_OFM_DEPTH_M1);
    fault = dtn_eu_work(m, (uint64_t)height * (uint64_t)width * (uint64_t)depth, 1);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_eu_map(m, &dtn_eu_ifm2_registers, height, width, depth, false, in);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_eu_map(m, &dtn_eu_ofm_registers, height, width, depth, true, out);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_eu_output(m, out, output);
    }
    return fault == DTN_ETHOSU_OK ? dtn_eu_ofm_factor(m, false, factor) : fault;
}

dtn_ethosu_fault_t dtn_eu_restore(dtn_ethosu_t *m)
{
    dtn_eu_map_t in;
    dtn_eu_map_t out;
    dtn_eu_output_t output;
    dtn_eu_factor_t factor;
    dtn_ethosu_fault_t fault = read_registers(m, &in, &out, &output, &factor);
    if (fault != DTN_ETHOSU_OK || m->is_check) {
        return fault;
    }
    for (int32_t i = 0; i < out.height * out.width; i++) {
        int32_t y = i / out.width;
        int32_t x = i % out.width;
        for (int32_t first = 0; first < out.depth; first += CHANNELS) {
            int32_t left = out.depth - first;
            int32_t count = left < CHANNELS ? left : CHANNELS;
            int32_t values[CHANNELS];
            dtn_eu_read(&in, dtn_eu_pixel(&in, y, x), first, count, values);
            for (int32_t c = 0; c < count; c++) {
                values[c] = dtn_eu_finished(&output, dtn_eu_scaled(values[c], factor, output.rounding));
            }
            dtn_eu_write(&out, dtn_eu_pixel(&out, y, x), first, count, values);
        }
    }
    return DTN_ETHOSU_OK;
}
