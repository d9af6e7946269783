/*
 * Fuzz target: any bytes as a bundle, through init and, if that accepts it, two runs.
 *
 * Input: the words of `fuzz_bundle.h`, the tables, the constants, and the delegates' words. Every table
 * and block is copied to memory of just its size, and memories have just the bytes that the bundle asks for, so that
 * the address sanitizer sees every access beyond. The executor may trust that a table has as many entries as the counts
 * say once their CRC matches: the counts of the input are cut to what is there. Operators are functions, which cannot
 * be made from bytes: there are three of the library, and one NPU.
 */
#include "fuzz_bundle.h"

#include <stdlib.h>
#include <string.h>

#include "../src/driver/model.h"
#include "bundle_builder.h"
#include "deuteron/crc32.h"
#include "fuzz_containers.h"

enum {
    MAX_CONSTANTS = 64,
    MAX_DELEGATES = 8,
    MAX_BLOCKS = 64,
    MAX_MEMORIES = 8,
    MAX_TENSORS = 1024,
    EVENTS = 3,
    OPERATORS = 3
};

/* The rest of the input. */
typedef struct {
    const uint8_t *data;
    size_t left;
} reader_t;

/* Memory of just `count` entries of `size` bytes, or of as many as the input still has; sets `count` to that. */
static void *take(reader_t *reader, uint32_t *count, size_t size)
{
    if (*count > reader->left / size) {
        *count = (uint32_t)(reader->left / size);
    }
    size_t bytes = *count * size;
    void *copy = build_alloc((uint32_t)bytes);
    memcpy(copy, reader->data, bytes);
    reader->data += bytes;
    reader->left -= bytes;
    return copy;
}

static uint32_t take_word(reader_t *reader)
{
    uint32_t word = 0;
    if (reader->left >= sizeof word) {
        memcpy(&word, reader->data, sizeof word);
        reader->data += sizeof word;
        reader->left -= sizeof word;
    }
    return word;
}

static uint32_t at_most(uint32_t number, uint32_t limit)
{
    return number < limit ? number : limit;
}

/* Makes the CRCs of a container right whose blocks are those of a delegate. */
static void seal_container(const program_t *program, const dtn_delegate_t *delegate)
{
    if (delegate->blocks != PROGRAM_BLOCKS || delegate->first > program->bundle.constant_count ||
        PROGRAM_BLOCKS > program->bundle.constant_count - delegate->first) {
        return;
    }
    const dtn_constant_t *blocks = program->constants + delegate->first;
    build_t build = {.microcode = (uint32_t *)(uintptr_t)blocks[0].data,
                     .weights = (uint8_t *)(uintptr_t)blocks[1].data};
    if (blocks[0].bytes >= DTN_HEADER_WORDS * DTN_WORD_BYTES) {
        build.microcode_bytes = build.microcode[DTN_HEADER_MICROCODE_BYTES];
        build.weights_bytes = build.microcode[DTN_HEADER_WEIGHTS_BYTES];
        if (build.microcode_bytes <= blocks[0].bytes && build.weights_bytes <= blocks[1].bytes) {
            build_seal(&build);
        }
    }
}

static void seal(program_t *program)
{
    const dtn_bundle_t *bundle = &program->bundle;
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        seal_container(program, &program->delegates[i]);
    }
    for (uint32_t i = 0; i < bundle->constant_count; i++) {
        dtn_constant_t *constant = &program->constants[i];
        if (constant->crc != 0) {
            constant->crc = dtn_crc32(0, constant->data, constant->bytes);
        }
    }
    program_seal(program);
}

static void take_program(program_t *program, const uint8_t *data, size_t size)
{
    static const dtn_operator_t operators[OPERATORS] = {dtn_op_quantize_per_tensor, dtn_op_dequantize_per_tensor,
                                                        dtn_op_transpose};
    dtn_bundle_t *bundle = &program->bundle;
    uint32_t head[FUZZ_HEAD];
    memcpy(head, data, sizeof head);
    reader_t reader = {data + sizeof head, size - sizeof head};
    bundle->version = head[FUZZ_VERSION];
    bundle->counts_crc = head[FUZZ_COUNTS_CRC];
    bundle->crc = head[FUZZ_CRC];
    memcpy(&bundle->value_count, head + FUZZ_COUNTS, FUZZ_COUNT_WORDS * sizeof head[0]);
    bundle->input_count = at_most(bundle->input_count, MAX_TENSORS);
    bundle->output_count = at_most(bundle->output_count, MAX_TENSORS);
    bundle->memory_count = at_most(bundle->memory_count, MAX_MEMORIES);
    bundle->operator_count = at_most(bundle->operator_count, OPERATORS);
    bundle->constant_count = at_most(bundle->constant_count, MAX_CONSTANTS);
    bundle->delegate_count = at_most(bundle->delegate_count, MAX_DELEGATES);
    bundle->values = take(&reader, &bundle->value_count, sizeof *bundle->values);
    bundle->steps = take(&reader, &bundle->step_count, sizeof *bundle->steps);
    bundle->words = take(&reader, &bundle->word_count, sizeof *bundle->words);
    bundle->inputs = take(&reader, &bundle->input_count, sizeof *bundle->inputs);
    bundle->outputs = take(&reader, &bundle->output_count, sizeof *bundle->outputs);
    bundle->memory_bytes = take(&reader, &bundle->memory_count, sizeof *bundle->memory_bytes);
    bundle->operators = operators;
    for (uint32_t i = 0; i < bundle->constant_count; i++) {
        dtn_constant_t *constant = &program->constants[i];
        constant->bytes = take_word(&reader);
        constant->crc = take_word(&reader);
        constant->data = take(&reader, &constant->bytes, 1);
    }
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        program->delegates[i].npu = &dtn_npu_neutron;
        program->delegates[i].first = take_word(&reader);
        program->delegates[i].blocks = take_word(&reader);
    }
    bundle->constants = program->constants;
    bundle->delegates = program->delegates;
    if ((head[FUZZ_MODE] & 1U) != 0) {
        seal(program);
    }
}

