/* An NPU and the core's data cache: a port that models a write-back cache shows stale bytes if one kind of the
 * executor's calls is missing. */
#include <string.h>

#include "deuteron/io.h"
#include "simulated_cache_runs.h"
#include "test.h"

enum { TENSOR = 48, WORKING = 4 * CACHED_LINE, BLOCK = 32, CONTEXT = DTN_CONTEXT_BYTES };

/* Where parts of the memories start. The tensors share a line, which both of them may. */
enum { INPUT_AT = 0, OUTPUT_AT = TENSOR, CONTEXT_AT = 2 * TENSOR, WORKING_AT = CONTEXT_AT + CONTEXT };
/* Where an NPU has its tensors that has them in the working memory. */
enum { OWN_INPUT_AT = WORKING_AT + CACHED_LINE, OWN_OUTPUT_AT = OWN_INPUT_AT + TENSOR };
enum { BLOCK_AT = WORKING_AT + WORKING };

static const cached_kind_t kinds[] = {
    {CLEAN, BLOCK_AT, false, "clean the block"},
    {CLEAN, INPUT_AT, false, "clean the input"},
    {CLEAN, OUTPUT_AT, false, "clean the output before the run"},
    {CLEAN, WORKING_AT, false, "clean the working memory before the run"},
    {CLEAN, OUTPUT_AT, true, "clean the output after the run"},
    {CLEAN, WORKING_AT, true, "clean the working memory after the run"},
    {INVALIDATE, OUTPUT_AT, true, "invalidate the output"},
    {INVALIDATE, WORKING_AT, true, "invalidate the working memory"},
};

/* Those where the NPU has its tensors in the working memory. */
static const cached_kind_t kinds_apart[] = {
    {CLEAN, BLOCK_AT, false, "clean the block"},
    {CLEAN, WORKING_AT, false, "clean the working memory before the run"},
    {CLEAN, WORKING_AT, true, "clean the working memory after the run"},
    {INVALIDATE, WORKING_AT, true, "invalidate the working memory"},
};

static const dtn_npu_t *family;

/* A family whose NPU adds the block's bytes, and how often it has run, to those of the input. */

static NeutronError prepare(const dtn_partition_t *partition)
{
    CHECK(partition->context == cached_seen + CONTEXT_AT && partition->working == cached_seen + WORKING_AT,
          "context or working memory is elsewhere");
    CHECK(partition->block_count == 1 && partition->is_alone, "another partition");
    memset(partition->context, 0x5C, CONTEXT);
    return ENONE;
}

static uint64_t working_bytes(const dtn_partition_t *partition)
{
    (void)partition;
    return WORKING;
}

static dtn_reason_t check(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    (void)partition;
    return call->input_count == 1 && call->output_count == 1 ? DTN_OK : DTN_REASON_DELEGATE;
}

static NeutronError compute(const dtn_partition_t *partition, size_t input_at, size_t output_at)
{
    uint8_t *memory = cached_there();
    CHECK(*(const uint8_t *)partition->context == 0x5C, "the context was not kept");
    memory[WORKING_AT]++;
    for (size_t i = 0; i < TENSOR; i++) {
        memory[output_at + i] = (uint8_t)(memory[input_at + i] + memory[BLOCK_AT + i % BLOCK] + memory[WORKING_AT]);
    }
    cached_npu_ran();
    return ENONE;
}

static NeutronError run(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    CHECK(dtn_npu_tensor(call, 0).data == cached_seen + INPUT_AT, "the input is elsewhere");
    CHECK(dtn_npu_tensor(call, 1).data == cached_seen + OUTPUT_AT, "the output is elsewhere");
    return compute(partition, INPUT_AT, OUTPUT_AT);
}

/* The same by an NPU that has its tensors in the working memory. */

static void *place(const dtn_partition_t *partition, uint32_t index)
{
    return (uint8_t *)partition->working + (index == 0 ? OWN_INPUT_AT : OWN_OUTPUT_AT) - WORKING_AT;
}

static NeutronError run_there(const dtn_partition_t *partition)
{
    return compute(partition, OWN_INPUT_AT, OWN_OUTPUT_AT);
}

static NeutronError unprepare(const dtn_partition_t *partition)
{
    (void)partition;
    return ENONE;
}

static const dtn_npu_t adder = {
    .prepare = prepare,
    .working_bytes = working_bytes,
    .check = check,
    .run = run,
    .unprepare = unprepare,
};

static const dtn_npu_apart_t there = {.place = place, .run = run_there};
static const dtn_npu_t adder_apart = {
    .prepare = prepare,
    .working_bytes = working_bytes,
    .check = check,
    .run = dtn_npu_run_apart,
    .apart = &there,
    .unprepare = unprepare,
};

static void start(program_t *program)
{
    const dtn_constant_t block = {cached_seen + BLOCK_AT, BLOCK, 0};
    program_start(program);
    program_partition(program, family, &block, 1, TENSOR, WORKING);
    program_finish(program);
    program->memories[0].data = cached_seen;
    program->memories[PROGRAM_WORKING].data = cached_seen + CONTEXT_AT;
}

/* Copies that fail, by their number in a run: the program's input is 0, that of the partition 1, and so on. */
static int copies, failing = -1;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
    return 0;
}

int32_t dtn_io_copy_wait(void)
{
    return copies++ == failing ? -1 : 0;
}

static void test_calls(const dtn_npu_t *npu, const cached_kind_t *table, size_t count)
{
    const cached_adder_t of_family = {start, TENSOR, BLOCK_AT, BLOCK_AT, BLOCK, 0};
    family = npu;
    cached_test(&of_family, table, count, count);
}

/* Copies of a partition's tensors that fail end the run, and the next is right. */
static void test_failed_copies(void)
{
    program_t program;
    dtn_executor_t executor;
    uint8_t input[TENSOR] = {0};
    uint8_t output[TENSOR];
    const void *inputs[] = {input};
    void *outputs[] = {output};
    family = &adder_apart;
    cached_kinds(kinds_apart, sizeof kinds_apart / sizeof kinds_apart[0]);
    cached_reset();
    start(&program);
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    for (uint32_t tensor = 0; tensor < 2; tensor++) {
        copies = 0;
        failing = 1 + (int)tensor;
        cached_run(false);
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), dtn_error(DTN_REASON_NPU_COPY, tensor));
        CHECK_EQUAL(executor.step, 0);
        CHECK(cached_has_run() == (tensor == 1), "the NPU ran on an input that was not there, or did not run");
        failing = -1;
        cached_run(false);
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        CHECK_EQUAL(output[TENSOR - 1], 1 + 2 * tensor);
    }
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    program_free(&program);
}

int main(void)
{
    test_calls(&adder, kinds, sizeof kinds / sizeof kinds[0]);
    test_calls(&adder_apart, kinds_apart, sizeof kinds_apart / sizeof kinds_apart[0]);
    test_failed_copies();
    return test_result();
}
