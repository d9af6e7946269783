/*
 * Two programs for one Ethos-U in one image, `dtn_bundle` and `other`, whose memories lie between guards. The command
 * line says what is tried:
 *
 *   preempt  an interrupt runs the other program, at every moment of the first one's run that matters
 *   hostile  DAMAGES runs of the two partitions in turn, each with a word of layout, commands or weights changed
 *   guard    one byte is written behind a memory, which has to end the image
 *
 * It prints the results.
 */
#include "board.h"
#include "core.h"
#include "deuteron/errors.h"
#include "deuteron/executor.h"
#include "deuteron/npu.h"
#include "deuteron/port.h"
#include "mpu_guards.h"
#include "npu.h"
#include "semihost.h"

#include <stdbool.h>
#include <string.h>

enum {
    STEP = 256,
    DAMAGES = 400,
    BLOCKS = 3,
    COMMANDS = 1,
    WEIGHTS = 2,
    CAPACITY = 8 * DTN_GUARD_BYTES,
    MEMORIES = 2,
    OUTPUT = 256,
    BLOCK = 2048,
    TICK_ON = 7
};

extern const dtn_bundle_t dtn_bundle, other;

int main(void);
void dtn_on_system_tick(void);

typedef struct {
    const dtn_bundle_t *bundle;
    dtn_memory_t memories[MEMORIES];
    dtn_executor_t executor;
    uint8_t expected[OUTPUT];
} program_t;

static program_t first = {.bundle = &dtn_bundle};
static program_t second = {.bundle = &other};

/* A guard, then a memory that ends where the next guard starts, and so on; a guard is the last. */
static uint8_t memory_pool[2 * MEMORIES * (DTN_GUARD_BYTES + CAPACITY) + DTN_GUARD_BYTES]
    __attribute__((aligned(DTN_GUARD_BYTES), section(".dtn_arena")));
static uint32_t guards;

static uint8_t *next_guard(void)
{
    uint8_t *guard = memory_pool + guards * (DTN_GUARD_BYTES + CAPACITY);
    dtn_guard(guards, guard);
    guards++;
    return guard;
}

/* Places the memories of a program; false if they do not fit. */
static bool place(program_t *program)
{
    for (uint32_t i = 0; i < MEMORIES; i++) {
        const uint32_t bytes = (program->bundle->memory_bytes[i] + 15) / 16 * 16;
        if (bytes > CAPACITY || program->bundle->memory_count != MEMORIES) {
            return false;
        }
        program->memories[i] = (dtn_memory_t){next_guard() + DTN_GUARD_BYTES + CAPACITY - bytes, bytes};
    }
    return true;
}

static const dtn_value_t *value_of(const dtn_bundle_t *bundle, const uint32_t *index)
{
    return &bundle->values[*index];
}

/* Runs a program on inputs that count up from `from`. */
static NeutronError run(program_t *program, uint32_t from)
{
    uint8_t *input = (uint8_t *)dtn_executor_input(&program->executor, 0);
    const uint32_t bytes = value_of(program->bundle, program->bundle->inputs)->bytes;
    for (uint32_t i = 0; i < bytes; i++) {
        input[i] = (uint8_t)(from + i * 37);
    }
    return dtn_executor_run(&program->executor, NULL, NULL);
}

static bool is_right(const program_t *program)
{
    const uint32_t bytes = value_of(program->bundle, program->bundle->outputs)->bytes;
    return memcmp(dtn_executor_output(&program->executor, 0), program->expected, bytes) == 0;
}

static bool start(program_t *program, uint32_t from)
{
    const uint32_t bytes = value_of(program->bundle, program->bundle->outputs)->bytes;
    if (bytes > OUTPUT || dtn_executor_init(&program->executor, program->bundle, program->memories) != ENONE ||
        run(program, from) != ENONE) {
        return false;
    }
    memcpy(program->expected, dtn_executor_output(&program->executor, 0), bytes);
    return true;
}

static void print(const char *what, uint32_t number)
{
    dtn_semihost_print(what);
    dtn_semihost_print_number(number);
}

/* Results of the interrupt. */
static volatile dtn_reason_t last_reason;
static volatile uint32_t interrupts;

void dtn_on_system_tick(void)
{
    DTN_SYSTICK->control = 0;
    const NeutronError error = run(&second, 5);
    last_reason = error == ENONE && !is_right(&second) ? DTN_REASON_NPU_RUN : DTN_ERROR_REASON(error);
    interrupts++;
}

typedef struct {
    uint32_t right;
    uint32_t busy;
    uint32_t other;
    uint32_t wrong;
} outcomes_t;

/* Raises the interrupt that many cycles after the start of the first program. The other program is right if the NPU is
 * free, and refused if the first one has it; the first one is always right. */
static dtn_reason_t interrupted(uint32_t cycles, outcomes_t *outcomes)
{
    memset((void *)(uintptr_t)dtn_executor_output(&first.executor, 0), 0, 16);
    interrupts = 0;
    DTN_SYSTICK->reload = cycles;
    DTN_SYSTICK->value = 0;
    DTN_SYSTICK->control = TICK_ON;
    const NeutronError error = run(&first, 3);
    while (interrupts == 0) {
    }
    outcomes->right += last_reason == DTN_OK;
    outcomes->busy += last_reason == DTN_REASON_NPU_BUSY;
    outcomes->other += last_reason != DTN_OK && last_reason != DTN_REASON_NPU_BUSY;
    outcomes->wrong += error != ENONE || !is_right(&first) || run(&second, 5) != ENONE || !is_right(&second);
    return last_reason;
}

