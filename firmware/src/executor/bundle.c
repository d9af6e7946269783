/* Checks without steps and NPUs: tables, memories, constants, blocks, values. */
#include "bundle.h"

#include "../driver/types.h"
#include "deuteron/crc32.h"

/* The counts are read as one block in their order, and the pointers to the tables in the same order. */
enum { COUNTS = 9 };
typedef char counts_are_adjacent[offsetof(dtn_bundle_t, delegate_count) - offsetof(dtn_bundle_t, value_count) ==
                                         (COUNTS - 1) * sizeof(uint32_t)
                                     ? 1
                                     : -1];
typedef char tables_are_adjacent
    [offsetof(dtn_bundle_t, delegates) - offsetof(dtn_bundle_t, values) == (COUNTS - 1) * sizeof(void *) ? 1 : -1];

/* The two numbers of a constant or delegate follow a pointer, which the linker sets. */
enum { NUMBERS = 2 };
typedef char constants_end_in_numbers
    [sizeof(dtn_constant_t) - offsetof(dtn_constant_t, bytes) == NUMBERS * sizeof(uint32_t) ? 1 : -1];
typedef char
    delegates_are_laid_out_like_constants[sizeof(dtn_delegate_t) == sizeof(dtn_constant_t) &&
                                                  offsetof(dtn_delegate_t, first) == offsetof(dtn_constant_t, bytes)
                                              ? 1
                                              : -1];

/* Bytes of an entry of each table without pointers; these are first. */
static const uint8_t entry_bytes[] = {
    sizeof(dtn_value_t), sizeof(dtn_step_t), sizeof(uint32_t), sizeof(uint32_t), sizeof(uint32_t), sizeof(uint32_t),
};

/* Continues `crc` over the numbers of `count` entries, which follow a pointer in both kinds. */
static uint32_t numbers_crc(uint32_t crc, const void *entries, uint32_t count)
{
    const uint8_t *entry = (const uint8_t *)entries;
    for (; count != 0; count--) {
        crc = dtn_crc32(crc, entry + offsetof(dtn_constant_t, bytes), NUMBERS * sizeof(uint32_t));
        entry += sizeof(dtn_constant_t);
    }
    return crc;
}

static dtn_reason_t tables_check(const dtn_bundle_t *bundle)
{
    if (bundle->version != DTN_BUNDLE_VERSION) {
        return DTN_REASON_BUNDLE_VERSION;
    }
    const uint8_t *start = (const uint8_t *)bundle;
    const uint32_t *counts = (const uint32_t *)(const void *)(start + offsetof(dtn_bundle_t, value_count));
    const void *const *tables = (const void *const *)(const void *)(start + offsetof(dtn_bundle_t, values));
    uint32_t crc = dtn_crc32(0, counts, COUNTS * sizeof *counts);
    if (crc != bundle->counts_crc) {
        return DTN_REASON_BUNDLE_CRC;
    }
    for (uint32_t i = 0; i < sizeof entry_bytes; i++) {
        crc = dtn_crc32(crc, tables[i], counts[i] * entry_bytes[i]);
    }
    crc = numbers_crc(crc, bundle->constants, bundle->constant_count);
    crc = numbers_crc(crc, bundle->delegates, bundle->delegate_count);
    return crc == bundle->crc ? DTN_OK : DTN_REASON_BUNDLE_CRC;
}

static NeutronError memories_check(const dtn_bundle_t *bundle, const dtn_memory_t *memories)
{
    if (bundle->memory_count == 0) {
        return dtn_error(DTN_REASON_MEMORY_SIZE, 0);
    }
    for (uint32_t i = 0; i < bundle->memory_count; i++) {
        if (memories[i].bytes < bundle->memory_bytes[i]) {
            return dtn_error(DTN_REASON_MEMORY_SIZE, i);
        }
        if (!dtn_is_aligned(memories[i].data)) {
            return dtn_error(DTN_REASON_MISALIGNED, 0);
        }
        if (bundle->memory_bytes[i] == 0) {
            continue;
        }
        if (memories[i].data == NULL) {
            return dtn_error(DTN_REASON_NULL_POINTER, 0);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (dtn_overlaps(memories[i].data, bundle->memory_bytes[i], memories[j].data, bundle->memory_bytes[j])) {
                return dtn_error(DTN_REASON_MEMORY_OVERLAP, i);
            }
        }
    }
    return ENONE;
}

