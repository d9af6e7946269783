/* Two inferences with a port whose first copy fails; 0 when only that inference does. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int execute(char *to, const char *from, size_t size);
int32_t dtn_io_copy_start(void *dst, const void *src, size_t size);
int32_t dtn_io_copy_wait(void);

static int copies;

int32_t dtn_io_copy_start(void *dst, const void *src, size_t size)
{
    memcpy(dst, src, size);
    return 0;
}

int32_t dtn_io_copy_wait(void)
{
    return copies++ == 0 ? -1 : 0;
}

int main(void)
{
    char to[4] = "";
    return execute(to, "abc", sizeof to) == 0 || execute(to, "abc", sizeof to) != 0 || strcmp(to, "abc") != 0;
}