/* Moments STEP cycles apart, and every cycle between two where something else comes of it. */
static void preempt(void)
{
    outcomes_t outcomes = {0, 0, 0, 0};
    uint32_t ticks = dtn_port_ticks();
    (void)run(&first, 3);
    ticks = dtn_port_ticks() - ticks;
    const uint32_t cycles = ticks * (DTN_CORE_HZ / 1000000) / (DTN_TICKS_HZ / 1000000);
    uint32_t changes = 0;
    dtn_reason_t before = interrupted(1, &outcomes);
    for (uint32_t at = 1 + STEP; at < cycles + cycles / 8; at += STEP) {
        const dtn_reason_t reason = interrupted(at, &outcomes);
        changes += reason != before;
        for (uint32_t between = at - STEP + 1; reason != before && between < at; between++) {
            (void)interrupted(between, &outcomes);
        }
        before = reason;
    }
    print("changes ", changes);
    print(", right ", outcomes.right > STEP / 2);
    print(", busy ", outcomes.busy > STEP / 2);
    print(", other ", outcomes.other);
    print(", wrong ", outcomes.wrong);
    dtn_semihost_print("\n");
}

static uint32_t draw(void)
{
    static uint32_t state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Changes a block of a partition: a bit of one word, or a whole word. */
static void damage(uint32_t *words, uint32_t count)
{
    const uint32_t at = draw() % count;
    words[at] = draw() % 2 == 0 ? words[at] ^ UINT32_C(1) << draw() % 32 : draw();
}

/* True if a partition is as `hostile` takes it: its blocks have words, and fit. */
static bool can_be_damaged(const dtn_bundle_t *bundle)
{
    const dtn_delegate_t *delegate = &bundle->delegates[0];
    bool is_right = delegate->blocks == BLOCKS;
    for (uint32_t k = 0; is_right && k < BLOCKS; k++) {
        const uint32_t bytes = bundle->constants[delegate->first + k].bytes;
        is_right = bytes >= sizeof(uint32_t) && bytes <= BLOCK;
    }
    return is_right;
}

/* The block of a partition to damage: half of them are commands, the longest. */
static uint32_t any_block(void)
{
    return draw() % 2 == 0 ? COMMANDS : draw() % BLOCKS;
}

/* Runs the partition of a program with this block damaged, whose CRC the executor would not have let pass. */
static NeutronError run_damaged(const program_t *program, uint32_t which)
{
    static uint32_t words[BLOCK / 4] __attribute__((aligned(16)));
    const dtn_delegate_t *delegate = &program->bundle->delegates[0];
    const dtn_memory_t *memory = &program->memories[1];
    dtn_constant_t blocks[BLOCKS];
    memcpy(blocks, program->bundle->constants + delegate->first, sizeof blocks);
    memcpy(words, blocks[which].data, blocks[which].bytes);
    damage(words, blocks[which].bytes / 4);
    blocks[which].data = words;
    const dtn_partition_t partition = {
        .blocks = blocks,
        .block_count = delegate->blocks,
        .is_alone = true,
        .context = memory->data,
        .working = (uint8_t *)memory->data + DTN_CONTEXT_BYTES,
    };
    NeutronError error = delegate->npu->prepare(&partition);
    if (error == ENONE && delegate->npu->working_bytes(&partition) > memory->bytes - DTN_CONTEXT_BYTES) {
        error = dtn_error(DTN_REASON_MEMORY_SIZE, 0); /* as the executor says */
    }
    return error == ENONE ? delegate->npu->apart->run(&partition) : error;
}

static void hostile(void)
{
    uint32_t refused = 0;
    uint32_t failed = 0;
    uint32_t ran = 0;
    uint32_t wrong = 0;
    uint32_t checked = 0; /* damages of what is checked: any weights are as good as others */
    for (uint32_t i = 0; i < DAMAGES; i++) {
        const uint32_t which = any_block();
        const NeutronError error = run_damaged(i % 2 == 0 ? &first : &second, which);
        checked += which != WEIGHTS;
        const dtn_reason_t reason = DTN_ERROR_REASON(error);
        refused += reason == DTN_REASON_DELEGATE_BLOCK || reason == DTN_REASON_MEMORY_SIZE;
        failed += reason == DTN_REASON_NPU_RUN;
        ran += error == ENONE;
        wrong += run(&second, 5) != ENONE || !is_right(&second) || run(&first, 3) != ENONE || !is_right(&first);
    }
    print("refused ", refused > checked / 8);
    print(", failed ", failed > DAMAGES / 8);
    print(", ran ", ran > DAMAGES / 8);
    print(", other ", DAMAGES - refused - failed - ran);
    print(", wrong ", wrong);
    dtn_semihost_print("\n");
}

int main(void)
{
    static char line[64];
    const char *word = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    if (word == NULL || !place(&first) || !place(&second)) {
        return 2;
    }
    (void)next_guard();
    dtn_guards_on(memory_pool, sizeof memory_pool);
    if (!dtn_npu_start() || !start(&first, 3) || !start(&second, 5)) {
        return 2;
    }
    if (strcmp(word + 1, "preempt") == 0) {
        preempt();
    } else if (strcmp(word + 1, "hostile") == 0 && can_be_damaged(first.bundle) && can_be_damaged(second.bundle)) {
        hostile();
    } else if (strcmp(word + 1, "guard") != 0) {
        return 2;
    } else {
        ((volatile uint8_t *)second.memories[0].data)[second.memories[0].bytes] = 0;
    }
    dtn_semihost_exit(0);
}
