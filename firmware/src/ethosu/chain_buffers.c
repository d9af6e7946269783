#include "chain_buffers.h"

#include <string.h>

/* Fields of the precision registers. */
enum { STORAGE_AT = 14, REVERSE_AT = 9, TURN_AT = 11 };

/* The field of the accumulator format that continues the sums of the previous operation. */
enum { KEEP_AT = 4 };

/* How an output is reversed. */
enum { REVERSE_H = 1, REVERSE_W = 2, REVERSE_C = 3 };

/* Sizes or indices of a pixel: row, column, channel. */
typedef struct {
    int32_t axes[3];
} place_t;

dtn_ethosu_storage_t dtn_ethosu_storage(const dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers)
{
    return dtn_ethosu_is_u85(m) ? (dtn_ethosu_storage_t)dtn_ethosu_field(m, registers->precision, STORAGE_AT, 2)
                                : DTN_ETHOSU_TILES_2X2;
}

void dtn_ethosu_chains_start(dtn_ethosu_t *m)
{
    if (dtn_ethosu_storage(m, &dtn_ethosu_ifm_registers) != DTN_ETHOSU_CHAINED &&
        dtn_ethosu_storage(m, &dtn_ethosu_ifm2_registers) != DTN_ETHOSU_CHAINED &&
        dtn_ethosu_field(m, REG_ACC_FORMAT, KEEP_AT, 1) == 0) {
        memset(m->chains, 0, sizeof m->chains);
        m->sums = m->chains[0];
        m->held = 0;
    }
    m->staged = 0;
    m->element_bytes = 0;
}

/* Reserves `bytes` more at the workspace's end. */
static dtn_ethosu_fault_t reserve(dtn_ethosu_t *m, uint64_t bytes)
{
    uint64_t held = m->held + (bytes + 15U) / 16U * 16U;
    if (held > SIZE_MAX || (!m->is_check && held > m->memory.workspace_bytes / 16U * 16U)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_WORKSPACE, held);
    }
    m->held = (size_t)held;
    m->needed = m->held > m->needed ? m->held : m->needed;
    return DTN_ETHOSU_OK;
}

/* Points the map to the bytes that start `before_end` before the workspace's end. */
static void place_before_end(const dtn_ethosu_t *m, uint64_t before_end, dtn_ethosu_map_t *map)
{
    map->data = m->is_check ? NULL : m->memory.workspace + (m->memory.workspace_bytes / 16U * 16U - before_end);
    memset(map->base, 0, sizeof map->base);
    map->stride_x = (int64_t)map->depth * map->bytes;
    map->stride_y = map->width * map->stride_x;
    map->brick = DTN_ETHOSU_BRICK * map->bytes;
    map->width0 = map->width;
    map->height0 = map->height;
    map->height1 = map->height;
}

static uint64_t size_of(const dtn_ethosu_map_t *map)
{
    return (uint64_t)map->height * (uint64_t)map->width * (uint64_t)map->depth * map->bytes;
}

dtn_ethosu_fault_t dtn_ethosu_reserve_map(dtn_ethosu_t *m, dtn_ethosu_map_t *map)
{
    size_t before = m->held;
    dtn_ethosu_fault_t fault = reserve(m, size_of(map));
    m->staged = m->held - before;
    place_before_end(m, m->held, map);
    return fault;
}

/* A stored tensor as a map, or memory for a new one; `detail` is the detail of faults. */
static dtn_ethosu_fault_t stored_map(dtn_ethosu_t *m, dtn_ethosu_chain_t *chain, bool is_new, uint64_t detail,
                                     dtn_ethosu_map_t *map)
{
    if (is_new) {
        dtn_ethosu_fault_t fault = reserve(m, size_of(map));
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        *chain = (dtn_ethosu_chain_t){m->held, map->height, map->width, map->depth, map->bytes};
    } else if (chain->bytes == 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_REGION, detail);
    } else if (chain->height != map->height || chain->width != map->width || chain->depth != map->depth ||
               chain->bytes != map->bytes) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_GEOMETRY, detail);
    }
    place_before_end(m, chain->before_end, map);
    return DTN_ETHOSU_OK;
}

dtn_ethosu_fault_t dtn_ethosu_chained(dtn_ethosu_t *m, uint32_t index, bool is_written, dtn_ethosu_map_t *map)
{
    if (index >= DTN_ETHOSU_CHAINS) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_REGION, index);
    }
    return stored_map(m, &m->chains[index], is_written, index, map);
}

