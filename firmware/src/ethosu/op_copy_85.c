#include "accesses.h"
#include "operations.h"
#include "registers.h"

#include <string.h>

/* Fields of a region register: the dimensions of the copy, and whether indices select the rows. */
enum { DIMENSIONS_AT = 9, INDEXED_AT = 11, INDEX_BYTES = 4 };

/* Limit of strides, above any memory size. */
#define MOST_STRIDE (UINT64_C(1) << 32)

/* One side of a copy: source or target. */
typedef struct {
    uint16_t region;
    uint16_t address;
    uint16_t strides;
    bool is_indexed; /* a row's offset is its index times the first stride */
    uint64_t row;    /* stride between rows */
    uint64_t plane;
    uint8_t *bytes;
} side_t;

/* A checked copy: planes of rows. */
typedef struct {
    side_t from;
    side_t to;
    uint64_t length; /* of a row */
    uint64_t rows;
    uint64_t planes;
    const uint8_t *indices; /* a 32-bit index for each row */
    uint64_t skip;          /* gap after the indices of a plane */
    uint32_t most;          /* the largest index */
} copy_t;

static dtn_ethosu_fault_t read_strides(dtn_ethosu_t *m, uint32_t dimensions, side_t *side)
{
    side->is_indexed = dtn_ethosu_field(m, side->region, INDEXED_AT, 1) != 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint16_t stride = (uint16_t)(side->strides + i);
        if (dimensions <= i && !(i == 0 && side->is_indexed)) {
            continue;
        }
        dtn_ethosu_fault_t fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(stride));
        uint64_t value = dtn_ethosu_address(m, stride);
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        if (value > MOST_STRIDE) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_BOUNDS, value);
        }
        side->row = i == 0 ? value : side->row;
        side->plane = i == 1 ? value : side->plane;
    }
    return DTN_ETHOSU_OK;
}

static dtn_ethosu_fault_t read_indices(dtn_ethosu_t *m, uint32_t dimensions, copy_t *copy)
{
    if (!copy->from.is_indexed && !copy->to.is_indexed) {
        return DTN_ETHOSU_OK;
    }
    if (copy->from.is_indexed && copy->to.is_indexed) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_DST_REGION);
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_DMA0_IDX_REGION));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_DMA0_IDX, REG_DMA0_IDX_MAX));
    }
    if (fault == DTN_ETHOSU_OK && dimensions == 2) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_DMA0_IDX_SKIP1));
        copy->skip = dtn_ethosu_address(m, REG_DMA0_IDX_SKIP1);
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (copy->skip > MOST_STRIDE) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_BOUNDS, copy->skip);
    }
    /* Unlike source and target, indices use only the bits of a region. */
    uint32_t region = dtn_ethosu_short(m, REG_DMA0_IDX_REGION);
    if (region >= DTN_ETHOSU_REGIONS) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_IDX_REGION);
    }
    copy->most = dtn_ethosu_payload(m, REG_DMA0_IDX_MAX) & INT32_MAX;
    uint64_t reach = copy->planes * copy->rows * INDEX_BYTES + (copy->planes - 1) * copy->skip;
    copy->indices = dtn_ethosu_copy_side(m, REG_DMA0_IDX_REGION, REG_DMA0_IDX, reach, false, &fault);
    if (fault == DTN_ETHOSU_OK) {
        dtn_ethosu_report_bytes(m, DTN_ETHOSU_PART_SECOND_INPUT, region, dtn_ethosu_address(m, REG_DMA0_IDX), reach);
    }
    return fault;
}

static dtn_ethosu_fault_t read_sizes(dtn_ethosu_t *m, uint32_t dimensions, copy_t *copy)
{
    /* A copy of one row ignores the number of rows, which older releases of Vela leave unset. */
    const uint32_t is_indexed = dtn_ethosu_field(m, REG_DMA0_SRC_REGION, INDEXED_AT, 1) |
                                dtn_ethosu_field(m, REG_DMA0_DST_REGION, INDEXED_AT, 1);
    const bool has_rows = dimensions > 0 || is_indexed != 0;
    dtn_ethosu_fault_t fault = has_rows ? dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_DMA0_SIZE0)) : DTN_ETHOSU_OK;
    if (fault == DTN_ETHOSU_OK && dimensions == 2) {
        fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_DMA0_SIZE1));
    }
    copy->length = dtn_ethosu_address(m, REG_DMA0_LEN);
    copy->rows = has_rows ? dtn_ethosu_short(m, REG_DMA0_SIZE0) : 1;
    copy->planes = dimensions == 2 ? dtn_ethosu_short(m, REG_DMA0_SIZE1) : 1;
    if (fault == DTN_ETHOSU_OK && (copy->rows == 0 || copy->planes == 0)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, copy->rows == 0 ? REG_DMA0_SIZE0 : REG_DMA0_SIZE1);
    }
    /* Any number of empty rows is no work. */
    if (fault == DTN_ETHOSU_OK && copy->length == 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_LEN);
    }
    return fault == DTN_ETHOSU_OK ? dtn_ethosu_work(m, copy->rows * copy->planes, copy->length) : fault;
}

