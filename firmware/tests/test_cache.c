/*
 * An NPU beside the core's data cache: a port that models a write-back cache shows stale bytes as soon as one kind of
 * the executor's calls to it is left out.
 *
 * `seen` is what the core sees of the memories, `held` what they hold themselves, which is what the NPU reads and
 * writes. Every line is always cached, so that nothing of the other side is seen by luck. Lines that are dirty when the
 * NPU starts are written back when it is done, the worst moment.
 */
#include <string.h>

#include "deuteron/port.h"
#include "program.h"
#include "test.h"

enum { LINE = 32, TENSOR = 48, WORKING = 32, BLOCK = 32, CONTEXT = DTN_CONTEXT_BYTES };

/* Where parts of the memories start. The tensors share a line, which both of them may. */
enum { INPUT_AT = 0, OUTPUT_AT = TENSOR, CONTEXT_AT = 2 * TENSOR, WORKING_AT = CONTEXT_AT + CONTEXT };
enum { BLOCK_AT = WORKING_AT + WORKING, BYTES = BLOCK_AT + BLOCK, LINES = BYTES / LINE };

typedef enum { CLEAN, INVALIDATE } action_t;

/* A kind of calls: what is done to the part that starts there, before or after the NPU has run. */
typedef struct {
    action_t action;
    size_t part;
    bool after;
    const char *name;
} kind_t;

