/* Two programs on two threads, each with its executor, and one Ethos-U for both: they reserve and release it in turn,
 * and do not mix results. Then what the errors of runs say. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "bundle_builder.h"
#include "deuteron/ethosu_device.h"
#include "deuteron/io.h"
#include "ethosu_driver.h"
#include "ethosu_stream.h"
#include "test.h"

enum { PROGRAMS = 2, RUNS = 200, TENSOR = 64, SCRATCH = 2 * TENSOR, BLOCKS = 3, LAYOUT_WORDS = 9 };

/* A program whose output is the start of its weights, and behind that the start of its input. */
typedef struct {
    stream_t stream;
    uint32_t layout[LAYOUT_WORDS] __attribute__((aligned(16)));
    uint32_t of_weights; /* bytes */
    program_t program;
    dtn_executor_t executor;
    int failed;
    int wrong;
} user_t;

static struct ethosu_device device;
static struct ethosu_driver driver;
static pthread_barrier_t both_are_there;

/* Who has the NPU, and what was done with it since it was reserved; written without a lock: the reservation is one. */
static pthread_t owner;
static unsigned users;
static unsigned jobs;
static unsigned turns;
static unsigned changes; /* of who has it */
static unsigned out_of_turn;

struct ethosu_driver *__real_ethosu_reserve_driver(void);
struct ethosu_driver *__wrap_ethosu_reserve_driver(void);
void __real_ethosu_release_driver(struct ethosu_driver *drv);
void __wrap_ethosu_release_driver(struct ethosu_driver *drv);
int __real_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg);
int __wrap_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg);

struct ethosu_driver *__wrap_ethosu_reserve_driver(void)
{
    struct ethosu_driver *drv = __real_ethosu_reserve_driver();
    out_of_turn += users != 0 || drv != &driver;
    users++;
    jobs = 0;
    changes += turns > 0 && !pthread_equal(owner, pthread_self());
    owner = pthread_self();
    return drv;
}

void __wrap_ethosu_release_driver(struct ethosu_driver *drv)
{
    out_of_turn += users != 1 || jobs != 1 || !pthread_equal(owner, pthread_self());
    users--;
    turns++;
    __real_ethosu_release_driver(drv);
}

int __wrap_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg)
{
    out_of_turn += users != 1 || !pthread_equal(owner, pthread_self());
    jobs++;
    (void)sched_yield(); /* the other asks for the NPU while this one has it */
    return __real_ethosu_invoke_v3(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr,
                                   user_arg);
}

static void copy(stream_t *stream, uint32_t region, uint32_t from, uint32_t to, uint32_t bytes)
{
    stream_short(stream, REG_DMA0_SRC_REGION, region);
    stream_short(stream, REG_DMA0_DST_REGION, 1);
    stream_long(stream, REG_DMA0_SRC, from);
    stream_long(stream, REG_DMA0_DST, to);
    stream_long(stream, REG_DMA0_LEN, bytes);
    stream_op(stream, DTN_ETHOSU_OP_DMA_START, 0);
}

static void start(user_t *user, const char *config, uint32_t of_weights, uint64_t *state)
{
    const uint32_t layout[LAYOUT_WORDS] = {SCRATCH, 0, 1, 1, 0, 0, TENSOR, TENSOR, TENSOR};
    user->of_weights = of_weights;
    stream_new(&user->stream, config, state);
    copy(&user->stream, 0, 0, TENSOR, of_weights);
    copy(&user->stream, 1, 0, TENSOR + of_weights, TENSOR - of_weights);
    memcpy(user->layout, layout, sizeof layout);
    const dtn_constant_t blocks[BLOCKS] = {
        {user->layout, sizeof layout, 0},
        {user->stream.words, (uint32_t)stream_end(&user->stream), 0},
        {user->stream.memory.regions[0].data, TENSOR, 0},
    };
    program_start(&user->program);
    program_partition(&user->program, &dtn_npu_ethosu, blocks, BLOCKS, TENSOR, SCRATCH);
    program_finish(&user->program);
    CHECK_EQUAL(dtn_executor_init(&user->executor, &user->program.bundle, user->program.memories), ENONE);
}

