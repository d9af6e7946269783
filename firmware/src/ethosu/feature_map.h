/**
 * @file
 * Feature maps: the address of each element of an input or output.
 *
 * A map has up to four tiles, each with its own address: top left (height0 rows of width0), top right (height1 rows),
 * bottom left and bottom right. Elements are in NHWC order, or in bricks of 16 channels (NHCWB16).
 */
#pragma once

#include "registers.h"

/** Channels of a brick. */
enum { DTN_ETHOSU_BRICK = 16 };

/** A checked map; all elements inside `height`, `width` and `depth` may be read, or written. */
typedef struct {
    uint8_t *data;    /**< start of the region */
    uint8_t region;   /**< its number */
    uint64_t base[4]; /**< offsets of the tiles in the region */
    int64_t stride_x;
    int64_t stride_y;
    int64_t brick; /**< stride between bricks */
    int32_t height;
    int32_t width;
    int32_t depth;
    int32_t width0;
    int32_t height0;
    int32_t height1;
    int32_t zero_point;
    uint8_t bytes; /**< bytes of an element: 1, 2 or 4; 8 for an Ethos-U85's accumulators */
    bool is_signed;
} dtn_ethosu_map_t;

/** The registers of a map. */
typedef struct {
    uint16_t base; /**< the first of four */
    uint16_t stride;
    uint16_t region;
    uint16_t width0;
    uint16_t height0;
    uint16_t height1;
    uint16_t zero_point;
    uint16_t precision;
} dtn_ethosu_map_registers_t;

/** Registers of the input, of the second input and of the output. */
extern const dtn_ethosu_map_registers_t dtn_ethosu_ifm_registers;
extern const dtn_ethosu_map_registers_t dtn_ethosu_ifm2_registers;
extern const dtn_ethosu_map_registers_t dtn_ethosu_ofm_registers;

/** Reads and checks a map of these sizes, each 1 or more; `is_written`: it must be writable. */
dtn_ethosu_fault_t dtn_ethosu_map(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers, int32_t height,
                                  int32_t width, int32_t depth, bool is_written, dtn_ethosu_map_t *map);

/** The same for a map in a region, ignoring chains and transposes. */
dtn_ethosu_fault_t dtn_ethosu_map_in_region(dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers,
                                            int32_t height, int32_t width, int32_t depth, bool is_written,
                                            dtn_ethosu_map_t *map);

/** Offset in the region of the first channel of the pixel at (y, x). */
static inline int64_t dtn_ethosu_place(const dtn_ethosu_map_t *map, int32_t y, int32_t x)
{
    uint32_t tile = 0;
    if (x >= map->width0) {
        tile = 1;
        x -= map->width0;
    }
    int32_t rows = tile == 0 ? map->height0 : map->height1;
    if (y >= rows) {
        tile += 2;
        y -= rows;
    }
    return (int64_t)map->base[tile] + y * map->stride_y + x * map->stride_x;
}

/** Address of the first channel of the pixel at (y, x). */
static inline uint8_t *dtn_ethosu_pixel(const dtn_ethosu_map_t *map, int32_t y, int32_t x)
{
    return map->data + dtn_ethosu_place(map, y, x);
}

/** Address of a channel of a pixel. */
static inline uint8_t *dtn_ethosu_channel_at(const dtn_ethosu_map_t *map, uint8_t *pixel, int32_t channel)
{
    return pixel + channel / DTN_ETHOSU_BRICK * map->brick + channel % DTN_ETHOSU_BRICK * map->bytes;
}

/** Reads `count` channels of a pixel from `first` on, minus the zero point. */
void dtn_ethosu_read(const dtn_ethosu_map_t *map, const uint8_t *pixel, int32_t first, int32_t count, int32_t *values);

/** The same for elements of 8 or 16 bits; 16-bit values have no zero point. */
void dtn_ethosu_read_short(const dtn_ethosu_map_t *map, const uint8_t *pixel, int32_t first, int32_t count,
                           int16_t *values);

/** Writes the low bits of the values to `count` channels of a pixel from `first` on. */
void dtn_ethosu_write(const dtn_ethosu_map_t *map, uint8_t *pixel, int32_t first, int32_t count, const int32_t *values);

/** The same for values of 64 bits. */
void dtn_ethosu_write_wide(const dtn_ethosu_map_t *map, uint8_t *pixel, int32_t first, int32_t count,
                           const int64_t *values);
