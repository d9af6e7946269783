#include "deuteron/ethosu_device.h"
#include "ethosu_driver.h"

#include <string.h>

/* Regions of Arm's driver: constants, which a stream must not write, and fast memory, which it may replace. */
enum { CONSTANTS = 0, FAST_MEMORY = 2 };

/* Fields of a configuration word. */
enum { PRODUCT_AT = 28, LOG2_MACS_MASK = 0xF };

/* A waiting caller of the queue: for any driver, for one of a kind, or for that one. */
typedef struct waiter {
    struct waiter *next;
    const struct ethosu_driver *only;
    bool any;
    uint32_t product;
    uint32_t log2_macs;
    void *semaphore; /* given when a driver is available, or none is left */
    struct ethosu_driver *driver;
    bool is_done;
} waiter_t;

/* The drivers registered by `ethosu_init`, and the queue of waiting callers; protected by the mutex. */
static struct ethosu_driver *drivers;
static waiter_t *waiters;
static void *mutex;

/* ---- Devices ---- */

size_t dtn_ethosu_device_bytes(void)
{
    return sizeof(struct ethosu_device);
}

size_t dtn_ethosu_driver_bytes(void)
{
    return sizeof(struct ethosu_driver);
}

uint32_t dtn_ethosu_driver_fault(const struct ethosu_driver *drv)
{
    return drv->dev == NULL ? DTN_ETHOSU_NULL_POINTER : drv->dev->fault;
}

/* The configuration for a stream. */
static const dtn_ethosu_config_t *config_for(const struct ethosu_device *device, const void *data, size_t bytes)
{
    return device->config != NULL ? device->config : dtn_ethosu_config_of(data, bytes);
}

static dtn_ethosu_fault_t set_fault(struct ethosu_device *device, dtn_ethosu_fault_t fault)
{
    device->fault = fault;
    return fault;
}

dtn_ethosu_fault_t dtn_ethosu_device_check(struct ethosu_device *device, const void *command_data,
                                           size_t command_data_bytes, const size_t *region_bytes, size_t regions)
{
    dtn_ethosu_memory_t memory = {.shram_bytes = device->shram_bytes};
    const dtn_ethosu_config_t *config = config_for(device, command_data, command_data_bytes);
    memset(&device->event, 0, sizeof device->event);
    if (config == NULL || regions > DTN_ETHOSU_REGIONS) {
        return set_fault(device, config == NULL ? DTN_ETHOSU_HEADER : DTN_ETHOSU_REGION);
    }
    if (device->shram_bytes < config->shram_bytes) {
        return set_fault(device, DTN_ETHOSU_SHRAM_SIZE);
    }
    for (size_t i = 0; i < regions; i++) {
        memory.regions[i].bytes = region_bytes[i];
        memory.regions[i].is_read_only = i == CONSTANTS;
    }
    dtn_ethosu_fault_t fault =
        dtn_ethosu_check(&device->machine, config, command_data, command_data_bytes, &memory, &device->event);
    device->workspace_needed = memory.workspace_bytes;
    if (fault == DTN_ETHOSU_OK && device->workspace != NULL && device->workspace_bytes < device->workspace_needed) {
        device->event.detail = device->workspace_needed;
        fault = DTN_ETHOSU_WORKSPACE;
    }
    return set_fault(device, fault);
}

/* ---- Drivers ---- */

/* True if a caller waits for this driver. */
static bool matches(const struct ethosu_driver *drv, const waiter_t *waiter)
{
    if (waiter->any || waiter->only != NULL) {
        return waiter->any || drv == waiter->only;
    }
    const dtn_ethosu_config_t *config = drv->dev->config;
    return config == NULL ||
           (config->word >> PRODUCT_AT == waiter->product && (config->word & LOG2_MACS_MASK) == waiter->log2_macs);
}

/* The first matching driver, of the free ones or of all. */
static struct ethosu_driver *first(const waiter_t *waiter, bool is_free)
{
    struct ethosu_driver *drv = drivers;
    while (drv != NULL && ((is_free && drv->reserved) || !matches(drv, waiter))) {
        drv = drv->next;
    }
    return drv;
}

