/**
 * @file
 * Accesses that an operation of an Ethos-U85 reported so far, for the hazard check.
 */
#ifndef DTN_ETHOSU_NEEDS_H
#define DTN_ETHOSU_NEEDS_H

#include "accesses.h"

/** Maximum number of weight streams with scales and a table; and of maps: two inputs and the output. */
enum { DTN_EU_MOST_NEEDS = 6, DTN_EU_SIDES = 3 };

/** The maps of an operation in regions, its geometry, and the bytes that it reads. */
typedef struct dtn_eu_needs {
    dtn_eu_map_t maps[DTN_EU_SIDES];
    bool has[DTN_EU_SIDES];
    bool has_geometry;
    dtn_eu_geometry_t geometry;
    uint32_t count; /**< number of `bytes` */
    dtn_eu_need_t bytes[DTN_EU_MOST_NEEDS];
} dtn_eu_needs_t;

#endif /* DTN_ETHOSU_NEEDS_H */
