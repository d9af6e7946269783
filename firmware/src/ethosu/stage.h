/**
 * @file
 * Tensors of an Ethos-U85 that are not written to a region as they are made: those between operations of a chain, and
 * outputs that are turned or reversed on their way, and sums that another operation goes on with. They lie at the
 * workspace's end.
 */
#ifndef DTN_ETHOSU_STAGE_H
#define DTN_ETHOSU_STAGE_H

#include "map.h"

/** Where a map lies: bits 14 and 15 of its precision register. */
typedef enum { DTN_EU_TILES_2X2 = 0, DTN_EU_TILES_3X1 = 1, DTN_EU_CHAINED = 2, DTN_EU_NOWHERE = 3 } dtn_eu_storage_t;

/** Where the map of these registers lies; DTN_EU_TILES_2X2 for products without chains. */
dtn_eu_storage_t dtn_eu_storage(const dtn_ethosu_t *m, const dtn_eu_map_registers_t *registers);

/** Before an operation: gives the room of chains back that have ended; nothing is put out yet. */
void dtn_eu_stage_start(dtn_ethosu_t *m);

/** Takes `bytes` of the workspace's end, which `map` becomes: dense, with the sizes and the type that it has. */
dtn_ethosu_fault_t dtn_eu_stage(dtn_ethosu_t *m, dtn_eu_map_t *map);

/** The buffer of a chain as a map: for an output taken anew, for an input as it was written. */
dtn_ethosu_fault_t dtn_eu_chained(dtn_ethosu_t *m, uint32_t index, bool is_written, dtn_eu_map_t *map);

/** Sums of one operation for the next as a map: taken anew, or as they were kept, which must have these sizes. */
dtn_ethosu_fault_t dtn_eu_kept(dtn_ethosu_t *m, bool is_new, dtn_eu_map_t *map);

/** True when the output is turned or reversed on its way. */
bool dtn_eu_is_turned(const dtn_ethosu_t *m);

/** A fault for an output that is both, or one of them on its way into a chain: what these are is not public. */
dtn_ethosu_fault_t dtn_eu_check_turn(dtn_ethosu_t *m);

/** After an operation: lays its output out, where it was staged. */
dtn_ethosu_fault_t dtn_eu_stage_end(dtn_ethosu_t *m);

#endif /* DTN_ETHOSU_STAGE_H */
