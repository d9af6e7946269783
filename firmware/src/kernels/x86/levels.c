/* The kernels of a host with an x86-64 processor: each is called at the level in use. */
#include "deuteron/levels.h"
#include "levels.h"

#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    int32_t dtn_k_##name##_avx2(const dtn_call_t *call, dtn_phase_t phase);                                            \
    int32_t dtn_k_##name##_avx_vnni(const dtn_call_t *call, dtn_phase_t phase);                                        \
    int32_t dtn_k_##name##_avx512_vnni(const dtn_call_t *call, dtn_phase_t phase);
DTN_KERNELS(DTN_X)
#undef DTN_X

static const char *const names[DTN_LEVELS] = {"x86-64", "AVX2", "AVX-VNNI", "AVX512-VNNI"};

const dtn_kernel_t dtn_level_kernels[DTN_KERNEL_KINDS][DTN_LEVELS] = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    [DTN_KERNEL_##NAME] = {dtn_k_##name, dtn_k_##name##_avx2, dtn_k_##name##_avx_vnni, dtn_k_##name##_avx512_vnni},
    DTN_KERNELS(DTN_X)
#undef DTN_X
};

#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place)                                            \
    static int32_t name##_at_level(const dtn_call_t *call, dtn_phase_t phase)                                          \
    {                                                                                                                  \
        return dtn_level_kernels[DTN_KERNEL_##NAME][dtn_level()](call, phase);                                         \
    }
DTN_KERNELS(DTN_X)
#undef DTN_X

int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {
#define DTN_X(name, NAME, read, written, words, checked, aligned, in_place) [DTN_KERNEL_##NAME] = name##_at_level,
    DTN_KERNELS(DTN_X)
#undef DTN_X
};

bool dtn_has_level(int32_t level)
{
    __builtin_cpu_init();
    switch (level) {
    case DTN_LEVEL_BASELINE:
        return true;
    case DTN_LEVEL_AVX2:
        return __builtin_cpu_supports("avx2") != 0;
    case DTN_LEVEL_AVX_VNNI:
        return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("avxvnni") != 0;
    case DTN_LEVEL_AVX512_VNNI:
        return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
               __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
               __builtin_cpu_supports("avx512vnni") != 0;
    default:
        return false;
    }
}

/* The level in use plus 1; 0 until it is chosen, which threads may do at the same time as they choose the same. */
static int32_t chosen;

const char *dtn_level_name(int32_t level)
{
    return level >= 0 && level < DTN_LEVELS ? names[level] : NULL;
}

int32_t dtn_level(void)
{
    int32_t level = __atomic_load_n(&chosen, __ATOMIC_RELAXED) - 1;
    if (level >= 0) {
        return level;
    }
    for (level = DTN_LEVELS - 1; !dtn_has_level(level);) {
        level--;
    }
    /* Not over a level that another thread has asked for meanwhile. */
    int32_t none = 0;
    __atomic_compare_exchange_n(&chosen, &none, level + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return none == 0 ? level : none - 1;
}

bool dtn_use_level(int32_t level)
{
    if (!dtn_has_level(level)) {
        return false;
    }
    __atomic_store_n(&chosen, level + 1, __ATOMIC_RELAXED);
    return true;
}
