/* An override. */
#include <stddef.h>

void arm_ethos_io_memcpy(void *dst, const void *src, size_t size);

void arm_ethos_io_memcpy(void *dst, const void *src, size_t size)
{
    (void)dst, (void)src, (void)size;
}
