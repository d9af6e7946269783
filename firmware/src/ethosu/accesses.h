/**
 * @file
 * Reads and writes of an operation, for the hazard check.
 */
#pragma once

#include "deuteron/ethosu_watch.h"
#include "kernel_window.h"
#include "output_scale.h"

/** Rows of one side of a copy: strides between rows and planes; spans `reach` bytes at most. */
typedef struct {
    uint64_t row;
    uint64_t plane;
    uint64_t reach;
    bool is_indexed; /**< the rows are known only at run time */
} dtn_ethosu_side_t;

/** A copy: planes of rows of `length` bytes. */
typedef struct {
    uint64_t length;
    uint64_t rows;
    uint64_t planes;
    dtn_ethosu_side_t from;
    dtn_ethosu_side_t to;
} dtn_ethosu_rows_t;

/** Memory that an operation of an Ethos-U85 accesses, reported while it is checked: a map, or bytes of a region. */
typedef struct {
    uint32_t part;               /**< a dtn_ethosu_part_t */
    const dtn_ethosu_map_t *map; /**< NULL: bytes */
    uint32_t region;
    uint64_t at;
    uint64_t bytes;
} dtn_ethosu_range_t;

/** The checked maps and rows of an operation; NULL if not applicable. The registers have weights and scales. An
 * Ethos-U85 reports each access of an operation separately, and then its end. */
struct dtn_ethosu_accesses {
    const dtn_ethosu_map_t *inputs[2];
    const dtn_ethosu_map_t *out;           /**< NULL if it is in no region */
    const dtn_ethosu_map_t *made;          /**< the output before its transpose; only the sizes are used */
    const dtn_ethosu_geometry_t *geometry; /**< window; NULL for a pixel-wise operation */
    const dtn_ethosu_output_t *output;
    const dtn_ethosu_rows_t *rows;
    const dtn_ethosu_range_t *need;
    bool is_end;
    bool is_whole;      /**< any of the inputs may be read for any of the output */
    bool is_transposed; /**< the output is transposed or reversed */
};

/** Reports accesses to the hazard check, if one runs. */
static inline void dtn_ethosu_report_accesses(dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses)
{
    if (m->observer != NULL) {
        m->observer(m, accesses);
    }
}

/** Reports bytes that an operation of an Ethos-U85 accesses. */
static inline void dtn_ethosu_report_bytes(dtn_ethosu_t *m, uint32_t part, uint32_t region, uint64_t at, uint64_t bytes)
{
    if (dtn_ethosu_is_u85(m)) {
        dtn_ethosu_report_accesses(
            m, &(dtn_ethosu_accesses_t){
                   .need = &(dtn_ethosu_range_t){.part = part, .region = region, .at = at, .bytes = bytes}});
    }
}
