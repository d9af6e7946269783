#include "header.h"

#include "deuteron/crc32.h"

static bool is_multiple(uint32_t bytes)
{
    return bytes % DTN_ALIGNMENT == 0;
}

static bool all_zero(const uint32_t *words, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (words[i] != 0) {
            return false;
        }
    }
    return true;
}

static uint32_t microcode_crc(const uint32_t *words, uint32_t bytes)
{
    uint32_t zero = 0;
    uint32_t before = DTN_HEADER_CRC * DTN_WORD_BYTES;
    uint32_t after = before + DTN_WORD_BYTES;
    uint32_t crc = dtn_crc32(0, words, before);
    crc = dtn_crc32(crc, &zero, sizeof zero);
    return dtn_crc32(crc, words + DTN_HEADER_CRC + 1, bytes - after);
}

/* Checks magic, size and CRC: before that, only the fixed header may be read. */
static dtn_reason_t identity_check(const uint32_t *words)
{
    uint32_t bytes = words[DTN_HEADER_MICROCODE_BYTES];
    uint32_t version = words[DTN_HEADER_VERSION];
    if (words[DTN_HEADER_MAGIC] != DTN_MAGIC) {
        return DTN_REASON_MAGIC;
    }
    if (words[DTN_HEADER_DEUTERON_MAGIC] != DTN_DEUTERON_MAGIC) {
        return DTN_REASON_NOT_DEUTERON;
    }
    if (version < DTN_MICROCODE_VERSION_MAJOR << 16 ||
        version > (DTN_MICROCODE_VERSION_MAJOR << 16 | DTN_MICROCODE_VERSION_MINOR)) {
        return DTN_REASON_VERSION;
    }
    if (bytes <= DTN_HEADER_WORDS * DTN_WORD_BYTES || bytes > DTN_MAX_MICROCODE_BYTES || !is_multiple(bytes)) {
        return DTN_REASON_HEADER_SIZE;
    }
    if (words[DTN_HEADER_CRC] != microcode_crc(words, bytes)) {
        return DTN_REASON_MICROCODE_CRC;
    }
    return DTN_OK;
}

/* Both layouts have the same fields, in B two words later. */
typedef char layouts_have_one_order[DTN_LAYOUT_B_INPUTS - DTN_LAYOUT_A_INPUTS ==
                                                DTN_LAYOUT_B_PREFETCH_BYTES - DTN_LAYOUT_A_PREFETCH_BYTES &&
                                            DTN_LAYOUT_B_OUTPUTS - DTN_LAYOUT_A_OUTPUTS ==
                                                DTN_LAYOUT_B_PREFETCH_BYTES - DTN_LAYOUT_A_PREFETCH_BYTES
                                        ? 1
                                        : -1];

/* Flags are bits 0 and 1; the second one needs this version. */
#define PLACES_VERSION (DTN_MICROCODE_VERSION_MAJOR << 16 | DTN_MINOR_OF_PLACES)

/* Words 10 to 14 have two layouts; the profiling flag chooses. */
static dtn_reason_t layout_read(const uint32_t *words, dtn_model_t *model)
{
    const uint32_t *layout = words;
    uint32_t flags = words[DTN_HEADER_FLAGS];
    if (flags >
        (words[DTN_HEADER_VERSION] < PLACES_VERSION ? DTN_FLAG_PROFILING : DTN_FLAG_PROFILING | DTN_FLAG_PLACES)) {
        return DTN_REASON_FLAGS;
    }
    if ((flags & DTN_FLAG_PROFILING) != 0) {
        model->profile_bytes = words[DTN_LAYOUT_B_PROFILE_BYTES];
        layout += DTN_LAYOUT_B_PREFETCH_BYTES - DTN_LAYOUT_A_PREFETCH_BYTES;
        if (!is_multiple(words[DTN_LAYOUT_B_DEBUG_BYTES])) {
            return DTN_REASON_HEADER_SIZE;
        }
        if (model->profile_bytes % DTN_PROFILE_RECORD_BYTES != 0 ||
            model->profile_bytes / DTN_PROFILE_RECORD_BYTES != model->commands) {
            return DTN_REASON_PROFILE_SIZE;
        }
    } else {
        model->profile_bytes = 0;
        if (!all_zero(words, DTN_LAYOUT_A_OUTPUTS + 1, DTN_HEADER_FIRST_COMMAND)) {
            return DTN_REASON_RESERVED;
        }
    }
    model->memory_bytes[DTN_PREFETCH] = layout[DTN_LAYOUT_A_PREFETCH_BYTES];
    model->inputs = layout[DTN_LAYOUT_A_INPUTS];
    model->outputs = layout[DTN_LAYOUT_A_OUTPUTS];
    return DTN_OK;
}

