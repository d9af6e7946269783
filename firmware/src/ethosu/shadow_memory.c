#include "shadow_memory.h"

/* A number for each byte of each value. */
uint32_t dtn_ethosu_value_id(uint32_t value, uint32_t index)
{
    uint32_t x = value * UINT32_C(0x9E3779B1) ^ index * UINT32_C(0x85EBCA6B) ^ UINT32_C(0x27D4EB2F);
    x = (x ^ x >> 15) * UINT32_C(0x2C1B3C6D);
    x = (x ^ x >> 12) * UINT32_C(0x297A2D39);
    return x ^ x >> 15;
}

static bool runs(const uint32_t *running, uint32_t number)
{
    for (uint32_t i = 0; number != 0 && i < DTN_ETHOSU_AT_ONCE; i++) {
        if (running[i] == number) {
            return true;
        }
    }
    return false;
}

/* ---- Findings ---- */

void dtn_ethosu_report(dtn_ethosu_scan_t *scan, dtn_ethosu_hazard_kind_t kind, uint64_t at, uint32_t other,
                       bool other_writes)
{
    dtn_ethosu_seen_t *seen = scan->watch->seen;
    uint32_t offset = other == 0 ? 0 : 4 * (other - 1);
    for (uint32_t i = 0; i < seen->count; i++) {
        const dtn_ethosu_hazard_t *known = &seen->hazards[i];
        if (kind != DTN_ETHOSU_HAZARD_BRANCH && known->kind == (uint32_t)kind && known->part == scan->part &&
            known->other == offset) {
            return;
        }
    }
    if (seen->count < DTN_ETHOSU_MOST_HAZARDS) {
        seen->hazards[seen->count++] = (dtn_ethosu_hazard_t){.kind = (uint32_t)kind,
                                                             .part = scan->part,
                                                             .region = scan->region,
                                                             .other = offset,
                                                             .other_writes = other_writes,
                                                             .at = at};
    }
}

void dtn_ethosu_report_fault(dtn_ethosu_watch_t *watch, dtn_ethosu_fault_t fault, uint64_t at)
{
    dtn_ethosu_seen_t *seen = watch->seen;
    uint32_t index = seen->count < DTN_ETHOSU_MOST_HAZARDS ? seen->count++ : DTN_ETHOSU_MOST_HAZARDS - 1;
    seen->hazards[index] = (dtn_ethosu_hazard_t){.kind = DTN_ETHOSU_HAZARD_FAULT, .fault = (uint32_t)fault, .at = at};
}

/* ---- Cells ---- */

bool dtn_ethosu_is_valid_range(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes)
{
    const dtn_ethosu_t *m = &watch->machine;
    if (region > DTN_ETHOSU_SHRAM_REGION) {
        return false;
    }
    uint64_t size = region == DTN_ETHOSU_SHRAM_REGION ? m->config->shram_bytes : m->memory.regions[region].bytes;
    return at <= size && bytes <= size - at;
}

void dtn_ethosu_visit_bytes(dtn_ethosu_scan_t *scan, uint32_t region, uint64_t at, uint64_t bytes,
                            dtn_ethosu_visit_t visit)
{
    if (!dtn_ethosu_is_valid_range(scan->watch, region, at, bytes)) {
        dtn_ethosu_report_fault(scan->watch, DTN_ETHOSU_BOUNDS, at);
        return;
    }
    scan->region = region;
    dtn_ethosu_cell_t *cells = scan->watch->cells[region];
    visit(scan, cells == NULL ? NULL : cells + at, at, bytes);
}

