/**
 * @file
 * Accesses that an operation of an Ethos-U85 reported so far, for the hazard check.
 */
#pragma once

#include "accesses.h"

/** Maximum number of weight streams with scales and a table; and of maps: two inputs and the output. */
enum { DTN_ETHOSU_MOST_NEEDS = 6, DTN_ETHOSU_SIDES = 3 };

/** The maps of an operation in regions, its geometry, and the bytes that it reads. */
typedef struct dtn_ethosu_reported {
    dtn_ethosu_map_t maps[DTN_ETHOSU_SIDES];
    bool has[DTN_ETHOSU_SIDES];
    bool has_geometry;
    dtn_ethosu_geometry_t geometry;
    uint32_t count; /**< number of `bytes` */
    dtn_ethosu_range_t bytes[DTN_ETHOSU_MOST_NEEDS];
} dtn_ethosu_reported_t;
