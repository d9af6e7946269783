#include "accesses.h"
#include "operations.h"

#include <string.h>

/* Fields of a region register: a memory region or the SHRAM, and the dimensions of the copy. */
enum { REGION_BITS = 3, INTERNAL_AT = 8, DIMENSIONS_AT = 9 };

uint8_t *dtn_ethosu_copy_side(dtn_ethosu_t *m, uint16_t region, uint16_t address, uint64_t length, bool is_written,
                              dtn_ethosu_fault_t *fault)
{
    uint64_t at = dtn_ethosu_address(m, address);
    if (dtn_ethosu_field(m, region, INTERNAL_AT, 1) != 0) {
        uint64_t size = m->config->shram_bytes;
        *fault = at > size || size - at < length ? dtn_ethosu_fault(m, DTN_ETHOSU_SHRAM, at) : DTN_ETHOSU_OK;
        return *fault == DTN_ETHOSU_OK && !m->is_check ? m->memory.shram + at : NULL;
    }
    const dtn_ethosu_region_t *memory = dtn_ethosu_region(m, dtn_ethosu_field(m, region, 0, REGION_BITS));
    if (memory == NULL) {
        *fault = DTN_ETHOSU_REGION;
        return NULL;
    }
    if (is_written && memory->is_read_only) {
        *fault = dtn_ethosu_fault(m, DTN_ETHOSU_READ_ONLY, dtn_ethosu_field(m, region, 0, REGION_BITS));
        return NULL;
    }
    *fault =
        at > memory->bytes || memory->bytes - at < length ? dtn_ethosu_fault(m, DTN_ETHOSU_BOUNDS, at) : DTN_ETHOSU_OK;
    return *fault == DTN_ETHOSU_OK && !m->is_check ? memory->data + at : NULL;
}

/* Rows that are contiguous at the source, and `pitch` apart at the target. */
typedef struct {
    uint64_t row;
    uint64_t rows;
    uint64_t pitch;
} rows_t;

/* The rows of a copy: one, or those of a two-dimensional target. Source strides and three dimensions are not publicly
 * documented, and no compiler emits them. */
static dtn_ethosu_fault_t read_rows(dtn_ethosu_t *m, rows_t *rows)
{
    *rows = (rows_t){.row = dtn_ethosu_address(m, REG_DMA0_LEN), .rows = 1};
    if (rows->row == 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_DMA0_LEN);
    }
    uint32_t dimensions = 1 + dtn_ethosu_field(m, REG_DMA0_DST_REGION, DIMENSIONS_AT, 2);
    if (dtn_ethosu_field(m, REG_DMA0_SRC_REGION, DIMENSIONS_AT, 2) != 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_STRIDED_COPY, REG_DMA0_SRC_REGION);
    }
    if (dimensions > 2) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_STRIDED_COPY, REG_DMA0_DST_REGION);
    }
    dtn_ethosu_fault_t fault = DTN_ETHOSU_OK;
    if (dimensions == 2) {
        fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_DMA0_SIZE0));
        if (fault == DTN_ETHOSU_OK) {
            fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_DMA0_SKIP0));
        }
        rows->rows = dtn_ethosu_short(m, REG_DMA0_SIZE0);
        rows->pitch = rows->row + dtn_ethosu_address(m, REG_DMA0_SKIP0);
    }
    return fault == DTN_ETHOSU_OK ? dtn_ethosu_work(m, rows->rows, rows->row) : fault;
}

dtn_ethosu_fault_t dtn_ethosu_copy(dtn_ethosu_t *m)
{
    rows_t rows = {0};
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_DMA0_SRC_REGION, REG_DMA0_DST_REGION));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(REG_DMA0_SRC, REG_DMA0_DST, REG_DMA0_LEN));
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = read_rows(m, &rows);
    }
    if (fault != DTN_ETHOSU_OK || rows.rows == 0) {
        return fault;
    }
    const uint8_t *from =
        dtn_ethosu_copy_side(m, REG_DMA0_SRC_REGION, REG_DMA0_SRC, rows.rows * rows.row, false, &fault);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    uint64_t reach = (rows.rows - 1) * rows.pitch + rows.row;
    uint8_t *to = dtn_ethosu_copy_side(m, REG_DMA0_DST_REGION, REG_DMA0_DST, reach, true, &fault);
    if (fault == DTN_ETHOSU_OK) {
        const dtn_ethosu_rows_t written = {.length = rows.row,
                                           .rows = rows.rows,
                                           .planes = 1,
                                           .from = {.row = rows.row, .reach = rows.rows * rows.row},
                                           .to = {.row = rows.pitch, .reach = reach}};
        dtn_ethosu_report_accesses(m, &(dtn_ethosu_accesses_t){.rows = &written});
    }
    for (uint64_t i = 0; fault == DTN_ETHOSU_OK && !m->is_check && i < rows.rows; i++) {
        memmove(to + i * rows.pitch, from + i * rows.row, (size_t)rows.row);
    }
    return fault;
}
