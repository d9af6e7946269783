/**
 * @file
 * The operations, one function per kind; each reads the registers, checks them all, and then computes.
 */
#ifndef DTN_ETHOSU_OPERATIONS_H
#define DTN_ETHOSU_OPERATIONS_H

#include "deuteron/ethosu.h"

/** A machine before its first command, without a look at its memory. */
dtn_ethosu_fault_t dtn_eu_begin(dtn_ethosu_t *m, const dtn_ethosu_config_t *config, const void *data, size_t bytes,
                                const dtn_ethosu_memory_t *memory);

/** NPU_OP_CONV. */
dtn_ethosu_fault_t dtn_eu_convolution(dtn_ethosu_t *m);

/** NPU_OP_DEPTHWISE. */
dtn_ethosu_fault_t dtn_eu_depthwise(dtn_ethosu_t *m);

/** NPU_OP_POOL; the event's parameter says of which kind. */
dtn_ethosu_fault_t dtn_eu_pool(dtn_ethosu_t *m);

/** NPU_OP_POOL of an Ethos-U85 that has no input but its accumulators: they come from the second input. */
dtn_ethosu_fault_t dtn_eu_restore(dtn_ethosu_t *m);

/** NPU_OP_ELEMENTWISE; the event's parameter says of which kind. */
dtn_ethosu_fault_t dtn_eu_elementwise(dtn_ethosu_t *m);

/** NPU_OP_ELEMENTWISE of an Ethos-U85. */
dtn_ethosu_fault_t dtn_eu_elementwise_85(dtn_ethosu_t *m);

/** NPU_OP_RESIZE, of an Ethos-U85. */
dtn_ethosu_fault_t dtn_eu_resize(dtn_ethosu_t *m);

/** NPU_OP_DMA_START: copies at once. */
dtn_ethosu_fault_t dtn_eu_copy(dtn_ethosu_t *m);

/** The same of an Ethos-U85. */
dtn_ethosu_fault_t dtn_eu_copy_85(dtn_ethosu_t *m);

/** After an operation of an Ethos-U85: keeps what a branch may ask for, of the element that it has put out. */
void dtn_eu_note_result(dtn_ethosu_t *m);

/** NPU_OP_BRANCH to a byte of the commands, of an Ethos-U85; the event's parameter says on which condition. A check
 * goes on with the next command. */
dtn_ethosu_fault_t dtn_eu_branch(dtn_ethosu_t *m, uint32_t target);

/** NPU_OP_STOP: the end of the stream; a fault in a check where a branch leads further. */
dtn_ethosu_fault_t dtn_eu_stop(dtn_ethosu_t *m);

/** The bytes of a side of a copy, by the registers of its region and address; NULL in a check, or, with the fault, when
 * it leaves its memory. */
uint8_t *dtn_eu_copy_side(dtn_ethosu_t *m, uint16_t region, uint16_t address, uint64_t length, bool is_written,
                          dtn_ethosu_fault_t *fault);

#endif /* DTN_ETHOSU_OPERATIONS_H */
