/* A port with a counter of an NPU's own, which has counted 1000 cycles more at each look; and the hash of no program.
 */
#include "deuteron/port.h"
#include "deuteron/profile.h"

const uint8_t dtn_profile_program[DTN_PROGRAM_HASH_BYTES] = {0};

bool dtn_port_npu_cycles(uint32_t *cycles)
{
    static uint32_t count = UINT32_MAX - 500;
    *cycles = count += 1000;
    return true;
}
