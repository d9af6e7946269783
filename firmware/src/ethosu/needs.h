/**
 * @file
 * What an operation of an Ethos-U85 has told of itself so far, for who watches a stream.
 */
#ifndef DTN_ETHOSU_NEEDS_H
#define DTN_ETHOSU_NEEDS_H

#include "accesses.h"

/** Most streams of weights with scales and a table, and sides of an operation: two inputs and the output. */
enum { DTN_EU_MOST_NEEDS = 6, DTN_EU_SIDES = 3 };

/** The maps of an operation in regions, its geometry, and bytes that it reads. */
typedef struct dtn_eu_needs {
    dtn_eu_map_t maps[DTN_EU_SIDES];
    bool has[DTN_EU_SIDES];
    bool has_geometry;
    dtn_eu_geometry_t geometry;
    uint32_t count; /**< of `bytes` */
    dtn_eu_need_t bytes[DTN_EU_MOST_NEEDS];
} dtn_eu_needs_t;

#endif /* DTN_ETHOSU_NEEDS_H */
