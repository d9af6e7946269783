#include "exponential.h"
#include "reals.h"

typedef dtn_tfl_function_f32_params_t params_t;

enum { LOGISTIC, TANH, EXP, SQRT, RSQRT, ABS, NEG, SQUARE, FLOOR, KINDS };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 1, params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_F32)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    return p->kind >= LOGISTIC && p->kind < KINDS && dtn_cm_has_size(&call->values[0], DTN_CM_LIST(4, p->elements)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST(4, p->elements));
}

/* 1 for large numbers, exp(x) for small ones. */
static float logistic(float x)
{
    if (x > 16.619047164916992188F) {
        return 1.0F;
    }
    if (x < -9.0F) {
        return dtn_tfl_exponential_f32(x);
    }
    float sum = 1.0F + dtn_tfl_exponential_f32(-x);
    return 1.0F / sum;
}

static float tangent(float x)
{
    double y = (double)x;
    if (y > -1e-5 && y < 1e-5) {
        return (float)(y - y * y * y / 3.0);
    }
    return (float)(1.0 - 2.0 / (dtn_tfl_exponential(2.0 * y) + 1.0));
}

/* The square root in float64, by Newton's method from a guess of half the exponent; NaN below 0. */
static double square_root(double x)
{
    if (!(x > 0.0) || x > 1e300) {
        return x == 0.0 || x > 0.0 ? x : (x - x) / (x - x);
    }
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits >> 1) + (UINT64_C(1023) << 51);
    double root;
    memcpy(&root, &bits, sizeof root);
    for (int32_t i = 0; i < 5; i++) {
        root = 0.5 * (root + x / root);
    }
    return root;
}

static float floor_of(float x)
{
    const float most = 8388608.0F; /* 2^23: from here on all are whole */
    if (!(x > -most && x < most)) {
        return x;
    }
    float whole = (float)(int32_t)x;
    float below = whole > x ? whole - 1.0F : whole;
    /* -0 stays. */
    return below == x ? x : below;
}

static float function(int32_t kind, float x)
{
    switch (kind) {
    case LOGISTIC:
        return logistic(x);
    case TANH:
        return tangent(x);
    case EXP:
        return dtn_tfl_exponential_f32(x);
    case SQRT:
        return (float)square_root((double)x);
    case RSQRT:
        return 1.0F / (float)square_root((double)x);
    case ABS:
        return x < 0.0F ? -x : x + 0.0F;
    case NEG:
        return -x;
    case SQUARE:
        return x * x;
    default:
        return floor_of(x);
    }
}

int32_t dtn_tfl_function_f32(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const float *in = (const float *)call->values[0].data;
    float *out = (float *)call->values[1].data;
    for (size_t i = 0; i < (size_t)p->elements; i++) {
        out[i] = function(p->kind, in[i]);
    }
    return DTN_OK;
}
