#include "small_container.h"

void small_container(build_t *build)
{
    uint8_t table[DTN_LUT_BYTES];
    dtn_lut_s8_params_t lut = {32};
    dtn_fill_s8_params_t fill = {16, -5};
    for (uint32_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)(255 - i);
    }
    build_start(build);
    build_ref_t operands[] = {build_input(build, 32), build_constant(build, table, sizeof table),
                              build_scratch(build, 32)};
    build_ref_t filled[] = {build_output(build, 16)};
    build->prefetch_bytes = 256;
    build_fetch(build, 3, 0, 0, 256);
    build_wait(build, 3);
    build_call(build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_call(build, DTN_KERNEL_FILL_S8, filled, &fill);
}
