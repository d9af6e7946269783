/* The serial line of the harness (deuteron/harness.h): a ring buffer that the receive interrupt fills. Replace the
 * three functions of the device. Unchanged, it is correct for a board without a UART. */
#include <stdbool.h>
#include <stdint.h>

#include "deuteron/harness.h"

/* Bytes that wait, a power of two. A request of the host fits: header, block, CRC, and the bytes of its encoding. */
enum { RING_BYTES = 512 };

typedef char ring_is_a_power_of_two[(RING_BYTES & (RING_BYTES - 1)) == 0 ? 1 : -1];

void dtn_uart_start(void);
void dtn_uart_received(uint8_t byte);

static volatile uint8_t ring[RING_BYTES]; /* volatile as its counts, so that no write is moved past another */
static volatile uint32_t written;         /* by the interrupt only */
static volatile uint32_t read;            /* by the harness only */

/* Starts clock, pins, rate and receive interrupt. */
static void device_start(void)
{
}

/* True if the device takes a byte now. */
static bool device_has_space(void)
{
    return false;
}

static void device_send(uint8_t byte)
{
    (void)byte;
}

void dtn_uart_start(void)
{
    device_start();
}

/* The receive interrupt calls this for each byte. A byte that finds no space is dropped: the host sends its frame
 * again. */
void dtn_uart_received(uint8_t byte)
{
    if (written - read < RING_BYTES) {
        ring[written % RING_BYTES] = byte;
        written = written + 1;
    }
}

int32_t dtn_port_getc(void)
{
    if (read == written) {
        /* To sleep here: disable interrupts, compare again, WFI if still equal, enable interrupts. An interrupt that is
         * pending ends WFI also while interrupts are disabled. */
        return -1;
    }
    uint8_t byte = ring[read % RING_BYTES];
    read = read + 1;
    return byte;
}

bool dtn_port_putc(uint8_t byte)
{
    /* A line that takes no byte for that many tries is broken. */
    for (uint32_t tries = 0; tries < 1000000; tries++) {
        if (device_has_space()) {
            device_send(byte);
            return true;
        }
    }
    return false;
}
