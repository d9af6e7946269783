/* What the delegate does with an input. */
#include <stddef.h>

void arm_ethos_io_memcpy(void *dst, const void *src, size_t size);
int ethosu_invoke_v3(void *, const void *, int, void *, const void *, int, void *);
int execute(char *to, const char *from, size_t size);

int execute(char *to, const char *from, size_t size)
{
    arm_ethos_io_memcpy(to, from, size);
    return ethosu_invoke_v3(0, 0, 0, 0, 0, 0, 0);
}
