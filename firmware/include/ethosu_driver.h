/**
 * @file
 * The API of Arm's driver for Ethos-U NPUs, with its names and types. Callers of that driver, such as the Ethos-U
 * backend of ExecuTorch's runtime or the kernel of TensorFlow Lite Micro, link against this one and run without an NPU.
 *
 * Streams are executed on the CPU (`deuteron/ethosu.h`) when their caller waits for them: there is no interrupt, and a
 * job advances only inside `ethosu_wait`. Nothing is allocated. The device of `ethosu_init` is caller-owned memory
 * (`deuteron/ethosu_device.h`), which replaces the registers of an NPU.
 */
#ifndef ETHOSU_DRIVER_H
#define ETHOSU_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The release of Arm's driver with this API: 0.16, or 1.0 if the library and its users are compiled with
 * -DDTN_ETHOSU_RELEASE=1. They differ in the hooks of the data cache. Callers of `ethosu_init` do not link with a
 * library that was compiled for the other release. */
#ifndef DTN_ETHOSU_RELEASE
#define DTN_ETHOSU_RELEASE 0
#endif
#if DTN_ETHOSU_RELEASE == 0
#define DTN_ETHOSU_MARK dtn_ethosu_release_0
#elif DTN_ETHOSU_RELEASE == 1
#define DTN_ETHOSU_MARK dtn_ethosu_release_1
#else
#error "DTN_ETHOSU_RELEASE is 0, for the API of Arm's driver 0.16, or 1, for that of 1.0"
#endif
#define ETHOSU_DRIVER_VERSION_MAJOR DTN_ETHOSU_RELEASE
#define ETHOSU_DRIVER_VERSION_MINOR (DTN_ETHOSU_RELEASE == 0 ? 16 : 0)
#define ETHOSU_DRIVER_VERSION_PATCH 0

#define ETHOSU_PRODUCT_U55 0U
#define ETHOSU_PRODUCT_U65 1U
#define ETHOSU_PRODUCT_U85 2U

/** Time-outs of `ethosu_semaphore_take`. */
#define ETHOSU_SEMAPHORE_WAIT_FOREVER (UINT64_MAX)
#define ETHOSU_SEMAPHORE_WAIT_INFERENCE (UINT64_MAX)

struct ethosu_device;

enum ethosu_job_state { ETHOSU_JOB_IDLE = 0, ETHOSU_JOB_RUNNING, ETHOSU_JOB_DONE };

enum ethosu_job_result { ETHOSU_JOB_RESULT_OK = 0, ETHOSU_JOB_RESULT_TIMEOUT, ETHOSU_JOB_RESULT_ERROR };

/** Arguments of an `ethosu_invoke_...`. */
struct ethosu_job {
    volatile enum ethosu_job_state state;
    volatile enum ethosu_job_result result;
    const void *custom_data_ptr;
    int custom_data_size;
    uint64_t *base_addr;
    const size_t *base_addr_size;
    int num_base_addr;
    void *user_arg;
};

/** One NPU; its fields are private. */
struct ethosu_driver {
    struct ethosu_device *dev;
    struct ethosu_driver *next;
    struct ethosu_job job;
    void *semaphore;
    uint64_t fast_memory;
    size_t fast_memory_size;
    uint32_t power_request_counter;
    bool status_error;
    bool reserved;
};

struct ethosu_driver_version {
    uint8_t major;
    uint8_t minor;
    uint8_t patch;
};

struct ethosu_id {
    uint32_t version_status;
    uint32_t version_minor;
    uint32_t version_major;
    uint32_t product_major;
    uint32_t arch_patch_rev;
    uint32_t arch_minor_rev;
    uint32_t arch_major_rev;
};

struct ethosu_config {
    uint32_t macs_per_cc; /**< as log2 */
    uint32_t cmd_stream_version;
    uint32_t custom_dma;
};

struct ethosu_hw_info {
    struct ethosu_id version;
    struct ethosu_config cfg;
};

/* ---- Functions that a port may override: these weak definitions do nothing ---- */

/** Called by the interrupt handler of an NPU; there are no interrupts. */
void ethosu_irq_handler(struct ethosu_driver *drv);

#if DTN_ETHOSU_RELEASE == 0
/** Before a job, for each memory that the NPU reads. */
void ethosu_flush_dcache(uint32_t *p, size_t bytes);

/** After a job, for each memory that the NPU has written. */
void ethosu_invalidate_dcache(uint32_t *p, size_t bytes);
#else
/** Before a job, for all memories that the NPU reads. */
void ethosu_flush_dcache(const uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr);

/** After a job, for all memories that the NPU has written. */
void ethosu_invalidate_dcache(const uint64_t *base_addr, const size_t *base_addr_size, int num_base_addr);
#endif

void *ethosu_mutex_create(void);
void ethosu_mutex_destroy(void *mutex);
int ethosu_mutex_lock(void *mutex);
int ethosu_mutex_unlock(void *mutex);