/* True if all places of inputs and outputs, if there are any, are aligned and inside scratch. */
static bool places_fit(const dtn_model_t *model, uint32_t tensors, uint32_t tables_end)
{
    const uint32_t scratch = model->memory_bytes[DTN_SCRATCH];
    for (uint32_t i = DTN_HEADER_WORDS + tensors; i < tables_end; i++) {
        uint32_t place = model->words[i];
        if (place != DTN_ELSEWHERE &&
            (!is_multiple(place) || !dtn_is_inside(place, model->words[i - tensors], scratch))) {
            return false;
        }
    }
    return true;
}

static dtn_reason_t weights_check(const dtn_model_t *model)
{
    bool same = model->words[DTN_HEADER_WEIGHTS_CRC] == dtn_crc32(0, model->weights, model->memory_bytes[DTN_WEIGHTS]);
    return same ? DTN_OK : DTN_REASON_WEIGHTS_CRC;
}

dtn_reason_t dtn_header_verify(const dtn_model_t *model)
{
    /* Uses the checked size: the header's word may be damaged. */
    if (model->words[DTN_HEADER_CRC] != microcode_crc(model->words, model->word_count * DTN_WORD_BYTES)) {
        return DTN_REASON_MICROCODE_CRC;
    }
    return weights_check(model);
}

dtn_reason_t dtn_header_check(const NeutronModelConfig *config, dtn_model_t *model)
{
    const uint32_t *words = (const uint32_t *)config->microcode;
    dtn_reason_t reason = identity_check(words);
    if (reason != DTN_OK) {
        return reason;
    }
    model->words = words;
    model->weights = (const uint8_t *)config->weights;
    model->word_count = words[DTN_HEADER_MICROCODE_BYTES] / DTN_WORD_BYTES;
    model->memory_bytes[DTN_WEIGHTS] = words[DTN_HEADER_WEIGHTS_BYTES];
    model->memory_bytes[DTN_SCRATCH] = words[DTN_HEADER_SCRATCH_BYTES];
    model->resident_bytes = words[DTN_HEADER_RESIDENT_BYTES];
    model->commands = words[DTN_HEADER_COMMANDS];
    reason = layout_read(words, model);
    if (reason != DTN_OK) {
        return reason;
    }
    const uint32_t *bytes = model->memory_bytes;
    if (bytes[DTN_WEIGHTS] < DTN_MIN_WEIGHTS_BYTES || model->resident_bytes > bytes[DTN_PREFETCH] ||
        !is_multiple(bytes[DTN_SCRATCH] | bytes[DTN_WEIGHTS] | bytes[DTN_PREFETCH] | model->resident_bytes)) {
        return DTN_REASON_HEADER_SIZE;
    }
    if (model->inputs > DTN_MAX_TENSORS || model->outputs > DTN_MAX_TENSORS) {
        return DTN_REASON_TENSOR_COUNT;
    }
    uint32_t tensors = model->inputs + model->outputs;
    uint32_t tables_end = DTN_HEADER_WORDS + tensors;
    model->places = NULL;
    if ((words[DTN_HEADER_FLAGS] & DTN_FLAG_PLACES) != 0) {
        model->places = words + tables_end;
        tables_end += tensors;
    }
    uint32_t first = words[DTN_HEADER_FIRST_COMMAND];
    model->first_command = first / DTN_WORD_BYTES;
    if (!is_multiple(first) || model->first_command < tables_end || model->first_command >= model->word_count) {
        return DTN_REASON_FIRST_COMMAND;
    }
    if (!all_zero(words, DTN_HEADER_RESIDENT_BYTES + 1, DTN_HEADER_WORDS) ||
        !all_zero(words, tables_end, model->first_command)) {
        return DTN_REASON_RESERVED;
    }
    if (!places_fit(model, tensors, tables_end)) {
        return DTN_REASON_PLACES;
    }
    return DTN_CHECK_WEIGHTS_CRC ? weights_check(model) : DTN_OK;
}
