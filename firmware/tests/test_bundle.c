/* The executor refuses every broken bundle with its own reason. */
#include <stdio.h>
#include <stdlib.h>

#include "deuteron/crc32.h"
#include "prepare_errors.h"
#include "small_bundle.h"
#include "test.h"

static NeutronError init(program_t *program)
{
    dtn_executor_t executor;
    NeutronError error = dtn_executor_init(&executor, &program->bundle, program->memories);
    if (error == ENONE) {
        CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    } else {
        check_error(dtn_executor_run(&executor, NULL, NULL), DTN_REASON_NULL_POINTER, 0, "run after a failed init");
    }
    return error;
}

/* Words of the tables. */
enum { VALUE_WORDS = 4, MEMORY = 0, OFFSET = 1, BYTES = 2, TYPE = 3 };
enum { STEP_WORDS = 6, KIND = 0, INDEX = 1, FIRST = 2, INPUTS = 3, OUTPUTS = 4, PARAMS = 5 };

/* Where the words of the steps start. */
enum { QUANTIZE_WORDS = 0, TRANSPOSE_WORDS = 6, FIRST_WORDS = 11, SECOND_WORDS = 15, DEQUANTIZE_WORDS = 18 };

/* One word changed, CRCs made right again. */
typedef struct {
    table_t table;
    uint32_t word;
    uint32_t value;
    dtn_reason_t reason;
    uint32_t detail;
} word_case_t;