/** One for each thread while it waits for a driver. Without an operating system nothing could signal a semaphore:
 * taking an unavailable one fails. */
void *ethosu_semaphore_create(void);
void ethosu_semaphore_destroy(void *sem);
int ethosu_semaphore_take(void *sem, uint64_t timeout);
int ethosu_semaphore_give(void *sem);

/** Around each job, with the argument of its `ethosu_invoke_...`. */
void ethosu_inference_begin(struct ethosu_driver *drv, void *user_arg);
void ethosu_inference_end(struct ethosu_driver *drv, void *user_arg);

/* ---- The driver ---- */

/**
 * Registers a driver; returns 0, or -1 if an argument is missing.
 *
 * `base_address` is a `struct ethosu_device` here. If `fast_memory` is not NULL, it is region 2.
 */
int ethosu_init(struct ethosu_driver *drv, void *const base_address, const void *fast_memory,
                const size_t fast_memory_size, uint32_t secure_enable, uint32_t privilege_enable);

/** Defined only in a library of the same release. */
extern const volatile uint8_t DTN_ETHOSU_MARK;
#define ethosu_init(drv, base_address, fast_memory, fast_memory_size, secure_enable, privilege_enable)                 \
    ((void)DTN_ETHOSU_MARK,                                                                                            \
     (ethosu_init)(drv, base_address, fast_memory, fast_memory_size, secure_enable, privilege_enable))

/** Removes a driver as soon as it is not reserved; callers that wait for such a driver get NULL if there is no
 * other one. */
void ethosu_deinit(struct ethosu_driver *drv);

/** Does nothing and returns 0: a job leaves no state in a device. */
int ethosu_soft_reset(struct ethosu_driver *drv);

/** Counts power requests; returns 0. */
int ethosu_request_power(struct ethosu_driver *drv);
void ethosu_release_power(struct ethosu_driver *drv);

void ethosu_get_driver_version(struct ethosu_driver_version *ver);

/** The device's configuration; zeros for one that accepts streams of every configuration. */
void ethosu_get_hw_info(struct ethosu_driver *drv, struct ethosu_hw_info *hw);

/** `ethosu_invoke_async` and `ethosu_wait` in one; returns 0, or -1. */
int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg);

#define ethosu_invoke(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr)                \
    ethosu_invoke_v3(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size, num_base_addr, 0)

/**
 * Starts a job; returns 0, or -1 if one is already running, or the command data or a memory are invalid (see the
 * device).
 *
 * `custom_data_ptr` is Vela's command data, aligned to 16 like all memories; `base_addr[i]` is the address of region i
 * of its commands, with `base_addr_size[i]` bytes: region 0 is only read. Sizes are required.
 */
int ethosu_invoke_async(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                        uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                        void *user_arg);

/** Defined in images with this driver: `ethosu_wait` without `block` executes one operation, while Arm's driver checks
 * whether the job has ended. */
extern const bool dtn_ethosu_waits_in_steps;

/** The fault of a driver's last job, a `dtn_ethosu_fault_t`; 0 if there was none. The executor returns it as the detail
 * of DTN_REASON_NPU_RUN. Arm's driver has no such function; an application that knows its faults, for example from the
 * NPU's status register, may define one. */
uint32_t dtn_ethosu_driver_fault(const struct ethosu_driver *drv);

/**
 * Executes the job to its end, or, unless `block`, its next operation only: returns 1 while there are more, 0 at the
 * end, -1 after a fault (see the device), -2 without a job.
 */
int ethosu_wait(struct ethosu_driver *drv, bool block);

/** Reserves a free driver; waits for one if all are in use, in the order of calls. NULL if there is no driver, or
 * waiting is impossible. */
struct ethosu_driver *ethosu_reserve_driver(void);

/** The same, for the drivers of a product with this log2 of its MACs per cycle. */
struct ethosu_driver *ethosu_reserve_driver_ex(uint32_t product, uint32_t log2_macs);

/** Releases a driver; abandons a job that has not ended. */
void ethosu_release_driver(struct ethosu_driver *drv);

/** The product and MACs that command data were compiled for; returns 0, or -1 if they are damaged. */
int ethosu_get_product_config_from_cop_data(const void *custom_data_ptr, const int custom_data_size, uint32_t *product,
                                            uint32_t *log2_macs);

static inline int ethosu_invoke_v2(const void *custom_data_ptr, const int custom_data_size, uint64_t *const base_addr,
                                   const size_t *base_addr_size, const int num_base_addr)
{
    struct ethosu_driver *drv = ethosu_reserve_driver();
    int result = drv == NULL ? -1
                             : ethosu_invoke_v3(drv, custom_data_ptr, custom_data_size, base_addr, base_addr_size,
                                                num_base_addr, 0);
    ethosu_release_driver(drv);
    return result;
}

#ifdef __cplusplus
}
#endif

#endif /* ETHOSU_DRIVER_H */
