#include "accumulators.h"
#include "chain_buffers.h"

#include <string.h>

/* Fields of the accumulator format, and the source of accumulators. */
enum { INPUT_AT = 4, NO_OUTPUT_AT = 6 };
enum { RESET = 0, KEEP = 1, FROM_IFM2 = 2 };

/* Channels at a time, and bytes of a sum. */
enum { CHANNELS = 16, SUM_BYTES = 8 };

dtn_ethosu_fault_t dtn_ethosu_sums(dtn_ethosu_t *m, int32_t height, int32_t width, int32_t depth,
                                   dtn_ethosu_sums_t *sums)
{
    *sums = (dtn_ethosu_sums_t){.has_output = true};
    if (!dtn_ethosu_is_u85(m)) {
        return DTN_ETHOSU_OK;
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_ACC_FORMAT));
    uint32_t from = dtn_ethosu_field(m, REG_ACC_FORMAT, INPUT_AT, 2);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (from > FROM_IFM2) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACC_FORMAT);
    }
    sums->is_started = from != RESET;
    sums->has_output = dtn_ethosu_field(m, REG_ACC_FORMAT, NO_OUTPUT_AT, 1) == 0;
    if (from == FROM_IFM2) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ifm2_registers, height, width, depth, false, &sums->start);
        if (fault == DTN_ETHOSU_OK && sums->start.bytes < 4) {
            fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM2_PRECISION);
        }
    }
    sums->kept = (dtn_ethosu_map_t){.height = height, .width = width, .depth = depth, .bytes = SUM_BYTES};
    if (fault == DTN_ETHOSU_OK && (from == KEEP || !sums->has_output)) {
        fault = dtn_ethosu_kept_sums(m, from != KEEP, &sums->kept);
    }
    if (from == KEEP) {
        sums->start = sums->kept;
    }
    return fault;
}

/* Wrapping 64-bit addition: a stream may start at any value. */
static int64_t added(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void start(const dtn_ethosu_map_t *map, const uint8_t *pixel, int32_t first, int32_t count, int64_t *values)
{
    int32_t narrow[CHANNELS];
    if (map->bytes < SUM_BYTES) {
        dtn_ethosu_read(map, pixel, first, count, narrow);
    }
    for (int32_t i = 0; i < count; i++) {
        int64_t value = map->bytes < SUM_BYTES ? narrow[i] : 0;
        if (map->bytes == SUM_BYTES) {
            memcpy(&value, dtn_ethosu_channel_at(map, (uint8_t *)(uintptr_t)pixel, first + i), sizeof value);
        }
        values[i] = added(values[i], value);
    }
}

void dtn_ethosu_sums_output(const dtn_ethosu_sums_t *sums, const dtn_ethosu_map_t *out,
                            const dtn_ethosu_output_t *output, const dtn_ethosu_channel_t *channels, int32_t y,
                            int32_t x, int32_t first, int32_t count, int64_t *values)
{
    int32_t results[CHANNELS];
    if (sums->is_started) {
        start(&sums->start, dtn_ethosu_pixel(&sums->start, y, x), first, count, values);
    }
    if (!sums->has_output) {
        dtn_ethosu_write_wide(&sums->kept, dtn_ethosu_pixel(&sums->kept, y, x), first, count, values);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        values[i] = dtn_ethosu_scaled(added(values[i], channels[i].bias), channels[i].factor, output->rounding);
    }
    uint8_t *pixel = dtn_ethosu_pixel(out, y, x);
    if (out->bytes == SUM_BYTES) {
        dtn_ethosu_write_wide(out, pixel, first, count, values);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        results[i] = dtn_ethosu_requantize(output, values[i]);
    }
    dtn_ethosu_write(out, pixel, first, count, results);
}
