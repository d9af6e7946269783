/**
 * @file
 * Kernels: one function per kernel number, called with resolved operands.
 */
#ifndef DEUTERON_KERNEL_H
#define DEUTERON_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/errors.h"
#include "deuteron/microcode.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One operand of a call. */
typedef struct {
    /** NULL while the address is unknown (check before a run); written only for output and workspace. */
    uint8_t *data;
    /** Size, inside its region. */
    uint32_t bytes;
    /** In the check before a run: the operand is read, and the output equals it exactly. False in a run, which may
     * check tables a second time: places cannot change after the first check. */
    bool in_place;
} dtn_operand_t;

/** One call; operands are in the catalogue's order (`DTN_<KERNEL>_<OPERAND>`), and their number is right. */
typedef struct {
    const int32_t *params; /**< the kernel's parameter record, `dtn_<kernel>_params_t` */
    dtn_operand_t operands[DTN_MAX_OPERANDS];
} dtn_call_t;

/** Phase of a kernel's call. */
typedef enum {
    /**
     * Check parameters, operand sizes, and the content of tables whose address is known. The driver has checked the
     * rest: number of operands and parameters, ranges, alignment, writability and overlap.
     */
    DTN_PHASE_CHECK,
    /** Compute. A check of the same call has passed, and every operand has an address. */
    DTN_PHASE_RUN
} dtn_phase_t;

/**
 * A kernel: returns DTN_OK, or in the check phase the reason (`dtn_reason_t`) why the call must not run.
 *
 * Kernels keep no state between calls and use a bounded stack. Data operands in inputs and outputs have any alignment;
 * tables, weights and workspace are aligned to 16 bytes.
 */
typedef int32_t (*dtn_kernel_t)(const dtn_call_t *call, dtn_phase_t phase);

/**
 * The linked kernels by number, NULL for absent ones. This is the only reference to the kernels: a build that defines
 * its own table in an object before the library links only the kernels of that table (spec/kernel-selection.md). It is
 * constant, so that it is in read-only memory like the code.
 */
extern int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase);

/* The kernels: `dtn_k_<name>` for speed, `dtn_k_<name>_ref` as the reference; both give the same bytes. */
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    int32_t dtn_k_##name(const dtn_call_t *call, dtn_phase_t phase);                                                   \
    int32_t dtn_k_##name##_ref(const dtn_call_t *call, dtn_phase_t phase);
DTN_KERNELS(DTN_X)
#undef DTN_X

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_KERNEL_H */
