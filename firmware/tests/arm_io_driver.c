/* A driver that counts its runs, in a separate file: the linker only wraps calls from another file. */
#include "ethosu_driver.h"

extern int runs;
int runs;

int ethosu_invoke_v3(struct ethosu_driver *drv, const void *custom_data_ptr, const int custom_data_size,
                     uint64_t *const base_addr, const size_t *base_addr_size, const int num_base_addr, void *user_arg)
{
    (void)drv, (void)custom_data_ptr, (void)custom_data_size, (void)base_addr, (void)base_addr_size;
    (void)num_base_addr, (void)user_arg;
    (void)__atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);
    return 0;
}
