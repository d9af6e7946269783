/* Threads at the API of Arm's driver: each has a model, and all share one NPU, which they reserve, wait for and
 * release. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "deuteron/ethosu_device.h"
#include "ethosu_driver.h"
#include "ethosu_stream.h"
#include "test.h"

enum { THREADS = 3, RUNS = 200, COPIED = 64, REGIONS = 2 };

/* A model that copies constants to where its outputs are, and what went wrong in its runs. */
typedef struct {
    stream_t stream;
    int bytes;
    uint64_t bases[REGIONS];
    size_t sizes[REGIONS];
    int failed;
    int wrong;
} model_t;

static struct ethosu_device device;
static struct ethosu_driver driver;
static int users; /* who has the NPU; written without a lock: the reservation is one */

static void new_model(model_t *model, uint64_t *state)
{
    stream_new(&model->stream, "ethos-u55-128", state);
    stream_short(&model->stream, REG_DMA0_SRC_REGION, 0);
    stream_short(&model->stream, REG_DMA0_DST_REGION, 1);
    stream_long(&model->stream, REG_DMA0_SRC, 0);
    stream_long(&model->stream, REG_DMA0_DST, 0);
    stream_long(&model->stream, REG_DMA0_LEN, COPIED);
    stream_op(&model->stream, DTN_ETHOSU_OP_DMA_START, 0);
    model->bytes = (int)stream_end(&model->stream);
    for (size_t i = 0; i < REGIONS; i++) {
        model->bases[i] = (uint64_t)(uintptr_t)model->stream.memory.regions[i].data;
        model->sizes[i] = model->stream.memory.regions[i].bytes;
    }
}

static void *run_often(void *argument)
{
    model_t *model = argument;
    const dtn_ethosu_region_t *regions = model->stream.memory.regions;
    for (int i = 0; i < RUNS; i++) {
        memset(regions[1].data, i, COPIED);
        struct ethosu_driver *reserved = ethosu_reserve_driver();
        model->failed += reserved != &driver || users != 0;
        users++;
        model->failed += ethosu_invoke_v3(reserved, model->stream.words, model->bytes, model->bases, model->sizes,
                                          REGIONS, NULL) != 0;
        users--;
        ethosu_release_driver(reserved);
        model->wrong += memcmp(regions[0].data, regions[1].data, COPIED) != 0;
    }
    return NULL;
}

/* A thread's wait, and its result. */
typedef enum { TAKE_AWAY, RESERVE, RESERVE_U65 } wish_t;

typedef struct {
    wish_t wish;
    struct ethosu_driver *got;
    pthread_t thread;
} waiting_t;

static void *wait_for(void *argument)
{
    waiting_t *waiting = argument;
    if (waiting->wish == TAKE_AWAY) {
        ethosu_deinit(&driver);
    } else if (waiting->wish == RESERVE) {
        waiting->got = ethosu_reserve_driver();
    } else {
        waiting->got = ethosu_reserve_driver_ex(ETHOSU_PRODUCT_U65, 8);
    }
    return NULL;
}

/* Starts a thread, and leaves it the time to come to where it waits. */
static void begin(waiting_t *waiting)
{
    const struct timespec pause = {0, 5000000};
    waiting->got = NULL;
    CHECK_EQUAL(pthread_create(&waiting->thread, NULL, wait_for, waiting), 0);
    (void)nanosleep(&pause, NULL);
}

static void end(waiting_t *waiting, struct ethosu_driver *got)
{
    CHECK_EQUAL(pthread_join(waiting->thread, NULL), 0);
    CHECK(waiting->got == got, "a wait for %d got another driver", (int)waiting->wish);
}

/* A driver is taken away once it is given back, and who waits behind that gets none. */
static void test_taken_away(void)
{
    waiting_t away = {.wish = TAKE_AWAY};
    waiting_t behind = {.wish = RESERVE};
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK(ethosu_reserve_driver() == &driver, "no driver was reserved");
    begin(&away);
    begin(&behind);
    CHECK(driver.dev == &device, "a driver was taken away from who has it");
    ethosu_release_driver(&driver);
    end(&away, NULL);
    end(&behind, NULL);
    CHECK(driver.dev == NULL && ethosu_reserve_driver() == NULL, "a driver was not taken away");
}

/* A driver of a kind is waited for while one of another is free, which stays so. */
static void test_kinds(void)
{
    static struct ethosu_device other_device;
    static struct ethosu_driver other;
    waiting_t waiting = {.wish = RESERVE_U65};
    waiting_t any = {.wish = RESERVE};
    device.config = dtn_ethosu_config("ethos-u65-256");
    other_device.config = dtn_ethosu_config("ethos-u55-128");
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(ethosu_init(&other, &other_device, NULL, 0, 0, 0), 0);
    CHECK(ethosu_reserve_driver_ex(ETHOSU_PRODUCT_U85, 8) == NULL, "there is no such driver");
    CHECK(ethosu_reserve_driver_ex(ETHOSU_PRODUCT_U65, 8) == &driver, "no driver was reserved");
    begin(&waiting);
    CHECK(ethosu_reserve_driver() == &other, "no driver was reserved");
    begin(&any);
    ethosu_release_driver(&other);
    end(&any, &other);
    ethosu_release_driver(&other);
    ethosu_release_driver(&driver);
    end(&waiting, &driver);
    ethosu_release_driver(&driver);
    ethosu_deinit(&driver);
    ethosu_deinit(&other);
    device.config = NULL;
}

int main(void)
{
    (void)alarm(60); /* who waits for ever fails */
    static model_t models[THREADS];
    pthread_t threads[THREADS];
    uint64_t state = 5;
    for (int i = 0; i < THREADS; i++) {
        new_model(&models[i], &state);
    }
    device.shram = models[0].stream.memory.shram;
    device.shram_bytes = models[0].stream.memory.shram_bytes;
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, run_often, &models[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
        CHECK(models[i].failed == 0 && models[i].wrong == 0, "thread %d: %d failed, %d wrong", i, models[i].failed,
              models[i].wrong);
        stream_free(&models[i].stream);
    }
    /* The awaited resource is never released, but the time is limited. */
    CHECK(ethosu_reserve_driver() == &driver, "no driver was reserved");
    void *semaphore = ethosu_semaphore_create();
    CHECK_EQUAL(ethosu_semaphore_take(semaphore, 2), -1);
    ethosu_semaphore_destroy(semaphore);
    ethosu_release_driver(&driver);
    ethosu_deinit(&driver);
    test_taken_away();
    test_kinds();
    return test_result();
}