dtn_ethosu_fault_t dtn_ethosu_kept_sums(dtn_ethosu_t *m, bool is_new, dtn_ethosu_map_t *map)
{
    return stored_map(m, &m->sums, is_new, REG_ACC_FORMAT, map);
}

bool dtn_ethosu_is_transposed(const dtn_ethosu_t *m)
{
    return dtn_ethosu_is_u85(m) && (dtn_ethosu_field(m, REG_OFM_PRECISION, TURN_AT, 3) != 0 ||
                                    dtn_ethosu_field(m, REG_OFM_PRECISION, REVERSE_AT, 2) != 0);
}

dtn_ethosu_fault_t dtn_ethosu_check_transpose(dtn_ethosu_t *m)
{
    bool is_reversed = dtn_ethosu_field(m, REG_OFM_PRECISION, REVERSE_AT, 2) != 0;
    bool is_both = is_reversed && dtn_ethosu_field(m, REG_OFM_PRECISION, TURN_AT, 3) != 0;
    if (dtn_ethosu_is_transposed(m) &&
        (is_both || dtn_ethosu_storage(m, &dtn_ethosu_ofm_registers) == DTN_ETHOSU_CHAINED)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_PRECISION);
    }
    return DTN_ETHOSU_OK;
}

/* The source axis of each output axis; false for reserved values. */
static bool axes_of(const dtn_ethosu_t *m, const uint8_t **axes)
{
    static const uint8_t turns[8][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {3}, {3}, {2, 0, 1}, {2, 1, 0}};
    *axes = turns[dtn_ethosu_field(m, REG_OFM_PRECISION, TURN_AT, 3)];
    return **axes < 3;
}

/* Index in an output of these sizes of the source element at `from`. */
static place_t transposed_place(const dtn_ethosu_t *m, const uint8_t *axes, const place_t *sizes, const place_t *from)
{
    uint32_t reverse = dtn_ethosu_field(m, REG_OFM_PRECISION, REVERSE_AT, 2);
    place_t to;
    for (uint32_t i = 0; i < 3; i++) {
        to.axes[i] = from->axes[axes[i]];
        if (reverse == i + REVERSE_H) {
            to.axes[i] = sizes->axes[i] - 1 - to.axes[i];
        }
    }
    return to;
}

static void write_transposed(const dtn_ethosu_t *m, const uint8_t *axes, const dtn_ethosu_map_t *made,
                             const dtn_ethosu_map_t *out)
{
    const place_t sizes = {{out->height, out->width, out->depth}};
    place_t at;
    for (at.axes[0] = 0; at.axes[0] < made->height; at.axes[0]++) {
        for (at.axes[1] = 0; at.axes[1] < made->width; at.axes[1]++) {
            const uint8_t *from = dtn_ethosu_pixel(made, at.axes[0], at.axes[1]);
            for (at.axes[2] = 0; at.axes[2] < made->depth; at.axes[2]++, from += made->bytes) {
                place_t to = transposed_place(m, axes, &sizes, &at);
                uint8_t *pixel = dtn_ethosu_pixel(out, to.axes[0], to.axes[1]);
                memcpy(dtn_ethosu_channel_at(out, pixel, to.axes[2]), from, out->bytes);
            }
        }
    }
}

dtn_ethosu_fault_t dtn_ethosu_write_transposed(dtn_ethosu_t *m)
{
    if (m->staged == 0) {
        return DTN_ETHOSU_OK;
    }
    const uint8_t *axes;
    if (!axes_of(m, &axes)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
    }
    const place_t sizes = {{dtn_ethosu_count(m, REG_OFM_HEIGHT_M1), dtn_ethosu_count(m, REG_OFM_WIDTH_M1),
                            dtn_ethosu_count(m, REG_OFM_DEPTH_M1)}};
    dtn_ethosu_map_t out;
    dtn_ethosu_fault_t fault = dtn_ethosu_map_in_region(m, &dtn_ethosu_ofm_registers, sizes.axes[axes[0]],
                                                        sizes.axes[axes[1]], sizes.axes[axes[2]], true, &out);
    if (fault == DTN_ETHOSU_OK && !m->is_check) {
        dtn_ethosu_map_t made = {
            .bytes = out.bytes, .height = sizes.axes[0], .width = sizes.axes[1], .depth = sizes.axes[2]};
        place_before_end(m, m->held, &made);
        write_transposed(m, axes, &made, &out);
    }
    m->held -= m->staged;
    m->staged = 0;
    return fault;
}
