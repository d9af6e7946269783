/* What the delegate does with an input. */
#include <stddef.h>
#include <stdint.h>

void arm_ethos_io_memcpy(void *dst, const void *src, size_t size);
int ethosu_invoke_v3(void *, const void *, int, uint64_t *, const size_t *, int, void *);
int execute(char *to, const char *from, size_t size);

int execute(char *to, const char *from, size_t size)
{
    arm_ethos_io_memcpy(to, from, size);
    uint64_t base = (uintptr_t)to;
    return ethosu_invoke_v3(0, 0, 0, &base, &size, 1, 0);
}
