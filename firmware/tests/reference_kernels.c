#include "reference_kernels.h"

const dtn_kernel_t table_ref[DTN_KERNEL_KINDS] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place) [DTN_KERNEL_##NAME] = dtn_k_##name##_ref,
    DTN_KERNELS(DTN_X)
#undef DTN_X
};
