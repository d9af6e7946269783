#include "accesses.h"
#include "operations.h"
#include "registers.h"

#include <string.h>

/* Bits of a region register: of how many dimensions the copy is, and whether rows are found by indices. */
enum { DIMENSIONS_AT = 9, INDEXED_AT = 11, INDEX_BYTES = 4 };

/* Larger strides than any memory has. */
#define MOST_STRIDE (UINT64_C(1) << 32)

/* A side of a copy. */
typedef struct {
    uint16_t region;
    uint16_t address;
    uint16_t strides;
    bool is_indexed; /* a row's place is its index times the first stride */
    uint64_t row;    /* from one row to the next */
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
    const uint8_t *indices; /* a number of 32 bits for each row */
    uint64_t skip;          /* of the indices, behind those of a plane */
    uint32_t most;          /* the largest index */
} copy_t;

static dtn_ethosu_fault_t read_strides(dtn_ethosu_t *m, uint32_t dimensions, side_t *side)
{
    side->is_indexed = dtn_eu_field(m, side->region, INDEXED_AT, 1) != 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint16_t stride = (uint16_t)(side->strides + i);
        if (dimensions <= i && !(i == 0 && side->is_indexed)) {
            continue;
        }
        dtn_ethosu_fault_t fault = dtn_eu_need_longs(m, DTN_EU_LIST(stride));
        uint64_t value = dtn_eu_address(m, stride);
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        if (value > MOST_STRIDE) {
            return dtn_eu_fault(m, DTN_ETHOSU_BOUNDS, value);
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
        return dtn_eu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_DST_REGION);
    }
    dtn_ethosu_fault_t fault = dtn_eu_need_shorts(m, DTN_EU_LIST(REG_DMA0_IDX_REGION));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_eu_need_longs(m, DTN_EU_LIST(REG_DMA0_IDX, REG_DMA0_IDX_MAX));
    }
    if (fault == DTN_ETHOSU_OK && dimensions == 2) {
        fault = dtn_eu_need_longs(m, DTN_EU_LIST(REG_DMA0_IDX_SKIP1));
        copy->skip = dtn_eu_address(m, REG_DMA0_IDX_SKIP1);
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (copy->skip > MOST_STRIDE) {
        return dtn_eu_fault(m, DTN_ETHOSU_BOUNDS, copy->skip);
    }
    /* Unlike a side, indices have no bits but those of a region. */
    uint32_t region = dtn_eu_short(m, REG_DMA0_IDX_REGION);
    if (region >= DTN_ETHOSU_REGIONS) {
        return dtn_eu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_IDX_REGION);
    }
    copy->most = dtn_eu_payload(m, REG_DMA0_IDX_MAX) & INT32_MAX;
    uint64_t reach = copy->planes * copy->rows * INDEX_BYTES + (copy->planes - 1) * copy->skip;
    copy->indices = dtn_eu_copy_side(m, REG_DMA0_IDX_REGION, REG_DMA0_IDX, reach, false, &fault);
    if (fault == DTN_ETHOSU_OK) {
        dtn_eu_tell_bytes(m, DTN_ETHOSU_PART_SECOND_INPUT, region, dtn_eu_address(m, REG_DMA0_IDX), reach);
    }
    return fault;
}

