#include "operations.h"
#include "output_scale.h"

/* The parameter of the command. */
enum { BILINEAR = 0, REPLICATE = 1, NEAREST = 2 };

/* Channels at once, and fraction bits of results. */
enum { CHANNELS = 16, FRACTION = 16 };

/* The field of the output's precision for one factor for all channels. */
enum { IS_GLOBAL_AT = 8 };

/* Mapping of an output axis to the input's, in parts of an element. */
typedef struct {
    int32_t size;   /* size of the input */
    int32_t parts;  /* parts of an element */
    int32_t step;   /* step between outputs */
    int32_t offset; /* of the first output */
} axis_t;

/* The two input elements around an output, and its distance in parts from the first. */
typedef struct {
    int32_t low;
    int32_t high;
    int32_t part;
} place_t;

/* A checked operation. */
typedef struct {
    dtn_ethosu_map_t in;
    dtn_ethosu_map_t out;
    dtn_ethosu_output_t output;
    dtn_ethosu_factor_t factor;
    axis_t y;
    axis_t x;
    uint32_t mode;
} resize_t;

static dtn_ethosu_fault_t read_axis(dtn_ethosu_t *m, uint16_t size, uint16_t parts, uint16_t offset, uint16_t step,
                                    axis_t *axis)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(size, parts, offset));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(step));
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    axis->size = dtn_ethosu_count(m, size);
    axis->parts = (int32_t)dtn_ethosu_field(m, parts, 0, 11) + 1;
    axis->offset = (int32_t)(dtn_ethosu_field(m, offset, 0, 12) ^ 0x800U) - 0x800;
    int32_t rest = (int32_t)(dtn_ethosu_payload(m, step) & 0x7FFU);
    axis->step = (int32_t)(dtn_ethosu_payload_param(m, step) & 0xFU) * axis->parts + rest;
    if (rest >= axis->parts) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, step);
    }
    return axis->offset >= -axis->parts && axis->offset < axis->parts ? DTN_ETHOSU_OK
                                                                      : dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, offset);
}

static dtn_ethosu_fault_t read_maps(dtn_ethosu_t *m, resize_t *r)
{
    int32_t height = dtn_ethosu_count(m, REG_OFM_HEIGHT_M1);
    int32_t width = dtn_ethosu_count(m, REG_OFM_WIDTH_M1);
    int32_t depth = dtn_ethosu_count(m, REG_OFM_DEPTH_M1);
    if (depth != dtn_ethosu_count(m, REG_IFM_DEPTH_M1)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_GEOMETRY, REG_IFM_DEPTH_M1);
    }
    dtn_ethosu_fault_t fault =
        dtn_ethosu_work(m, (uint64_t)height * (uint64_t)width * (uint64_t)depth, r->mode == BILINEAR ? 4 : 1);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ifm_registers, r->y.size, r->x.size, depth, false, &r->in);
    }
    if (fault == DTN_ETHOSU_OK && r->in.bytes > 2) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ofm_registers, height, width, depth, true, &r->out);
    }
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_field(m, REG_OFM_PRECISION, IS_GLOBAL_AT, 1) == 0) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_PRECISION);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_output(m, &r->out, &r->output);
    }
    return fault == DTN_ETHOSU_OK ? dtn_ethosu_ofm_factor(m, false, &r->factor) : fault;
}

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, resize_t *r)
{
    r->mode = m->event.param & 3U;
    if (r->mode != BILINEAR && r->mode != NEAREST) {
        return dtn_ethosu_fault(m, r->mode == REPLICATE ? DTN_ETHOSU_UNSUPPORTED : DTN_ETHOSU_FIELD,
                                DTN_ETHOSU_OP_RESIZE);
    }
    dtn_ethosu_fault_t fault =
        dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_OFM_HEIGHT_M1, REG_OFM_WIDTH_M1, REG_OFM_DEPTH_M1,
                                                  REG_OFM_PRECISION, REG_IFM_DEPTH_M1, REG_IFM_UPSCALE));
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_short(m, REG_IFM_UPSCALE) != 0) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_UPSCALE);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault =
            read_axis(m, REG_KERNEL_HEIGHT_M1, REG_RESIZE_Y_SCALE_N_M1, REG_RESIZE_Y_OFFSET, REG_RESIZE_Y_STEP, &r->y);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault =
            read_axis(m, REG_KERNEL_WIDTH_M1, REG_RESIZE_X_SCALE_N_M1, REG_RESIZE_X_OFFSET, REG_RESIZE_X_STEP, &r->x);
    }
    return fault == DTN_ETHOSU_OK ? read_maps(m, r) : fault;
}