static const kind_t kinds[] = {
    {CLEAN, BLOCK_AT, false, "clean the block"},
    {CLEAN, INPUT_AT, false, "clean the input"},
    {CLEAN, OUTPUT_AT, false, "clean the output before the run"},
    {CLEAN, WORKING_AT, false, "clean the working memory before the run"},
    {CLEAN, OUTPUT_AT, true, "clean the output after the run"},
    {CLEAN, WORKING_AT, true, "clean the working memory after the run"},
    {INVALIDATE, OUTPUT_AT, true, "invalidate the output"},
    {INVALIDATE, WORKING_AT, true, "invalidate the working memory"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

typedef union {
    uint8_t bytes[BYTES];
    uint8_t lines[LINES][LINE];
} memories_t;

/* `fetched` is what the cache got from the memories, or has written there: a line that the core sees otherwise is
 * dirty. */
static memories_t seen __attribute__((aligned(LINE)));
static memories_t held;
static memories_t fetched;

static void write_back(size_t line)
{
    if (memcmp(seen.lines[line], fetched.lines[line], LINE) != 0) {
        memcpy(held.lines[line], seen.lines[line], LINE);
        memcpy(fetched.lines[line], seen.lines[line], LINE);
    }
}

static void drop(size_t line)
{
    memcpy(seen.lines[line], held.lines[line], LINE);
    memcpy(fetched.lines[line], held.lines[line], LINE);
}

static bool on_core;    /* whether the family computes on the core, as it would without an NPU */
static bool has_run;    /* the NPU, in this run of the program */
static size_t left_out; /* kind of the calls that do nothing; KINDS for none */
static size_t called[KINDS];

static void cache(action_t action, const void *data, size_t bytes)
{
    size_t part = (size_t)((const uint8_t *)data - seen.bytes);
    size_t kind = 0;
    while (kind < KINDS && (kinds[kind].action != action || kinds[kind].part != part || kinds[kind].after != has_run)) {
        kind++;
    }
    CHECK(kind < KINDS && part + bytes <= BYTES, "a call for %u bytes at %u that is no kind", (unsigned)bytes,
          (unsigned)part);
    if (kind == KINDS) {
        return;
    }
    called[kind]++;
    for (size_t line = part / LINE; kind != left_out && line <= (part + bytes - 1) / LINE; line++) {
        if (action == CLEAN) {
            write_back(line);
        } else {
            drop(line);
        }
    }
}

void dtn_port_cache_clean(const void *data, size_t bytes)
{
    cache(CLEAN, data, bytes);
}

void dtn_port_cache_invalidate(void *data, size_t bytes)
{
    cache(INVALIDATE, data, bytes);
}

bool dtn_port_init(void)
{
    return true;
}

void dtn_port_deinit(void)
{
}

void *dtn_port_alloc(size_t size)
{
    (void)size;
    return NULL;
}

void dtn_port_free(void *memory)
{
    (void)memory;
}

uint32_t dtn_port_ticks(void)
{
    return 0;
}

void dtn_port_clock(bool on)
{
    (void)on;
}

/* A family whose NPU adds the block's bytes, and how often it has run, to those of the input. */

static NeutronError prepare(const dtn_partition_t *partition)
{
    CHECK(partition->context == seen.bytes + CONTEXT_AT && partition->working == seen.bytes + WORKING_AT,
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

static NeutronError run(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    uint8_t *memory = on_core ? seen.bytes : held.bytes;
    CHECK(dtn_npu_tensor(call, 0).data == seen.bytes + INPUT_AT, "the input is elsewhere");
    CHECK(dtn_npu_tensor(call, 1).data == seen.bytes + OUTPUT_AT, "the output is elsewhere");
    CHECK(*(const uint8_t *)partition->context == 0x5C, "the context was not kept");
    memory[WORKING_AT]++;
    for (size_t i = 0; i < TENSOR; i++) {
        memory[OUTPUT_AT + i] = (uint8_t)(memory[INPUT_AT + i] + memory[BLOCK_AT + i % BLOCK] + memory[WORKING_AT]);
    }
    for (size_t line = 0; line < LINES && !on_core; line++) {
        write_back(line); /* the lines that were dirty when it started: the core has written nothing since */
    }
    has_run = true;
    return ENONE;
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

static void start(program_t *program)
{
    dtn_bundle_t *bundle = &program->bundle;
    dtn_constant_t block = {seen.bytes + BLOCK_AT, BLOCK, 0};
    dtn_delegate_t delegate = {&adder, 0, 1};
    dtn_step_t step = {DTN_STEP_DELEGATE, 0, 0, 1, 1, 0};
    program_start(program);
    program->words[0] = program_value(program, 0, TENSOR, DTN_TYPE_S8);
    program->words[1] = program_value(program, 0, TENSOR, DTN_TYPE_S8);
    program_input(program, 0);
    program_output(program, 1);
    program->steps[bundle->step_count++] = step;
    bundle->word_count = 2;
    program->constants[bundle->constant_count++] = block;
    program->delegates[bundle->delegate_count++] = delegate;
    program->memory_bytes[PROGRAM_WORKING] = WORKING;
    program_finish(program);
    program->memories[0].data = seen.bytes;
    program->memories[PROGRAM_WORKING].data = seen.bytes + CONTEXT_AT;
}

/* Whether three runs, of which the second computes on the core, give what they should. */
static bool is_right(void)
{
    static program_t program;
    dtn_executor_t executor;
    bool right = true;
    memset(held.bytes, 0xEE, sizeof held.bytes);
    memset(fetched.bytes, 0xEE, sizeof fetched.bytes);
    memset(seen.bytes, 0, sizeof seen.bytes);
    for (size_t i = 0; i < BLOCK; i++) {
        seen.bytes[BLOCK_AT + i] = (uint8_t)(3 * i);
    }
    start(&program);
    has_run = false;
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    for (unsigned runs = 1; runs <= 3; runs++) {
        uint8_t input[TENSOR];
        uint8_t output[TENSOR];
        const void *inputs[] = {input};
        void *outputs[] = {output};
        memset(input, (int)(7 * runs), sizeof input);
        memset(dtn_executor_input(&executor, 0), 0x11, 2 * TENSOR); /* what other steps have left in the memory */
        on_core = runs == 2;
        has_run = false;
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        for (size_t i = 0; i < TENSOR; i++) {
            right = right && output[i] == (uint8_t)(7 * runs + 3 * (i % BLOCK) + runs);
        }
    }
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    program_free(&program);
    return right;
}

int main(void)
{
    left_out = KINDS;
    CHECK(is_right(), "wrong with every call");
    for (size_t i = 0; i < KINDS; i++) {
        CHECK(called[i] == (kinds[i].part == BLOCK_AT ? 1 : 3), "%u calls to %s", (unsigned)called[i], kinds[i].name);
    }
    for (left_out = 0; left_out < KINDS; left_out++) {
        CHECK(!is_right(), "right without the calls to %s", kinds[left_out].name);
    }
    return test_result();
}
