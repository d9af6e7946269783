/* Arm's driver API over executed streams: jobs, drivers that are reserved, callbacks of a port, and what is refused. */
#include <string.h>

#include "deuteron/ethosu_device.h"
#include "ethosu_85.h"
#include "ethosu_driver.h"
#include "test.h"

enum { COPIED = 64, FAST_BYTES = 1024, REGIONS = 3 };

static uint64_t state = 11;
static __attribute__((aligned(16))) uint8_t fast[FAST_BYTES];
static struct ethosu_device device;
static struct ethosu_driver driver;

/* A port's callbacks: they count. */
static int begun, ended;
static void *argument;

void ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg)
{
    (void)drv;
    argument = user_arg;
    begun++;
}

void ethosu_inference_end(struct ethosu_driver *drv, void *user_arg)
{
    (void)drv;
    (void)user_arg;
    ended++;
}

/* The memories that a hook of the data cache got, and by how many calls. */
typedef struct {
    uint64_t bases[REGIONS];
    size_t sizes[REGIONS];
    int count;
    int calls;
} recorded_t;

static recorded_t flushed, invalidated;

static void record(recorded_t *recorded, uint64_t base, size_t bytes)
{
    if (recorded->count < REGIONS) {
        recorded->bases[recorded->count] = base;
        recorded->sizes[recorded->count] = bytes;
    }
    recorded->count++;
}

/* This file is compiled for both releases of the API. */
#if DTN_ETHOSU_RELEASE == 0
enum { CALLS = REGIONS };

void ethosu_flush_dcache(uint32_t *p, size_t bytes)
{
    record(&flushed, (uint64_t)(uintptr_t)p, bytes);
    flushed.calls++;
}

void ethosu_invalidate_dcache(uint32_t *p, size_t bytes)
{
    record(&invalidated, (uint64_t)(uintptr_t)p, bytes);
    invalidated.calls++;
}
#else
enum { CALLS = 1 };

void ethosu_flush_dcache(const uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr)
{
    for (int i = 0; i < num_base_addr; i++) {
        record(&flushed, base_addr[i], base_addr_size[i]);
    }
    flushed.calls++;
}

void ethosu_invalidate_dcache(const uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr)
{
    for (int i = 0; i < num_base_addr; i++) {
        record(&invalidated, base_addr[i], base_addr_size[i]);
    }
    invalidated.calls++;
}
#endif

/* Appends a copy of bytes from the start of one region to the start of another. */
static void add_copy(stream_t *stream, uint32_t from, uint32_t to)
{
    stream_short(stream, REG_DMA0_SRC_REGION, from);
    stream_short(stream, REG_DMA0_DST_REGION, to);
    stream_long(stream, REG_DMA0_SRC, 0);
    stream_long(stream, REG_DMA0_DST, 0);
    stream_long(stream, REG_DMA0_LEN, COPIED);
    stream_op(stream, DTN_ETHOSU_OP_DMA_START, 0);
}

/* The job of a stream: its commands, and where its regions are. */
typedef struct {
    stream_t stream;
    int bytes;
    uint64_t bases[REGIONS];
    size_t sizes[REGIONS];
} job_t;

/* Constants to fast memory and from there to where outputs are: two copies. */
static void new_job(job_t *job, const char *config)
{
    stream_new(&job->stream, config, &state);
    add_copy(&job->stream, 0, 2);
    add_copy(&job->stream, 2, 1);
    job->bytes = (int)stream_end(&job->stream);
    for (size_t i = 0; i < 2; i++) {
        job->bases[i] = (uint64_t)(uintptr_t)job->stream.memory.regions[i].data;
        job->sizes[i] = job->stream.memory.regions[i].bytes;
    }
    job->bases[2] = (uint64_t)(uintptr_t)fast;
    job->sizes[2] = sizeof fast;
    device.shram = job->stream.memory.shram;
    device.shram_bytes = job->stream.memory.shram_bytes;
    memset(fast, 0, sizeof fast);
}

static int invoke(job_t *job)
{
    return ethosu_invoke_v3(&driver, job->stream.words, job->bytes, job->bases, job->sizes, REGIONS, job);
}

/* True if the outputs are the constants. */
static bool is_copied(const job_t *job)
{
    const dtn_ethosu_region_t *regions = job->stream.memory.regions;
    return memcmp(regions[0].data, regions[1].data, COPIED) == 0;
}

