/*
 * The fuzz target of `dtn_cm_decompress`.
 *
 * An input is the form and the number of bytes that it stands for, a word each, and the stream. Stream, scratch memory
 * and output are allocated in their sizes, so that the sanitizers see a byte too many.
 */
#include <stdlib.h>
#include <string.h>

#include "deuteron/cortex_m.h"
#include "deuteron/errors.h"
#include "fuzz_target.h"

enum { FORM = 0, COUNT = 4, STREAM = 8, SCRATCH_BYTES = 768 };

static uint32_t word_at(const uint8_t *data, size_t at)
{
    uint32_t word;
    memcpy(&word, data + at, sizeof word);
    return word;
}

static void *copied(const void *data, size_t size)
{
    void *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size);
    return copy;
}

fuzz_outcome_t fuzz_one(const uint8_t *data, size_t size)
{
    static const uint8_t zeros[FUZZ_MAX_INPUT];
    if (size < STREAM) {
        return FUZZ_REFUSED;
    }
    const uint32_t form = word_at(data, FORM), count = word_at(data, COUNT);
    if (count > sizeof zeros) {
        return FUZZ_TOO_LARGE;
    }
    void *stream = copied(data + STREAM, size - STREAM), *scratch = copied(zeros, SCRATCH_BYTES);
    void *output = copied(zeros, count);
    dtn_operator_call_t call = {.params = &form, .param_count = 1, .input_count = 1, .output_count = 2};
    call.values[0] = (dtn_tensor_t){.data = stream, .bytes = (uint32_t)(size - STREAM), .type = DTN_TYPE_U8};
    call.values[1] = (dtn_tensor_t){.data = scratch, .bytes = SCRATCH_BYTES, .type = DTN_TYPE_U8};
    call.values[2] = (dtn_tensor_t){.data = output, .bytes = count, .type = DTN_TYPE_S8};
    fuzz_outcome_t outcome = FUZZ_REFUSED;
    if (dtn_cm_decompress(&call, DTN_PHASE_CHECK) == DTN_OK) {
        outcome = dtn_cm_decompress(&call, DTN_PHASE_RUN) == DTN_OK ? FUZZ_RAN : FUZZ_FAILED;
    }
    free(stream);
    free(scratch);
    free(output);
    return outcome;
}
