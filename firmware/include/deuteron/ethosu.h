/**
 * @file
 * Executes Arm Ethos-U55, Ethos-U65 and Ethos-U85 command streams on the CPU, bit for bit, operation by operation. It
 * models results, not time.
 *
 * The caller owns all memory: a machine, its SHRAM, a workspace and the regions that the stream addresses. Nothing is
 * allocated, and every field of a command is checked before use. Bytes of memory are little-endian.
 *
 * Not supported on an Ethos-U85: argmax pools, pools with per-channel scales, pools whose sums another operation
 * continues, its built-in tanh and sigmoid, replicating resizes, maps of three tiles, and scaled means. Outputs that
 * are transposed or reversed inside a chain, or both, are not supported either, nor are branches on the result of an
 * operation that does not write one element to a region.
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

/** One row per fault: X(number, NAME, text). Numbers are never reused. */
#define DTN_ETHOSU_FAULTS(X)                                                                                           \
    X(1, NULL_POINTER, "a required pointer is NULL")                                                                   \
    X(2, MISALIGNED, "the commands, the SHRAM, the workspace or a region is not aligned to 16 bytes")                  \
    X(3, SHRAM_SIZE, "the SHRAM is smaller than the configuration's")                                                  \
    X(4, HEADER, "the command data does not start with COP1, a configuration and a command stream of its size")        \
    X(5, CONFIGURATION, "the commands were compiled for another accelerator configuration")                            \
    X(6, TRUNCATED, "the stream ends within a command or without NPU_OP_STOP")                                         \
    X(7, OPCODE, "this NPU does not have the command")                                                                 \
    X(8, UNSET, "an operation uses a register that no command has set")                                                \
    X(9, FIELD, "a register has a value that is reserved or out of range")                                             \
    X(10, REGION, "an operation addresses a missing region")                                                           \
    X(11, BOUNDS, "an operation leaves its region")                                                                    \
    X(12, READ_ONLY, "an operation writes to a region that is read only")                                              \
    X(13, ALIGNMENT, "an address or stride is misaligned")                                                             \
    X(14, SHRAM, "a copy or table leaves the SHRAM")                                                                   \
    X(15, GEOMETRY, "sizes of the input, the output and the kernel do not match")                                      \
    X(16, WEIGHTS, "a weight stream is damaged or too short")                                                          \
    X(17, SCALES, "a scale stream is too short")                                                                       \
    X(18, WORKSPACE, "the workspace is too small for an operation")                                                    \
    X(19, UNSUPPORTED, "an operation is not modelled")                                                                 \
    X(20, FINISHED, "the stream has ended or stopped at a fault")                                                      \
    X(21, WORK, "the operations, including repetitions by branches, exceed 2^36 terms")                                \
    X(22, BUILT_IN,                                                                                                    \
      "an operation uses the NPU's built-in tanh or sigmoid, whose values are not public; tables are modelled")        \
    X(23, STRIDED_COPY, "a copy has source strides or three dimensions, which no compiler emits")                      \
    X(40, BRANCH, "a branch tests the result of an operation that does not write one element")                         \
    X(41, ARGMAX, "an argmax pool, which is not modelled")                                                             \
    X(42, TILES, "a map in three vertical tiles, or none, which is not modelled")                                      \
    X(43, INDEX, "an indexed copy has an index above its maximum")                                                     \
    X(44, TARGET, "a branch leads beyond the commands, which end at the first NPU_OP_STOP")

/** Limit of a stream's work: terms of its operations, and for each command word that a branch repeats the equivalent of
 * an operation's check, so that every stream ends. */
#define DTN_ETHOSU_MOST_WORK (UINT64_C(1) << 36)
enum { DTN_ETHOSU_WORD_WORK = 1024 };

/** Result of `dtn_ethosu_step` and related functions. */
typedef enum {
    DTN_ETHOSU_OK = 0,
#define X(number, name, sentence) DTN_ETHOSU_##name = number,
    DTN_ETHOSU_FAULTS(X)
#undef X
} dtn_ethosu_fault_t;

/** An accelerator configuration. */
typedef struct {
    const char *name;     /**< Vela's name: `ethos-u55-128` */
    uint32_t word;        /**< word of the command data's header: product, SHRAM and MACs */
    uint16_t macs;        /**< 8-bit multiply-accumulates per cycle */
    uint8_t cores;        /**< each has its own weights */
    uint16_t channels;    /**< output channels computed at once by a core; on an Ethos-U85 for one pixel */
    uint32_t shram_bytes; /**< SHRAM of a core, which copies and tables address; on an Ethos-U85 for tables */
} dtn_ethosu_config_t;

/** A memory that a stream addresses by its number; one without bytes does not exist. */
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
    uint8_t *workspace; /**< aligned to 16: size from `dtn_ethosu_check` */
    size_t workspace_bytes;
} dtn_ethosu_memory_t;

/** The executed command, or the position of a fault. */
typedef struct {
    uint32_t offset; /**< offset of the command in bytes from the first command */
    uint16_t opcode; /**< opcode of the command; operations are DTN_ETHOSU_OP_... */
    uint16_t param;  /**< its 16-bit parameter */
    uint64_t detail; /**< detail of a fault: opcode of the register, address or bytes */
} dtn_ethosu_event_t;

/** Opcodes of the events of `dtn_ethosu_step`. */
enum {
    DTN_ETHOSU_OP_STOP = 0x000,
    DTN_ETHOSU_OP_CONV = 0x002,
    DTN_ETHOSU_OP_DEPTHWISE = 0x003,
    DTN_ETHOSU_OP_POOL = 0x005,
    DTN_ETHOSU_OP_ELEMENTWISE = 0x006,
    DTN_ETHOSU_OP_RESIZE = 0x007,
    DTN_ETHOSU_OP_DMA_START = 0x010,
};