/* Visits all of a box, pixel by pixel; the map is checked. */
void dtn_ethosu_visit_box(dtn_ethosu_scan_t *scan, const dtn_ethosu_map_t *map, const dtn_ethosu_box_t *box,
                          dtn_ethosu_visit_t visit)
{
    scan->region = map->region;
    dtn_ethosu_cell_t *cells = scan->watch->cells[map->region];
    bool is_whole = map->brick == DTN_ETHOSU_BRICK * map->bytes;
    for (int32_t y = box->y; y < box->y_end; y++) {
        for (int32_t x = box->x; x < box->x_end; x++) {
            int64_t pixel = dtn_ethosu_place(map, y, x);
            for (int32_t c = box->c; c < box->c_end;) {
                int32_t next = is_whole ? box->c_end : (c / DTN_ETHOSU_BRICK + 1) * DTN_ETHOSU_BRICK;
                int32_t count = (next < box->c_end ? next : box->c_end) - c;
                int64_t at = pixel + c / DTN_ETHOSU_BRICK * map->brick + c % DTN_ETHOSU_BRICK * map->bytes;
                visit(scan, cells == NULL ? NULL : cells + at, (uint64_t)at, (uint64_t)count * map->bytes);
                c += count;
            }
        }
    }
}

void dtn_ethosu_visit_map(dtn_ethosu_scan_t *scan, const dtn_ethosu_map_t *map, dtn_ethosu_visit_t visit)
{
    dtn_ethosu_visit_box(scan, map, &(dtn_ethosu_box_t){0, map->height, 0, map->width, 0, map->depth}, visit);
}

/* Checks that a byte has a valid value for a read. */
static void check_read(dtn_ethosu_scan_t *scan, const dtn_ethosu_cell_t *cell, uint64_t at)
{
    const dtn_ethosu_watch_t *watch = scan->watch;
    uint32_t number = cell->writer & DTN_ETHOSU_COMMAND;
    if ((cell->writer & DTN_ETHOSU_IS_COPY) != 0 && runs(watch->copies, number)) {
        dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_COPY_RUNS, at, number, true);
    } else if ((cell->writer & DTN_ETHOSU_IS_WRITTEN) == 0) {
        bool is_taken = scan->part == DTN_ETHOSU_PART_TABLE && number != 0 && (cell->writer & DTN_ETHOSU_IS_COPY) == 0;
        dtn_ethosu_report(scan, is_taken ? DTN_ETHOSU_HAZARD_TAKEN : DTN_ETHOSU_HAZARD_UNWRITTEN, at,
                          is_taken ? number : 0, is_taken);
    }
}

/* An operation reads elements of a map. */
void dtn_ethosu_read_element(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    if (cells == NULL) {
        scan->value = dtn_ethosu_hash(dtn_ethosu_hash(scan->value, dtn_ethosu_value_id(scan->region, (uint32_t)at)),
                                      (uint32_t)count);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        check_read(scan, &cells[i], at + i);
        cells[i].kernel_reader = scan->number;
        scan->value = dtn_ethosu_hash(scan->value, cells[i].value);
    }
}

/* An operation reads weights, scales or a table, at any time after its start. */
void dtn_ethosu_read_constant(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; cells != NULL && i < count; i++) {
        uint32_t writer = cells[i].writer;
        if ((writer & (DTN_ETHOSU_IS_COPY | DTN_ETHOSU_IS_WRITTEN)) == DTN_ETHOSU_IS_WRITTEN &&
            runs(scan->watch->kernels, writer & DTN_ETHOSU_COMMAND)) {
            dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_KERNEL_RUNS, at + i, writer & DTN_ETHOSU_COMMAND, true);
        }
    }
    dtn_ethosu_read_element(scan, cells, at, count);
}

/* The first blocks of an operation read nothing that the last blocks of the previous operation write. */
void dtn_ethosu_read_early(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; cells != NULL && i < count; i++) {
        uint32_t tail = cells[i].writer >> DTN_ETHOSU_TAIL_AT & DTN_ETHOSU_TAIL_MASK;
        if ((cells[i].writer & DTN_ETHOSU_IS_COPY) == 0 && (cells[i].writer & DTN_ETHOSU_COMMAND) == scan->before &&
            tail > 0 && tail <= scan->blocks) {
            dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_BLOCKS, at + i, scan->before, true);
        }
    }
}

