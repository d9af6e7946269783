/* Copies of many sizes and alignments by dtn_io_copy_start and _wait, each checked, with the ticks that it took. */
#include "deuteron/io.h"
#include "deuteron/port.h"
#include "semihost.h"
#include "startup.h"

#include <string.h>

int main(void);

static const uint32_t sizes[] = {0,    1,    2,    3,    4,    5,    15,   16,    17,    63,    255,   256,  257,
                                 1000, 1001, 4094, 4095, 4096, 4097, 8191, 16379, 16380, 16381, 16384, 65536};

enum { SIZES = sizeof sizes / sizeof sizes[0], LARGEST = 65536, MARGIN = 16, BLANK = 0xA5 };

static uint8_t from[LARGEST + MARGIN] __attribute__((aligned(16)));
static uint8_t to[MARGIN + LARGEST + 2 * MARGIN] __attribute__((aligned(16)));

static bool is_blank(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (bytes[i] != BLANK) {
            return false;
        }
    }
    return true;
}

static void print(const char *before, uint32_t number)
{
    dtn_semihost_print(before);
    dtn_semihost_print_number(number);
}

static bool copy_once(uint32_t bytes, uint32_t to_offset, uint32_t from_offset)
{
    uint8_t *dst = to + MARGIN + to_offset;
    const uint8_t *src = from + from_offset;
    memset(to, BLANK, MARGIN + to_offset + bytes + MARGIN);
    uint32_t start = dtn_port_ticks();
    int32_t error = dtn_io_copy_start(dst, src, bytes);
    if (error == 0) {
        error = dtn_io_copy_wait();
    }
    uint32_t ticks = dtn_port_ticks() - start;
    print("", bytes);
    print(" ", to_offset);
    print(" ", from_offset);
    print(" ", ticks);
    dtn_semihost_print("\n");
    return error == 0 && is_blank(to, MARGIN + to_offset) && memcmp(dst, src, bytes) == 0 &&
           is_blank(dst + bytes, MARGIN);
}

int main(void)
{
    for (uint32_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (uint32_t i = 0; i < 16 * SIZES; i++) {
        if (!copy_once(sizes[i / 16], i / 4 % 4, i % 4)) {
            dtn_semihost_print("wrong\n");
            dtn_semihost_exit(1);
        }
    }
    dtn_semihost_exit(0);
}