/** Number of chain buffers of an Ethos-U85. */
enum { DTN_ETHOSU_CHAINS = 8 };

/** A tensor between two operations of a chain, in the workspace; one without bytes does not exist. */
typedef struct {
    uint64_t before_end; /**< distance of its start from the workspace's end */
    int32_t height;
    int32_t width;
    int32_t depth;
    uint8_t bytes; /**< bytes of an element */
} dtn_ethosu_chain_t;

/** Number of registers of 16 bits, and with a payload. */
enum { DTN_ETHOSU_SHORTS = 96, DTN_ETHOSU_LONGS = 60 };

/** Accesses of an operation; internal. */
typedef struct dtn_ethosu_accesses dtn_ethosu_accesses_t;

/** The state of a stream in execution; its fields are private. */
typedef struct dtn_ethosu {
    const dtn_ethosu_config_t *config;
    const uint8_t *commands; /**< the first command */
    size_t command_bytes;
    size_t at; /**< offset of the next command */
    dtn_ethosu_memory_t memory;
    size_t needed; /**< workspace needed by the operations so far */
    size_t held;   /**< bytes at the workspace's end used by tensors outside regions */
    size_t staged; /**< of these, the output before its transpose */
    dtn_ethosu_chain_t chains[DTN_ETHOSU_CHAINS];
    dtn_ethosu_chain_t sums; /**< accumulators of an operation without output, for the next */
    uint64_t work;           /**< work so far, at most DTN_ETHOSU_MOST_WORK */
    size_t furthest;         /**< in a check: the last branch target so far */
    const uint8_t *element;  /**< the output of an operation that writes one element of a region */
    uint8_t element_bytes;   /**< its size, or 0 */
    uint8_t result;          /**< result of the previous operation for a branch: 0 none, 1 zero, 2 not zero */
    bool is_check;           /**< operations are checked, and not executed */
    bool is_finished;
    dtn_ethosu_event_t event;
    uint32_t is_set[2 * DTN_ETHOSU_SHORTS / 32]; /**< a bit for each set register, 16-bit ones first */
    uint16_t parameters[DTN_ETHOSU_SHORTS];      /**< values of NPU_SET_... with 16 bits */
    uint64_t addresses[DTN_ETHOSU_LONGS]; /**< values of NPU_SET_... with a payload: its 32 bits, the parameter above */
    /** NULL, or an observer that gets each operation's accesses, and each wait without accesses. */
    void (*observer)(struct dtn_ethosu *machine, const dtn_ethosu_accesses_t *accesses);
} dtn_ethosu_t;

/** Bytes of a machine, for callers in other languages. */
size_t dtn_ethosu_machine_bytes(void);

/** The configuration with Vela's name for it, or NULL. */
const dtn_ethosu_config_t *dtn_ethosu_config(const char *name);

/** Configuration `index`, or NULL after the last. */
const dtn_ethosu_config_t *dtn_ethosu_config_at(size_t index);

/** The configuration that command data was compiled for, or NULL for another NPU or other data. */
const dtn_ethosu_config_t *dtn_ethosu_config_of(const void *command_data, size_t command_data_bytes);

/**
 * Checks a whole stream without executing it: finds the faults of `dtn_ethosu_step`, except damaged weights.
 *
 * Commands are checked in order, up to the first NPU_OP_STOP, which no branch may lead beyond. `dtn_ethosu_step` checks
 * branch targets again, with their registers and workspace: it finds faults that only occur there, branches into the
 * middle of a command, and endless loops. Only the regions' sizes and `is_read_only` of `memory` are used;
 * `memory->workspace_bytes` becomes the stream's need. `command_data` is the driver's input: COP1 and its actions,
 * aligned to 16. `event` is the position of a fault.
 */
dtn_ethosu_fault_t dtn_ethosu_check(dtn_ethosu_t *machine, const dtn_ethosu_config_t *config, const void *command_data,
                                    size_t command_data_bytes, dtn_ethosu_memory_t *memory, dtn_ethosu_event_t *event);

/**
 * Starts a stream; the command data and all memory are in use until its end. A workspace that is too small is a fault
 * at the operation, whose detail is the required size.
 */
dtn_ethosu_fault_t dtn_ethosu_start(dtn_ethosu_t *machine, const dtn_ethosu_config_t *config, const void *command_data,
                                    size_t command_data_bytes, const dtn_ethosu_memory_t *memory);

/**
 * Executes up to and including the next operation or copy; `event` identifies it. After DTN_ETHOSU_OP_STOP the stream
 * is complete. After a fault the event has its position, outputs are invalid, and the machine must be started again.
 */
dtn_ethosu_fault_t dtn_ethosu_step(dtn_ethosu_t *machine, dtn_ethosu_event_t *event);

/** Executes the rest of a stream; `event` is the last one. */
dtn_ethosu_fault_t dtn_ethosu_run(dtn_ethosu_t *machine, dtn_ethosu_event_t *event);

/** Number of operations, without copies, from byte `from` to before byte `to` of the commands; both must be the start
 * of a command. This identifies an operation in a stream with branches. */
uint32_t dtn_ethosu_operations(const dtn_ethosu_t *machine, uint32_t from, uint32_t to);

/** The text of a fault. */
const char *dtn_ethosu_message(dtn_ethosu_fault_t fault);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_ETHOSU_H */