#define VALUE(number, field, value, reason, detail)                                                                    \
    {TABLE_VALUES, VALUE_WORDS * (number) + (field), value, DTN_REASON_##reason, detail}
#define STEP(number, field, value, reason)                                                                             \
    {TABLE_STEPS, STEP_WORDS * (number) + (field), value, DTN_REASON_##reason, number}
#define WORD(step, STEP_NAME, word, value, reason)                                                                     \
    {TABLE_WORDS, STEP_NAME##_WORDS + (word), value, DTN_REASON_##reason, step}

static const word_case_t words_refused[] = {
    VALUE(SMALL_X, MEMORY, 2, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, MEMORY, 3, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, MEMORY, 0xFFFF, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, MEMORY, 0x10000, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_CEILING, MEMORY, 0x10007, BUNDLE_VALUE, SMALL_CEILING),
    VALUE(SMALL_CEILING, MEMORY, 0xFFFFFFFF, BUNDLE_VALUE, SMALL_CEILING),
    VALUE(SMALL_CEILING, OFFSET, 16, BUNDLE_VALUE, SMALL_CEILING),
    VALUE(SMALL_CEILING, BYTES, 13, BUNDLE_VALUE, SMALL_CEILING),
    VALUE(SMALL_X, OFFSET, 8, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, OFFSET, 96, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, OFFSET, 0xFFFFFFF0, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, BYTES, 132, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, BYTES, 0xFFFFFFFC, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, BYTES, 47, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, TYPE, 5, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, TYPE, 12, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_X, TYPE, 0xFFFFFFFF, BUNDLE_VALUE, SMALL_X),
    VALUE(SMALL_LOW, TYPE, DTN_TYPE_S64, BUNDLE_VALUE, SMALL_LOW),
    {TABLE_INPUTS, 1, SMALL_VALUES, DTN_REASON_BUNDLE_TENSOR, 1},
    {TABLE_INPUTS, 1, 0xFFFFFFFF, DTN_REASON_BUNDLE_TENSOR, 1},
    {TABLE_INPUTS, 0, SMALL_CEILING, DTN_REASON_BUNDLE_TENSOR, 0},
    {TABLE_OUTPUTS, 0, SMALL_VALUES, DTN_REASON_BUNDLE_TENSOR, 2},
    {TABLE_OUTPUTS, 2, 0xFFFFFFFF, DTN_REASON_BUNDLE_TENSOR, 4},
    {TABLE_MEMORIES, 0, 127, DTN_REASON_BUNDLE_VALUE, SMALL_Y},
    {TABLE_MEMORIES, 1, 0, DTN_REASON_BUNDLE_VALUE, SMALL_LIMIT},
    {TABLE_MEMORIES, 0, 0xFFFFFFFF, DTN_REASON_MEMORY_SIZE, 0},
    {TABLE_MEMORIES, 2, 0, DTN_REASON_MEMORY_SIZE, 2},
    {TABLE_MEMORIES, 2, 255, DTN_REASON_MEMORY_SIZE, 2},
    STEP(SMALL_QUANTIZE, KIND, 3, BUNDLE_STEP),
    STEP(SMALL_FIRST, KIND, 0xFFFFFFFF, BUNDLE_STEP),
    STEP(SMALL_TRANSPOSE, INDEX, 3, BUNDLE_STEP),
    STEP(SMALL_TRANSPOSE, INDEX, 0xFFFFFFFF, BUNDLE_STEP),
    STEP(SMALL_SECOND, INDEX, 2, BUNDLE_STEP),
    STEP(SMALL_SECOND, INDEX, 0, DELEGATE),
    STEP(SMALL_DEQUANTIZE, FIRST, DEQUANTIZE_WORDS + 1, BUNDLE_STEP),
    STEP(SMALL_DEQUANTIZE, FIRST, 0xFFFFFFFF, BUNDLE_STEP),
    STEP(SMALL_DEQUANTIZE, INPUTS, 0xFFFFFFFF, BUNDLE_STEP),
    STEP(SMALL_DEQUANTIZE, OUTPUTS, 0xFFFFFFFF, BUNDLE_STEP),
    STEP(SMALL_DEQUANTIZE, PARAMS, 3, BUNDLE_STEP),
    STEP(SMALL_DEQUANTIZE, PARAMS, 1, OPERATOR),
    STEP(SMALL_QUANTIZE, INPUTS, 0, OPERATOR),
    STEP(SMALL_QUANTIZE, OUTPUTS, 0, OPERATOR),
    STEP(SMALL_FIRST, INPUTS, 1, DELEGATE),
    STEP(SMALL_FIRST, OUTPUTS, 1, DELEGATE),
    STEP(SMALL_SECOND, PARAMS, 1, DELEGATE),
    STEP(SMALL_TRANSPOSE, INDEX, 0, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 0, SMALL_VALUES, BUNDLE_STEP),
    WORD(SMALL_QUANTIZE, QUANTIZE, 0, 0xFFFFFFFF, BUNDLE_STEP),
    WORD(SMALL_QUANTIZE, QUANTIZE, 1, SMALL_CEILING, BUNDLE_STEP),
    WORD(SMALL_QUANTIZE, QUANTIZE, 1, SMALL_X, BUNDLE_STEP),
    /* Its output is then in the middle of its input, with which it shares the memory. */
    VALUE(SMALL_QUANTIZED, MEMORY, 0, BUNDLE_STEP, SMALL_QUANTIZE),
    WORD(SMALL_FIRST, FIRST, 2, SMALL_CEILING, BUNDLE_STEP),
    WORD(SMALL_FIRST, FIRST, 2, SMALL_LIMIT, BUNDLE_STEP),
    WORD(SMALL_FIRST, FIRST, 2, SMALL_TWICE, BUNDLE_STEP),
    WORD(SMALL_FIRST, FIRST, 3, SMALL_VALUES, BUNDLE_STEP),
    WORD(SMALL_FIRST, FIRST, 0, SMALL_X, DELEGATE),
    WORD(SMALL_SECOND, SECOND, 2, SMALL_X, DELEGATE),
    /* Operators: types and sizes. */
    WORD(SMALL_QUANTIZE, QUANTIZE, 0, SMALL_LIMIT, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 1, SMALL_Y, OPERATOR),
    WORD(SMALL_TRANSPOSE, TRANSPOSE, 0, SMALL_X, OPERATOR),
    WORD(SMALL_DEQUANTIZE, DEQUANTIZE, 0, SMALL_X, OPERATOR),
    WORD(SMALL_DEQUANTIZE, DEQUANTIZE, 1, SMALL_TWICE, OPERATOR),
    VALUE(SMALL_QUANTIZED, BYTES, 11, OPERATOR, SMALL_QUANTIZE),
    VALUE(SMALL_QUANTIZED, TYPE, DTN_TYPE_S16, OPERATOR, SMALL_QUANTIZE),
    VALUE(SMALL_QUANTIZED, TYPE, DTN_TYPE_U8, OPERATOR, SMALL_QUANTIZE),
    VALUE(SMALL_TRANSPOSED, TYPE, DTN_TYPE_U8, OPERATOR, SMALL_TRANSPOSE),
    VALUE(SMALL_TRANSPOSED, BYTES, 16, OPERATOR, SMALL_TRANSPOSE),
    VALUE(SMALL_HIGH, BYTES, 16, DELEGATE, SMALL_FIRST),
    VALUE(SMALL_Y, BYTES, 44, OPERATOR, SMALL_DEQUANTIZE),
    VALUE(SMALL_Y, TYPE, DTN_TYPE_S32, OPERATOR, SMALL_DEQUANTIZE),
    VALUE(SMALL_LOW, TYPE, DTN_TYPE_BOOL, OPERATOR, SMALL_DEQUANTIZE),
    /* Operators: parameters; quantize has scale, zero point, minimum, maximum. */
    WORD(SMALL_QUANTIZE, QUANTIZE, 3, 128, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 3, 0xFFFFFF7F, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 4, 0xFFFFFF7F, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 4, 127 + 1, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 5, 128, OPERATOR),
    WORD(SMALL_QUANTIZE, QUANTIZE, 5, 0xFFFFFF7F, OPERATOR),
    WORD(SMALL_TRANSPOSE, TRANSPOSE, 2, 0, OPERATOR),
    WORD(SMALL_TRANSPOSE, TRANSPOSE, 2, 2, OPERATOR),
    WORD(SMALL_TRANSPOSE, TRANSPOSE, 3, 4, OPERATOR),
    WORD(SMALL_TRANSPOSE, TRANSPOSE, 3, 0x40000003, OPERATOR),
    WORD(SMALL_TRANSPOSE, TRANSPOSE, 4, 2, OPERATOR),
    WORD(SMALL_DEQUANTIZE, DEQUANTIZE, 3, 128, OPERATOR),
    WORD(SMALL_DEQUANTIZE, DEQUANTIZE, 3, 0xFFFFFF7F, OPERATOR),
};

static void test_words_refused(void)
{
    for (size_t i = 0; i < sizeof words_refused / sizeof words_refused[0]; i++) {
        const word_case_t *c = &words_refused[i];
        uint32_t count;
        char what[64];
        small_t small;
        small_start(&small);
        uint32_t *words = program_table(&small.program, c->table, &count);
        CHECK(c->word < count && words[c->word] != c->value, "case %u changes nothing", (unsigned)i);
        words[c->word] = c->value;
        program_seal(&small.program);
        snprintf(what, sizeof what, "table %u, word %u = 0x%X", (unsigned)c->table, (unsigned)c->word,
                 (unsigned)c->value);
        check_error(init(&small.program), c->reason, c->detail, what);
        small_free(&small);
    }
}

/* Each word of the tables is under the CRC, and so is each count: a wrong one is noticed before it is gone by. */
static void test_damage_refused(void)
{
    small_t small;
    small_start(&small);
    dtn_bundle_t *bundle = &small.program.bundle;
    for (uint32_t table = 0; table < TABLES; table++) {
        uint32_t count;
        uint32_t *words = program_table(&small.program, (table_t)table, &count);
        for (uint32_t i = 0; i < count; i++) {
            words[i] ^= UINT32_C(1) << (i % 32);
            check_error(init(&small.program), DTN_REASON_BUNDLE_CRC, 0, "a flipped bit");
            words[i] ^= UINT32_C(1) << (i % 32);
        }
    }
    for (uint32_t *count = &bundle->value_count; count <= &bundle->delegate_count; count++) {
        for (uint32_t bit = 0; bit < 32; bit++) {
            *count ^= UINT32_C(1) << bit;
            check_error(init(&small.program), DTN_REASON_BUNDLE_CRC, 0, "a flipped bit of a count");
            *count ^= UINT32_C(1) << bit;
        }
    }
    bundle->version++;
    check_error(init(&small.program), DTN_REASON_BUNDLE_VERSION, 0, "another version");
    bundle->version--;
    uint8_t *constant = (uint8_t *)(uintptr_t)bundle->constants[0].data;
    constant[3] ^= 4;
    check_error(init(&small.program), DTN_REASON_BUNDLE_CONSTANT, 0, "a flipped bit of a constant");
    constant[3] ^= 4;
    dtn_constant_t *entry = (dtn_constant_t *)(uintptr_t)bundle->constants;
    entry->data = constant + 8;
    check_error(init(&small.program), DTN_REASON_MISALIGNED, 0, "a misaligned constant");
    entry->data = NULL;
    check_error(init(&small.program), DTN_REASON_NULL_POINTER, 0, "a constant missing");
    entry->data = constant;
    /* The size is noticed before a byte beyond the constant is read. */
    entry->bytes ^= UINT32_C(1) << 20;
    check_error(init(&small.program), DTN_REASON_BUNDLE_CRC, 0, "a flipped bit of a constant's size");
    entry->bytes ^= UINT32_C(1) << 20;
    dtn_operator_t *function = (dtn_operator_t *)(uintptr_t)&bundle->operators[1];
    *function = NULL;
    check_error(init(&small.program), DTN_REASON_BUNDLE_STEP, SMALL_TRANSPOSE, "an operator missing");
    *function = dtn_op_transpose;
    check_error(init(&small.program), DTN_OK, 0, "everything put back");
    bundle->memory_count = 0;
    program_seal(&small.program);
    check_error(init(&small.program), DTN_REASON_MEMORY_SIZE, 0, "no memory to work in");
    small_free(&small);
}

static void test_memories_refused(void)
{
    small_t small;
    small_start(&small);
    for (uint32_t i = 0; i < PROGRAM_MEMORIES; i++) {
        dtn_memory_t *memory = &small.program.memories[i];
        uint8_t *data = (uint8_t *)memory->data;
        memory->bytes--;
        check_error(init(&small.program), DTN_REASON_MEMORY_SIZE, i, "a memory too small by one byte");
        memory->bytes++;
        memory->data = data + 8;
        check_error(init(&small.program), DTN_REASON_MISALIGNED, 0, "a misaligned memory");
        memory->data = NULL;
        check_error(init(&small.program), DTN_REASON_NULL_POINTER, 0, "a memory missing");
        memory->data = data;
    }
    /* Each of two in the other's last bytes; memories 0 and 1 are large enough. */
    for (uint32_t i = 0; i < PROGRAM_MEMORIES; i++) {
        for (uint32_t j = 0; j < PROGRAM_MEMORIES; j++) {
            dtn_memory_t *memory = &small.program.memories[i];
            const dtn_memory_t *other = &small.program.memories[j];
            void *data = memory->data;
            if (i == j) {
                continue;
            }
            memory->data = (uint8_t *)other->data + other->bytes - 16;
            check_error(init(&small.program), DTN_REASON_MEMORY_OVERLAP, i > j ? i : j, "a memory in another's end");
            memory->data = data;
        }
    }
    check_error(init(&small.program), DTN_OK, 0, "memories apart");
    /* The bundle's sizes must suffice, not only the caller's memories. */
    uint32_t count;
    program_table(&small.program, TABLE_MEMORIES, &count)[PROGRAM_WORKING]--;
    program_seal(&small.program);
    check_error(init(&small.program), DTN_REASON_MEMORY_SIZE, PROGRAM_WORKING, "working memory short by one byte");
    small_free(&small);
}

/* A block of a delegate, changed. */
static void check_block(small_t *small, dtn_constant_t *block, dtn_constant_t changed, dtn_reason_t reason,
                        uint32_t detail, const char *what)
{
    dtn_constant_t kept = *block;
    *block = changed;
    if (changed.bytes != kept.bytes || changed.crc != kept.crc) {
        check_error(init(&small->program), DTN_REASON_BUNDLE_CRC, 0, what);
        program_seal(&small->program);
    }
    check_error(init(&small->program), reason, detail, what);
    *block = kept;
    program_seal(&small->program);
}

static void test_blocks_refused(void)
{
    small_t small;
    small_start(&small);
    dtn_delegate_t *second = (dtn_delegate_t *)(uintptr_t)&small.program.bundle.delegates[1];
    for (uint32_t i = second->first; i < second->first + second->blocks; i++) {
        dtn_constant_t *block = (dtn_constant_t *)(uintptr_t)&small.program.bundle.constants[i];
        uint32_t crc = dtn_crc32(0, block->data, block->bytes);
        dtn_constant_t none = {NULL, block->bytes, 0};
        dtn_constant_t misaligned = {(const uint8_t *)block->data + 8, block->bytes, 0};
        dtn_constant_t shorter = {block->data, block->bytes - 1, 0};
        dtn_constant_t empty = {block->data, 0, 0};
        dtn_constant_t longer = {block->data, block->bytes + 16, 0};
        dtn_constant_t checked = {block->data, block->bytes, crc};
        dtn_constant_t damaged = {block->data, block->bytes, crc ^ 1U};
        check_block(&small, block, none, DTN_REASON_NULL_POINTER, 0, "a block missing");
        check_block(&small, block, misaligned, DTN_REASON_MISALIGNED, 0, "a misaligned block");
        check_block(&small, block, shorter, DTN_REASON_DELEGATE_BLOCK, 1, "a block short by one byte");
        check_block(&small, block, empty, DTN_REASON_DELEGATE_BLOCK, 1, "an empty block");
        check_block(&small, block, longer, DTN_OK, 0, "a block with bytes after it");
        check_block(&small, block, checked, DTN_OK, 0, "a block with a CRC");
        check_block(&small, block, damaged, DTN_REASON_BUNDLE_CONSTANT, i, "a block whose CRC is another");
    }
    const dtn_delegate_t kept = *second;
    const dtn_delegate_t changed[] = {
        {kept.npu, kept.first + 1, kept.blocks},
        {kept.npu, kept.first, kept.blocks + 1},
        {kept.npu, 0xFFFFFFFF, kept.blocks},
        {kept.npu, kept.first, kept.blocks - 1},
    };
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++) {
        *second = changed[i];
        check_error(init(&small.program), DTN_REASON_BUNDLE_CRC, 0, "other blocks");
        program_seal(&small.program);
        check_error(init(&small.program), DTN_REASON_DELEGATE_BLOCK, 1,
                    "other blocks, and the CRC that goes with them");
        *second = kept;
        program_seal(&small.program);
    }
    second->npu = NULL;
    check_error(init(&small.program), DTN_REASON_NULL_POINTER, 0, "an NPU missing");
    second->npu = kept.npu;
    small.second.microcode[DTN_HEADER_WORDS]++;
    check_error(init(&small.program), DTN_REASON_MICROCODE_CRC, 0, "damaged microcode");
    small.second.microcode[DTN_HEADER_WORDS]--;
    small.first.weights[0] ^= 1;
    check_error(init(&small.program), DTN_REASON_WEIGHTS_CRC, 0, "damaged weights");
    small.first.weights[0] ^= 1;
    small.first.microcode[DTN_HEADER_VERSION] = 0x00020000;
    build_seal(&small.first);
    check_error(init(&small.program), DTN_REASON_VERSION, 0, "microcode of another version");
    small_free(&small);
}

/* Sizes whose sum does not fit 32 bits: what is left of it would fit the working memory. */
static void test_huge_sizes(void)
{
    small_t small;
    small_start(&small);
    small.second.microcode[DTN_HEADER_SCRATCH_BYTES] = 0xFFFFFF00;
    small.second.microcode[DTN_LAYOUT_A_PREFETCH_BYTES] = 0x200;
    build_seal(&small.second);
    check_error(init(&small.program), DTN_REASON_MEMORY_SIZE, PROGRAM_WORKING, "4 GiB of scratch and prefetch area");
    small_free(&small);
}

/* More values than a call of an operator can have. */
static void test_values_of_an_operator(void)
{
    program_t *program = (program_t *)build_alloc(sizeof *program);
    const uint32_t params[] = {1, 2, 3, 4, 5, 6, 7, 8};
    program_start(program);
    for (uint32_t i = 0; i <= 8; i++) {
        program_value(program, 0, 4, DTN_TYPE_F32);
    }
    /* 0 and the parameters as inputs, 8 as the output. */
    program_operator(program, dtn_op_transpose, 0, 1, params, 7);
    program->words[1] = 1;
    for (uint32_t i = 0; i < 7; i++) {
        program->words[2 + i] = 2 + i;
    }
    program->steps[0].inputs = 8;
    program->steps[0].params = 0;
    program_finish(program);
    check_error(init(program), DTN_REASON_OPERATOR, 0, "nine values");
    program_free(program);
    free(program);
}

int main(void)
{
    test_words_refused();
    test_damage_refused();
    test_memories_refused();
    test_blocks_refused();
    test_huge_sizes();
    test_values_of_an_operator();
    return test_result();
}
