/* The port of ExecuTorch's own Ethos-U backend on hosts: a simulated NPU, registered when the library is loaded. */
#include "deuteron/ethosu_device.h"
#include "ethosu_driver.h"

/* The SHRAM of the largest configuration, and more workspace than any tested network needs. */
enum { SHRAM_BYTES = 48 << 10, WORKSPACE_BYTES = 4 << 20, FAST_SCRATCH_BYTES = 4 << 20 };
#define ALIGNED __attribute__((aligned(16)))

static uint8_t shram[SHRAM_BYTES] ALIGNED;
static uint8_t workspace[WORKSPACE_BYTES] ALIGNED;
static uint8_t fast_scratch[FAST_SCRATCH_BYTES] ALIGNED;
static struct ethosu_driver driver;
static struct ethosu_device device = {
    .shram = shram,
    .shram_bytes = SHRAM_BYTES,
    .workspace = workspace,
    .workspace_bytes = WORKSPACE_BYTES,
};

/* Region 2 of that backend. */
unsigned char *ethosu_fast_scratch = fast_scratch;
size_t ethosu_fast_scratch_size = FAST_SCRATCH_BYTES;

__attribute__((constructor)) static void start(void)
{
    (void)ethosu_init(&driver, &device, NULL, 0, 0, 0);
}
