/* A program that links one kernel: its table takes the place of the library's, as a generated kernel selection does. */
#include "deuteron/kernel.h"
#include "NeutronDriver.h"

int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {
    [DTN_KERNEL_LUT_S8] = dtn_k_lut_s8,
};

int main(void)
{
    NeutronModelHandle handle = NEUTRON_INVALID_HANDLE;
    return neutronModelPrepare(NULL, &handle) == dtn_error(DTN_REASON_NULL_POINTER, 0) ? 0 : 1;
}