static void check_recorded(const recorded_t *recorded, const job_t *job)
{
    CHECK_EQUAL(recorded->calls, CALLS);
    CHECK_EQUAL(recorded->count, REGIONS);
    CHECK(memcmp(recorded->bases, job->bases, sizeof job->bases) == 0, "the hook got other addresses");
    CHECK(memcmp(recorded->sizes, job->sizes, sizeof job->sizes) == 0, "the hook got other sizes");
}

static void test_job(void)
{
    job_t job;
    new_job(&job, "ethos-u55-128");
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    begun = ended = 0;
    flushed = invalidated = (recorded_t){.count = 0};
    CHECK_EQUAL(invoke(&job), 0);
    CHECK(is_copied(&job), "the job has not copied");
    CHECK(begun == 1 && ended == 1 && argument == &job, "%d begun, %d ended", begun, ended);
    check_recorded(&flushed, &job);
    check_recorded(&invalidated, &job);
    CHECK_EQUAL(driver.power_request_counter, 0);
    CHECK_EQUAL(ethosu_wait(&driver, true), -2);
    ethosu_deinit(&driver);
    stream_free(&job.stream);
}

/* Each call that does not block executes one operation. */
static void test_steps(void)
{
    job_t job;
    new_job(&job, "ethos-u65-512");
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(ethosu_invoke_async(&driver, job.stream.words, job.bytes, job.bases, job.sizes, REGIONS, NULL), 0);
    CHECK_EQUAL(invoke(&job), -1);
    CHECK_EQUAL(ethosu_wait(&driver, false), 1);
    CHECK(memcmp(fast, job.stream.memory.regions[0].data, COPIED) == 0, "the first copy was not made");
    CHECK(!is_copied(&job), "the second copy was made before its turn");
    CHECK_EQUAL(ethosu_wait(&driver, false), 1);
    CHECK_EQUAL(ethosu_wait(&driver, false), 0);
    CHECK(is_copied(&job), "the job has not copied");
    CHECK_EQUAL(ethosu_wait(&driver, false), -2);
    ethosu_deinit(&driver);
    stream_free(&job.stream);
}

/* The fast memory of `ethosu_init` takes the place of the caller's. */
static void test_fast_memory(void)
{
    static __attribute__((aligned(16))) uint8_t own[FAST_BYTES];
    job_t job;
    new_job(&job, "ethos-u55-128");
    CHECK_EQUAL(ethosu_init(&driver, &device, own, sizeof own, 0, 0), 0);
    CHECK_EQUAL(invoke(&job), 0);
    CHECK(memcmp(own, job.stream.memory.regions[0].data, COPIED) == 0, "the driver's fast memory was not used");
    CHECK_EQUAL(fast[0] | fast[COPIED - 1], 0);
    job.sizes[2] = sizeof own + 1;
    CHECK_EQUAL(invoke(&job), -1);
    CHECK_EQUAL(device.fault, DTN_ETHOSU_BOUNDS);
    ethosu_deinit(&driver);
    stream_free(&job.stream);
}

static void test_refusals(void)
{
    job_t job;
    new_job(&job, "ethos-u55-128");
    CHECK_EQUAL(ethosu_init(NULL, &device, NULL, 0, 0, 0), -1);
    CHECK_EQUAL(ethosu_init(&driver, NULL, NULL, 0, 0, 0), -1);
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(ethosu_invoke_v3(&driver, job.stream.words, job.bytes, job.bases, NULL, REGIONS, NULL), -1);
    CHECK_EQUAL(device.fault, DTN_ETHOSU_NULL_POINTER);
    CHECK_EQUAL(ethosu_invoke_v3(&driver, job.stream.words, job.bytes, job.bases, job.sizes, 9, NULL), -1);
    CHECK_EQUAL(device.fault, DTN_ETHOSU_REGION);
    CHECK_EQUAL(ethosu_invoke_v3(&driver, job.stream.words, -4, job.bases, job.sizes, REGIONS, NULL), -1);
    CHECK_EQUAL(device.fault, DTN_ETHOSU_HEADER);
    job.bases[1] += 4;
    CHECK_EQUAL(invoke(&job), -1);
    CHECK_EQUAL(device.fault, DTN_ETHOSU_MISALIGNED);
    job.bases[1] -= 4;
    job.sizes[2] = COPIED - 1;
    CHECK_EQUAL(invoke(&job), -1);
    CHECK(device.fault == DTN_ETHOSU_BOUNDS && driver.status_error, "%s", dtn_ethosu_message(device.fault));
    CHECK_EQUAL(device.event.opcode, DTN_ETHOSU_OP_DMA_START);
    device.config = dtn_ethosu_config("ethos-u55-256");
    CHECK_EQUAL(invoke(&job), -1);
    CHECK_EQUAL(device.fault, DTN_ETHOSU_CONFIGURATION);
    device.config = NULL;
    ethosu_deinit(&driver);
    stream_free(&job.stream);
}