/* Reports a copy that still reads or writes bytes that an operation is about to write. */
static void check_written(dtn_ethosu_scan_t *scan, const dtn_ethosu_cell_t *cell, uint64_t at)
{
    const uint32_t *copies = scan->watch->copies;
    if ((cell->writer & DTN_ETHOSU_IS_COPY) != 0 && runs(copies, cell->writer & DTN_ETHOSU_COMMAND)) {
        dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_COPY_RUNS, at, cell->writer & DTN_ETHOSU_COMMAND, true);
    }
    if (runs(copies, cell->copy_reader)) {
        dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_COPY_RUNS, at, cell->copy_reader, false);
    }
}

void dtn_ethosu_write_element(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; cells != NULL && i < count; i++) {
        check_written(scan, &cells[i], at + i);
        cells[i].writer = scan->number | DTN_ETHOSU_IS_WRITTEN;
        cells[i].value = dtn_ethosu_value_id(scan->watch->operations, scan->index++);
    }
}

void dtn_ethosu_mark_tail(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    (void)at;
    for (uint64_t i = 0; cells != NULL && i < count; i++) {
        cells[i].writer |= scan->tail << DTN_ETHOSU_TAIL_AT;
    }
}

/* Buffers overwrite any table; those of an operation that may start early also one that is still in use. */
void dtn_ethosu_write_buffer(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        check_written(scan, &cells[i], at + i);
        if (scan->blocks > 0 && scan->before != 0 && cells[i].kernel_reader == scan->before) {
            dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_BLOCKS, at + i, scan->before, false);
        }
        cells[i].writer = scan->number;
    }
}

static void check_kernel_writes(dtn_ethosu_scan_t *scan, const dtn_ethosu_cell_t *cell, uint64_t at)
{
    uint32_t number = cell->writer & DTN_ETHOSU_COMMAND;
    if ((cell->writer & DTN_ETHOSU_IS_COPY) == 0 && runs(scan->watch->kernels, number)) {
        dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_KERNEL_RUNS, at, number, true);
    }
}

/* A copy may read bytes without a value: this is a hazard only when an operation reads them. */
void dtn_ethosu_read_source(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    if (cells == NULL) {
        scan->value = dtn_ethosu_hash(dtn_ethosu_hash(scan->value, dtn_ethosu_value_id(scan->region, (uint32_t)at)),
                                      (uint32_t)count);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        if ((cells[i].writer & DTN_ETHOSU_IS_COPY) != 0 &&
            runs(scan->watch->copies, cells[i].writer & DTN_ETHOSU_COMMAND)) {
            dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_COPY_RUNS, at + i, cells[i].writer & DTN_ETHOSU_COMMAND, true);
        }
        check_kernel_writes(scan, &cells[i], at + i);
        cells[i].copy_reader = scan->number;
        scan->value = dtn_ethosu_hash(scan->value, (cells[i].writer & DTN_ETHOSU_IS_WRITTEN) != 0 ? cells[i].value : 0);
    }
}

void dtn_ethosu_check_target(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    for (uint64_t i = 0; cells != NULL && i < count; i++) {
        check_written(scan, &cells[i], at + i);
        check_kernel_writes(scan, &cells[i], at + i);
        if (runs(scan->watch->kernels, cells[i].kernel_reader)) {
            dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_KERNEL_RUNS, at + i, cells[i].kernel_reader, false);
        }
    }
}

/* A copied byte keeps its value. */
void dtn_ethosu_move_row(dtn_ethosu_scan_t *scan, const dtn_ethosu_cell_t *from, dtn_ethosu_cell_t *to, uint64_t at,
                         uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t written = from == NULL ? DTN_ETHOSU_IS_WRITTEN : from[i].writer & DTN_ETHOSU_IS_WRITTEN;
        to[i].value = from == NULL ? dtn_ethosu_value_id(scan->region, (uint32_t)(at + i)) : from[i].value;
        to[i].writer = scan->number | DTN_ETHOSU_IS_COPY | written;
    }
}

void dtn_ethosu_write_unknown(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t count, bool is_all)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t written = is_all ? DTN_ETHOSU_IS_WRITTEN : cells[i].writer & DTN_ETHOSU_IS_WRITTEN;
        cells[i].value = dtn_ethosu_value_id(scan->number, scan->index++);
        cells[i].writer = scan->number | DTN_ETHOSU_IS_COPY | written;
    }
}
