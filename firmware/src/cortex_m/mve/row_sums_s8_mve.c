#include "row_sums_s8_mve.h"

#include "../inner_loops.h"
#include "vectors_mve.h"

void dtn_cm_add_row(const int8_t *inputs, int32_t offset, const int8_t *weights, size_t depth, size_t channels,
                    uint32_t *sums)
{
    size_t first = 0;
    int32_t *to = (int32_t *)sums;
    for (; first + DTN_MVE_LANES <= channels; first += DTN_MVE_LANES) {
        vstrwq_s32(to + first, dtn_mve_four_sums(inputs, weights + first * depth, depth, depth, to + first));
    }
    for (; first < channels; first++) {
        int32_t one[DTN_MVE_LANES] = {to[first]};
        to[first] = vgetq_lane_s32(dtn_mve_four_sums(inputs, weights + first * depth, 0, depth, one), 0);
    }
    for (size_t j = 0; j < channels && offset != 0; j++) {
        sums[j] += (uint32_t)(dtn_cm_total(weights + j * depth, depth) * offset);
    }
}
