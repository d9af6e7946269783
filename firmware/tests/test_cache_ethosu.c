/* An Ethos-U by Arm's driver, and the core's data cache: blocks, scratch and fast scratch memory. The driver is the
 * test's own: its NPU reads commands and weights, adds to the input, and writes output and fast scratch memory. */
#include <string.h>

#include "deuteron/io.h"
#include "ethosu_driver.h"
#include "simulated_cache_runs.h"
#include "test.h"

enum { TENSOR = 40, SCRATCH = 2 * CACHED_LINE + TENSOR, FAST = 24, WEIGHTS = 32, CONTEXT = DTN_CONTEXT_BYTES };
/* In the scratch memory. The tensors share a line, which both of them may. */
enum { OWN_INPUT = 16, OWN_OUTPUT = OWN_INPUT + TENSOR };
enum { CONTEXT_AT = 4 * CACHED_LINE, WORKING_AT = CONTEXT_AT + CONTEXT, WORKING = (SCRATCH + 15) / 16 * 16 + FAST + 8 };
enum { LAYOUT_AT = WORKING_AT + 8 * CACHED_LINE, COMMANDS_AT = LAYOUT_AT + 2 * CACHED_LINE };
enum { WEIGHTS_AT = COMMANDS_AT + CACHED_LINE };
typedef char memories_fit[WEIGHTS_AT + WEIGHTS <= CACHED_BYTES && WORKING <= 8 * CACHED_LINE ? 1 : -1];

enum { LAYOUT_WORDS = 9, COMMAND_WORDS = 3, BLOCKS = 3, ADDED = 2 /* the word of the stream */ };

static const uint32_t layout[LAYOUT_WORDS] = {SCRATCH, FAST, 1, 1, 0, OWN_INPUT, TENSOR, OWN_OUTPUT, TENSOR};
static const uint32_t commands[COMMAND_WORDS] = {0x31504F43, 2 | 1 << 16, 5};

/* Only the core reads the layout, of which cleaning it does not need to know. */
static const cached_kind_t kinds[] = {
    {CLEAN, LAYOUT_AT, false, "clean the layout"},
    {CLEAN, COMMANDS_AT, false, "clean the commands"},
    {CLEAN, WEIGHTS_AT, false, "clean the weights"},
    {CLEAN, WORKING_AT, false, "clean the working memory before the run"},
    {CLEAN, WORKING_AT, true, "clean the working memory after the run"},
    {INVALIDATE, WORKING_AT, true, "invalidate the working memory"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], UNNEEDED = 0 };

static struct ethosu_driver driver;
static bool is_reserved;

struct ethosu_driver *ethosu_reserve_driver(void)
{
    CHECK(!is_reserved, "reserved twice");
    is_reserved = true;
    return &driver;
}

void ethosu_release_driver(struct ethosu_driver *drv)
{
    CHECK(is_reserved && drv == &driver, "released what is not reserved");
    is_reserved = false;
}

/* An address of the core's as the NPU sees it. */
static uint8_t *there(uint64_t address)
{
    const size_t at = cached_at((const void *)(uintptr_t)address);
    CHECK(at < CACHED_BYTES, "an address is elsewhere");
    return cached_there() + at;
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg)
{
    (void)user_arg;
    CHECK(is_reserved && drv == &driver && num_base_addr == BLOCKS, "an NPU that is not reserved, or other memories");
    CHECK(base_addr_size[0] == WEIGHTS && base_addr_size[1] == SCRATCH && base_addr_size[2] == FAST, "other sizes");
    CHECK_EQUAL((unsigned)custom_data_size, sizeof commands);
    uint32_t stream[COMMAND_WORDS];
    memcpy(stream, there((uintptr_t)custom_data_ptr), sizeof stream);
    const uint8_t *weights = there(base_addr[0]);
    uint8_t *scratch = there(base_addr[1]);
    uint8_t *fast = there(base_addr[2]);
    fast[0]++; /* how often it has run */
    for (size_t i = 0; i < TENSOR; i++) {
        scratch[OWN_OUTPUT + i] = (uint8_t)(scratch[OWN_INPUT + i] + weights[i % WEIGHTS] + stream[ADDED] + fast[0]);
    }
    cached_npu_ran();
    return 0;
}

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
    return 0;
}

int32_t dtn_io_copy_wait(void)
{
    return 0;
}

/* A program of one partition, whose blocks the core has just written. */
static void start(program_t *program)
{
    const dtn_constant_t blocks[BLOCKS] = {{cached_seen + LAYOUT_AT, sizeof layout, 0},
                                           {cached_seen + COMMANDS_AT, sizeof commands, 0},
                                           {cached_seen + WEIGHTS_AT, WEIGHTS, 0}};
    memcpy(cached_seen + LAYOUT_AT, layout, sizeof layout);
    memcpy(cached_seen + COMMANDS_AT, commands, sizeof commands);
    program_start(program);
    program_partition(program, &dtn_npu_ethosu, blocks, BLOCKS, TENSOR, WORKING);
    program_finish(program);
    program->memories[0].data = cached_seen;
    program->memories[PROGRAM_WORKING].data = cached_seen + CONTEXT_AT;
}

int main(void)
{
    const cached_adder_t adder = {start, TENSOR, LAYOUT_AT, WEIGHTS_AT, WEIGHTS, (uint8_t)commands[ADDED]};
    cached_test(&adder, kinds, KINDS, UNNEEDED);
    CHECK(!is_reserved, "the NPU was not given back");
    return test_result();
}
