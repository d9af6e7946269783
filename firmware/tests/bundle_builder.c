#include "bundle_builder.h"

#include <stdlib.h>
#include <string.h>

#include "deuteron/crc32.h"

static void need(bool condition)
{
    if (!condition) {
        abort();
    }
}

static uint32_t round_up(uint32_t bytes)
{
    return (bytes + BUILD_ALIGNMENT - 1) / BUILD_ALIGNMENT * BUILD_ALIGNMENT;
}

static void *keep(program_t *program, void *memory)
{
    need(program->owned_count < sizeof program->owned / sizeof program->owned[0]);
    program->owned[program->owned_count++] = memory;
    return memory;
}

void program_start(program_t *program)
{
    memset(program, 0, sizeof *program);
    program->bundle.version = DTN_BUNDLE_VERSION;
    program->bundle.name = "test";
    program->bundle.memory_count = PROGRAM_MEMORIES;
}

void program_free(program_t *program)
{
    for (uint32_t i = 0; i < program->owned_count; i++) {
        free(program->owned[i]);
    }
    memset(program, 0, sizeof *program);
}

static uint32_t add_value(program_t *program, uint32_t memory, uint32_t offset, uint32_t bytes, uint32_t type)
{
    need(program->bundle.value_count < PROGRAM_MAX);
    dtn_value_t value = {memory, offset, bytes, type};
    program->values[program->bundle.value_count] = value;
    return program->bundle.value_count++;
}

uint32_t program_value(program_t *program, uint32_t memory, uint32_t bytes, uint32_t type)
{
    uint32_t offset = program->memory_bytes[memory];
    program->memory_bytes[memory] += round_up(bytes);
    return add_value(program, memory, offset, bytes, type);
}

uint32_t program_constant(program_t *program, const void *data, uint32_t bytes, uint32_t type)
{
    void *copy = keep(program, build_alloc(bytes));
    memcpy(copy, data, bytes);
    dtn_constant_t constant = {copy, bytes, dtn_crc32(0, data, bytes)};
    program->constants[program->bundle.constant_count] = constant;
    return add_value(program, DTN_MEMORY_CONSTANT + program->bundle.constant_count++, 0, bytes, type);
}

void program_input(program_t *program, uint32_t value)
{
    need(program->bundle.input_count < PROGRAM_MAX);
    program->inputs[program->bundle.input_count++] = value;
}

void program_output(program_t *program, uint32_t value)
{
    need(program->bundle.output_count < PROGRAM_MAX);
    program->outputs[program->bundle.output_count++] = value;
}

static void add_word(program_t *program, uint32_t word)
{
    need(program->bundle.word_count < PROGRAM_MAX);
    program->words[program->bundle.word_count++] = word;
}

static void add_step(program_t *program, dtn_step_t step)
{
    need(program->bundle.step_count < PROGRAM_MAX);
    program->steps[program->bundle.step_count++] = step;
}

void program_operator(program_t *program, dtn_operator_t function, uint32_t input, uint32_t output,
                      const uint32_t *params, uint32_t param_count)
{
    const uint32_t values[] = {input, output};
    program_call(program, function, values, 1, 1, params, param_count);
}

void program_call(program_t *program, dtn_operator_t function, const uint32_t *values, uint32_t inputs,
                  uint32_t outputs, const uint32_t *params, uint32_t param_count)
{
    dtn_bundle_t *bundle = &program->bundle;
    dtn_step_t step = {DTN_STEP_OPERATOR, bundle->operator_count, bundle->word_count, inputs, outputs, param_count};
    program->operators[bundle->operator_count++] = function;
    add_step(program, step);
    for (uint32_t i = 0; i < inputs + outputs; i++) {
        add_word(program, values[i]);
    }
    for (uint32_t i = 0; i < param_count; i++) {
        add_word(program, params[i]);
    }
}

void program_delegate(program_t *program, const build_t *build, const uint32_t *values)
{
    dtn_bundle_t *bundle = &program->bundle;
    dtn_step_t step = {DTN_STEP_DELEGATE, bundle->delegate_count, bundle->word_count, build->inputs, build->outputs, 0};
    const dtn_constant_t blocks[PROGRAM_BLOCKS] = {
        {build->microcode, build->microcode_bytes, 0},
        {build->weights, build->weights_bytes, 0},
        {build->kernels, (build->kernels[0] + 1) * DTN_WORD_BYTES, 0},
    };
    dtn_delegate_t delegate = {&dtn_npu_neutron, bundle->constant_count, PROGRAM_BLOCKS};
    memcpy(program->constants + bundle->constant_count, blocks, sizeof blocks);
    bundle->constant_count += PROGRAM_BLOCKS;
    program->delegates[bundle->delegate_count++] = delegate;
    add_step(program, step);
    for (uint32_t i = 0; i < build->inputs + build->outputs; i++) {
        add_word(program, values[i]);
    }
    /* As bundle.h says; the contexts are added when their number is known. */
    uint32_t needed = round_up(DTN_POINTER_BYTES * (build->inputs + build->outputs + 2)) + build->scratch_bytes +
                      build->prefetch_bytes + (build->profiling ? build->commands * DTN_PROFILE_RECORD_BYTES : 0);
    if (needed > program->memory_bytes[PROGRAM_WORKING]) {
        program->memory_bytes[PROGRAM_WORKING] = needed;
    }
}

