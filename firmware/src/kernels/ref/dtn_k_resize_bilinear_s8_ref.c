#include "../check/check.h"
#include "../requant.h"
#include "../resize.h"

/* The element between four, times unit_h * unit_w: at most 255 * 2^34. */
static int64_t blend(const dtn_resize_bilinear_s8_params_t *p, const int8_t *image, dtn_between_t row,
                     dtn_between_t column, int32_t c)
{
    int64_t rows[2];
    for (int32_t i = 0; i < 2; i++) {
        const int8_t *line = image + (size_t)(i == 0 ? row.low : row.high) * (size_t)p->in_w * (size_t)p->channels;
        int32_t left = line[(size_t)column.low * (size_t)p->channels + (size_t)c] - p->zero_point;
        int32_t right = line[(size_t)column.high * (size_t)p->channels + (size_t)c] - p->zero_point;
        rows[i] = (int64_t)left * (p->unit_w - column.share) + (int64_t)right * column.share;
    }
    return rows[0] * (p->unit_h - row.share) + rows[1] * row.share;
}

int32_t dtn_k_resize_bilinear_s8_ref(const dtn_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return (int32_t)dtn_check_resize_bilinear_s8(call);
    }
    const dtn_resize_bilinear_s8_params_t *p = (const dtn_resize_bilinear_s8_params_t *)(const void *)call->params;
    const int8_t *image = (const int8_t *)call->operands[DTN_RESIZE_BILINEAR_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_RESIZE_BILINEAR_S8_OUTPUT].data;
    uint64_t unit = (uint64_t)p->unit_h * (uint64_t)p->unit_w;

    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_between_t row = dtn_between(oy, p->start_h, p->step_h, p->unit_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                dtn_between_t column = dtn_between(ox, p->start_w, p->step_w, p->unit_w, p->in_w);
                for (int32_t c = 0; c < p->channels; c++) {
                    int64_t value = dtn_rne_divide_signed(blend(p, image, row, column, c), unit);
                    *out++ = dtn_clamp_s8(p->zero_point + value, INT8_MIN, INT8_MAX);
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->channels;
    }
    return DTN_OK;
}
