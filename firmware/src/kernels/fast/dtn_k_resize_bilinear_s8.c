#include "../check/check.h"
#include "../resize.h"
#include "block.h"

/* The four input pixels around an output pixel and their weights, whose sum is unit_h * unit_w. */
typedef struct {
    const int8_t *pixel[4];
    int64_t weight[4];
} corners_t;

static corners_t corners_of(const dtn_resize_bilinear_s8_params_t *p, const int8_t *image, dtn_between_t row,
                            dtn_between_t column)
{
    corners_t corners;
    for (int32_t i = 0; i < 4; i++) {
        size_t y = (size_t)(i < 2 ? row.low : row.high);
        size_t x = (size_t)(i % 2 == 0 ? column.low : column.high);
        int64_t down = i < 2 ? p->unit_h - row.share : row.share;
        corners.pixel[i] = image + (y * (size_t)p->in_w + x) * (size_t)p->channels;
        corners.weight[i] = down * (i % 2 == 0 ? p->unit_w - column.share : column.share);
    }
    return corners;
}

/* All channels of one output pixel. */
static void pixel_run(const dtn_resize_bilinear_s8_params_t *p, const corners_t *corners, uint64_t unit, int8_t *out)
{
    for (int32_t c = 0; c < p->channels; c++) {
        int64_t sum = 0;
        for (int32_t i = 0; i < 4; i++) {
            sum += corners->weight[i] * (corners->pixel[i][c] - p->zero_point);
        }
        out[c] = dtn_clamp_s8(p->zero_point + dtn_rne_divide_signed(sum, unit), INT8_MIN, INT8_MAX);
    }
}

/* The same for a unit of at most 2^23, whose sums are below 2^31: `quotient` divides by it. */
static void pixel_run_small(const dtn_resize_bilinear_s8_params_t *p, const corners_t *corners,
                            const dtn_quotient_t *quotient, int8_t *restrict out)
{
    int32_t w0 = (int32_t)corners->weight[0], w1 = (int32_t)corners->weight[1];
    int32_t w2 = (int32_t)corners->weight[2], w3 = (int32_t)corners->weight[3];
    for (int32_t c = 0; c < p->channels; c++) {
        int32_t sum = w0 * (corners->pixel[0][c] - p->zero_point) + w1 * (corners->pixel[1][c] - p->zero_point) +
                      w2 * (corners->pixel[2][c] - p->zero_point) + w3 * (corners->pixel[3][c] - p->zero_point);
        out[c] = dtn_clamp_s8(p->zero_point + dtn_rne_quotient(sum, quotient), INT8_MIN, INT8_MAX);
    }
}

int32_t dtn_k_resize_bilinear_s8(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_resize_bilinear_s8(call);
    }
    const dtn_resize_bilinear_s8_params_t *p = (const dtn_resize_bilinear_s8_params_t *)(const void *)call->params;
    const int8_t *image = (const int8_t *)call->operands[DTN_RESIZE_BILINEAR_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_RESIZE_BILINEAR_S8_OUTPUT].data;
    uint64_t unit = (uint64_t)p->unit_h * (uint64_t)p->unit_w;
    dtn_quotient_t quotient = dtn_quotient(1, unit);

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_between_t row = dtn_between(oy, p->start_h, p->step_h, p->unit_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_between_t column = dtn_between(ox, p->start_w, p->step_w, p->unit_w, p->in_w);
                corners_t corners = corners_of(p, image, row, column);
                if (unit <= UINT64_C(1) << 23) {
                    pixel_run_small(p, &corners, &quotient, out);
                } else {
                    pixel_run(p, &corners, unit, out);
                }
                out += p->channels;
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
