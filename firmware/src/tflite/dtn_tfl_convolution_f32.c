#include "../cortex_m/windows.h"
#include "float32_common.h"

typedef dtn_tfl_convolution_f32_params_t params_t;

enum { INPUT, WEIGHTS, BIAS };

static bool are_numbers(const params_t *p)
{
    const int32_t lengths[] = {p->batches,  p->in_h,       p->in_w,       p->in_c,     p->out_h,
                               p->out_w,    p->out_c,      p->kernel_h,   p->kernel_w, p->stride_h,
                               p->stride_w, p->dilation_h, p->dilation_w, p->groups};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] < 1 || lengths[i] > DTN_CM_MAX_DIMENSION) {
            return false;
        }
    }
    return p->pad_h >= 0 && p->pad_h <= DTN_CM_MAX_DIMENSION && p->pad_w >= 0 && p->pad_w <= DTN_CM_MAX_DIMENSION &&
           p->in_c % p->groups == 0 && p->out_c % p->groups == 0 && (p->has_bias == 0 || p->has_bias == 1) &&
           (p->transposed == 0 || (p->transposed == 1 && p->dilation_h == 1 && p->dilation_w == 1)) &&
           dtn_tfl_real(p->act_min) <= dtn_tfl_real(p->act_max);
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (call->param_count != sizeof(params_t) / sizeof(uint32_t)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if (!are_numbers(p) || call->input_count != (uint32_t)(BIAS + p->has_bias) || call->output_count != 1 ||
        !dtn_cm_are(call->values, call->input_count + 1, DTN_TYPE_F32)) {
        return false;
    }
    const dtn_tensor_t *values = call->values;
    return dtn_cm_has_size(&values[INPUT], DTN_CM_LIST(4, p->batches, p->in_h, p->in_w, p->in_c)) &&
           dtn_cm_has_size(&values[WEIGHTS], DTN_CM_LIST(4, p->out_c, p->kernel_h, p->kernel_w, p->in_c / p->groups)) &&
           (p->has_bias == 0 || dtn_cm_has_size(&values[BIAS], DTN_CM_LIST(4, p->out_c))) &&
           dtn_cm_has_size(&values[BIAS + p->has_bias], DTN_CM_LIST(4, p->batches, p->out_h, p->out_w, p->out_c));
}

/* An axis of the map as an output position sees it. */
typedef struct {
    int32_t out;
    int32_t in;
    int32_t kernel;
    int32_t stride;
    int32_t pad;
    int32_t dilation;
} axis_t;

/*
 * The tap of a kernel that reads an element of the map, in ascending order of these: a transposed convolution starts at
 * the last tap. False if step `k` reads none.
 */
static bool tap(const axis_t *axis, bool transposed, int32_t k, int32_t *weight, int32_t *place)
{
    if (transposed) {
        *weight = axis->kernel - 1 - k;
        int32_t from = axis->out + axis->pad - *weight;
        *place = from / axis->stride;
        return from >= 0 && from % axis->stride == 0 && *place < axis->in;
    }
    *weight = k;
    *place = axis->out * axis->stride - axis->pad + k * axis->dilation;
    return *place >= 0 && *place < axis->in;
}

static float sum_of(const params_t *p, const float *image, const float *weights, const axis_t axes[2], int32_t group)
{
    size_t inputs = (size_t)(p->in_c / p->groups);
    float sum = 0.0F;
    for (int32_t i = 0; i < p->kernel_h; i++) {
        int32_t ky, y;
        if (!tap(&axes[0], p->transposed == 1, i, &ky, &y)) {
            continue;
        }
        for (int32_t j = 0; j < p->kernel_w; j++) {
            int32_t kx, x;
            if (!tap(&axes[1], p->transposed == 1, j, &kx, &x)) {
                continue;
            }
            const float *in = image + ((size_t)y * (size_t)p->in_w + (size_t)x) * (size_t)p->in_c;
            const float *w = weights + ((size_t)ky * (size_t)p->kernel_w + (size_t)kx) * inputs;
            for (size_t c = 0; c < inputs; c++) {
                float product = in[(size_t)group * inputs + c] * w[c];
                sum += product;
            }
        }
    }
    return sum;
}

int32_t dtn_tfl_convolution_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *image = (const float *)call->values[INPUT].data;
    const float *weights = (const float *)call->values[WEIGHTS].data;
    const float *bias = p->has_bias == 1 ? (const float *)call->values[BIAS].data : NULL;
    float *out = (float *)call->values[BIAS + p->has_bias].data;
    float low = dtn_tfl_real(p->act_min), high = dtn_tfl_real(p->act_max);
    size_t patch = (size_t)p->kernel_h * (size_t)p->kernel_w * (size_t)(p->in_c / p->groups);
    axis_t axes[2] = {{0, p->in_h, p->kernel_h, p->stride_h, p->pad_h, p->dilation_h},
                      {0, p->in_w, p->kernel_w, p->stride_w, p->pad_w, p->dilation_w}};
    for (int32_t b = 0; b < p->batches; b++) {
        for (axes[0].out = 0; axes[0].out < p->out_h; axes[0].out++) {
            for (axes[1].out = 0; axes[1].out < p->out_w; axes[1].out++) {
                for (int32_t c = 0; c < p->out_c; c++) {
                    float sum = sum_of(p, image, weights + (size_t)c * patch, axes, c / (p->out_c / p->groups));
                    *out++ = dtn_tfl_clamp_f32(bias == NULL ? sum : sum + bias[c], low, high);
                }
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    return DTN_OK;
}
