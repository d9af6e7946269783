/* A port with counters of an NPU's own, which have counted 1000 cycles and 7 of another thing more at each look; and
 * the hash of no program. */
#include "deuteron/port.h"
#include "deuteron/profile.h"

const uint8_t dtn_profile_program[DTN_PROGRAM_HASH_BYTES] = {0};

bool dtn_port_npu_cycles(uint32_t *cycles)
{
    static uint32_t count = UINT32_MAX - 500;
    *cycles = count += 1000;
    return true;
}

bool dtn_port_npu_counter(uint32_t index, uint32_t *what, uint32_t *count)
{
    static uint32_t beats;
    if (index != 0) {
        return false;
    }
    *what = 0x82;
    *count = beats += 7;
    return true;
}
