/**
 * @file
 * Buffers at the workspace's end for tensors of an Ethos-U85 that are not written to a region directly. These are
 * tensors between operations of a chain, outputs that are transposed or reversed, and accumulators that another
 * operation continues.
 */
#pragma once

#include "feature_map.h"

/** Storage of a map: bits 14 and 15 of its precision register. */
typedef enum {
    DTN_ETHOSU_TILES_2X2 = 0,
    DTN_ETHOSU_TILES_3X1 = 1,
    DTN_ETHOSU_CHAINED = 2,
    DTN_ETHOSU_NOWHERE = 3
} dtn_ethosu_storage_t;

/** The storage of the map with these registers; DTN_ETHOSU_TILES_2X2 for products without chains. */
dtn_ethosu_storage_t dtn_ethosu_storage(const dtn_ethosu_t *m, const dtn_ethosu_map_registers_t *registers);

/** Before an operation: frees the buffers of finished chains, and resets the output. */
void dtn_ethosu_chains_start(dtn_ethosu_t *m);

/** Reserves `bytes` at the workspace's end for `map`: dense, with its sizes and its type. */
dtn_ethosu_fault_t dtn_ethosu_reserve_map(dtn_ethosu_t *m, dtn_ethosu_map_t *map);

/** The buffer of a chain as a map: new for an output, the existing one for an input. */
dtn_ethosu_fault_t dtn_ethosu_chained(dtn_ethosu_t *m, uint32_t index, bool is_written, dtn_ethosu_map_t *map);

/** Accumulators for the next operation as a map: new, or the kept ones, which must have these sizes. */
dtn_ethosu_fault_t dtn_ethosu_kept_sums(dtn_ethosu_t *m, bool is_new, dtn_ethosu_map_t *map);

/** True if the output is transposed or reversed. */
bool dtn_ethosu_is_transposed(const dtn_ethosu_t *m);

/** A fault for an output that is both, or that is one of them inside a chain: this is not publicly documented. */
dtn_ethosu_fault_t dtn_ethosu_check_transpose(dtn_ethosu_t *m);

/** After an operation: writes its buffered output to its map. */
dtn_ethosu_fault_t dtn_ethosu_write_transposed(dtn_ethosu_t *m);