static void *run_often(void *argument)
{
    user_t *user = argument;
    uint8_t input[TENSOR];
    uint8_t output[TENSOR];
    const void *inputs[] = {input};
    void *outputs[] = {output};
    (void)pthread_barrier_wait(&both_are_there);
    for (unsigned run = 0; run < RUNS; run++) {
        for (unsigned i = 0; i < TENSOR; i++) {
            input[i] = (uint8_t)(run + 3 * i);
        }
        user->failed += dtn_executor_run(&user->executor, inputs, outputs) != ENONE;
        user->wrong += memcmp(output, user->stream.memory.regions[0].data, user->of_weights) != 0 ||
                       memcmp(output + user->of_weights, input, TENSOR - user->of_weights) != 0;
    }
    return NULL;
}

/* The result of `dtn_io_copy_start` for a copy, counted from 0; 0 for all others. */
static struct {
    int32_t status;
    unsigned left;
} refused;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    /* Threads only read this. */
    if (refused.status != 0 && refused.left-- == 0) {
        return refused.status;
    }
    memcpy(dst, src, size);
    return 0;
}

/* The detail is the fault of Deuteron's driver, or the tensor that was not copied. */
static void test_errors(user_t *user)
{
    uint8_t input[TENSOR] = {0};
    uint8_t output[TENSOR];
    const void *inputs[] = {input};
    void *outputs[] = {output};
    const size_t bytes = device.shram_bytes;
    device.shram_bytes = 0;
    CHECK_EQUAL(dtn_executor_run(&user->executor, inputs, outputs),
                dtn_error(DTN_REASON_NPU_RUN, DTN_ETHOSU_SHRAM_SIZE));
    CHECK_EQUAL(device.fault, DTN_ETHOSU_SHRAM_SIZE);
    device.shram_bytes = bytes;
    CHECK_EQUAL(dtn_executor_run(&user->executor, inputs, outputs), ENONE);
    /* The program's input, the partition's, the partition's output, the program's. */
    static const uint32_t tensors[] = {0, 0, 1, 1};
    for (unsigned copy = 0; copy < sizeof tensors / sizeof tensors[0]; copy++) {
        refused.status = DTN_IO_BUSY;
        refused.left = copy;
        CHECK_EQUAL(dtn_executor_run(&user->executor, inputs, outputs), dtn_error(DTN_REASON_IO_BUSY, tensors[copy]));
        refused.status = 0;
        CHECK_EQUAL(dtn_executor_run(&user->executor, inputs, outputs), ENONE);
    }
}

int main(void)
{
    (void)alarm(60); /* who waits for ever fails */
    static user_t both[PROGRAMS];
    pthread_t threads[PROGRAMS];
    uint64_t state = 5;
    start(&both[0], "ethos-u55-128", 16, &state);
    start(&both[1], "ethos-u65-256", 48, &state);
    device.shram = both[0].stream.memory.shram;
    device.shram_bytes = both[0].stream.memory.shram_bytes;
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(pthread_barrier_init(&both_are_there, NULL, PROGRAMS), 0);
    for (int i = 0; i < PROGRAMS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run_often, &both[i]), 0);
    }
    for (int i = 0; i < PROGRAMS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        CHECK(both[i].failed == 0 && both[i].wrong == 0, "program %d: %d failed, %d wrong", i, both[i].failed,
              both[i].wrong);
    }
    CHECK(users == 0 && out_of_turn == 0, "%u have the NPU, %u times out of turn", users, out_of_turn);
    CHECK_EQUAL(turns, PROGRAMS * RUNS);
    CHECK(changes > RUNS / 4, "the NPU changed hands %u times only", changes);
    for (int i = 0; i < PROGRAMS; i++) {
        test_errors(&both[i]);
        CHECK_EQUAL(dtn_executor_deinit(&both[i].executor), ENONE);
    }
    ethosu_deinit(&driver);
    for (int i = 0; i < PROGRAMS; i++) {
        stream_free(&both[i].stream);
        program_free(&both[i].program);
    }
    return test_result();
}
