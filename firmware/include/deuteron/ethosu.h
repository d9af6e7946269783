/**
 * @file
 * Arm Ethos-U55, Ethos-U65 and Ethos-U85 command streams, executed on the CPU: what the NPU computes, bit for bit,
 * operation by operation. It models results, not time.
 *
 * Memory is the caller's: a machine, its SHRAM, a workspace and the regions that the stream addresses. Nothing is
 * allocated, and every field of a command is checked before it is used. The bytes of a machine's memory are read and
 * written as on a little-endian core.
 *
 * Of an Ethos-U85 these are refused: pools that give places of maxima or have scales of their channels, sums of pools
 * that another operation goes on with, its own tanh and sigmoid, resizes that repeat, maps of three tiles, means that
 * are scaled, outputs that are turned or reversed on their way into a chain, or both, and branches that ask for the
 * result of what does not write one element to a region.
 */
#ifndef DEUTERON_ETHOSU_H
#define DEUTERON_ETHOSU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Regions that a stream can address. */
enum { DTN_ETHOSU_REGIONS = 8 };

/** One row per fault: X(number, NAME, sentence). Numbers are never reused. */
#define DTN_ETHOSU_FAULTS(X)                                                                                           \
    X(1, NULL_POINTER, "a required pointer is NULL")                                                                   \
    X(2, MISALIGNED, "the commands, the SHRAM, the workspace or a region is not aligned to 16 bytes")                  \
    X(3, SHRAM_SIZE, "the SHRAM is smaller than the configuration's")                                                  \
    X(4, HEADER, "the command data does not start with COP1, a configuration and a command stream of its size")        \
    X(5, CONFIGURATION, "the commands were compiled for another accelerator configuration")                            \
    X(6, TRUNCATED, "the stream ends within a command or without NPU_OP_STOP")                                         \
    X(7, OPCODE, "a command is not one of this NPU's")                                                                 \
    X(8, UNSET, "an operation uses a register that no command has set")                                                \
    X(9, FIELD, "a register has a value that is reserved or out of range")                                             \
    X(10, REGION, "an operation addresses a region that is not there")                                                 \
    X(11, BOUNDS, "an operation leaves its region")                                                                    \
    X(12, READ_ONLY, "an operation writes to a region that is read only")                                              \
    X(13, ALIGNMENT, "an address or stride is not a multiple of what it must be")                                      \
    X(14, SHRAM, "a copy or table leaves the SHRAM")                                                                   \
    X(15, GEOMETRY, "sizes of the input, the output and the kernel do not fit each other")                             \
    X(16, WEIGHTS, "a weight stream is damaged or too short")                                                          \
    X(17, SCALES, "a scale stream is too short")                                                                       \
    X(18, WORKSPACE, "the workspace is too small for an operation")                                                    \
    X(19, UNSUPPORTED, "an operation is not modelled")                                                                 \
    X(20, FINISHED, "the stream has ended or stopped at a fault")                                                      \
    X(21, WORK, "the operations, and what branches repeat, have more terms than those of any network: 2^36")           \
    X(22, BUILT_IN,                                                                                                    \
      "an operation uses the NPU's own tanh or sigmoid, whose values are not public; tables are modelled")             \
    X(23, STRIDED_COPY, "a copy has a source with strides, or three dimensions, which no compiler writes")             \
    X(40, BRANCH, "a branch asks for the result of an operation that does not write one element")                      \
    X(41, ARGMAX, "a pool that gives places of maxima, which is not modelled")                                         \
    X(42, TILES, "a map in three tiles one below the other, or none, which is not modelled")                           \
    X(43, INDEX, "a copy by indices met one that is larger than it says")                                              \
    X(44, TARGET, "a branch leads out of the commands, which end at the first NPU_OP_STOP")

/** Terms of a stream: what its operations compute, and for each word of commands that a branch leads back over as many
 * as a check of an operation takes time for, so that no stream runs for ever. */
#define DTN_ETHOSU_MOST_WORK (UINT64_C(1) << 36)
enum { DTN_ETHOSU_WORD_WORK = 1024 };