/* Upper bound of the end of a side. */
static uint64_t reach_of(const copy_t *copy, const side_t *side)
{
    uint64_t last = side->is_indexed ? copy->most : copy->rows - 1;
    return (copy->planes - 1) * side->plane + last * side->row + copy->length;
}

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, copy_t *copy)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_DMA0_SRC_REGION, REG_DMA0_DST_REGION));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_DMA0_SRC, REG_DMA0_DST, REG_DMA0_LEN));
    }
    uint32_t dimensions = dtn_ethosu_field(m, REG_DMA0_SRC_REGION, DIMENSIONS_AT, 2);
    if (fault == DTN_ETHOSU_OK && dimensions > 2) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_SRC_REGION);
    }
    /* The source register has the dimensions for both sides. */
    if (fault == DTN_ETHOSU_OK && dtn_ethosu_field(m, REG_DMA0_DST_REGION, DIMENSIONS_AT, 2) != 0) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_DST_REGION);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_sizes(m, dimensions, copy);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_strides(m, dimensions, &copy->from);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_strides(m, dimensions, &copy->to);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_indices(m, dimensions, copy);
    }
    side_t *sides[] = {&copy->from, &copy->to};
    for (uint32_t i = 0; i < 2 && fault == DTN_ETHOSU_OK; i++) {
        sides[i]->bytes =
            dtn_ethosu_copy_side(m, sides[i]->region, sides[i]->address, reach_of(copy, sides[i]), i == 1, &fault);
    }
    return fault;
}

static dtn_ethosu_fault_t copy_row(dtn_ethosu_t *m, const copy_t *copy, uint64_t plane, uint64_t row)
{
    uint32_t index = 0;
    if (copy->indices != NULL) {
        uint64_t at = (plane * copy->rows + row) * INDEX_BYTES + plane * copy->skip;
        memcpy(&index, copy->indices + at, sizeof index);
        if (index > copy->most) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_INDEX, index);
        }
    }
    const side_t *from = &copy->from;
    const side_t *to = &copy->to;
    memmove(to->bytes + plane * to->plane + (to->is_indexed ? index : row) * to->row,
            from->bytes + plane * from->plane + (from->is_indexed ? index : row) * from->row, (size_t)copy->length);
    return DTN_ETHOSU_OK;
}

static dtn_ethosu_side_t access_side(const copy_t *copy, const side_t *side)
{
    return (dtn_ethosu_side_t){side->row, side->plane, reach_of(copy, side), side->is_indexed};
}

dtn_ethosu_fault_t dtn_ethosu_copy_85(dtn_ethosu_t *m)
{
    copy_t copy = {.from = {.region = REG_DMA0_SRC_REGION, .address = REG_DMA0_SRC, .strides = REG_DMA0_SRC_STRIDE0},
                   .to = {.region = REG_DMA0_DST_REGION, .address = REG_DMA0_DST, .strides = REG_DMA0_DST_STRIDE0}};
    dtn_ethosu_fault_t fault = read_registers(m, &copy);
    if (fault == DTN_ETHOSU_OK) {
        const dtn_ethosu_rows_t moved = {copy.length, copy.rows, copy.planes, access_side(&copy, &copy.from),
                                         access_side(&copy, &copy.to)};
        dtn_ethosu_report_accesses(m, &(dtn_ethosu_accesses_t){.rows = &moved});
    }
    for (uint64_t plane = 0; fault == DTN_ETHOSU_OK && !m->is_check && plane < copy.planes; plane++) {
        for (uint64_t row = 0; fault == DTN_ETHOSU_OK && row < copy.rows; row++) {
            fault = copy_row(m, &copy, plane, row);
        }
    }
    return fault;
}
