#include "row_sums_s8_dsp.h"

void dtn_cm_add_row(const int8_t *inputs, int32_t offset, const int8_t *weights, size_t depth, size_t channels,
                    uint32_t *sums)
{
    uint32_t words[DTN_DSP_PART / 2];
    const dtn_dsp_row_t row = {inputs, weights, depth, offset};
    dtn_dsp_add_row(&row, words, 0, channels, sums);
}
