/*
 * Inputs of the bundles' fuzz target: valid programs of random steps, and mutations that know where words are.
 */
#include <string.h>

#include "bundle_builder.h"
#include "fuzz_bundle.h"
#include "fuzz_containers.h"
#include "test.h"

enum { MAX_ELEMENTS = 40, MAX_STEPS = 4, MAX_CONTAINERS = MAX_STEPS };

/* The operators of the target, by their index there. */
enum { QUANTIZE = 0, DEQUANTIZE = 1, TRANSPOSE = 2, OPERATORS = 3 };

/* A program being drawn, and the containers of its delegates. */
typedef struct {
    program_t program;
    build_t containers[MAX_CONTAINERS];
    uint32_t container_count;
    uint64_t *state;
} draft_t;

static bool is_one_in(uint64_t *state, int32_t n)
{
    return test_between(state, 1, n) == 1;
}

/* A value to read: one that an earlier step wrote, an input of the program, or a constant. */
static uint32_t draw_source(draft_t *draft, uint32_t bytes, uint32_t type)
{
    program_t *program = &draft->program;
    for (uint32_t i = 0; i < program->bundle.value_count; i++) {
        if (program->values[i].bytes == bytes && program->values[i].type == type && !is_one_in(draft->state, 3)) {
            return i;
        }
    }
    if (is_one_in(draft->state, 3) && bytes <= MAX_ELEMENTS * sizeof(float)) {
        uint8_t data[MAX_ELEMENTS * sizeof(float)];
        for (uint32_t i = 0; i < bytes; i++) {
            data[i] = (uint8_t)test_random(draft->state);
        }
        return program_constant(program, data, bytes, type);
    }
    uint32_t value = program_value(program, (uint32_t)test_between(draft->state, 0, 1), bytes, type);
    program_input(program, value);
    return value;
}

/* A value to write, now and then an output of the program. */
static uint32_t draw_target(draft_t *draft, uint32_t bytes, uint32_t type)
{
    uint32_t value = program_value(&draft->program, (uint32_t)test_between(draft->state, 0, 1), bytes, type);
    if (!is_one_in(draft->state, 3)) {
        program_output(&draft->program, value);
    }
    return value;
}

static void draw_conversion(draft_t *draft, bool quantize)
{
    static const struct {
        uint32_t type;
        uint32_t bytes;
        int32_t min;
        int32_t max;
    } types[] = {{DTN_TYPE_U8, 1, 0, 255}, {DTN_TYPE_S8, 1, -128, 127}, {DTN_TYPE_S16, 2, -32768, 32767}};
    size_t choice = (size_t)test_between(draft->state, 0, 2);
    int32_t min = types[choice].min;
    int32_t max = types[choice].max;
    uint32_t count = (uint32_t)test_between(draft->state, 0, MAX_ELEMENTS);
    uint32_t scale = is_one_in(draft->state, 4) ? (uint32_t)test_random(draft->state) : program_bits(0.03F);
    uint32_t zero_point = (uint32_t)test_between(draft->state, min, max);
    int32_t low = test_between(draft->state, min, max);
    const uint32_t params[] = {scale, zero_point, (uint32_t)low, (uint32_t)test_between(draft->state, low, max)};
    uint32_t floats = count * (uint32_t)sizeof(float);
    uint32_t numbers = count * types[choice].bytes;
    if (quantize) {
        uint32_t source = draw_source(draft, floats, DTN_TYPE_F32);
        uint32_t target = draw_target(draft, numbers, types[choice].type);
        program_operator(&draft->program, NULL, source, target, params, DTN_QUANTIZE_PARAMS);
    } else {
        uint32_t source = draw_source(draft, numbers, types[choice].type);
        uint32_t target = draw_target(draft, floats, DTN_TYPE_F32);
        program_operator(&draft->program, NULL, source, target, params, DTN_DEQUANTIZE_PARAMS);
    }
}

static void draw_transpose(draft_t *draft)
{
    uint32_t params[DTN_TRANSPOSE_PARAMS];
    uint32_t bytes = 1;
    for (uint32_t i = 0; i < DTN_TRANSPOSE_PARAMS; i++) {
        params[i] = (uint32_t)test_between(draft->state, 1, 3);
        bytes *= params[i];
    }
    uint32_t source = draw_source(draft, bytes, DTN_TYPE_S8);
    uint32_t target = draw_target(draft, bytes, DTN_TYPE_S8);
    program_operator(&draft->program, NULL, source, target, params, DTN_TRANSPOSE_PARAMS);
}