static int32_t clamped(int64_t value, int32_t size)
{
    return value < 0 ? 0 : value >= size ? size - 1 : (int32_t)value;
}

/* Position of an output; with nearest, both elements are the nearer one, the second of two equally near. */
static place_t place_of(const axis_t *axis, int32_t index, bool is_nearest)
{
    int64_t at = (int64_t)index * axis->step + axis->offset;
    int64_t low = at >= 0 ? at / axis->parts : -((axis->parts - 1 - at) / axis->parts);
    place_t place = {clamped(low, axis->size), clamped(low + 1, axis->size), (int32_t)(at - low * axis->parts)};
    if (is_nearest) {
        place.low = 2 * place.part >= axis->parts ? place.high : place.low;
    }
    return place;
}

static void pixel(const resize_t *r, int32_t oy, int32_t ox)
{
    bool is_nearest = r->mode == NEAREST;
    place_t y = place_of(&r->y, oy, is_nearest);
    place_t x = place_of(&r->x, ox, is_nearest);
    const int32_t rows[] = {y.low, y.low, y.high, y.high};
    const int32_t columns[] = {x.low, x.high, x.low, x.high};
    const int64_t parts[] = {(int64_t)(r->y.parts - y.part) * (r->x.parts - x.part),
                             (int64_t)(r->y.parts - y.part) * x.part, (int64_t)y.part * (r->x.parts - x.part),
                             (int64_t)y.part * x.part};
    for (int32_t first = 0; first < r->out.depth; first += CHANNELS) {
        int32_t count = r->out.depth - first < CHANNELS ? r->out.depth - first : CHANNELS;
        int64_t sums[CHANNELS] = {0};
        int32_t values[CHANNELS];
        for (uint32_t corner = 0; corner < (is_nearest ? 1U : 4U); corner++) {
            dtn_ethosu_read(&r->in, dtn_ethosu_pixel(&r->in, rows[corner], columns[corner]), first, count, values);
            for (int32_t i = 0; i < count; i++) {
                sums[i] += values[i] * (is_nearest ? 1 : parts[corner]);
            }
        }
        for (int32_t i = 0; i < count; i++) {
            sums[i] = dtn_ethosu_scaled(sums[i] * (INT64_C(1) << FRACTION), r->factor, r->output.rounding);
        }
        uint8_t *out = dtn_ethosu_pixel(&r->out, oy, ox);
        if (r->out.bytes == sizeof sums[0]) {
            dtn_ethosu_write_wide(&r->out, out, first, count, sums);
        } else {
            for (int32_t i = 0; i < count; i++) {
                values[i] = dtn_ethosu_requantize(&r->output, sums[i]);
            }
            dtn_ethosu_write(&r->out, out, first, count, values);
        }
    }
}

dtn_ethosu_fault_t dtn_ethosu_resize(dtn_ethosu_t *m)
{
    resize_t r;
    dtn_ethosu_fault_t fault = read_registers(m, &r);
    for (int32_t y = 0; fault == DTN_ETHOSU_OK && !m->is_check && y < r.out.height; y++) {
        for (int32_t x = 0; x < r.out.width; x++) {
            pixel(&r, y, x);
        }
    }
    return fault;
}