/** What `dtn_ethosu_step` and its like return. */
typedef enum {
    DTN_ETHOSU_OK = 0,
#define X(number, name, sentence) DTN_ETHOSU_##name = number,
    DTN_ETHOSU_FAULTS(X)
#undef X
} dtn_ethosu_fault_t;

/** An accelerator configuration. */
typedef struct {
    const char *name;     /**< as Vela names it: `ethos-u55-128` */
    uint32_t word;        /**< of the command data's header: product, SHRAM and MACs */
    uint16_t macs;        /**< 8-bit multiply-accumulates per cycle */
    uint8_t cores;        /**< each of which has weights of its own */
    uint16_t channels;    /**< of an output that are made at a time: of a core; of an Ethos-U85: of one pixel */
    uint32_t shram_bytes; /**< of a core, which is what copies and tables address; of an Ethos-U85: for tables */
} dtn_ethosu_config_t;

/** A part of memory that a stream addresses by its number; one without bytes is not there. */
typedef struct {
    uint8_t *data; /**< aligned to 16 */
    size_t bytes;
    bool is_read_only;
} dtn_ethosu_region_t;

/** The memory of a stream. */
typedef struct {
    dtn_ethosu_region_t regions[DTN_ETHOSU_REGIONS];
    uint8_t *shram; /**< aligned to 16, of the configuration's `shram_bytes` */
    size_t shram_bytes;
    uint8_t *workspace; /**< aligned to 16: what `dtn_ethosu_check` says */
    size_t workspace_bytes;
} dtn_ethosu_memory_t;

/** What was executed, or where a fault is. */
typedef struct {
    uint32_t offset; /**< of the command, in bytes from the first command */
    uint16_t opcode; /**< of the command: those of operations are DTN_ETHOSU_OP_... */
    uint16_t param;  /**< its 16-bit parameter */
    uint64_t detail; /**< of a fault: the opcode of the register, the address or the bytes that it is about */
} dtn_ethosu_event_t;

/** Opcodes of what `dtn_ethosu_step` returns after. */
enum {
    DTN_ETHOSU_OP_STOP = 0x000,
    DTN_ETHOSU_OP_CONV = 0x002,
    DTN_ETHOSU_OP_DEPTHWISE = 0x003,
    DTN_ETHOSU_OP_POOL = 0x005,
    DTN_ETHOSU_OP_ELEMENTWISE = 0x006,
    DTN_ETHOSU_OP_RESIZE = 0x007,
    DTN_ETHOSU_OP_DMA_START = 0x010,
};

/** Buffers between operations of a chain, of an Ethos-U85. */
enum { DTN_ETHOSU_CHAINS = 8 };

/** A tensor between two operations of a chain; it lies in the workspace, one without bytes is not there. */
typedef struct {
    uint64_t before_end; /**< from it to the workspace's end */
    int32_t height;
    int32_t width;
    int32_t depth;
    uint8_t bytes; /**< of an element */
} dtn_ethosu_chain_t;

/** Places for registers: of 16 bits, and with a payload. */
enum { DTN_ETHOSU_SHORTS = 96, DTN_ETHOSU_LONGS = 60 };

/** What an operation reads and writes, inside. */
typedef struct dtn_eu_accesses dtn_eu_accesses_t;

