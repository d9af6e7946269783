#include "simulated_cache_runs.h"

#include <string.h>

#include "test.h"

enum { RUNS = 3, ON_CORE = 2 };

static uint8_t in_block(size_t i)
{
    return (uint8_t)(3 * i);
}

/* True if all runs give the expected results. */
static bool are_right(const cached_adder_t *adder)
{
    static program_t program;
    dtn_executor_t executor;
    bool right = true;
    cached_reset();
    for (size_t i = 0; i < adder->block_bytes; i++) {
        cached_seen[adder->block_at + i] = in_block(i);
    }
    adder->start(&program);
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    for (unsigned run = 1; run <= RUNS; run++) {
        uint8_t input[CACHED_BYTES];
        uint8_t output[CACHED_BYTES];
        const void *inputs[] = {input};
        void *outputs[] = {output};
        memset(input, (int)(7 * run), sizeof input);
        /* Bytes that other steps have left in the memory. */
        memset(dtn_executor_input(&executor, 0), 0x11, 2 * adder->tensor_bytes);
        cached_run(run == ON_CORE);
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        CHECK(cached_has_run(), "the NPU has not run");
        for (size_t i = 0; i < adder->tensor_bytes; i++) {
            const uint8_t wanted = (uint8_t)(7 * run + in_block(i % adder->block_bytes) + adder->added + run);
            right = right && output[i] == wanted;
        }
    }
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    program_free(&program);
    return right;
}

void cached_test(const cached_adder_t *adder, const cached_kind_t *kinds, size_t count, size_t unneeded)
{
    cached_kinds(kinds, count);
    CHECK(are_right(adder), "wrong with every call");
    for (size_t i = 0; i < count; i++) {
        CHECK(cached_calls[i] == (kinds[i].part >= adder->blocks_at ? 1 : RUNS), "%u calls to %s",
              (unsigned)cached_calls[i], kinds[i].name);
    }
    for (cached_left_out = 0; cached_left_out < count; cached_left_out++) {
        const bool is_needed = cached_left_out != unneeded;
        CHECK(are_right(adder) != is_needed, "%s without the calls to %s", is_needed ? "right" : "wrong",
              kinds[cached_left_out].name);
    }
}
