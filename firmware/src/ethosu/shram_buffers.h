/**
 * @file
 * The buffers of an operation in the SHRAM, as registers place them: two banks for the output, then the inputs, and at
 * the end the accumulators; and the blocks of an operation.
 */
#pragma once

#include "accesses.h"

/** Bytes of a bank. */
enum { DTN_ETHOSU_BANK = 1024 };

/** Blocks of an operation. */
typedef struct {
    int32_t height; /**< of the output */
    int32_t width;
    int32_t depth;
    int32_t in_depth; /**< channels of the input that are read at a time */
    int32_t in_parts; /**< of the input's channels, one after the other for each block of the output */
} dtn_ethosu_blocks_t;

/** Reads the blocks; DTN_ETHOSU_UNSET, with the register as detail, if a register is not set. */
dtn_ethosu_fault_t dtn_ethosu_blocks(dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses,
                                     dtn_ethosu_blocks_t *blocks);

/**
 * Returns the end of the buffers, in bytes. `*needed` is 0 if all fit; else the required end: where the next buffer,
 * the table or the SHRAM ends.
 */
dtn_ethosu_fault_t dtn_ethosu_buffers(dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses,
                                      const dtn_ethosu_blocks_t *blocks, uint32_t *end, uint32_t *needed);
