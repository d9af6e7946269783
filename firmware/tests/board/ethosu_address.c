/* A job of an Ethos-U whose region has an address that this core has not: refused, and not run at the rest of it. */
#include "deuteron/ethosu_device.h"
#include "ethosu_driver.h"
#include "semihost.h"

#include <string.h>

enum { BYTES = 64, REGIONS = 2, LAST = REGIONS - 1, CASES = 2 };

/* Command data of an ethos-u55-32 that stop at once: magic, configuration, padding, a command. */
static const uint32_t commands[]
    __attribute__((aligned(16))) = {0x31504F43, 1, 0x1005, 0, 5, 5, 5, 2 | 1 << 16, 0xFFFF0000};
static uint8_t shram[16 << 10] __attribute__((aligned(16)));
static uint8_t regions[REGIONS][BYTES] __attribute__((aligned(16)));
static struct ethosu_device device;
static struct ethosu_driver driver;

int main(void);

int main(void)
{
    const size_t sizes[REGIONS] = {BYTES, BYTES};
    device.shram = shram;
    device.shram_bytes = sizeof shram;
    (void)ethosu_init(&driver, &device, NULL, 0, 0, 0);
    for (uint64_t above = 0; above < CASES; above++) {
        uint64_t bases[REGIONS] = {(uintptr_t)regions[0], (uintptr_t)regions[LAST] | above << 32};
        int failed = ethosu_invoke_v3(&driver, commands, (int)sizeof commands, bases, sizes, REGIONS, NULL);
        dtn_semihost_print(failed == 0 ? "run\n" : dtn_ethosu_message(device.fault));
    }
    dtn_semihost_exit(0);
}
