/* Copies that go wrong, by what the command line names: what is reported, and that nothing is copied after it. */
#include "board.h"
#include "core.h"
#include "deuteron/io.h"
#include "fault_injection.h"
#include "semihost.h"

#include <string.h>

enum { BYTES = 8192, SMALL = 64 };

int main(void);

static uint8_t from[BYTES];
static volatile uint8_t to[BYTES];

static void say(const char *what, int32_t error)
{
    dtn_semihost_print(what);
    dtn_semihost_print(error == 0 ? " copied\n" : " refused\n");
}

static void copy(const char *what, size_t bytes)
{
    say(what, dtn_io_copy((void *)to, from, bytes));
}

/* Ways to keep interrupts from coming, each with its way back. */
static void mask_fault(bool on)
{
    if (on) {
        __asm__ volatile("cpsid f" ::: "memory");
    } else {
        __asm__ volatile("cpsie f" ::: "memory");
    }
}

/* Masks all priorities but the highest, which the board's interrupts have from the start: they get the one below. */
static void mask_base(bool on)
{
#define DTN_X(number, name) ((volatile uint8_t *)0xE000E400U)[number] = 0x20;
    DTN_BOARD_INTERRUPTS(DTN_X)
#undef DTN_X
    __asm__ volatile("msr basepri, %0\n isb 0xF" ::"r"(on ? 0x20 : 0) : "memory");
}

static void mask_all(bool on)
{
    dtn_interrupts_restore(on);
}

/* The board's first interrupt, whose handler nothing else uses here. */
#define DTN_X(number, name) number,
static const uint8_t interrupts[] = {DTN_BOARD_INTERRUPTS(DTN_X)};
#undef DTN_X

static volatile bool handled;

void dtn_on_timer0(void);

void dtn_on_timer0(void)
{
    copy("masked", BYTES);
    handled = true;
}

static bool copy_masked(const char *how)
{
    static const struct {
        const char *how;
        void (*mask)(bool on);
    } ways[] = {{"primask", mask_all}, {"faultmask", mask_fault}, {"basepri", mask_base}};
    for (uint32_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (strcmp(how, ways[i].how) == 0) {
            ways[i].mask(true);
            copy("masked", BYTES);
            ways[i].mask(false);
            return true;
        }
    }
    if (strcmp(how, "handler") == 0) {
        dtn_interrupt_enable(interrupts[0]);
        dtn_interrupt_pend(interrupts[0]);
        dtn_barrier();
        return handled;
    }
    return false;
}

static void pass_time(void)
{
    for (volatile uint32_t i = 0; i < 3000000; i++) {
    }
}

int main(void)
{
    static char line[64];
    memset(from, 7, sizeof from);
    const char *fault = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    if (fault == NULL) {
        return 2;
    }
    if (!copy_masked(fault + 1)) {
        (void)dtn_faults_set(fault + 1);
        copy("first", BYTES);
        pass_time();
        dtn_semihost_print(to[BYTES / 2 - 1] == 0 ? "nothing came later\n" : "something came later\n");
        copy("small", SMALL);
    }
    copy("next", BYTES);
    dtn_semihost_exit(to[BYTES - 1] == 7 ? 0 : 1);
}
