/**
 * @file
 * The executor's interface to NPUs: one `dtn_npu_t` per family. A bundle names the families of its partitions like its
 * operators, so that an image links only what it runs.
 *
 * Functions return ENONE or DTN_OK, or a reason of deuteron/errors.h. None may keep the pointers to a partition or
 * call.
 */
#ifndef DEUTERON_NPU_H
#define DEUTERON_NPU_H

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/errors.h"
#include "deuteron/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A partition of the program: its blocks, and its part of the working memory. */
typedef struct {
    const dtn_constant_t *blocks; /**< in the family's order, none NULL, all aligned to 16 */
    uint32_t block_count;
    uint32_t index; /**< index of the delegate, for errors */
    bool is_alone;  /**< only its own runs write to `working` */
    void *context;  /**< DTN_CONTEXT_BYTES, aligned to 16: kept between runs */
    void *working;  /**< its working bytes in a run, aligned to 16; may be incomplete before */
} dtn_partition_t;

/** A call of a partition: a step of the program, whose values `dtn_npu_tensor` returns. */
typedef struct {
    const dtn_executor_t *executor;
    uint32_t input_count;
    uint32_t output_count;
    uint32_t first; /**< index of the step's first word in the bundle */
} dtn_npu_call_t;

/** A tensor of a call: inputs first, then outputs. */
dtn_tensor_t dtn_npu_tensor(const dtn_npu_call_t *call, uint32_t index);

/** Functions of an NPU that has the tensors of a call in its working memory instead of using them in place. */
typedef struct {
    /** Address of a tensor in the working memory, by its index for `dtn_npu_tensor`. */
    void *(*place)(const dtn_partition_t *partition, uint32_t index);

    /** Runs a checked call whose inputs are in their places, and returns when the outputs are in theirs. The executor
     * maintains the core's data cache, as for `run`. */
    NeutronError (*run)(const dtn_partition_t *partition);
} dtn_npu_apart_t;

/** `run` of families whose `apart` is not NULL: copies the inputs into their places, runs, and copies the outputs from
 * theirs, by `dtn_io_copy_start` and `dtn_io_copy_wait`. */
NeutronError dtn_npu_run_apart(const dtn_partition_t *partition, const dtn_npu_call_t *call);

/** How partitions of a family run. */
struct dtn_npu {
    /**
     * Checks the blocks, whose content is not trusted, and fills the context. The executor has checked the CRC of
     * blocks that have one in the bundle. Hardware must not read the blocks yet, as their cache lines are cleaned after
     * this. It must not acquire anything that `unprepare` would have to release: if a later partition or step is
     * rejected, `unprepare` is not called.
     */
    NeutronError (*prepare)(const dtn_partition_t *partition);

    /** Bytes of the working memory that a run needs, without the context. Called after prepare. */
    uint64_t (*working_bytes)(const dtn_partition_t *partition);

    /** Checks that number, sizes and types of a call's tensors match the partition's. Their content is not available
     * yet; the executor has checked that they are in their memories and that no output overlaps another tensor. */
    dtn_reason_t (*check)(const dtn_partition_t *partition, const dtn_npu_call_t *call);

    /**
     * Runs a checked call, and returns when the outputs are complete.
     *
     * The executor maintains the core's data cache: everything that the NPU reads or writes of tensors, blocks and
     * working memory is in memory when this is called, and the core reads it from there afterwards.
     */
    NeutronError (*run)(const dtn_partition_t *partition, const dtn_npu_call_t *call);

    /** NULL for families that read and write the tensors in place. */
    const dtn_npu_apart_t *apart;

    /** Releases the context; an error if it was overwritten. */
    NeutronError (*unprepare)(const dtn_partition_t *partition);

#if DTN_PROFILING
    /** The driver's records of the last run, DTN_PROFILE_RECORD_BYTES each, and their number: one per command and one
     * for the run, from its end to its start (spec/microcode.md, section 7); 0 if there are none. NULL for families
     * without records. */
    const uint32_t *(*records)(const dtn_partition_t *partition, uint32_t *count);
#endif
};

/** NXP's Neutron-C, through the driver of this library: the blocks are microcode, weights and kernels. */
extern const dtn_npu_t dtn_npu_neutron;

/** Words of the first block of an Ethos-U's partition: bytes of the scratch memory and of the fast scratch memory,
 * number of inputs and of outputs, number of recorded operations and copies, 0 for none. Each tensor follows with its
 * offset in the scratch memory and its bytes. */
enum {
    DTN_ETHOSU_LAYOUT_SCRATCH,
    DTN_ETHOSU_LAYOUT_FAST,
    DTN_ETHOSU_LAYOUT_INPUTS,
    DTN_ETHOSU_LAYOUT_OUTPUTS,
    DTN_ETHOSU_LAYOUT_RECORDED,
    DTN_ETHOSU_LAYOUT_TENSORS
};

/** Gap between the NPU's bytes of the working memory and the records, which the core writes meanwhile. It is as large
 * as a line of any data cache, so that no write of the core brings a line back over the NPU's bytes. */
#define DTN_ETHOSU_RECORDS_GAP 64

/** Arm's Ethos-U, through the API of Arm's driver (ethosu_driver.h), which the application starts with `ethosu_init`:
 * the blocks are the layout, the command data and the weights. */
extern const dtn_npu_t dtn_npu_ethosu;

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_NPU_H */