/* Removes a caller from the queue, and assigns a driver to it. */
static void wake(waiter_t **at, struct ethosu_driver *drv)
{
    waiter_t *waiter = *at;
    *at = waiter->next;
    waiter->driver = drv;
    waiter->is_done = true;
    (void)ethosu_semaphore_give(waiter->semaphore);
}

/* Gives a free driver to the first caller that waits for it, so that no other caller gets it first. */
static void give_to_waiter(struct ethosu_driver *drv)
{
    waiter_t **at = &waiters;
    while (*at != NULL && !matches(drv, *at)) {
        at = &(*at)->next;
    }
    drv->reserved = *at != NULL;
    if (drv->reserved) {
        wake(at, drv);
    }
}

/* Ends the waits of callers without a remaining driver. */
static void end_waits(void)
{
    for (waiter_t **at = &waiters; *at != NULL;) {
        if (first(*at, false) == NULL) {
            wake(at, NULL);
        } else {
            at = &(*at)->next;
        }
    }
}

/* Waits at the end of the queue; the mutex is locked before and after. */
static void wait_in_queue(waiter_t *waiter)
{
    waiter_t **at = &waiters;
    waiter->semaphore = ethosu_semaphore_create();
    if (waiter->semaphore == NULL) {
        return;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = waiter;
    (void)ethosu_mutex_unlock(mutex);
    (void)ethosu_semaphore_take(waiter->semaphore, ETHOSU_SEMAPHORE_WAIT_FOREVER);
    (void)ethosu_mutex_lock(mutex);
    for (at = &waiters; !waiter->is_done && *at != NULL;) {
        if (*at == waiter) {
            *at = waiter->next;
        } else {
            at = &(*at)->next;
        }
    }
    ethosu_semaphore_destroy(waiter->semaphore);
}

/* Reserves a matching driver for the caller; NULL if there is none, or waiting is impossible. */
static struct ethosu_driver *reserve(waiter_t *waiter)
{
    if (mutex == NULL) {
        return NULL;
    }
    (void)ethosu_mutex_lock(mutex);
    waiter->driver = first(waiter, true);
    if (waiter->driver != NULL) {
        waiter->driver->reserved = true;
    } else if (first(waiter, false) != NULL) {
        wait_in_queue(waiter);
    }
    (void)ethosu_mutex_unlock(mutex);
    return waiter->driver;
}

const volatile uint8_t DTN_ETHOSU_MARK;

int(ethosu_init)(struct ethosu_driver *drv, void *const base_address, const void *fast_memory,
                 const size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable)
{
    (void)secure_enable;
    (void)privilege_enable;
    if (drv == NULL || base_address == NULL) {
        return -1;
    }
    mutex = mutex == NULL ? ethosu_mutex_create() : mutex;
    if (mutex == NULL) {
        return -1;
    }
    memset(drv, 0, sizeof *drv);
    drv->dev = base_address;
    drv->fast_memory = (uint64_t)(uintptr_t)fast_memory;
    drv->fast_memory_size = fast_memory_size;
    (void)ethosu_mutex_lock(mutex);
    drv->next = drivers;
    drivers = drv;
    give_to_waiter(drv);
    (void)ethosu_mutex_unlock(mutex);
    return 0;
}

void ethosu_deinit(struct ethosu_driver *drv)
{
    /* Without an operating system no other thread could release it: it is removed immediately. */
    waiter_t waiter = {.only = drv};
    (void)reserve(&waiter);
    (void)ethosu_mutex_lock(mutex);
    for (struct ethosu_driver **at = &drivers; *at != NULL; at = &(*at)->next) {
        if (*at == drv) {
            *at = drv->next;
            drv->dev = NULL;
            drv->job.state = ETHOSU_JOB_IDLE; /* no job runs without a device */
            break;
        }
    }
    end_waits();
    (void)ethosu_mutex_unlock(mutex);
}

struct ethosu_driver *ethosu_reserve_driver(void)
{
    waiter_t waiter = {.any = true};
    return reserve(&waiter);
}

struct ethosu_driver *ethosu_reserve_driver_ex(uint32_t product, uint32_t log2_macs)
{
    waiter_t waiter = {.product = product, .log2_macs = log2_macs};
    return reserve(&waiter);
}

/* Ends a job. */
static void reset_job(struct ethosu_driver *drv)
{
    memset(&drv->job, 0, sizeof drv->job);
}

void ethosu_release_driver(struct ethosu_driver *drv)
{
    if (drv == NULL || !drv->reserved) {
        return;
    }
    if (drv->job.state != ETHOSU_JOB_IDLE) {
        drv->power_request_counter = 0;
        reset_job(drv);
    }
    (void)ethosu_mutex_lock(mutex);
    give_to_waiter(drv);
    (void)ethosu_mutex_unlock(mutex);
}

int ethosu_soft_reset(struct ethosu_driver *drv)
{
    (void)drv;
    return 0;
}

int ethosu_request_power(struct ethosu_driver *drv)
{
    drv->power_request_counter++;
    return 0;
}

void ethosu_release_power(struct ethosu_driver *drv)
{
    if (drv->power_request_counter > 0) {
        drv->power_request_counter--;
    }
}

void ethosu_get_driver_version(struct ethosu_driver_version *ver)
{
    ver->major = ETHOSU_DRIVER_VERSION_MAJOR;
    ver->minor = ETHOSU_DRIVER_VERSION_MINOR;
    ver->patch = ETHOSU_DRIVER_VERSION_PATCH;
}

void ethosu_get_hw_info(struct ethosu_driver *drv, struct ethosu_hw_info *hw)
{
    const dtn_ethosu_config_t *config = drv->dev->config;
    memset(hw, 0, sizeof *hw);
    if (config != NULL) {
        hw->version.arch_major_rev = 1;
        hw->version.arch_patch_rev = 6;
        hw->version.product_major = config->word >> PRODUCT_AT;
        hw->cfg.macs_per_cc = config->word & LOG2_MACS_MASK;
    }
}

int ethosu_get_product_config_from_cop_data(const void *custom_data_ptr, const int custom_data_size, uint32_t *product,
                                            uint32_t *log2_macs)
{
    const dtn_ethosu_config_t *config =
        custom_data_size < 0 ? NULL : dtn_ethosu_config_of(custom_data_ptr, (size_t)custom_data_size);
    if (config == NULL) {
        return -1;
    }
    *product = config->word >> PRODUCT_AT;
    *log2_macs = config->word & LOG2_MACS_MASK;
    return 0;
}

/* ---- Jobs ---- */

/* The memory of a driver's job. */
static dtn_ethosu_fault_t memory_of(const struct ethosu_driver *drv, dtn_ethosu_memory_t *memory)
{
    const struct ethosu_job *job = &drv->job;
    memory->shram = drv->dev->shram;
    memory->shram_bytes = drv->dev->shram_bytes;
    memory->workspace = drv->dev->workspace;
    memory->workspace_bytes = drv->dev->workspace_bytes;
    if (job->base_addr == NULL || job->base_addr_size == NULL) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    if (job->num_base_addr < 0 || job->num_base_addr > DTN_ETHOSU_REGIONS) {
        return DTN_ETHOSU_REGION;
    }
    if (drv->fast_memory != 0 && job->num_base_addr > FAST_MEMORY) {
        if (job->base_addr_size[FAST_MEMORY] > drv->fast_memory_size) {
            return DTN_ETHOSU_BOUNDS;
        }
        job->base_addr[FAST_MEMORY] = drv->fast_memory;
    }
    for (int i = 0; i < job->num_base_addr; i++) {
        dtn_ethosu_region_t *region = &memory->regions[i];
        /* On 32-bit cores an address may have more bits. */
        if (job->base_addr[i] != (uintptr_t)job->base_addr[i]) {
            return DTN_ETHOSU_BOUNDS;
        }
        region->data = (uint8_t *)(uintptr_t)job->base_addr[i];
        region->bytes = job->base_addr_size[i];
        region->is_read_only = i == CONSTANTS;
    }
    if (drv->fast_memory != 0 && job->num_base_addr > FAST_MEMORY) {
        memory->regions[FAST_MEMORY].bytes = drv->fast_memory_size;
    }
    return DTN_ETHOSU_OK;
}

/* Passes the memories of a job to the port, one by one or all together. */
#if DTN_ETHOSU_RELEASE == 0
static void pass_memories(const struct ethosu_job *job, void (*call)(uint32_t *p, size_t bytes))
{
    for (int i = 0; i < job->num_base_addr; i++) {
        call((uint32_t *)(uintptr_t)job->base_addr[i], job->base_addr_size[i]);
    }
}
#else
static void pass_memories(const struct ethosu_job *job, void (*call)(const uint64_t *, const size_t *, int))
{
    call(job->base_addr, job->base_addr_size, job->num_base_addr);
}
#endif

static dtn_ethosu_fault_t start(struct ethosu_driver *drv)
{
    struct ethosu_device *device = drv->dev;
    const struct ethosu_job *job = &drv->job;
    dtn_ethosu_memory_t memory = {.shram = NULL};
    memset(&device->event, 0, sizeof device->event);
    const size_t bytes = job->custom_data_size < 0 ? 0 : (size_t)job->custom_data_size;
    const dtn_ethosu_config_t *config = config_for(device, job->custom_data_ptr, bytes);
    dtn_ethosu_fault_t fault = config == NULL ? DTN_ETHOSU_HEADER : memory_of(drv, &memory);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_start(&device->machine, config, job->custom_data_ptr, bytes, &memory);
    }
    return set_fault(device, fault);
}