static NeutronError constants_check(const dtn_bundle_t *bundle)
{
    for (uint32_t i = 0; i < bundle->constant_count; i++) {
        const dtn_constant_t *constant = &bundle->constants[i];
        if (constant->data == NULL) {
            return dtn_error(DTN_REASON_NULL_POINTER, 0);
        }
        if (!dtn_is_aligned(constant->data)) {
            return dtn_error(DTN_REASON_MISALIGNED, 0);
        }
        if (constant->crc != 0 && dtn_crc32(0, constant->data, constant->bytes) != constant->crc) {
            return dtn_error(DTN_REASON_BUNDLE_CONSTANT, i);
        }
    }
    return ENONE;
}

static NeutronError delegates_check(const dtn_bundle_t *bundle)
{
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        const dtn_delegate_t *delegate = &bundle->delegates[i];
        if (delegate->npu == NULL) {
            return dtn_error(DTN_REASON_NULL_POINTER, 0);
        }
        if (!dtn_is_inside(delegate->first, delegate->blocks, bundle->constant_count)) {
            return dtn_error(DTN_REASON_DELEGATE_BLOCK, i);
        }
    }
    return ENONE;
}

/* Bytes of one element; 0 for an unknown type. */
static uint32_t type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {
        [DTN_TYPE_U8] = 1,  [DTN_TYPE_S8] = 1,  [DTN_TYPE_S16] = 2, [DTN_TYPE_S32] = 4,
        [DTN_TYPE_S64] = 8, [DTN_TYPE_F32] = 4, [DTN_TYPE_F64] = 8, [DTN_TYPE_BOOL] = 1,
    };
    if (type - DTN_TYPE_U32 <= DTN_TYPE_U64 - DTN_TYPE_U32) {
        type -= DTN_TYPE_U32 - DTN_TYPE_S32; /* uint32 and uint64 are as large as int32 and int64 */
    }
    return type < sizeof bytes ? bytes[type] : 0;
}

static bool is_placed(const dtn_bundle_t *bundle, const dtn_value_t *value)
{
    uint32_t size;
    uint32_t least = 0;
    uint32_t element = type_bytes(value->type);
    if (value->memory >= DTN_MEMORY_CONSTANT) {
        uint32_t index = value->memory - DTN_MEMORY_CONSTANT;
        if (index >= bundle->constant_count) {
            return false;
        }
        size = bundle->constants[index].bytes;
    } else if (value->memory < bundle->memory_count) {
        size = bundle->memory_bytes[value->memory];
        /* The delegates check values after the contexts. */
        least = value->memory == bundle->memory_count - 1 ? bundle->delegate_count * DTN_CONTEXT_BYTES : 0;
    } else {
        return false;
    }
    /* All sizes of elements are powers of two. */
    return element != 0 && (value->bytes & (element - 1)) == 0 && value->offset >= least &&
           value->offset % DTN_ALIGNMENT == 0 && dtn_is_inside(value->offset, value->bytes, size);
}

static NeutronError values_check(const dtn_bundle_t *bundle)
{
    for (uint32_t i = 0; i < bundle->value_count; i++) {
        if (!is_placed(bundle, &bundle->values[i])) {
            return dtn_error(DTN_REASON_BUNDLE_VALUE, i);
        }
    }
    for (uint32_t i = 0; i < bundle->input_count; i++) {
        uint32_t value = bundle->inputs[i];
        if (value >= bundle->value_count || bundle->values[value].memory >= DTN_MEMORY_CONSTANT) {
            return dtn_error(DTN_REASON_BUNDLE_TENSOR, i);
        }
    }
    for (uint32_t i = 0; i < bundle->output_count; i++) {
        if (bundle->outputs[i] >= bundle->value_count) {
            return dtn_error(DTN_REASON_BUNDLE_TENSOR, bundle->input_count + i);
        }
    }
    return ENONE;
}

NeutronError dtn_bundle_check(const dtn_bundle_t *bundle, const dtn_memory_t *memories)
{
    if (bundle == NULL || memories == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    dtn_reason_t reason = tables_check(bundle);
    if (reason != DTN_OK) {
        return dtn_error(reason, 0);
    }
    NeutronError error = memories_check(bundle, memories);
    if (error == ENONE) {
        error = constants_check(bundle);
    }
    if (error == ENONE) {
        error = delegates_check(bundle);
    }
    return error == ENONE ? values_check(bundle) : error;
}
