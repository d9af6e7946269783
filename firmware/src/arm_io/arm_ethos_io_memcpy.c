/* Nothing else may stand in this file: an override must not bring a second definition with it. */
#include "deuteron/arm_io.h"
#include "deuteron/io.h"
#include "ethosu_driver.h"

/* A copy of any thread has failed, and no invoke has told. One of another thread may: better than none. */
static volatile bool failed;

void arm_ethos_io_memcpy(void *dst, const void *src, size_t size)
{
    if (size != 0 && (dtn_io_copy_start(dst, src, size) != 0 || dtn_io_copy_wait() != 0)) {
        failed = true;
    }
}

bool dtn_arm_io_failed(void)
{
    const bool told = failed;
    failed = false;
    return told;
}

/* What the linker calls the driver's function, and what it makes of calls of that. */
int __real_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg);
int __wrap_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg);

int __wrap_ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                            uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr,
                            void *user_arg)
{
    return dtn_arm_io_failed() ? -1
                               : __real_ethosu_invoke_v3(drv, custom_data_ptr, custom_data_size, base_addr,
                                                         base_addr_size, num_base_addr, user_arg);
}
