/**
 * @file
 * Operations, one function per kind; each reads the registers, checks them all, and then computes.
 */
#pragma once

#include "deuteron/ethosu.h"

/** Initialises a machine before its first command, without checking its memory. */
dtn_ethosu_fault_t dtn_ethosu_begin(dtn_ethosu_t *m, const dtn_ethosu_config_t *config, const void *data, size_t bytes,
                                    const dtn_ethosu_memory_t *memory);

/** NPU_OP_CONV. */
dtn_ethosu_fault_t dtn_ethosu_convolution(dtn_ethosu_t *m);

/** NPU_OP_DEPTHWISE. */
dtn_ethosu_fault_t dtn_ethosu_depthwise(dtn_ethosu_t *m);

/** NPU_OP_POOL; the event's parameter selects the kind. */
dtn_ethosu_fault_t dtn_ethosu_pool(dtn_ethosu_t *m);

/** NPU_OP_POOL of an Ethos-U85 that only restores its accumulators from the second input. */
dtn_ethosu_fault_t dtn_ethosu_restore(dtn_ethosu_t *m);

/** NPU_OP_ELEMENTWISE; the event's parameter selects the kind. */
dtn_ethosu_fault_t dtn_ethosu_elementwise(dtn_ethosu_t *m);

/** NPU_OP_ELEMENTWISE of an Ethos-U85. */
dtn_ethosu_fault_t dtn_ethosu_elementwise_85(dtn_ethosu_t *m);

/** NPU_OP_RESIZE, of an Ethos-U85. */
dtn_ethosu_fault_t dtn_ethosu_resize(dtn_ethosu_t *m);

/** NPU_OP_DMA_START: copies immediately. */
dtn_ethosu_fault_t dtn_ethosu_copy(dtn_ethosu_t *m);

/** NPU_OP_DMA_START of an Ethos-U85. */
dtn_ethosu_fault_t dtn_ethosu_copy_85(dtn_ethosu_t *m);

/** After an operation of an Ethos-U85: keeps its output element for a later branch. */
void dtn_ethosu_note_result(dtn_ethosu_t *m);

/** NPU_OP_BRANCH of an Ethos-U85 to a byte offset of the commands; the event's parameter is the condition. A check
 * continues with the next command. */
dtn_ethosu_fault_t dtn_ethosu_branch(dtn_ethosu_t *m, uint32_t target);

/** NPU_OP_STOP: the end of the stream; a fault in a check if a branch leads beyond it. */
dtn_ethosu_fault_t dtn_ethosu_stop(dtn_ethosu_t *m);

/** Returns the bytes of a side of a copy, by the registers of its region and address; NULL in a check, or with a fault
 * if they are outside its memory. */
uint8_t *dtn_ethosu_copy_side(dtn_ethosu_t *m, uint16_t region, uint16_t address, uint64_t length, bool is_written,
                              dtn_ethosu_fault_t *fault);
