/* Hazard check of copies. */
#include "hazard_check.h"

#include "chain_buffers.h"
#include "registers.h"
#include "reported_accesses.h"

/* Region of a side of a copy. */
static uint32_t side_of(const dtn_ethosu_t *m, uint32_t region)
{
    return dtn_ethosu_field(m, region, 8, 1) != 0 ? (uint32_t)DTN_ETHOSU_SHRAM_REGION
                                                  : dtn_ethosu_field(m, region, 0, 3);
}

static uint64_t row_at(const dtn_ethosu_side_t *side, uint64_t start, uint64_t plane, uint64_t row)
{
    return start + plane * side->plane + row * side->row;
}

/* Indices are unknown here: values come from anywhere, and an unknown part of the target changes. */
static void check_indexed(dtn_ethosu_scan_t *scan, const dtn_ethosu_rows_t *rows, uint32_t to, uint64_t target)
{
    dtn_ethosu_cell_t *cells = scan->watch->cells[to];
    for (uint64_t plane = 0; plane < (rows->to.is_indexed ? 1 : rows->planes); plane++) {
        for (uint64_t row = 0; row < (rows->to.is_indexed ? 1 : rows->rows); row++) {
            uint64_t at = rows->to.is_indexed ? target : row_at(&rows->to, target, plane, row);
            uint64_t length = rows->to.is_indexed ? rows->to.reach : rows->length;
            dtn_ethosu_write_unknown(scan, cells + at, length, !rows->to.is_indexed);
        }
    }
}

static void check_rows(dtn_ethosu_scan_t *scan, const dtn_ethosu_rows_t *rows, uint32_t from, uint64_t source,
                       uint32_t to, uint64_t target)
{
    const dtn_ethosu_cell_t *sources = scan->watch->cells[from];
    dtn_ethosu_cell_t *targets = scan->watch->cells[to];
    scan->region = from;
    for (uint64_t plane = 0; plane < rows->planes; plane++) {
        for (uint64_t row = 0; row < rows->rows; row++) {
            uint64_t at = row_at(&rows->from, source, plane, row);
            dtn_ethosu_move_row(scan, sources == NULL ? NULL : sources + at,
                                targets + row_at(&rows->to, target, plane, row), at, rows->length);
        }
    }
}

/* Visits the rows of a side, or all bytes that an index may select. */
static void visit_side(dtn_ethosu_scan_t *scan, const dtn_ethosu_rows_t *rows, const dtn_ethosu_side_t *side,
                       uint32_t region, uint64_t start_at, dtn_ethosu_visit_t visit)
{
    if (side->is_indexed) {
        dtn_ethosu_visit_bytes(scan, region, start_at, side->reach, visit);
        return;
    }
    for (uint64_t plane = 0; plane < rows->planes; plane++) {
        for (uint64_t row = 0; row < rows->rows; row++) {
            dtn_ethosu_visit_bytes(scan, region, row_at(side, start_at, plane, row), rows->length, visit);
        }
    }
}

void dtn_ethosu_check_copy(dtn_ethosu_watch_t *watch, const dtn_ethosu_rows_t *rows)
{
    const dtn_ethosu_t *m = &watch->machine;
    dtn_ethosu_scan_t scan = {.watch = watch, .number = dtn_ethosu_command_number(watch)};
    uint32_t from = side_of(m, REG_DMA0_SRC_REGION);
    uint32_t to = side_of(m, REG_DMA0_DST_REGION);
    uint64_t source = dtn_ethosu_address(m, REG_DMA0_SRC);
    uint64_t target = dtn_ethosu_address(m, REG_DMA0_DST);
    for (uint32_t i = 0; i < watch->needs->count; i++) {
        const dtn_ethosu_range_t *indices = &watch->needs->bytes[i];
        scan.part = indices->part;
        dtn_ethosu_visit_bytes(&scan, indices->region, indices->at, indices->bytes, dtn_ethosu_read_source);
        dtn_ethosu_finish_read(&scan);
    }
    watch->needs->count = 0;
    scan.part = DTN_ETHOSU_PART_SOURCE;
    visit_side(&scan, rows, &rows->from, from, source, dtn_ethosu_read_source);
    dtn_ethosu_finish_read(&scan);
    scan.part = DTN_ETHOSU_PART_TARGET;
    visit_side(&scan, rows, &rows->to, to, target, dtn_ethosu_check_target);
    if (rows->from.is_indexed || rows->to.is_indexed) {
        check_indexed(&scan, rows, to, target);
    } else {
        check_rows(&scan, rows, from, source, to, target);
    }
    uint32_t product = m->config->word >> 28;
    dtn_ethosu_note_start(watch->copies, scan.number,
                          product == DTN_ETHOSU_U55   ? 1
                          : product == DTN_ETHOSU_U65 ? 2
                                                      : DTN_ETHOSU_AT_ONCE);
}
