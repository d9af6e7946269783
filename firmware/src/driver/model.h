/**
 * @file
 * Internals of the driver: the checked view of a model, and the steps of prepare and run.
 *
 * Every function of the check steps returns the first rule that does not hold, and may read what earlier steps checked:
 * header, then kernels block, then commands.
 */
#ifndef DTN_MODEL_H
#define DTN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deuteron/errors.h"
#include "deuteron/kernel.h"
#include "deuteron/microcode.h"
#include "NeutronDriver.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error                                                                                                                 \
    "microcode, weights and tables are little-endian and read in place: a big-endian target needs a converted payload"
#endif

/**
 * Whether prepare compares the weights with their CRC-32. 1 (default) costs one pass over the weights per prepare; 0 is
 * for images that are verified as a whole, such as by a secure boot.
 */
#ifndef DTN_CHECK_WEIGHTS_CRC
#define DTN_CHECK_WEIGHTS_CRC 1
#endif

/** A model whose header has been checked: pointers into the caller's blocks, and the header's numbers. */
typedef struct {
    const uint32_t *words;
    const uint8_t *weights;
    const dtn_kernel_t *kernels; /**< the linked kernels by number */
    uint32_t word_count;
    uint32_t weights_bytes;
    uint32_t scratch_bytes;
    uint32_t prefetch_bytes;
    uint32_t resident_bytes;
    uint32_t profile_bytes; /**< 0 without profiling */
    uint32_t inputs;
    uint32_t outputs;
    uint32_t commands;
    uint32_t first_command; /**< index of a word */
    uint32_t listed;        /**< bit k: the kernels block lists kernel k */
} dtn_model_t;

/** The buffers of a run; all members NULL while a model is only checked. */
typedef struct {
    const void *const *inputs;
    void *const *outputs;
    uint8_t *scratch;
    uint8_t *prefetch;
    bool resident; /**< the resident bytes of the prefetch area are in place */
} dtn_buffers_t;

/** True for a pointer at a multiple of 16 bytes. */
static inline bool dtn_is_aligned(const void *pointer)
{
    return ((uintptr_t)pointer & (DTN_ALIGNMENT - 1U)) == 0;
}

/** Opcode, or length in words, of the command with this first word. */
static inline uint32_t dtn_opcode(uint32_t first)
{
    return first & 0xFFU;
}
static inline uint32_t dtn_length(uint32_t first)
{
    return first >> 16;
}

/** CRC-32 (IEEE 802.3) of `crc`'s data followed by `size` bytes; start with 0. */
uint32_t dtn_crc32(uint32_t crc, const void *data, size_t size);

/** Checks the header and fills `model` but for `kernels` and `listed`. */
dtn_reason_t dtn_header_check(const NeutronModelConfig *config, dtn_model_t *model);

/** Checks the kernels block against `model->kernels` and fills `model->listed`. */
NeutronError dtn_kernels_check(const uint32_t *block, dtn_model_t *model);

/** Checks every command, and the bytes after the last. */
NeutronError dtn_commands_check(const dtn_model_t *model);

/** Checks the call whose words, as many as its first word says, start at `command`. */
dtn_reason_t dtn_call_check(const dtn_model_t *model, const uint32_t *command);

/** Runs the checked call at `command` on `buffers`. */
dtn_reason_t dtn_call_run(const dtn_model_t *model, const dtn_buffers_t *buffers, const uint32_t *command);

/** All check steps on the blocks of `config` with the kernels of `kernels`; fills `model`. */
NeutronError dtn_model_check(const NeutronModelConfig *config, const dtn_kernel_t *kernels, dtn_model_t *model);

/** Checks the pointers of `data` and runs the model; resident bytes of its prefetch area may be in place already. */
NeutronError dtn_model_run(const dtn_model_t *model, const NeutronDataConfig *data, bool resident);

/** The copy and wait hooks in force. */
const NeutronConfig *dtn_hooks(void);

/** Puts the default hooks (memcpy, nothing to wait for) in force. */
void dtn_hooks_reset(void);

/** Forgets what the hooks reported; called when a run starts. */
void dtn_fetch_clear(void);

/** DTN_REASON_FETCH when a hook has reported a failure since the run started. */
dtn_reason_t dtn_fetch_state(void);

#endif /* DTN_MODEL_H */
