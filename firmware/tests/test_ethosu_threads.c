/* Threads at the API of Arm's driver: each has a model of its own, all have one NPU, which they reserve and release. */
#include <pthread.h>
#include <string.h>

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

int main(void)
{
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
    /* Nobody gives back what is waited for, but the time is limited. */
    CHECK(ethosu_reserve_driver() == &driver, "no driver was reserved");
    CHECK_EQUAL(ethosu_semaphore_take(ethosu_semaphore_create(), 2), -1);
    ethosu_release_driver(&driver);
    ethosu_deinit(&driver);
    return test_result();
}