int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg)
{
    if (drv == NULL || drv->dev == NULL || drv->job.state != ETHOSU_JOB_IDLE) {
        return -1;
    }
    drv->job.custom_data_ptr = custom_data_ptr;
    drv->job.custom_data_size = custom_data_size;
    drv->job.base_addr = base_addr;
    drv->job.base_addr_size = base_addr_size;
    drv->job.num_base_addr = num_base_addr;
    drv->job.user_arg = user_arg;
    drv->status_error = start(drv) != DTN_ETHOSU_OK;
    if (drv->status_error) {
        reset_job(drv);
        return -1;
    }
    pass_memories(&drv->job, ethosu_flush_dcache);
    (void)ethosu_request_power(drv);
    drv->job.state = ETHOSU_JOB_RUNNING;
    ethosu_inference_begin(drv, user_arg);
    return 0;
}

const bool dtn_ethosu_waits_in_steps = true;

int ethosu_wait(struct ethosu_driver *drv, bool block)
{
    if (drv == NULL || drv->job.state == ETHOSU_JOB_IDLE) {
        return -2;
    }
    struct ethosu_device *device = drv->dev;
    device->fault =
        block ? dtn_ethosu_run(&device->machine, &device->event) : dtn_ethosu_step(&device->machine, &device->event);
    drv->status_error = device->fault != DTN_ETHOSU_OK;
    if (!drv->status_error && device->event.opcode != DTN_ETHOSU_OP_STOP) {
        return 1;
    }
    drv->job.state = ETHOSU_JOB_DONE;
    drv->job.result = drv->status_error ? ETHOSU_JOB_RESULT_ERROR : ETHOSU_JOB_RESULT_OK;
    ethosu_inference_end(drv, drv->job.user_arg);
    ethosu_release_power(drv);
    pass_memories(&drv->job, ethosu_invalidate_dcache);
    reset_job(drv);
    return drv->status_error ? -1 : 0;
}

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg)
{
    const int started =
        ethosu_invoke_async(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr, user_arg);
    return started != 0 ? -1 : ethosu_wait(drv, true);
}
