#include "random_parameters.h"

#include <stdlib.h>

#include "test.h"

int32_t random_size(uint64_t *state, int32_t most)
{
    static const int32_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 80};
    int32_t size = sizes[test_between(state, 0, (int32_t)(sizeof sizes / sizeof sizes[0]) - 1)];
    return size <= most ? size : test_between(state, 1, most);
}

int32_t random_zero_point(uint64_t *state)
{
    int32_t choice = test_between(state, 0, 5);
    return choice == 0 ? -128 : choice == 1 ? 127 : test_between(state, -128, 127);
}

void random_clamp(uint64_t *state, int32_t *lo, int32_t *hi)
{
    *lo = -128;
    *hi = 127;
    if (test_between(state, 0, 2) == 0) {
        *lo = test_between(state, -128, 127);
        *hi = test_between(state, *lo, 127);
    }
}

void random_row(uint64_t *state, int32_t *multiplier, int32_t *shift)
{
    int32_t choice = test_between(state, 0, 7);
    *multiplier = choice == 0 ? test_between(state, 0, INT32_MAX) : test_between(state, 1 << 30, INT32_MAX);
    *shift = choice == 0 ? test_between(state, 1, 62) : test_between(state, 33, 46);
    if (choice == 1) {
        /* Sums meet ties. */
        *multiplier = test_between(state, 4, 7) << 28;
    }
}

void random_mean_factor(uint64_t *state, int32_t *multiplier, int32_t *shift)
{
    bool usual = test_between(state, 0, 7) != 0;
    *multiplier = usual ? test_between(state, 1 << 28, INT32_MAX) : test_between(state, 0, INT32_MAX);
    *shift = usual ? test_between(state, 27, 33) : test_between(state, 0, 54);
}

build_ref_t random_constant(build_t *build, uint64_t *state, int32_t bytes)
{
    uint8_t *data = (uint8_t *)build_alloc((uint32_t)bytes);
    for (int32_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)test_random(state);
    }
    build_ref_t ref = build_constant(build, data, (uint32_t)bytes);
    free(data);
    return ref;
}

build_ref_t random_rows(build_t *build, uint64_t *state, int32_t count)
{
    int32_t *data = (int32_t *)build_alloc((uint32_t)count * DTN_REQUANT_ROW_BYTES);
    /* Tables without small shifts take another way, and those that no sum meets a tie with. */
    bool any = test_between(state, 0, 3) == 0;
    bool usual = test_between(state, 0, 1) == 0;
    for (int32_t i = 0; i < count; i++) {
        random_row(state, &data[2 * i], &data[2 * i + 1]);
        if (usual) {
            data[2 * i] = test_between(state, 1 << 30, INT32_MAX) | 1;
            data[2 * i + 1] = test_between(state, 33, 46);
        } else if (!any && data[2 * i + 1] < 33) {
            data[2 * i + 1] = 33 + data[2 * i + 1] % 30;
        }
    }
    build_ref_t ref = build_constant(build, data, (uint32_t)count * DTN_REQUANT_ROW_BYTES);
    free(data);
    return ref;
}

build_ref_t random_bias(build_t *build, uint64_t *state, int32_t count)
{
    int32_t *data = (int32_t *)build_alloc((uint32_t)count * 4);
    for (int32_t i = 0; i < count; i++) {
        data[i] = test_between(state, -100000, 100000);
    }
    build_ref_t ref = build_constant(build, data, (uint32_t)count * 4);
    free(data);
    return ref;
}

axis_t random_axis(uint64_t *state, bool dilate)
{
    axis_t axis;
    axis.in = test_between(state, 1, 9);
    axis.kernel = test_between(state, 0, 2) == 0 ? 1 : test_between(state, 1, 4);
    axis.stride = test_between(state, 1, 3);
    axis.dilation = dilate && test_between(state, 0, 2) == 0 ? test_between(state, 1, 3) : 1;
    axis.pad = test_between(state, 0, (axis.kernel - 1) * axis.dilation);
    axis.out = test_between(state, 1, (axis.in + axis.pad - 1) / axis.stride + 1);
    return axis;
}
