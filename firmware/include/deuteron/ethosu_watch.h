/**
 * @file
 * Command streams of an Ethos-U, watched: what of them is right only if the NPU does one thing after the other.
 *
 * The NPU starts operations and copies in the order of their commands, and does not wait for their end. Up to two
 * operations and one copy, of an Ethos-U65 two, of an Ethos-U85 four, run beside what starts next. NPU_OP_KERNEL_WAIT n
 * and NPU_OP_DMA_WAIT n stop the commands until at most the n last of either kind run. Operations read and write block
 * by block, in order: with NPU_SET_BLOCKDEP n, block i of an operation is read when all but the n - i last blocks of
 * the one before have been written. Of an Ethos-U85 up to four copies run at once, n goes to 7, and tables have a
 * memory of their own. Whether a stream waits where it must is what this watches, with a cell for each byte that it can
 * write: who wrote and read it last. Nothing is executed and no data are needed; memory is the caller's. Commands with
 * branches are watched in the order in which they stand, as if no branch were taken. A branch has to wait for all that
 * runs; whether the path that the NPU takes writes each output is not vouched for, nor what it reads on its way.
 */
#ifndef DEUTERON_ETHOSU_WATCH_H
#define DEUTERON_ETHOSU_WATCH_H

#include "deuteron/ethosu.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The number of the SHRAM where others are of regions; copies that may run at once, of which there are more than
 * operations; and hazards that are told of one command. */
enum { DTN_ETHOSU_SHRAM_REGION = DTN_ETHOSU_REGIONS, DTN_ETHOSU_AT_ONCE = 4, DTN_ETHOSU_MOST_HAZARDS = 8 };

/** One row per hazard: X(number, NAME, sentence). Numbers are never reused. */
#define DTN_ETHOSU_HAZARDS(X)                                                                                          \
    X(1, FAULT, "the command is refused")                                                                              \
    X(2, UNWRITTEN, "the command reads what nothing has written")                                                      \
    X(3, TAKEN, "the command reads a table that the buffers of another operation have overwritten")                    \
    X(4, COPY_RUNS, "the command meets memory of a copy that nothing has waited for")                                  \
    X(5, KERNEL_RUNS, "the command meets memory of an operation that nothing has waited for")                          \
    X(6, BLOCKS, "the operation before still needs what the first blocks of this one meet")                            \
    X(7, BUFFERS, "the operation's buffers do not fit into the SHRAM as they are placed")                              \
    X(8, BRANCH, "a branch before the command does not wait for what runs")

/** What is wrong with a command. */
typedef enum {
#define X(number, name, sentence) DTN_ETHOSU_HAZARD_##name = number,
    DTN_ETHOSU_HAZARDS(X)
#undef X
} dtn_ethosu_hazard_kind_t;

/** What of a command touches memory. */
typedef enum {
    DTN_ETHOSU_PART_INPUT,
    DTN_ETHOSU_PART_SECOND_INPUT,
    DTN_ETHOSU_PART_WEIGHTS,
    DTN_ETHOSU_PART_SCALES,
    DTN_ETHOSU_PART_TABLE,
    DTN_ETHOSU_PART_SOURCE, /**< of a copy */
    DTN_ETHOSU_PART_READS,  /**< how many of these are read */
    DTN_ETHOSU_PART_OUTPUT = DTN_ETHOSU_PART_READS,
    DTN_ETHOSU_PART_TARGET,  /**< of a copy */
    DTN_ETHOSU_PART_BUFFERS, /**< of an operation, in the SHRAM */
} dtn_ethosu_part_t;

/** A hazard of a command. */
typedef struct {
    uint32_t kind;   /**< a dtn_ethosu_hazard_kind_t */
    uint32_t part;   /**< a dtn_ethosu_part_t; of DTN_ETHOSU_HAZARD_BRANCH none: 0 */
    uint32_t fault;  /**< of DTN_ETHOSU_HAZARD_FAULT: a dtn_ethosu_fault_t, whose detail is `at` */
    uint32_t region; /**< of the first byte, or DTN_ETHOSU_SHRAM_REGION */
    uint32_t other;  /**< offset of the command that it collides with */
    uint32_t other_writes;
    uint64_t at; /**< the first byte in its region; of buffers that do not fit, where they would have to end; of
                    DTN_ETHOSU_HAZARD_BRANCH the branch, in bytes from the first command */
} dtn_ethosu_hazard_t;

/** A command as it was seen. */
typedef struct {
    dtn_ethosu_event_t event;
    uint32_t count; /**< of hazards */
    dtn_ethosu_hazard_t hazards[DTN_ETHOSU_MOST_HAZARDS];
    /** By part, of what is read: the same in two streams if all bytes are the same bytes of the same values. */
    uint64_t values[DTN_ETHOSU_PART_READS];
} dtn_ethosu_seen_t;

/** What is known of a byte. */
typedef struct {
    uint32_t writer; /**< the last command that wrote it, and of which kind that is */
    uint32_t kernel_reader;
    uint32_t copy_reader;
    uint32_t value; /**< which byte of which value it is */
} dtn_ethosu_cell_t;

/** A stream under watch, at the start of its place; its fields are for the functions of this file. */
typedef struct {
    dtn_ethosu_t machine; /**< the first field: what tells of an operation finds the rest from it */
    dtn_ethosu_cell_t *cells[DTN_ETHOSU_REGIONS + 1];
    uint32_t kernels[DTN_ETHOSU_AT_ONCE]; /**< those that may run, the last one first; 0: none */
    uint32_t copies[DTN_ETHOSU_AT_ONCE];
    uint32_t operations;        /**< so far */
    struct dtn_eu_needs *needs; /**< of the operation, of an Ethos-U85 */
    dtn_ethosu_seen_t *seen;
} dtn_ethosu_watch_t;

/** Bytes that the watch of a stream takes, with a cell for each byte that it can write; of `memory` only the sizes and
 * `is_read_only` are used. */
size_t dtn_ethosu_watch_bytes(const dtn_ethosu_config_t *config, const dtn_ethosu_memory_t *memory);

/** Starts a watch at `place`, which is aligned to 8 and has `bytes`; the command data stay in use. */
dtn_ethosu_fault_t dtn_ethosu_watch_start(void *place, size_t bytes, const dtn_ethosu_config_t *config,
                                          const void *command_data, size_t command_data_bytes,
                                          const dtn_ethosu_memory_t *memory);

/** Says that bytes of a region are written before the stream starts; false when they are not in a region that is. */
bool dtn_ethosu_watch_input(dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes);

/** Watches up to and with the next operation or copy; the event of the last is DTN_ETHOSU_OP_STOP. A fault, which is
 * among the hazards, too, is the end. */
dtn_ethosu_fault_t dtn_ethosu_watch_step(dtn_ethosu_watch_t *watch, dtn_ethosu_seen_t *seen);

/** What a stream at its end has in some bytes of a region: whether all are written, or where the first is that is not,
 * and which values they are; of a stream with branches, where none is taken. */
bool dtn_ethosu_watch_output(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes,
                             uint64_t *unwritten, uint64_t *value);

/** The sentence of a hazard. */
const char *dtn_ethosu_hazard_message(dtn_ethosu_hazard_kind_t kind);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ETHOSU_WATCH_H */
