/**
 * @file
 * What an operation reads and writes, for who watches a stream.
 */
#ifndef DTN_ETHOSU_ACCESSES_H
#define DTN_ETHOSU_ACCESSES_H

#include "scale.h"
#include "window.h"

/** A copy: rows that lie one behind the other at its source, and `pitch` apart at its target. */
typedef struct {
    uint64_t row;
    uint64_t rows;
    uint64_t pitch;
} dtn_eu_rows_t;

/** The checked maps and rows of an operation; what does not apply is NULL. Weights and scales are where the registers
 * say. */
struct dtn_eu_accesses {
    const dtn_eu_map_t *inputs[2];
    const dtn_eu_map_t *out;
    const dtn_eu_geometry_t *geometry; /**< of a window; without it pixels meet pixels */
    const dtn_eu_output_t *output;
    const dtn_eu_rows_t *rows;
};

/** Tells who watches the stream, if anyone does. */
static inline void dtn_eu_tell(dtn_ethosu_t *m, const dtn_eu_accesses_t *accesses)
{
    if (m->observer != NULL) {
        m->observer(m, accesses);
    }
}

#endif /* DTN_ETHOSU_ACCESSES_H */
