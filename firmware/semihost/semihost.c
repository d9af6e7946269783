#include "semihost.h"

#include <string.h>

/* Operations, by Arm's numbers. */
enum {
    SYS_OPEN = 0x01,
    SYS_CLOSE = 0x02,
    SYS_WRITE0 = 0x04,
    SYS_WRITE = 0x05,
    SYS_READ = 0x06,
    SYS_FLEN = 0x0C,
    SYS_GET_CMDLINE = 0x15,
    SYS_EXIT_EXTENDED = 0x20,
};

/* Modes of SYS_OPEN: as fopen's "rb" and "wb". */
enum { MODE_READ = 1, MODE_WRITE = 5 };

#define STOPPED_BY_APPLICATION UINT32_C(0x20026)

/* One call; the host reads and writes memory, so that nothing may stay in registers across it. */
static int32_t call(int32_t operation, const void *argument)
{
    register int32_t result __asm__("r0") = operation;
    register const void *block __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(result) : "r"(block) : "memory");
    return result;
}

static uintptr_t address(const void *pointer)
{
    return (uintptr_t)pointer;
}

dtn_file_t dtn_semihost_open(const char *name, bool write)
{
    uintptr_t block[] = {address(name), write ? MODE_WRITE : MODE_READ, strlen(name)};
    return call(SYS_OPEN, block);
}

bool dtn_semihost_close(dtn_file_t file)
{
    return call(SYS_CLOSE, &file) == 0;
}

int32_t dtn_semihost_size(dtn_file_t file)
{
    return call(SYS_FLEN, &file);
}

/* Reads and writes return the number of remaining bytes. */
bool dtn_semihost_read(dtn_file_t file, void *data, size_t bytes)
{
    uintptr_t block[] = {(uintptr_t)file, address(data), bytes};
    return call(SYS_READ, block) == 0;
}

bool dtn_semihost_write(dtn_file_t file, const void *data, size_t bytes)
{
    uintptr_t block[] = {(uintptr_t)file, address(data), bytes};
    return call(SYS_WRITE, block) == 0;
}

void dtn_semihost_print(const char *text)
{
    (void)call(SYS_WRITE0, text);
}

void dtn_semihost_print_number(uint32_t number)
{
    char text[11];
    char *at = text + sizeof text - 1;
    *at = '\0';
    do {
        at--;
        *at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    dtn_semihost_print(at);
}

void dtn_semihost_print_hex(uint32_t number)
{
    static const char digits[] = "0123456789abcdef";
    char text[] = "0x00000000";
    for (uint32_t i = 0; i < 8; i++) {
        text[9 - i] = digits[number >> 4 * i & 0xFU];
    }
    dtn_semihost_print(text);
}

bool dtn_semihost_command_line(char *line, size_t bytes)
{
    uintptr_t block[] = {address(line), bytes};
    return call(SYS_GET_CMDLINE, block) == 0;
}

void dtn_semihost_exit(uint32_t status)
{
    uintptr_t block[] = {STOPPED_BY_APPLICATION, status};
    (void)call(SYS_EXIT_EXTENDED, block);
    for (;;) {
    }
}
