#include "feature_map.h"
#include "accesses.h"
#include "chain_buffers.h"

#include <string.h>

const dtn_ethosu_map_registers_t dtn_ethosu_ifm_registers = {
    REG_IFM_BASE0,      REG_IFM_STRIDE_X,   REG_IFM_REGION,     REG_IFM_WIDTH0_M1,
    REG_IFM_HEIGHT0_M1, REG_IFM_HEIGHT1_M1, REG_IFM_ZERO_POINT, REG_IFM_PRECISION,
};
const dtn_ethosu_map_registers_t dtn_ethosu_ifm2_registers = {
    REG_IFM2_BASE0,      REG_IFM2_STRIDE_X,   REG_IFM2_REGION,     REG_IFM2_WIDTH0_M1,
    REG_IFM2_HEIGHT0_M1, REG_IFM2_HEIGHT1_M1, REG_IFM2_ZERO_POINT, REG_IFM2_PRECISION,
};
const dtn_ethosu_map_registers_t dtn_ethosu_ofm_registers = {
    REG_OFM_BASE0,      REG_OFM_STRIDE_X,   REG_OFM_REGION,     REG_OFM_WIDTH0_M1,
    REG_OFM_HEIGHT0_M1, REG_OFM_HEIGHT1_M1, REG_OFM_ZERO_POINT, REG_OFM_PRECISION,
};

/* The strides of a map: in x, in y, and from channel to channel or from brick to brick. */
enum { STRIDE_X, STRIDE_Y, STRIDE_C };

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static bool is_multiple(int64_t value, uint32_t of)
{
    return (uint64_t)value % of == 0;
}

/* True if the tile of `rows` by `columns` from `base` on is inside the region. */
static bool is_inside(const dtn_ethosu_map_t *map, uint64_t base, int32_t rows, int32_t columns, uint64_t bytes)
{
    int64_t down = (rows - 1) * map->stride_y;
    int64_t across = (columns - 1) * map->stride_x;
    int32_t last = (map->depth - 1) / DTN_ETHOSU_BRICK;
    int64_t back = last * map->brick;
    /* All bricks but the last use all channels. */
    int64_t in_last = (map->depth - last * DTN_ETHOSU_BRICK) * map->bytes;
    int64_t in_first = (last > 0 ? DTN_ETHOSU_BRICK : map->depth) * map->bytes;
    int64_t low = (int64_t)base + (down < 0 ? down : 0) + (across < 0 ? across : 0) + (back < 0 ? back : 0);
    int64_t high =
        (int64_t)base + (down > 0 ? down : 0) + (across > 0 ? across : 0) + (back > 0 ? back + in_last : in_first);
    return low >= 0 && (uint64_t)high <= bytes;
}

static dtn_ethosu_fault_t check_tiles(dtn_ethosu_t *m, const dtn_ethosu_map_t *map, uint64_t bytes)
{
    int32_t columns[2] = {min_of(map->width, map->width0), map->width - map->width0};
    int32_t heights[2] = {map->height0, map->height1};
    for (int32_t side = 0; side < 2; side++) {
        if (columns[side] <= 0) {
            continue;
        }
        int32_t rows[2] = {min_of(map->height, heights[side]), map->height - heights[side]};
        for (int32_t part = 0; part < 2; part++) {
            uint64_t base = map->base[side + 2 * part];
            if (rows[part] <= 0) {
                continue;
            }
            if (!is_multiple((int64_t)base, map->bytes)) {
                return dtn_ethosu_fault(m, DTN_ETHOSU_ALIGNMENT, base);
            }
            if (!is_inside(map, base, rows[part], columns[side], bytes)) {
                return dtn_ethosu_fault(m, DTN_ETHOSU_BOUNDS, base);
            }
        }
    }
    return DTN_ETHOSU_OK;
}

/* Fields of a precision register: signedness, size and format of an element. */
static dtn_ethosu_fault_t read_precision(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers,
                                         dtn_ethosu_map_t *map, bool *is_bricks)
{
    uint32_t size_at = registers->precision == REG_OFM_PRECISION ? 1 : 2;
    uint32_t size = dtn_ethosu_field(m, registers->precision, size_at, 2);
    uint32_t format = dtn_ethosu_field(m, registers->precision, 6, 2);
    map->is_signed = dtn_ethosu_field(m, registers->precision, 0, 1) != 0;
    map->bytes = (uint8_t)(1U << size);
    *is_bricks = format == 1;
    if (size > (dtn_ethosu_is_u85(m) ? 3U : 2U) || format > 1) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, registers->precision);
    }
    return DTN_ETHOSU_OK;
}

/* Zero points have 16 bits, and the sign of their type. 32-bit inputs have none; outputs before a table do.
 */
