/* Moments that the emulator cannot show: memory stands in for the devices, and interrupts come when this file says. */
#include "core.h"
#include "dma.h"
#include "sleep.h"
#include "timer.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { DEVICE = 0x50110000, MEMORY = 0x20000000, BYTES = 65536, ERROR_STATUS = 3, DST = 65, CONFIG = 68 };

static bool off;
static bool pending;
static bool busy;
static unsigned sleeps;
static unsigned rounds;
static unsigned finished;
static uint32_t moved;
static int failures;

void dtn_on_dma0(void);

static void expect(bool good, const char *what)
{
    if (!good) {
        printf("%s\n", what);
        failures++;
    }
}

bool dtn_interrupts_are_off(void)
{
    return off;
}

uint32_t dtn_interrupts_off(void)
{
    uint32_t state = off;
    off = true;
    return state;
}

void dtn_interrupts_restore(uint32_t state)
{
    off = state != 0;
    rounds++;
    if (rounds > 1000) {
        busy = false; /* for a loop that does not sleep */
    }
}

void dtn_interrupt_enable(uint32_t number)
{
    (void)number;
}

void dtn_interrupt_pend(uint32_t number)
{
    (void)number;
    pending = true;
}

/* The interrupt is taken in the last moment in which it can be. */
void dtn_interrupt_unpend(uint32_t number)
{
    (void)number;
    if (pending && !off) {
        dtn_on_dma0();
    }
    pending = false;
}

/* While the unit finishes its transfer, the enable bit reads as set, for as long as the alarm takes. */
static volatile uint32_t *finishing;
static volatile bool enabled_until_alarm;

static void alarm_rings(int number)
{
    (void)number;
    *finishing = 0;
    enabled_until_alarm = false;
}

void dtn_barrier(void)
{
    if (finishing != NULL && *finishing == 0) {
        static const struct itimerval soon = {.it_value = {.tv_usec = 20000}};
        *finishing = 1;
        enabled_until_alarm = true;
        signal(SIGALRM, alarm_rings);
        setitimer(ITIMER_REAL, &soon, NULL);
    }
}

void dtn_sleep(void)
{
    expect(off, "an interrupt between the test and the sleep is missed");
    sleeps++;
    busy = sleeps < 3;
}

void dtn_timer_start(uint32_t timer, uint32_t ticks)
{
    (void)timer;
    (void)ticks;
}

void dtn_timer_stop(uint32_t timer)
{
    (void)timer;
}

static void done(uint32_t bytes)
{
    finished++;
    moved = bytes;
}

static void stopped_at_the_end_of_a_part(volatile uint32_t *device, uint8_t *to, const uint8_t *from)
{
    dtn_dma_start(DTN_DMA_IO, to, from, BYTES, done);
    device[DST] += 4096;
    pending = true;
    dtn_dma_stop(DTN_DMA_IO);
    expect(device[CONFIG] == 0 && finished == 0, "the unit goes on after the stop");
    expect(!off, "the stop leaves interrupts off");
    dtn_on_dma0();
    expect(device[CONFIG] == 0 && finished == 0, "a late interrupt starts the unit");
}

static void stopped_in_a_transfer(volatile uint32_t *device, uint8_t *to, const uint8_t *from)
{
    dtn_dma_start(DTN_DMA_IO, to, from, BYTES, done);
    finishing = &device[CONFIG];
    dtn_dma_stop(DTN_DMA_IO);
    expect(!enabled_until_alarm && device[CONFIG] == 0, "the stop returns before the unit has stopped");
    finishing = NULL;
}

static void failed_at_the_last_address(volatile uint32_t *device, uint8_t *to, const uint8_t *from)
{
    dtn_dma_start(DTN_DMA_IO, to, from, 4096, done);
    device[DST] += 4096;
    device[ERROR_STATUS] = 1;
    dtn_on_dma0();
    expect(finished == 1 && moved != 4096, "an error at the last address is a success");
}

/* The board without DMA. */
static void stopped_before_its_interrupt(uint8_t *to, uint8_t *from)
{
    from[0] = 1;
    off = true;
    dtn_dma_start(DTN_DMA_IO, to, from, BYTES, done);
    dtn_dma_stop(DTN_DMA_IO);
    off = false;
    dtn_on_dma0();
    expect(finished == 0 && to[0] == 0, "a late interrupt copies");
}

static void slept(void)
{
    busy = true;
    rounds = 0;
    expect(dtn_sleep_while(&busy, 1000), "the sleep does not end with what it waits for");
    expect(sleeps == 3, "the core does not sleep");
    busy = true;
    off = true;
    expect(!dtn_sleep_while(&busy, 1000) && sleeps == 3, "the core sleeps with interrupts off");
}

static void *memory(uintptr_t at, size_t bytes)
{
    return mmap((void *)at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

int main(int count, char **words)
{
    volatile uint32_t *device = memory(DEVICE, 0x2000);
    uint8_t *to = memory(MEMORY, 2 * BYTES);
    (void)count;
    if (strcmp(words[1], "an505") == 0) {
        stopped_at_the_end_of_a_part(device, to, to + BYTES);
        stopped_in_a_transfer(device, to, to + BYTES);
        failed_at_the_last_address(device, to, to + BYTES);
    } else {
        stopped_before_its_interrupt(to, to + BYTES);
    }
    slept();
    return failures != 0;
}