/* Two drivers are given to two callers, by what their devices take. */
static void test_reservations(void)
{
    static struct ethosu_device second_device;
    static struct ethosu_driver second;
    struct ethosu_hw_info info;
    struct ethosu_driver_version version;
    uint32_t product = 9;
    uint32_t log2_macs = 9;
    job_t job;
    CHECK(ethosu_reserve_driver() == NULL, "a driver was reserved before there was one");
    new_job(&job, "ethos-u65-256");
    device.config = dtn_ethosu_config("ethos-u55-128");
    second_device.config = dtn_ethosu_config("ethos-u65-256");
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(ethosu_init(&second, &second_device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(ethosu_get_product_config_from_cop_data(job.stream.words, job.bytes, &product, &log2_macs), 0);
    CHECK(product == ETHOSU_PRODUCT_U65 && log2_macs == 8, "%u, %u", (unsigned)product, (unsigned)log2_macs);
    CHECK_EQUAL(ethosu_get_product_config_from_cop_data(job.bases, sizeof job.bases, &product, &log2_macs), -1);
    CHECK(ethosu_reserve_driver_ex(product, log2_macs) == &second, "the other driver was reserved");
    CHECK(ethosu_reserve_driver_ex(product, log2_macs) == NULL, "a driver was reserved twice");
    CHECK(ethosu_reserve_driver() == &driver, "no driver was reserved");
    CHECK(ethosu_reserve_driver() == NULL, "a driver was reserved twice");
    ethosu_release_driver(&second);
    ethosu_release_driver(&second);
    CHECK(ethosu_reserve_driver() == &second, "a driver that was given back was not reserved");
    CHECK(ethosu_reserve_driver() == NULL, "a driver was reserved twice");
    ethosu_get_hw_info(&second, &info);
    CHECK(info.version.product_major == 1 && info.cfg.macs_per_cc == 8, "%u", (unsigned)info.cfg.macs_per_cc);
    ethosu_get_driver_version(&version);
    CHECK_EQUAL(version.major, DTN_ETHOSU_RELEASE);
    CHECK(version.minor == (DTN_ETHOSU_RELEASE == 0 ? 16 : 0) && version.patch == 0, "%d", version.minor);
    device.config = NULL;
    ethosu_deinit(&driver);
    ethosu_deinit(&second);
    stream_free(&job.stream);
}

/* A job that has not ended is given up with its driver. */
static void test_release(void)
{
    job_t job;
    new_job(&job, "ethos-u55-128");
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK(ethosu_reserve_driver() == &driver, "no driver was reserved");
    CHECK_EQUAL(ethosu_invoke_async(&driver, job.stream.words, job.bytes, job.bases, job.sizes, REGIONS, NULL), 0);
    ethosu_release_driver(&driver);
    CHECK_EQUAL(ethosu_wait(&driver, true), -2);
    CHECK_EQUAL(ethosu_invoke_v2(job.stream.words, job.bytes, job.bases, job.sizes, REGIONS), 0);
    CHECK(is_copied(&job), "the job has not copied");
    ethosu_deinit(&driver);
    stream_free(&job.stream);
}

/* Drivers without a device, at first or after removal, are refused. */
static void test_no_device(void)
{
    job_t job;
    new_job(&job, "ethos-u55-128");
    CHECK_EQUAL(ethosu_init(&driver, &device, NULL, 0, 0, 0), 0);
    CHECK_EQUAL(ethosu_invoke_async(&driver, NULL, job.bytes, job.bases, job.sizes, REGIONS, NULL), -1);
    CHECK_EQUAL(ethosu_invoke_async(&driver, job.stream.words, job.bytes, job.bases, job.sizes, REGIONS, NULL), 0);
    ethosu_deinit(&driver);
    CHECK_EQUAL(ethosu_wait(&driver, false), -2);
    CHECK_EQUAL(ethosu_wait(&driver, true), -2);
    CHECK_EQUAL(invoke(&job), -1);
    CHECK_EQUAL(dtn_ethosu_driver_fault(&driver), DTN_ETHOSU_NULL_POINTER);
    stream_free(&job.stream);
}

/* A device says how much memory a stream needs. */
static void test_check(void)
{
    job_t job;
    new_job(&job, "ethos-u55-128");
    device.workspace_needed = 1;
    CHECK_EQUAL(dtn_ethosu_device_check(&device, job.stream.words, (size_t)job.bytes, job.sizes, REGIONS), 0);
    CHECK_EQUAL(device.workspace_needed, 0);
    job.sizes[2] = 0;
    CHECK_EQUAL(dtn_ethosu_device_check(&device, job.stream.words, (size_t)job.bytes, job.sizes, REGIONS),
                DTN_ETHOSU_REGION);
    CHECK_EQUAL(device.event.detail, 2);
    CHECK_EQUAL(dtn_ethosu_device_check(&device, job.sizes, sizeof job.sizes, job.sizes, REGIONS), DTN_ETHOSU_HEADER);
    CHECK(dtn_ethosu_device_bytes() == sizeof device && dtn_ethosu_driver_bytes() == sizeof driver, "other sizes");
    stream_free(&job.stream);
}

/* A stream of an Ethos-U85 that needs 16 bytes: an output of 2 x 5 that is turned on its way. */
static void new_turned_job(job_t *job)
{
    const int32_t sizes[3] = {1, 2, 5};
    const u85_turn_t turn = {{1, 0, 2}, 3, 1U << 11};
    test_map_t in = {1, 0x100, 1, 2, 5, 1, true, false, 0};
    test_map_t out = {1, 0x200, 2, 1, 5, 1, true, false, 0};
    new_job(job, "ethos-u85-256");
    job->stream.count = 8;
    stream_map(&job->stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_short(&job->stream, REG_IFM_UPSCALE, 0);
    stream_short(&job->stream, REG_IFM_BROADCAST, 0);
    u85_put_output(&job->stream, &turn, sizes, &out, true);
    u85_put_scale(&job->stream, REG_IFM_SCALE, 1, 0, 0);
    u85_put_scale(&job->stream, REG_OFM_SCALE, 1, 0, 0);
    stream_op(&job->stream, DTN_ETHOSU_OP_ELEMENTWISE, 6);
    job->bytes = (int)stream_end(&job->stream);
}

/* A check leaves a device's memory as it is, and says when that is too small. */
static void test_check_of_memory(void)
{
    static __attribute__((aligned(16))) uint8_t workspace[16];
    static const struct {
        bool has_workspace;
        size_t workspace_bytes, less_shram;
        dtn_ethosu_fault_t fault;
        uint64_t detail;
    } cases[] = {
        {false, 0, 0, DTN_ETHOSU_OK, 0},         {true, 8, 0, DTN_ETHOSU_WORKSPACE, 16},
        {true, 16, 0, DTN_ETHOSU_OK, 0},         {true, 0, 0, DTN_ETHOSU_WORKSPACE, 16},
        {true, 16, 1, DTN_ETHOSU_SHRAM_SIZE, 0},
    };
    job_t job;
    new_turned_job(&job);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        device.workspace = cases[i].has_workspace ? workspace : NULL;
        device.workspace_bytes = cases[i].workspace_bytes;
        device.shram_bytes = job.stream.config->shram_bytes - cases[i].less_shram;
        CHECK_EQUAL(dtn_ethosu_device_check(&device, job.stream.words, (size_t)job.bytes, job.sizes, REGIONS),
                    cases[i].fault);
        CHECK_EQUAL(device.fault, cases[i].fault);
        CHECK_EQUAL(device.event.detail, cases[i].detail);
        CHECK(device.workspace_bytes == cases[i].workspace_bytes, "case %zu: a check has changed the workspace", i);
        CHECK(cases[i].less_shram > 0 || device.workspace_needed == 16, "case %zu: %zu bytes", i,
              device.workspace_needed);
    }
    device.workspace = NULL;
    device.workspace_bytes = 0;
    stream_free(&job.stream);
}

int main(void)
{
    test_reservations();
    test_job();
    test_steps();
    test_fast_memory();
    test_refusals();
    test_release();
    test_no_device();
    test_check();
    test_check_of_memory();
    return test_result();
}