static dtn_ethosu_fault_t read_zero_point(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers,
                                          dtn_ethosu_map_t *map)
{
    uint32_t word = dtn_ethosu_short(m, registers->zero_point);
    map->zero_point = map->is_signed ? (int32_t)(int16_t)word : (int32_t)word;
    int32_t most = map->is_signed ? 127 : 255;
    int32_t least_point = map->is_signed ? -128 : 0;
    bool fits = map->bytes == 1 ? map->zero_point >= least_point && map->zero_point <= most
                                : map->bytes == 2 || registers->base == REG_OFM_BASE0 || map->zero_point == 0;
    return fits ? DTN_ETHOSU_OK : dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, registers->zero_point);
}

/* Reads the registers of a map's type. */
static dtn_ethosu_fault_t read_type(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers, bool *is_bricks,
                                    dtn_ethosu_map_t *map)
{
    dtn_ethosu_fault_t fault =
        dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(registers->region, registers->zero_point, registers->precision));
    if (fault == DTN_ETHOSU_OK) {
        fault = read_precision(m, registers, map, is_bricks);
    }
    return fault == DTN_ETHOSU_OK ? read_zero_point(m, registers, map) : fault;
}

static dtn_ethosu_fault_t check_set(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers)
{
    dtn_ethosu_fault_t fault =
        dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(registers->width0, registers->height0, registers->height1));
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    uint16_t base = registers->base;
    uint16_t stride = registers->stride;
    return dtn_ethosu_need_longs(m,
                                 DTN_ETHOSU_LIST(base, (uint16_t)(base + 1), (uint16_t)(base + 2), (uint16_t)(base + 3),
                                                 stride, (uint16_t)(stride + 1), (uint16_t)(stride + 2)));
}

dtn_ethosu_fault_t dtn_ethosu_map(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers, int32_t height,
                                  int32_t width, int32_t depth, bool is_written, dtn_ethosu_map_t *map)
{
    dtn_ethosu_storage_t storage = dtn_ethosu_storage(m, registers);
    bool is_staged = is_written && storage == DTN_ETHOSU_TILES_2X2 && dtn_ethosu_is_transposed(m);
    if (storage != DTN_ETHOSU_CHAINED && !is_staged) {
        return dtn_ethosu_map_in_region(m, registers, height, width, depth, is_written, map);
    }
    bool is_bricks = false;
    dtn_ethosu_fault_t fault = read_type(m, registers, &is_bricks, map);
    if (fault == DTN_ETHOSU_OK && is_written) {
        fault = dtn_ethosu_check_transpose(m);
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    map->height = height;
    map->width = width;
    map->depth = depth;
    return is_staged ? dtn_ethosu_reserve_map(m, map)
                     : dtn_ethosu_chained(m, dtn_ethosu_short(m, registers->region), is_written, map);
}

dtn_ethosu_fault_t dtn_ethosu_map_in_region(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers,
                                            int32_t height, int32_t width, int32_t depth, bool is_written,
                                            dtn_ethosu_map_t *map)
{
    bool is_bricks = false;
    dtn_ethosu_fault_t fault = read_type(m, registers, &is_bricks, map);
    if (fault == DTN_ETHOSU_OK) {
        fault = check_set(m, registers);
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (dtn_ethosu_storage(m, registers) != DTN_ETHOSU_TILES_2X2) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_TILES, registers->precision);
    }
    const dtn_ethosu_region_t *region = dtn_ethosu_region(m, dtn_ethosu_short(m, registers->region));
    if (region == NULL) {
        return DTN_ETHOSU_REGION;
    }
    if (is_written && region->is_read_only) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_READ_ONLY, dtn_ethosu_short(m, registers->region));
    }
    map->data = region->data;
    map->region = (uint8_t)dtn_ethosu_short(m, registers->region);
    map->height = height;
    map->width = width;
    map->depth = depth;
    map->width0 = dtn_ethosu_count(m, registers->width0);
    map->height0 = dtn_ethosu_count(m, registers->height0);
    map->height1 = dtn_ethosu_count(m, registers->height1);
    map->stride_y = dtn_ethosu_stride(m, (uint32_t)registers->stride + STRIDE_Y);
    map->stride_x = dtn_ethosu_stride(m, (uint32_t)registers->stride + STRIDE_X);
    map->brick = dtn_ethosu_stride(m, (uint32_t)registers->stride + STRIDE_C);
    /* Channels of a brick are contiguous, and so are all channels of NHWC. */
    if (is_bricks) {
        map->stride_x = DTN_ETHOSU_BRICK * map->bytes;
    } else {
        map->brick = DTN_ETHOSU_BRICK * map->bytes;
    }
    /* Bricks do not overlap. */
    if (depth > DTN_ETHOSU_BRICK && map->brick > -DTN_ETHOSU_BRICK * map->bytes &&
        map->brick < DTN_ETHOSU_BRICK * map->bytes) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, registers->stride);
    }
    if (!is_multiple(map->stride_y, map->bytes) || !is_multiple(map->stride_x, map->bytes) ||
        !is_multiple(map->brick, map->bytes)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_ALIGNMENT, registers->stride);
    }
    /* Written pixels do not overlap. */
    if (is_written && ((map->stride_x == 0 && width > 1) || (map->stride_y == 0 && height > 1))) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, registers->stride);
    }
    for (uint32_t i = 0; i < 4; i++) {
        map->base[i] = dtn_ethosu_address(m, (uint32_t)registers->base + i);
    }
    fault = check_tiles(m, map, region->bytes);
    if (fault == DTN_ETHOSU_OK && is_written && height == 1 && width == 1 && depth == 1) {
        m->element = m->is_check ? NULL : dtn_ethosu_pixel(map, 0, 0);
        m->element_bytes = map->bytes;
    }
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_is_u85(m)) {
        uint32_t part = registers == &dtn_ethosu_ifm_registers    ? DTN_ETHOSU_PART_INPUT
                        : registers == &dtn_ethosu_ifm2_registers ? DTN_ETHOSU_PART_SECOND_INPUT
                                                                  : DTN_ETHOSU_PART_OUTPUT;
        dtn_ethosu_report_accesses(m,
                                   &(dtn_ethosu_accesses_t){.need = &(dtn_ethosu_range_t){.part = part, .map = map}});
    }
    return fault;
}

