#include "../inner_loops.h"
#include "../packed_weights.h"

/* Two channels of a row, or the last one. */
static void two_channels(const dtn_cm_product_t *p, const int8_t *x, const int8_t *packed, size_t channel,
                         int8_t *output)
{
    int32_t sums[DTN_CM_PACKED] = {0, 0};
    for (size_t k = 0; k < p->depth; k++) {
        sums[0] += x[k] * dtn_cm_first_weight(packed[k]);
        sums[1] += x[k] * dtn_cm_second_weight(packed[k]);
    }
    for (size_t j = 0; j < DTN_CM_PACKED && channel + j < p->channels; j++) {
        dtn_cm_factor_t factor = dtn_cm_factor(&p->scale, channel + j);
        uint32_t sum = (uint32_t)sums[j] + (uint32_t)p->bias[channel + j];
        output[channel + j] = dtn_cm_scaled(&p->scale, &factor, sum);
    }
}

void dtn_cm_multiply_s4(const dtn_cm_product_t *p)
{
    for (size_t row = 0; row < p->rows; row++) {
        const int8_t *packed = p->weights;
        for (size_t channel = 0; channel < p->channels; channel += DTN_CM_PACKED) {
            two_channels(p, p->input + row * p->input_pitch, packed, channel, p->output + row * p->output_pitch);
            packed += p->depth;
        }
    }
}