void program_partition(program_t *program, const dtn_npu_t *npu, const dtn_constant_t *blocks, uint32_t count,
                       uint32_t tensor_bytes, uint32_t working_bytes)
{
    dtn_bundle_t *bundle = &program->bundle;
    const dtn_delegate_t delegate = {npu, bundle->constant_count, count};
    add_step(program, (dtn_step_t){DTN_STEP_DELEGATE, bundle->delegate_count, bundle->word_count, 1, 1, 0});
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t value = program_value(program, 0, tensor_bytes, DTN_TYPE_S8);
        add_word(program, value);
        if (i == 0) {
            program_input(program, value);
        } else {
            program_output(program, value);
        }
    }
    memcpy(program->constants + bundle->constant_count, blocks, count * sizeof *blocks);
    bundle->constant_count += count;
    program->delegates[bundle->delegate_count++] = delegate;
    program->memory_bytes[PROGRAM_WORKING] = working_bytes;
}

/* A copy of just this size; NULL for none, which is what a program without such a table has. */
static void *exact(program_t *program, const void *table, size_t bytes)
{
    if (bytes == 0) {
        return NULL;
    }
    void *copy = keep(program, build_alloc((uint32_t)bytes));
    memcpy(copy, table, bytes);
    return copy;
}

void program_finish(program_t *program)
{
    dtn_bundle_t *bundle = &program->bundle;
    program->memory_bytes[PROGRAM_WORKING] += DTN_CONTEXT_BYTES * bundle->delegate_count;
    for (uint32_t i = 0; i < PROGRAM_MEMORIES; i++) {
        program->memories[i].bytes = program->memory_bytes[i];
        program->memories[i].data = keep(program, build_alloc(program->memory_bytes[i]));
    }
#define EXACT(name, count)                                                                                             \
    bundle->name = exact(program, program->name, bundle->count * sizeof program->name[0]) /* NOLINT */
    EXACT(values, value_count);
    EXACT(steps, step_count);
    EXACT(words, word_count);
    EXACT(inputs, input_count);
    EXACT(outputs, output_count);
    EXACT(memory_bytes, memory_count);
    EXACT(operators, operator_count);
    EXACT(constants, constant_count);
    EXACT(delegates, delegate_count);
#undef EXACT
    program_seal(program);
}

uint32_t *program_table(program_t *program, table_t table, uint32_t *count)
{
    const dtn_bundle_t *bundle = &program->bundle;
    const struct {
        const void *data;
        uint32_t words;
    } tables[TABLES] = {
        [TABLE_VALUES] = {bundle->values, 4 * bundle->value_count},
        [TABLE_STEPS] = {bundle->steps, 6 * bundle->step_count},
        [TABLE_WORDS] = {bundle->words, bundle->word_count},
        [TABLE_INPUTS] = {bundle->inputs, bundle->input_count},
        [TABLE_OUTPUTS] = {bundle->outputs, bundle->output_count},
        [TABLE_MEMORIES] = {bundle->memory_bytes, bundle->memory_count},
    };
    *count = tables[table].words;
    /* `program_finish` allocated it. */
    return (uint32_t *)(uintptr_t)tables[table].data;
}

static void seal_pair(dtn_bundle_t *bundle, uint32_t first, uint32_t second)
{
    bundle->crc = dtn_crc32(bundle->crc, &first, sizeof first);
    bundle->crc = dtn_crc32(bundle->crc, &second, sizeof second);
}

void program_seal(program_t *program)
{
    dtn_bundle_t *bundle = &program->bundle;
    const uint32_t counts[] = {
        bundle->value_count,    bundle->step_count,     bundle->word_count,
        bundle->input_count,    bundle->output_count,   bundle->memory_count,
        bundle->operator_count, bundle->constant_count, bundle->delegate_count,
    };
    bundle->counts_crc = dtn_crc32(0, counts, sizeof counts);
    bundle->crc = bundle->counts_crc;
    for (uint32_t i = 0; i < TABLES; i++) {
        uint32_t count;
        const uint32_t *words = program_table(program, (table_t)i, &count);
        bundle->crc = dtn_crc32(bundle->crc, words, count * sizeof *words);
    }
    for (uint32_t i = 0; i < bundle->constant_count; i++) {
        seal_pair(bundle, bundle->constants[i].bytes, bundle->constants[i].crc);
    }
    for (uint32_t i = 0; i < bundle->delegate_count; i++) {
        seal_pair(bundle, bundle->delegates[i].first, bundle->delegates[i].blocks);
    }
}

uint32_t program_bits(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
