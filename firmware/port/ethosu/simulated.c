/*
 * A simulated Ethos-U for emulated boards: Deuteron's driver behind the API of Arm's executes commands on the core. Its
 * memory is external memory: all that is left.
 */
#include "deuteron/ethosu_device.h"
#include "ethosu_driver.h"
#include "npu.h"

/* SHRAM of the largest configuration. */
enum { SHRAM_BYTES = 48 << 10 };

/* From the linker script. */
extern uint8_t __dtn_ext_free_start[], __dtn_ext_free_end[];

static uint8_t shram[SHRAM_BYTES] __attribute__((section(".dtn_ext_arena.shram"), aligned(16)));
static struct ethosu_driver driver __attribute__((section(".dtn_ext_arena.driver")));
static struct ethosu_device device __attribute__((section(".dtn_ext_arena.device")));

bool dtn_npu_start(void)
{
    /* External memory is not cleared at start-up. */
    device = (struct ethosu_device){
        .shram = shram,
        .shram_bytes = SHRAM_BYTES,
        .workspace = __dtn_ext_free_start,
        .workspace_bytes = (size_t)(__dtn_ext_free_end - __dtn_ext_free_start),
    };
    return ethosu_init(&driver, &device, NULL, 0, 0, 0) == 0;
}
