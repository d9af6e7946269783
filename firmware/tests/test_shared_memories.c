/* Programs that share all their memories: each keeps its contexts, whatever the other writes. */
#include <stdlib.h>
#include <string.h>

#include "prepare_errors.h"
#include "small_bundle.h"
#include "test.h"

enum { PROGRAMS = 2, DELEGATES = 2 };

typedef struct {
    small_t small;
    dtn_executor_t executor;
    uint8_t contexts[DELEGATES * DTN_CONTEXT_BYTES] __attribute__((aligned(16)));
} user_t;

static dtn_memory_t contexts_of(user_t *user)
{
    return (dtn_memory_t){user->contexts, sizeof user->contexts};
}

static void test_two_programs(void)
{
    static user_t users[PROGRAMS];
    for (int i = 0; i < PROGRAMS; i++) {
        user_t *user = &users[i];
        small_start(&user->small);
        const dtn_memory_t contexts = contexts_of(user);
        const program_t *first = &users[0].small.program;
        CHECK_EQUAL(dtn_executor_init_shared(&user->executor, &user->small.program.bundle, first->memories, &contexts),
                    ENONE);
    }
    for (uint64_t seed = 1; seed <= 20; seed++) {
        small_buffers_t buffers;
        user_t *user = &users[seed % 3 % PROGRAMS]; /* also twice in a row */
        small_fill(&buffers, seed);
        CHECK_EQUAL(dtn_executor_run(&user->executor, buffers.inputs, buffers.outputs), ENONE);
        CHECK(small_is_right(&buffers), "wrong outputs with seed %u", (unsigned)seed);
        for (uint32_t i = 0; i < PROGRAM_MEMORIES; i++) {
            const dtn_memory_t *memory = &users[0].small.program.memories[i];
            memset(memory->data, (int)seed, memory->bytes); /* anybody's, between runs */
        }
    }
    CHECK_EQUAL(dtn_executor_deinit(&users[0].executor), ENONE);
    small_buffers_t buffers;
    small_fill(&buffers, 99);
    CHECK_EQUAL(dtn_executor_run(&users[1].executor, buffers.inputs, buffers.outputs), ENONE);
    CHECK(small_is_right(&buffers), "wrong outputs after the other's end");
    CHECK_EQUAL(dtn_executor_deinit(&users[1].executor), ENONE);
    for (int i = 0; i < PROGRAMS; i++) {
        small_free(&users[i].small);
    }
}

/* A partition that is alone in its program keeps resident weights between runs, unless its memory is shared. */
static void test_resident_weights(void)
{
    enum { COUNT = 16 };
    const dtn_lut_s8_params_t lut = {COUNT};
    uint8_t table[DTN_LUT_BYTES];
    static uint8_t memory[DTN_CONTEXT_BYTES] __attribute__((aligned(16)));
    const dtn_memory_t contexts = {memory, sizeof memory};
    build_t build;
    program_t *program = (program_t *)build_alloc(sizeof *program);
    for (uint32_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)(i ^ 0x80U); /* of x it makes x */
    }
    build_start(&build);
    const build_ref_t constant = build_constant(&build, table, sizeof table);
    const build_ref_t operands[] = {
        build_input(&build, COUNT), {DTN_REGION_PREFETCH, 0, 0, DTN_LUT_BYTES}, build_output(&build, COUNT)};
    build.prefetch_bytes = DTN_LUT_BYTES;
    build.resident_bytes = DTN_LUT_BYTES;
    build_fetch(&build, 0, constant.offset, 0, DTN_LUT_BYTES);
    build_wait(&build, 0);
    build_call(&build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_finish(&build);
    program_start(program);
    const uint32_t values[] = {program_value(program, 0, COUNT, DTN_TYPE_S8),
                               program_value(program, 1, COUNT, DTN_TYPE_S8)};
    program_input(program, values[0]);
    program_output(program, values[1]);
    program_delegate(program, &build, values);
    program_finish(program);
    const dtn_memory_t *working = &program->memories[PROGRAM_WORKING];
    for (int shared = 0; shared < 2; shared++) {
        dtn_executor_t executor;
        const uint8_t input[COUNT] = {1, 2, 3};
        uint8_t output[COUNT];
        const void *inputs[] = {input};
        void *outputs[] = {output};
        CHECK_EQUAL(shared != 0 ? dtn_executor_init_shared(&executor, &program->bundle, program->memories, &contexts)
                                : dtn_executor_init(&executor, &program->bundle, program->memories),
                    ENONE);
        for (int run = 0; run < 2; run++) {
            CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
            CHECK((memcmp(input, output, COUNT) == 0) == (shared != 0 || run == 0), "run %d: shared %d", run, shared);
            memset((uint8_t *)working->data + DTN_CONTEXT_BYTES, 0, working->bytes - DTN_CONTEXT_BYTES);
        }
        CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    }
    program_free(program);
    free(program);
    build_free(&build);
}

static void test_refusals(void)
{
    static user_t user;
    small_start(&user.small);
    program_t *program = &user.small.program;
    const dtn_bundle_t *bundle = &program->bundle;
    const dtn_memory_t *memories = program->memories;
    const struct {
        dtn_memory_t contexts;
        dtn_reason_t reason;
        uint32_t detail;
        const char *what;
    } cases[] = {
        {{NULL, sizeof user.contexts}, DTN_REASON_NULL_POINTER, 0, "no contexts"},
        {{user.contexts, sizeof user.contexts - 1}, DTN_REASON_MEMORY_SIZE, PROGRAM_MEMORIES, "too few bytes"},
        {{user.contexts + 8, sizeof user.contexts}, DTN_REASON_MISALIGNED, 0, "contexts at a multiple of 8"},
        {{memories[2].data, sizeof user.contexts}, DTN_REASON_MEMORY_OVERLAP, PROGRAM_MEMORIES, "the working memory"},
        {{memories[0].data, sizeof user.contexts}, DTN_REASON_MEMORY_OVERLAP, PROGRAM_MEMORIES, "memory of values"},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_error(dtn_executor_init_shared(&user.executor, bundle, memories, &cases[i].contexts), cases[i].reason,
                    cases[i].detail, cases[i].what);
        check_error(dtn_executor_run(&user.executor, NULL, NULL), DTN_REASON_NULL_POINTER, 0, "a run after that");
    }
    const dtn_memory_t contexts = contexts_of(&user);
    check_error(dtn_executor_init_shared(NULL, bundle, memories, &contexts), DTN_REASON_NULL_POINTER, 0, "no executor");
    check_error(dtn_executor_init_shared(&user.executor, NULL, memories, &contexts), DTN_REASON_NULL_POINTER, 0,
                "no bundle");
    check_error(dtn_executor_init_shared(&user.executor, bundle, NULL, &contexts), DTN_REASON_NULL_POINTER, 0,
                "no memories");
    check_error(dtn_executor_init_shared(&user.executor, bundle, memories, NULL), DTN_REASON_NULL_POINTER, 0,
                "no memory of contexts");
    program->bundle.delegate_count = 1;
    check_error(dtn_executor_init_shared(&user.executor, bundle, memories, &contexts), DTN_REASON_BUNDLE_CRC, 0,
                "a damaged count");
    program->bundle.delegate_count = DELEGATES;
    small_free(&user.small);
}

int main(void)
{
    test_two_programs();
    test_resident_weights();
    test_refusals();
    return test_result();
}
