/**
 * @file
 * Hazard check of Ethos-U command streams: finds results that depend on unordered execution.
 *
 * The NPU starts operations and copies in the order of their commands, and does not wait for their end. Up to two
 * operations and one copy (Ethos-U65: two, Ethos-U85: four) run concurrently with the next command. NPU_OP_KERNEL_WAIT
 * n and NPU_OP_DMA_WAIT n stop the commands until at most the last n of either kind run. Operations read and write
 * block by block, in order: with NPU_SET_BLOCKDEP n, block i of an operation is read when all but the last n - i blocks
 * of the previous one have been written. On an Ethos-U85 up to four copies run at once, n is up to 7, and tables have
 * their own memory. This check finds missing waits. It keeps a cell with the last writer and reader for each byte that
 * the stream can write. It executes nothing and needs no data; the caller owns its memory. Streams with branches are
 * checked in command order, as if no branch were taken. A branch must wait for everything that runs. The check does not
 * guarantee that the NPU's path writes each output, nor the values that the path reads.
 */
#ifndef DEUTERON_ETHOSU_WATCH_H
#define DEUTERON_ETHOSU_WATCH_H

#include "deuteron/ethosu.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The region number of the SHRAM; the maximum of concurrent copies, of which there are more than operations; and the
 * maximum of reported hazards of one command. */
enum { DTN_ETHOSU_SHRAM_REGION = DTN_ETHOSU_REGIONS, DTN_ETHOSU_AT_ONCE = 4, DTN_ETHOSU_MOST_HAZARDS = 8 };

/** One row per hazard: X(number, NAME, text). Numbers are never reused. */
#define DTN_ETHOSU_HAZARDS(X)                                                                                          \
    X(1, FAULT, "the command is invalid")                                                                              \
    X(2, UNWRITTEN, "the command reads memory that nothing has written")                                               \
    X(3, TAKEN, "the command reads a table that the buffers of another operation have overwritten")                    \
    X(4, COPY_RUNS, "the command accesses memory of a copy without a wait for it")                                     \
    X(5, KERNEL_RUNS, "the command accesses memory of an operation without a wait for it")                             \
    X(6, BLOCKS, "the previous operation still uses memory that the first blocks of this one access")                  \
    X(7, BUFFERS, "the operation's buffers do not fit into their places in the SHRAM")                                 \
    X(8, BRANCH, "a branch before the command does not wait for running operations")

/** Kind of a hazard. */
typedef enum {
#define X(number, name, sentence) DTN_ETHOSU_HAZARD_##name = number,
    DTN_ETHOSU_HAZARDS(X)
#undef X
} dtn_ethosu_hazard_kind_t;

/** Part of a command that accesses memory. */
typedef enum {
    DTN_ETHOSU_PART_INPUT,
    DTN_ETHOSU_PART_SECOND_INPUT,
    DTN_ETHOSU_PART_WEIGHTS,
    DTN_ETHOSU_PART_SCALES,
    DTN_ETHOSU_PART_TABLE,
    DTN_ETHOSU_PART_SOURCE, /**< of a copy */
    DTN_ETHOSU_PART_READS,  /**< number of the parts that are read */
    DTN_ETHOSU_PART_OUTPUT = DTN_ETHOSU_PART_READS,
    DTN_ETHOSU_PART_TARGET,  /**< of a copy */
    DTN_ETHOSU_PART_BUFFERS, /**< of an operation, in the SHRAM */
} dtn_ethosu_part_t;

/** A hazard of a command. */
typedef struct {
    uint32_t kind;   /**< a dtn_ethosu_hazard_kind_t */
    uint32_t part;   /**< a dtn_ethosu_part_t; 0 for DTN_ETHOSU_HAZARD_BRANCH */
    uint32_t fault;  /**< for DTN_ETHOSU_HAZARD_FAULT: a dtn_ethosu_fault_t, whose detail is `at` */
    uint32_t region; /**< region of the first byte, or DTN_ETHOSU_SHRAM_REGION */
    uint32_t other;  /**< offset of the conflicting command */
    uint32_t other_writes;
    uint64_t at; /**< the first byte in its region; for buffers that do not fit, their required end; for
                    DTN_ETHOSU_HAZARD_BRANCH the branch, in bytes from the first command */
} dtn_ethosu_hazard_t;

/** A checked command. */
typedef struct {
    dtn_ethosu_event_t event;
    uint32_t count; /**< number of hazards */
    dtn_ethosu_hazard_t hazards[DTN_ETHOSU_MOST_HAZARDS];
    /** By part, a hash of the read values: equal in two streams if all bytes are the same bytes of the same values. */
    uint64_t values[DTN_ETHOSU_PART_READS];
} dtn_ethosu_seen_t;

/** State of a byte. */
typedef struct {
    uint32_t writer; /**< the last command that wrote it, and its kind */
    uint32_t kernel_reader;
    uint32_t copy_reader;
    uint32_t value; /**< identifies a byte of a value */
} dtn_ethosu_cell_t;

/** The check of a stream, at the start of its memory; its fields are private. */
typedef struct {
    dtn_ethosu_t machine; /**< the first field: the observer of operations casts from it */
    dtn_ethosu_cell_t *cells[DTN_ETHOSU_REGIONS + 1];
    uint32_t kernels[DTN_ETHOSU_AT_ONCE]; /**< operations that may run, the last one first; 0: none */
    uint32_t copies[DTN_ETHOSU_AT_ONCE];
    uint32_t operations;               /**< operations so far */
    struct dtn_ethosu_reported *needs; /**< accesses of the operation on an Ethos-U85 */
    dtn_ethosu_seen_t *seen;
} dtn_ethosu_watch_t;

/** Bytes that the check of a stream needs, including a cell for each byte that it can write; only the sizes and
 * `is_read_only` of `memory` are used. */
size_t dtn_ethosu_watch_bytes(const dtn_ethosu_config_t *config, const dtn_ethosu_memory_t *memory);

/** Starts a check at `place`, which is aligned to 8 and has `bytes`; the command data stay in use. */
dtn_ethosu_fault_t dtn_ethosu_watch_start(void *place, size_t bytes, const dtn_ethosu_config_t *config,
                                          const void *command_data, size_t command_data_bytes,
                                          const dtn_ethosu_memory_t *memory);

/** Declares bytes of a region as written before the stream starts; false if they are outside it. */
bool dtn_ethosu_watch_input(dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes);

/** Checks up to and including the next operation or copy; the event of the last is DTN_ETHOSU_OP_STOP. A fault, which
 * is also among the hazards, ends the check. */
dtn_ethosu_fault_t dtn_ethosu_watch_step(dtn_ethosu_watch_t *watch, dtn_ethosu_seen_t *seen);

/** State of some bytes of a region at the end of a stream: true if all are written, else the first one that is not, and
 * their values. Branches are not followed. */
bool dtn_ethosu_watch_output(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes,
                             uint64_t *unwritten, uint64_t *value);

/** The text of a hazard. */
const char *dtn_ethosu_hazard_message(dtn_ethosu_hazard_kind_t kind);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ETHOSU_WATCH_H */