static void draw_delegate(draft_t *draft)
{
    build_t *build = &draft->containers[draft->container_count++];
    uint32_t values[2 * BUILD_MAX_TENSORS];
    fuzz_container(build, draft->state);
    for (uint32_t i = 0; i < build->inputs; i++) {
        values[i] = draw_source(draft, build->input_bytes[i], DTN_TYPE_S8);
    }
    for (uint32_t i = 0; i < build->outputs; i++) {
        values[build->inputs + i] = draw_target(draft, build->output_bytes[i], DTN_TYPE_S8);
    }
    program_delegate(&draft->program, build, values);
}

static void draw(draft_t *draft)
{
    program_start(&draft->program);
    for (int32_t steps = test_between(draft->state, 1, MAX_STEPS); steps > 0; steps--) {
        int32_t kind = test_between(draft->state, 0, OPERATORS + 1);
        if (kind >= OPERATORS) {
            draw_delegate(draft);
            continue;
        }
        if (kind == TRANSPOSE) {
            draw_transpose(draft);
        } else {
            draw_conversion(draft, kind == QUANTIZE);
        }
        draft->program.steps[draft->program.bundle.step_count - 1].index = (uint32_t)kind;
    }
    draft->program.bundle.operator_count = OPERATORS;
    program_finish(&draft->program);
}

static uint8_t *put(uint8_t *at, const void *data, size_t bytes)
{
    if (bytes != 0) {
        memcpy(at, data, bytes);
    }
    return at + bytes;
}

static size_t serialise(program_t *program, uint32_t mode, uint8_t *input)
{
    const dtn_bundle_t *bundle = &program->bundle;
    uint32_t head[FUZZ_HEAD] = {mode, bundle->version, bundle->counts_crc, bundle->crc};
    memcpy(head + FUZZ_COUNTS, &bundle->value_count, FUZZ_COUNT_WORDS * sizeof head[0]);
    uint8_t *at = put(input, head, sizeof head);
    for (uint32_t i = 0; i < TABLES; i++) {
        uint32_t count;
        const uint32_t *words = program_table(program, (table_t)i, &count);
        at = put(at, words, count * sizeof *words);
    }
    for (uint32_t i = 0; i < bundle->constant_count; i++) {
        const dtn_constant_t *constant = &bundle->constants[i];
        const uint32_t words[] = {constant->bytes, constant->crc};
        at = put(at, words, sizeof words);
        at = put(at, constant->data, constant->bytes);
    }
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        const uint32_t words[] = {bundle->delegates[i].first, bundle->delegates[i].blocks};
        at = put(at, words, sizeof words);
    }
    return (size_t)(at - input);
}

size_t fuzz_valid(uint64_t *state, uint8_t *input)
{
    static draft_t draft;
    memset(&draft, 0, sizeof draft);
    draft.state = state;
    draw(&draft);
    /* One in eight with the CRCs that it has. */
    size_t size = serialise(&draft.program, is_one_in(state, 8) ? 0 : 1, input);
    program_free(&draft.program);
    for (uint32_t i = 0; i < draft.container_count; i++) {
        build_free(&draft.containers[i]);
    }
    return size;
}

/* Words before the constants: the head and the tables. */
static uint32_t words_of_tables(const uint8_t *input, size_t size)
{
    static const uint8_t words[FUZZ_COUNT_WORDS] = {4, 6, 1, 1, 1, 1, 0, 0, 0};
    uint32_t counts[FUZZ_COUNT_WORDS];
    uint64_t total = FUZZ_HEAD;
    memcpy(counts, input + FUZZ_COUNTS * DTN_WORD_BYTES, sizeof counts);
    for (uint32_t i = 0; i < FUZZ_COUNT_WORDS; i++) {
        total += (uint64_t)words[i] * counts[i];
    }
    return (uint32_t)(total < size / DTN_WORD_BYTES ? total : size / DTN_WORD_BYTES);
}

size_t fuzz_mutate(uint64_t *state, uint8_t *input, size_t size)
{
    for (int32_t n = test_between(state, 0, 3); n > 0 && size >= FUZZ_HEAD * DTN_WORD_BYTES; n--) {
        int32_t choice = test_between(state, 0, 19);
        int32_t words = (int32_t)(size / DTN_WORD_BYTES);
        if (choice == 0) {
            size = (size_t)test_between(state, 0, (int32_t)size);
        } else if (choice < 3) {
            input[test_between(state, 0, (int32_t)size - 1)] = (uint8_t)test_random(state);
        } else {
            /* Changes a table three times in four, else a container or constant. */
            int32_t last = is_one_in(state, 4) ? words : (int32_t)words_of_tables(input, size);
            uint8_t *at = input + (size_t)test_between(state, FUZZ_VERSION, last - 1) * DTN_WORD_BYTES;
            uint32_t value;
            memcpy(&value, at, sizeof value);
            value = fuzz_edge_word(state, value);
            memcpy(at, &value, sizeof value);
        }
    }
    return size;
}
