/**
 * @file
 * Cells: what is known of each byte while a stream is watched, and what reading or writing one makes of it.
 */
#ifndef DTN_ETHOSU_CELLS_H
#define DTN_ETHOSU_CELLS_H

#include "deuteron/ethosu_watch.h"
#include "map.h"

/** A writer: the number of its command, which is its offset in words and 1; whether that was a copy; whether the byte
 * has a value since; and of an operation's last blocks, which from the last on: 1 to 7. */
#define DTN_EU_COMMAND UINT32_C(0x07FFFFFF)
#define DTN_EU_IS_COPY UINT32_C(0x80000000)
#define DTN_EU_IS_WRITTEN UINT32_C(0x40000000)
enum { DTN_EU_TAIL_AT = 27, DTN_EU_TAIL_MASK = 7, DTN_EU_TAIL_BLOCKS = 7 };

/** Bytes on the way: of which part of the command, and what becomes of them. */
typedef struct {
    dtn_ethosu_watch_t *watch;
    uint32_t part;
    uint32_t region;
    uint32_t number; /**< of the command */
    uint32_t index;  /**< of the next byte of what is written */
    uint32_t before; /**< of the operation before, in whose last `blocks` blocks no byte may be */
    uint32_t blocks;
    uint32_t tail; /**< which of the last blocks is marked */
    uint64_t value;
} dtn_eu_scan_t;

/** Does something with `count` cells from byte `at` of the region on; `cells` is NULL where nothing is written ever. */
typedef void (*dtn_eu_visit_t)(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** A part of a map. */
typedef struct {
    int32_t y, y_end;
    int32_t x, x_end;
    int32_t c, c_end;
} dtn_eu_box_t;

/** A number for each byte of each value. */
uint32_t dtn_eu_name_of(uint32_t value, uint32_t index);

/** Values read one after the other, in one number. */
static inline uint64_t dtn_eu_with(uint64_t value, uint32_t name)
{
    return (value ^ name) * UINT64_C(0x100000001B3);
}

/** Notes a hazard of the command, once for each part and counterpart; `other` is the number of that, or 0. */
void dtn_eu_report(dtn_eu_scan_t *scan, dtn_ethosu_hazard_kind_t kind, uint64_t at, uint32_t other, bool other_writes);

/** Notes a fault of the command, with what belongs to it; of too many hazards it takes the last one's place. */
void dtn_eu_report_fault(dtn_ethosu_watch_t *watch, dtn_ethosu_fault_t fault, uint64_t at);

/** Whether bytes lie in a region, or in the SHRAM. */
bool dtn_eu_is_there(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes);

/** Visits bytes of a region, or reports a fault where they are not there; a part of a map, or a whole map, which have
 * been checked. */
void dtn_eu_visit_bytes(dtn_eu_scan_t *scan, uint32_t region, uint64_t at, uint64_t bytes, dtn_eu_visit_t visit);
void dtn_eu_visit_box(dtn_eu_scan_t *scan, const dtn_eu_map_t *map, const dtn_eu_box_t *box, dtn_eu_visit_t visit);
void dtn_eu_visit_map(dtn_eu_scan_t *scan, const dtn_eu_map_t *map, dtn_eu_visit_t visit);

/** Visits, as `dtn_eu_visit_t`: an operation reads elements of a map; or weights, scales or a table, at any time from
 * its start on; its first blocks read, and nothing that the last blocks of the one before write. */
void dtn_eu_read_element(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_eu_read_constant(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_eu_read_early(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** An operation writes elements; these are of one of its last blocks; its buffers overwrite whatever table there is,
 * and those of an operation that may start early one that is still used. */
void dtn_eu_write_element(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_eu_mark_tail(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_eu_write_buffer(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** A copy reads its source, which may be without a value: that is no hazard until something reads it; it is about to
 * write its target. */
void dtn_eu_read_source(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_eu_check_target(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** A copy writes cells with values of which nothing is known; `is_all` says that it writes each of them. */
void dtn_eu_write_unknown(dtn_eu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t count, bool is_all);

/** A copy writes cells with the values of others, or of constants from byte `at` on where `from` is NULL. */
void dtn_eu_move_row(dtn_eu_scan_t *scan, const dtn_ethosu_cell_t *from, dtn_ethosu_cell_t *to, uint64_t at,
                     uint64_t count);

#endif /* DTN_ETHOSU_CELLS_H */