static void free_program(program_t *program)
{
    const dtn_bundle_t *bundle = &program->bundle;
    const void *const tables[] = {bundle->values, bundle->steps,   bundle->words,
                                  bundle->inputs, bundle->outputs, bundle->memory_bytes};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        free((void *)(uintptr_t)tables[i]);
    }
    for (uint32_t i = 0; i < bundle->constant_count; i++) {
        free((void *)(uintptr_t)bundle->constants[i].data);
    }
}

/* True when no delegate has much to do; they have been checked. */
static bool is_bounded(const dtn_bundle_t *bundle)
{
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        const dtn_constant_t *blocks = bundle->constants + bundle->delegates[i].first;
        NeutronModelConfig config = {blocks[0].data, blocks[1].data, blocks[2].data, 0};
        dtn_model_t model;
        if (dtn_model_check(&config, neutronKernels, &model) != ENONE) {
            abort();
        }
        if (!fuzz_is_bounded(&model)) {
            return false;
        }
    }
    return true;
}

/* Runs the accepted program on buffers of just the sizes that it states, at odd addresses. */
static NeutronError run(dtn_executor_t *executor)
{
    static const void *inputs[MAX_TENSORS];
    static void *outputs[MAX_TENSORS];
    const dtn_bundle_t *bundle = executor->bundle;
    uint32_t tensors = bundle->input_count + bundle->output_count;
    uint8_t **blocks = (uint8_t **)build_alloc((uint32_t)(tensors * sizeof *blocks));
    for (uint32_t i = 0; i < tensors; i++) {
        bool input = i < bundle->input_count;
        uint32_t value = input ? bundle->inputs[i] : bundle->outputs[i - bundle->input_count];
        uint32_t bytes = bundle->values[value].bytes;
        blocks[i] = (uint8_t *)build_alloc(bytes + 1);
        memset(blocks[i], (int)(0x3EU + i), bytes);
        if (input) {
            inputs[i] = blocks[i] + 1;
        } else {
            outputs[i - bundle->input_count] = blocks[i] + 1;
        }
    }
    NeutronError error = dtn_executor_run(executor, inputs, outputs);
    for (uint32_t i = 0; i < tensors; i++) {
        free(blocks[i]);
    }
    free(blocks);
    return error;
}

static fuzz_outcome_t run_twice(dtn_executor_t *executor)
{
    if (!is_bounded(executor->bundle)) {
        return FUZZ_TOO_LARGE;
    }
    dtn_event_t events[EVENTS];
    executor->events = events;
    executor->event_capacity = EVENTS;
    fuzz_late_copies();
    NeutronError first = run(executor);
    fuzz_no_copy_left();
    NeutronError second = run(executor);
    fuzz_no_copy_left();
    if (dtn_executor_deinit(executor) != ENONE) {
        abort();
    }
    return first == ENONE && second == ENONE ? FUZZ_RAN : FUZZ_FAILED;
}

fuzz_outcome_t fuzz_one(const uint8_t *data, size_t size)
{
    static program_t program;
    if (size < FUZZ_HEAD * DTN_WORD_BYTES || size > FUZZ_MAX_BLOCK) {
        return FUZZ_REFUSED;
    }
    memset(&program, 0, sizeof program);
    take_program(&program, data, size);
    const dtn_bundle_t *bundle = &program.bundle;
    dtn_memory_t memories[MAX_MEMORIES];
    for (uint32_t i = 0; i < bundle->memory_count; i++) {
        memories[i].bytes = at_most(bundle->memory_bytes[i], FUZZ_MAX_BLOCK);
        memories[i].data = build_alloc(memories[i].bytes);
    }
    dtn_executor_t executor;
    fuzz_outcome_t outcome = FUZZ_REFUSED;
    if (dtn_executor_init(&executor, bundle, memories) == ENONE) {
        outcome = run_twice(&executor);
    }
    for (uint32_t i = 0; i < bundle->memory_count; i++) {
        free(memories[i].data);
    }
    free_program(&program);
    return outcome;
}