/* Number of contiguous elements of a pixel from channel `first` on, at most `count`. */
static int32_t run(const dtn_ethosu_map_t *map, int32_t first, int32_t count)
{
    /* If bricks are contiguous, as in NHWC, all elements are. */
    if (map->brick == DTN_ETHOSU_BRICK * map->bytes) {
        return count;
    }
    return min_of(count, DTN_ETHOSU_BRICK - first % DTN_ETHOSU_BRICK);
}

static const uint8_t *channel(const dtn_ethosu_map_t *map, const uint8_t *pixel, int32_t index)
{
    return pixel + index / DTN_ETHOSU_BRICK * map->brick + index % DTN_ETHOSU_BRICK * map->bytes;
}

static int32_t element(const dtn_ethosu_map_t *map, const uint8_t *at)
{
    if (map->bytes == 1) {
        return map->is_signed ? (int8_t)at[0] : at[0];
    }
    if (map->bytes == 2) {
        uint16_t value;
        memcpy(&value, at, sizeof value);
        return map->is_signed ? (int16_t)value : value;
    }
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

void dtn_ethosu_read(const dtn_ethosu_map_t *map, const uint8_t *pixel, int32_t first, int32_t count, int32_t *values)
{
    for (int32_t done = 0; done < count;) {
        int32_t length = run(map, first + done, count - done);
        const uint8_t *at = channel(map, pixel, first + done);
        for (int32_t i = 0; i < length; i++) {
            values[done + i] = (int32_t)((uint32_t)element(map, at + i * map->bytes) - (uint32_t)map->zero_point);
        }
        done += length;
    }
}

static void widen_signed(const int8_t *restrict at, int32_t count, int32_t zero_point, int16_t *restrict values)
{
    for (int32_t i = 0; i < count; i++) {
        values[i] = (int16_t)(at[i] - zero_point);
    }
}

static void widen_unsigned(const uint8_t *restrict at, int32_t count, int32_t zero_point, int16_t *restrict values)
{
    for (int32_t i = 0; i < count; i++) {
        values[i] = (int16_t)(at[i] - zero_point);
    }
}

void dtn_ethosu_read_short(const dtn_ethosu_map_t *map, const uint8_t *pixel, int32_t first, int32_t count,
                           int16_t *values)
{
    for (int32_t done = 0; done < count;) {
        int32_t length = run(map, first + done, count - done);
        const uint8_t *at = channel(map, pixel, first + done);
        if (map->bytes == 2) {
            memcpy(values + done, at, (size_t)length * sizeof *values);
        } else if (map->is_signed) {
            widen_signed((const int8_t *)at, length, map->zero_point, values + done);
        } else {
            widen_unsigned(at, length, map->zero_point, values + done);
        }
        done += length;
    }
}

void dtn_ethosu_write(const dtn_ethosu_map_t *map, uint8_t *pixel, int32_t first, int32_t count, const int32_t *values)
{
    for (int32_t done = 0; done < count;) {
        int32_t length = run(map, first + done, count - done);
        uint8_t *at = (uint8_t *)(uintptr_t)channel(map, pixel, first + done);
        for (int32_t i = 0; i < length; i++) {
            uint32_t value = (uint32_t)values[done + i];
            if (map->bytes == 1) {
                at[i] = (uint8_t)value;
            } else if (map->bytes == 2) {
                uint16_t narrow = (uint16_t)value;
                memcpy(at + 2 * i, &narrow, sizeof narrow);
            } else {
                memcpy(at + 4 * i, &value, sizeof value);
            }
        }
        done += length;
    }
}

void dtn_ethosu_write_wide(const dtn_ethosu_map_t *map, uint8_t *pixel, int32_t first, int32_t count,
                           const int64_t *values)
{
    for (int32_t i = 0; i < count; i++) {
        memcpy(dtn_ethosu_channel_at(map, pixel, first + i), &values[i], sizeof values[i]);
    }
}