static dtn_ethosu_fault_t read_sizes(dtn_ethosu_t *m, uint32_t dimensions, copy_t *copy)
{
    /* A copy of one row does not read the number of rows, which older releases of Vela leave unset then. */
    const uint32_t is_indexed =
        dtn_eu_field(m, REG_DMA0_SRC_REGION, INDEXED_AT, 1) | dtn_eu_field(m, REG_DMA0_DST_REGION, INDEXED_AT, 1);
    const bool has_rows = dimensions > 0 || is_indexed != 0;
    dtn_ethosu_fault_t fault = has_rows ? dtn_eu_need_shorts(m, DTN_EU_LIST(REG_DMA0_SIZE0)) : DTN_ETHOSU_OK;
    if (fault == DTN_ETHOSU_OK && dimensions == 2) {
        fault = dtn_eu_need_shorts(m, DTN_EU_LIST(REG_DMA0_SIZE1));
    }
    copy->length = dtn_eu_address(m, REG_DMA0_LEN);
    copy->rows = has_rows ? dtn_eu_short(m, REG_DMA0_SIZE0) : 1;
    copy->planes = dimensions == 2 ? dtn_eu_short(m, REG_DMA0_SIZE1) : 1;
    if (fault == DTN_ETHOSU_OK && (copy->rows == 0 || copy->planes == 0)) {
        return dtn_eu_fault(m, DTN_ETHOSU_FIELD, copy->rows == 0 ? REG_DMA0_SIZE0 : REG_DMA0_SIZE1);
    }
    /* Rows of no bytes would be no work, however many. */
    if (fault == DTN_ETHOSU_OK && copy->length == 0) {
        return dtn_eu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_LEN);
    }
    return fault == DTN_ETHOSU_OK ? dtn_eu_work(m, copy->rows * copy->planes, copy->length) : fault;
}

/* Where a side ends, at most. */
static uint64_t reach_of(const copy_t *copy, const side_t *side)
{
    uint64_t last = side->is_indexed ? copy->most : copy->rows - 1;
    return (copy->planes - 1) * side->plane + last * side->row + copy->length;
}

static dtn_ethosu_fault_t read_registers(dtn_ethosu_t *m, copy_t *copy)
{
    dtn_ethosu_fault_t fault = dtn_eu_need_shorts(m, DTN_EU_LIST(REG_DMA0_SRC_REGION, REG_DMA0_DST_REGION));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_eu_need_longs(m, DTN_EU_LIST(REG_DMA0_SRC, REG_DMA0_DST, REG_DMA0_LEN));
    }
    uint32_t dimensions = dtn_eu_field(m, REG_DMA0_SRC_REGION, DIMENSIONS_AT, 2);
    if (fault == DTN_ETHOSU_OK && dimensions > 2) {
        fault = dtn_eu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_SRC_REGION);
    }
    /* The source says for both sides of how many dimensions the copy is. */
    if (fault == DTN_ETHOSU_OK && dtn_eu_field(m, REG_DMA0_DST_REGION, DIMENSIONS_AT, 2) != 0) {
        fault = dtn_eu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_DST_REGION);
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
            dtn_eu_copy_side(m, sides[i]->region, sides[i]->address, reach_of(copy, sides[i]), i == 1, &fault);
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
            return dtn_eu_fault(m, DTN_ETHOSU_INDEX, index);
        }
    }
    const side_t *from = &copy->from;
    const side_t *to = &copy->to;
    memmove(to->bytes + plane * to->plane + (to->is_indexed ? index : row) * to->row,
            from->bytes + plane * from->plane + (from->is_indexed ? index : row) * from->row, (size_t)copy->length);
    return DTN_ETHOSU_OK;
}

static dtn_eu_side_t told_of(const copy_t *copy, const side_t *side)
{
    return (dtn_eu_side_t){side->row, side->plane, reach_of(copy, side), side->is_indexed};
}

dtn_ethosu_fault_t dtn_eu_copy_85(dtn_ethosu_t *m)
{
    copy_t copy = {.from = {.region = REG_DMA0_SRC_REGION, .address = REG_DMA0_SRC, .strides = REG_DMA0_SRC_STRIDE0},
                   .to = {.region = REG_DMA0_DST_REGION, .address = REG_DMA0_DST, .strides = REG_DMA0_DST_STRIDE0}};
    dtn_ethosu_fault_t fault = read_registers(m, &copy);
    if (fault == DTN_ETHOSU_OK) {
        const dtn_eu_rows_t told = {copy.length, copy.rows, copy.planes, told_of(&copy, &copy.from),
                                    told_of(&copy, &copy.to)};
        dtn_eu_tell(m, &(dtn_eu_accesses_t){.rows = &told});
    }
    for (uint64_t plane = 0; fault == DTN_ETHOSU_OK && !m->is_check && plane < copy.planes; plane++) {
        for (uint64_t row = 0; fault == DTN_ETHOSU_OK && row < copy.rows; row++) {
            fault = copy_row(m, &copy, plane, row);
        }
    }
    return fault;
}
