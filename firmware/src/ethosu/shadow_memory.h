/**
 * @file
 * Shadow memory: the known state of each byte during a hazard check, and its changes by reads and writes.
 */
#pragma once

#include "deuteron/ethosu_watch.h"
#include "feature_map.h"

/** A writer: the number of its command (its offset in words plus 1), a flag for copies, and a flag for bytes with a
 * value since. For an operation's last blocks, the first block from the end that may write the byte: 1 to 7. */
#define DTN_ETHOSU_COMMAND UINT32_C(0x07FFFFFF)
#define DTN_ETHOSU_IS_COPY UINT32_C(0x80000000)
#define DTN_ETHOSU_IS_WRITTEN UINT32_C(0x40000000)
enum { DTN_ETHOSU_TAIL_AT = 27, DTN_ETHOSU_TAIL_MASK = 7, DTN_ETHOSU_TAIL_BLOCKS = 7 };

/** A visit of bytes: the part of the command, and the parameters of the visit. */
typedef struct {
    dtn_ethosu_watch_t *watch;
    uint32_t part;
    uint32_t region;
    uint32_t number; /**< of the command */
    uint32_t index;  /**< index of the next written byte */
    uint32_t before; /**< the previous operation, whose last `blocks` blocks must not write the bytes */
    uint32_t blocks;
    uint32_t tail; /**< the marked one of the last blocks */
    uint64_t value;
} dtn_ethosu_scan_t;

/** Handles `count` cells from byte `at` of the region on; `cells` is NULL if nothing ever writes there. */
typedef void (*dtn_ethosu_visit_t)(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** A part of a map. */
typedef struct {
    int32_t y, y_end;
    int32_t x, x_end;
    int32_t c, c_end;
} dtn_ethosu_box_t;

/** A number for each byte of each value. */
uint32_t dtn_ethosu_value_id(uint32_t value, uint32_t index);

/** Combines values that are read one after the other into one number. */
static inline uint64_t dtn_ethosu_hash(uint64_t value, uint32_t name)
{
    return (value ^ name) * UINT64_C(0x100000001B3);
}

/** Reports a hazard of the command, once for each part and counterpart; `other` is the counterpart's number, or 0. */
void dtn_ethosu_report(dtn_ethosu_scan_t *scan, dtn_ethosu_hazard_kind_t kind, uint64_t at, uint32_t other,
                       bool other_writes);

/** Reports a fault of the command; if there are too many hazards it replaces the last one. */
void dtn_ethosu_report_fault(dtn_ethosu_watch_t *watch, dtn_ethosu_fault_t fault, uint64_t at);

/** True if bytes are inside a region, or the SHRAM. */
bool dtn_ethosu_is_valid_range(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes);

/** Visits bytes of a region, or reports a fault if they are outside; the other two visit a part of a checked map, or
 * all of it. */
void dtn_ethosu_visit_bytes(dtn_ethosu_scan_t *scan, uint32_t region, uint64_t at, uint64_t bytes,
                            dtn_ethosu_visit_t visit);
void dtn_ethosu_visit_box(dtn_ethosu_scan_t *scan, const dtn_ethosu_map_t *map, const dtn_ethosu_box_t *box,
                          dtn_ethosu_visit_t visit);
void dtn_ethosu_visit_map(dtn_ethosu_scan_t *scan, const dtn_ethosu_map_t *map, dtn_ethosu_visit_t visit);

/** Visitors for reads of an operation: elements of a map; weights, scales or a table, at any time after its start; its
 * first blocks. The last must not read bytes that the last blocks of the previous operation write. */
void dtn_ethosu_read_element(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_ethosu_read_constant(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_ethosu_read_early(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** Visitors for writes of an operation: elements; elements of one of its last blocks; its buffers, which overwrite any
 * table, and if it may start early also one that is still in use. */
void dtn_ethosu_write_element(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_ethosu_mark_tail(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_ethosu_write_buffer(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** Visitors for a copy: reads of its source, which may have no value (a hazard only when an operation reads it); and a
 * check of its target before the write. */
void dtn_ethosu_read_source(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);
void dtn_ethosu_check_target(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count);

/** A copy writes cells with unknown values; `is_all`: it writes each of them. */
void dtn_ethosu_write_unknown(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t count, bool is_all);

/** A copy writes cells with the values of others, or of constants from byte `at` on if `from` is NULL. */
void dtn_ethosu_move_row(dtn_ethosu_scan_t *scan, const dtn_ethosu_cell_t *from, dtn_ethosu_cell_t *to, uint64_t at,
                         uint64_t count);
