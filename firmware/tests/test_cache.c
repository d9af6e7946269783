/*
 * An NPU beside the core's data cache: a port that models a write-back cache shows stale bytes as soon as one kind of
 * the executor's calls to it is left out.
 *
 * `seen` is what the core sees of the memories, `held` what they hold themselves, which is what the NPU reads and
 * writes. Every line is always cached, so that nothing of the other side is seen by luck. Lines that are dirty when the
 * NPU starts are written back when it is done, the worst moment.
 */
#include <string.h>

#include "deuteron/io.h"
#include "deuteron/port.h"
#include "program.h"
#include "test.h"

enum { LINE = 32, TENSOR = 48, WORKING = 4 * LINE, BLOCK = 32, CONTEXT = DTN_CONTEXT_BYTES };

/* Where parts of the memories start. The tensors share a line, which both of them may. */
enum { INPUT_AT = 0, OUTPUT_AT = TENSOR, CONTEXT_AT = 2 * TENSOR, WORKING_AT = CONTEXT_AT + CONTEXT };
/* Where an NPU has its tensors that has them in the working memory. */
enum { OWN_INPUT_AT = WORKING_AT + LINE, OWN_OUTPUT_AT = OWN_INPUT_AT + TENSOR };
enum { BLOCK_AT = WORKING_AT + WORKING, BYTES = BLOCK_AT + BLOCK, LINES = BYTES / LINE };

typedef enum { CLEAN, INVALIDATE } action_t;

/* A kind of calls: what is done to the part that starts there, before or after the NPU has run; and whether it is one
 * where the NPU has its tensors in the working memory, too. */
typedef struct {
    action_t action;
    size_t part;
    bool after;
    bool if_apart;
    const char *name;
} kind_t;

static const kind_t kinds[] = {
    {CLEAN, BLOCK_AT, false, true, "clean the block"},
    {CLEAN, INPUT_AT, false, false, "clean the input"},
    {CLEAN, OUTPUT_AT, false, false, "clean the output before the run"},
    {CLEAN, WORKING_AT, false, true, "clean the working memory before the run"},
    {CLEAN, OUTPUT_AT, true, false, "clean the output after the run"},
    {CLEAN, WORKING_AT, true, true, "clean the working memory after the run"},
    {INVALIDATE, OUTPUT_AT, true, false, "invalidate the output"},
    {INVALIDATE, WORKING_AT, true, true, "invalidate the working memory"},
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

static const dtn_npu_t *family;
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

static NeutronError compute(const dtn_partition_t *partition, size_t input_at, size_t output_at)
{
    uint8_t *memory = on_core ? seen.bytes : held.bytes;
    CHECK(*(const uint8_t *)partition->context == 0x5C, "the context was not kept");
    memory[WORKING_AT]++;
    for (size_t i = 0; i < TENSOR; i++) {
        memory[output_at + i] = (uint8_t)(memory[input_at + i] + memory[BLOCK_AT + i % BLOCK] + memory[WORKING_AT]);
    }
    for (size_t line = 0; line < LINES && !on_core; line++) {
        write_back(line); /* the lines that were dirty when it started: the core has written nothing since */
    }
    has_run = true;
    return ENONE;
}

static NeutronError run(const dtn_partition_t *partition, const dtn_npu_call_t *call)
{
    CHECK(dtn_npu_tensor(call, 0).data == seen.bytes + INPUT_AT, "the input is elsewhere");
    CHECK(dtn_npu_tensor(call, 1).data == seen.bytes + OUTPUT_AT, "the output is elsewhere");
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
    dtn_bundle_t *bundle = &program->bundle;
    dtn_constant_t block = {seen.bytes + BLOCK_AT, BLOCK, 0};
    dtn_delegate_t delegate = {family, 0, 1};
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

static void test_calls(const dtn_npu_t *npu)
{
    const bool is_apart = npu->apart != NULL;
    family = npu;
    memset(called, 0, sizeof called);
    left_out = KINDS;
    CHECK(is_right(), "wrong with every call");
    for (size_t i = 0; i < KINDS; i++) {
        size_t wanted = is_apart && !kinds[i].if_apart ? 0 : kinds[i].part == BLOCK_AT ? 1 : 3;
        CHECK(called[i] == wanted, "%u calls to %s", (unsigned)called[i], kinds[i].name);
    }
    for (left_out = 0; left_out < KINDS; left_out++) {
        const bool needed = kinds[left_out].if_apart || !is_apart;
        CHECK(is_right() != needed, "%s without the calls to %s", needed ? "right" : "wrong", kinds[left_out].name);
    }
    left_out = KINDS;
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
    memset(&held, 0, sizeof held);
    memset(&fetched, 0, sizeof fetched);
    memset(&seen, 0, sizeof seen);
    start(&program);
    has_run = false;
    CHECK_EQUAL(dtn_executor_init(&executor, &program.bundle, program.memories), ENONE);
    for (uint32_t tensor = 0; tensor < 2; tensor++) {
        copies = 0;
        failing = 1 + (int)tensor;
        has_run = false;
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), dtn_error(DTN_REASON_NPU_COPY, tensor));
        CHECK_EQUAL(executor.step, 0);
        CHECK(has_run == (tensor == 1), "the NPU ran on an input that was not there, or did not run");
        failing = -1;
        has_run = false;
        CHECK_EQUAL(dtn_executor_run(&executor, inputs, outputs), ENONE);
        CHECK_EQUAL(output[TENSOR - 1], 1 + 2 * tensor);
    }
    CHECK_EQUAL(dtn_executor_deinit(&executor), ENONE);
    program_free(&program);
}

int main(void)
{
    test_calls(&adder);
    test_calls(&adder_apart);
    test_failed_copies();
    return test_result();
}