/** The state of a stream in execution; its fields are for the functions of this file. */
typedef struct dtn_ethosu {
    const dtn_ethosu_config_t *config;
    const uint8_t *commands; /**< the first command */
    size_t command_bytes;
    size_t at; /**< offset of the next command */
    dtn_ethosu_memory_t memory;
    size_t needed; /**< of the workspace, by the operations so far */
    size_t held;   /**< of the workspace's end, by tensors that no region has */
    size_t staged; /**< of that, the output of the operation before it is laid out */
    dtn_ethosu_chain_t chains[DTN_ETHOSU_CHAINS];
    dtn_ethosu_chain_t sums; /**< of an operation that puts none out, for the next */
    uint64_t work;           /**< so far, of DTN_ETHOSU_MOST_WORK */
    size_t furthest;         /**< of a check: the last command that a branch so far leads to */
    const uint8_t *element;  /**< what the operation puts out where it is one element of a region */
    uint8_t element_bytes;   /**< its size, or 0 */
    uint8_t result;          /**< what a branch asks for, of the operation before: 0 none, 1 zero, 2 not zero */
    bool is_check;           /**< operations are checked, and not executed */
    bool is_finished;
    dtn_ethosu_event_t event;
    uint32_t is_set[2 * DTN_ETHOSU_SHORTS / 32]; /**< a bit for each register that was set, those of 16 bits first */
    uint16_t parameters[DTN_ETHOSU_SHORTS];      /**< of NPU_SET_... with 16 bits */
    uint64_t addresses[DTN_ETHOSU_LONGS];        /**< of NPU_SET_... with a payload: its 32 bits, the parameter above */
    /** NULL, or who is told of each operation, and without accesses of each wait */
    void (*observer)(struct dtn_ethosu *machine, const dtn_eu_accesses_t *accesses);
} dtn_ethosu_t;

/** Bytes of a machine, for callers that cannot know its fields. */
size_t dtn_ethosu_machine_bytes(void);

/** The configuration with Vela's name for it, or NULL. */
const dtn_ethosu_config_t *dtn_ethosu_config(const char *name);

/** Configuration `index`, or NULL behind the last. */
const dtn_ethosu_config_t *dtn_ethosu_config_at(size_t index);

/** The configuration that command data was compiled for, or NULL: for another NPU, or no command data at all. */
const dtn_ethosu_config_t *dtn_ethosu_config_of(const void *command_data, size_t command_data_bytes);

/**
 * Checks a whole stream without executing it: finds what `dtn_ethosu_step` would, but for damaged weights.
 *
 * Commands are checked in the order in which they stand, up to the first NPU_OP_STOP, behind which no branch may lead.
 * Those that a branch leads to `dtn_ethosu_step` checks again, with the registers and in the workspace that are then:
 * faults of these alone, of a branch into the middle of a command and of loops that do not end are found there.
 * Of `memory` only the regions' sizes and `is_read_only` are used; `memory->workspace_bytes` becomes what the stream
 * needs. `command_data` is what a driver gets: COP1 and its actions, aligned to 16. `event` says where a fault is.
 */
dtn_ethosu_fault_t dtn_ethosu_check(dtn_ethosu_t *machine, const dtn_ethosu_config_t *config, const void *command_data,
                                    size_t command_data_bytes, dtn_ethosu_memory_t *memory, dtn_ethosu_event_t *event);

/**
 * Starts a stream; the command data and all memory stay in use until its end. A workspace that is too small is a fault
 * at the operation, whose detail is how many bytes it needs.
 */
dtn_ethosu_fault_t dtn_ethosu_start(dtn_ethosu_t *machine, const dtn_ethosu_config_t *config, const void *command_data,
                                    size_t command_data_bytes, const dtn_ethosu_memory_t *memory);

/**
 * Executes up to and with the next operation or copy; `event` says which. After DTN_ETHOSU_OP_STOP the stream is at its
 * end. After a fault the event says where, outputs are not to be used, and the machine can only be started again.
 */
dtn_ethosu_fault_t dtn_ethosu_step(dtn_ethosu_t *machine, dtn_ethosu_event_t *event);

/** Executes the rest of a stream; `event` is the last. */
dtn_ethosu_fault_t dtn_ethosu_run(dtn_ethosu_t *machine, dtn_ethosu_event_t *event);

/** How many operations that are no copies stand among the commands from byte `from` on to before byte `to`, at both of
 * which a command starts: which one of the stream an operation is, where branches lead over some and back. */
uint32_t dtn_ethosu_operations(const dtn_ethosu_t *machine, uint32_t from, uint32_t to);

/** The sentence of a fault. */
const char *dtn_ethosu_message(dtn_ethosu_fault_t fault);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ETHOSU_H */
