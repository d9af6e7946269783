/* The state after start-up, and one fault of the kind that the command line names. */
#include "deuteron/port.h"
#include "semihost.h"
#include "startup.h"

#include <string.h>

extern uint32_t __dtn_stack_limit[];

int main(void);

/* Volatile, so that all are read from where start-up put them. */
static volatile uint32_t data = 0x11223344;
static volatile uint32_t bss[32];
static volatile float product;
static uint32_t arena[64] __attribute__((section(".dtn_arena.test")));
static uint32_t far_arena[64] __attribute__((section(".dtn_ext_arena.test")));
static volatile uint32_t in_sram __attribute__((section(".dtn_sram.test"))) = 5;
static const volatile uint32_t in_flash __attribute__((section(".dtn_flash.test"))) = 6;
static const volatile uint32_t far_away __attribute__((section(".dtn_ext.test"))) = 7;
static volatile uint32_t depth;

static void line(const char *name, uint32_t value)
{
    dtn_semihost_print(name);
    dtn_semihost_print_hex(value);
    dtn_semihost_print("\n");
}

static uint32_t address(const volatile void *object)
{
    return (uint32_t)(uintptr_t)object;
}

static uint32_t sum(void)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < 32; i++) {
        total += bss[i];
    }
    return total;
}

/* Uses at least `levels` * 256 bytes of stack. */
static uint32_t dive(uint32_t levels)
{
    volatile uint32_t frame[64];
    frame[0] = levels;
    if (levels > 1) {
        depth += dive(levels - 1);
    }
    return frame[0];
}

/* Pushes 32 bytes onto a stack with fewer: with none, and with a part of an exception's frame. */
#define PUSH_WITH_ROOM_FOR(bytes)                                                                                      \
    __asm__ volatile("mov sp, %0\n push {r0-r7}" ::"r"((uintptr_t)__dtn_stack_limit + (bytes)))

static void report(void)
{
    size_t free_bytes;
    uint32_t free_start = address(dtn_free_memory(&free_bytes));
    arena[3] = 1;
    far_arena[3] = 2;
    product = (float)in_sram * 1.5F;
    line("data ", data);
    line("bss ", sum());
    line("sram ", in_sram);
    line("flash ", in_flash);
    line("external ", far_away);
    line("float ", (uint32_t)(product * 2));
    line("at sram ", address(&in_sram));
    line("at flash ", address(&in_flash));
    line("at external ", address(&far_away));
    line("at arena ", address(arena));
    line("at external arena ", address(far_arena));
    line("free ", free_start);
    line("free end ", free_start + (uint32_t)free_bytes);
    line("stack ", dtn_stack_bytes());
    line("used ", dtn_stack_used());
    (void)dive(8);
    line("used ", dtn_stack_used());
    uint32_t start = dtn_port_ticks();
    __asm__ volatile(".rept 1000\n nop\n .endr");
    line("ticks ", dtn_port_ticks() - start);
}

int main(void)
{
    char words[64];
    if (!dtn_semihost_command_line(words, sizeof words)) {
        dtn_semihost_exit(2);
    }
    if (strstr(words, "overflow") != NULL) {
        (void)dive(1000);
    } else if (strstr(words, "full") != NULL) {
        PUSH_WITH_ROOM_FOR(0);
    } else if (strstr(words, "nearly") != NULL) {
        PUSH_WITH_ROOM_FOR(8);
    } else if (strstr(words, "address") != NULL) {
        (void)*(const volatile uint32_t *)0x2F000000U;
    } else if (strstr(words, "undefined") != NULL) {
        __asm__ volatile("udf #0");
    } else if (strstr(words, "call") != NULL) {
        __asm__ volatile("svc #0");
    } else {
        report();
        dtn_semihost_exit(7);
    }
    dtn_semihost_exit(1);
}
