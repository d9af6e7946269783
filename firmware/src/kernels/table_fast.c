/* All kernels for speed. Alone in its object, so that a build with another table does not link this one. */
#include "deuteron/kernel.h"

int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place) [DTN_KERNEL_##NAME] = dtn_k_##name,
    DTN_KERNELS(DTN_X)
#undef DTN_X
};
