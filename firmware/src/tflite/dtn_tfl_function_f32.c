#include "exponential.h"
#include "float32_common.h"

typedef dtn_tfl_function_f32_params_t params_t;

enum {
    LOGISTIC,
    TANH,
    EXP,
    SQRT,
    RSQRT,
    ABS,
    NEG,
    SQUARE,
    FLOOR,
    CEIL,
    ROUND,
    SIN,
    COS,
    LOG,
    ELU,
    HARD_SWISH,
    GELU,
    GELU_BY_TANH,
    SIGN,
    KINDS
};

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

/* The nearest whole number, ties to even. */
static float rounded(float x)
{
    float below = dtn_tfl_floor(x), rest = x - below;
    float whole = rest < 0.5F || (rest == 0.5F && dtn_tfl_floor(below * 0.5F) * 2.0F == below) ? below : below + 1.0F;
    return whole == 0.0F && x < 0.0F ? -0.0F : whole;
}

/*
 * sin(x + quarters * pi / 2), by the series of a remainder of at most pi / 4; pi / 2 in three parts, whose products
 * with whole numbers below 2^29 are exact but for the last. Beyond 2^29 neighbours of float32 are periods apart.
 */
static float sine(double x, int32_t quarters)
{
    const double far = 536870912.0;
    if (!(x > -far && x < far)) {
        return (float)(x - x == 0.0 ? 0.0 : (x - x) / (x - x));
    }
    int32_t n = (int32_t)(x * 0.63661977236758134308 + (x < 0.0 ? -0.5 : 0.5));
    double r = x - (double)n * 1.57079601287841796875;
    r -= (double)n * 3.1391647326017846e-07;
    r -= (double)n * 5.3903025299577648e-15;
    uint32_t quarter = (uint32_t)(n + quarters) & 3U;
    double term = (quarter & 1U) == 0U ? r : 1.0, sum = term;
    for (int32_t k = (quarter & 1U) == 0U ? 3 : 2; k < 22; k += 2) {
        term = -term * r * r / (double)(k * (k - 1));
        sum += term;
    }
    return (float)((quarter & 2U) == 0U ? sum : -sum);
}

/*
 * 1 - erf(x), with a relative error of a few times 1e-13. Near 0, erf is exp(-x^2) times a series. Further out the
 * continued fraction z + (1/2) / (z + (2/2) / (z + (3/2) / ...)) keeps the digits that 1 - erf has lost.
 */
static double complementary_error_function(double x)
{
    double z = x < 0.0 ? -x : x;
    if (z < 2.0) {
        double term = x, sum = x;
        for (int32_t k = 1; k < 32; k++) {
            term = term * 2.0 * x * x / (double)(2 * k + 1);
            sum += term;
        }
        return 1.0 - 1.12837916709551257390 * sum * dtn_tfl_exponential(-x * x);
    }
    double fraction = z;
    for (int32_t k = 40; k >= 1; k--) {
        fraction = z + 0.5 * (double)k / fraction;
    }
    double tail = 0.56418958354775628695 * dtn_tfl_exponential(-z * z) / fraction;
    return x < 0.0 ? 2.0 - tail : tail;
}

static float gelu(float x, bool by_tanh)
{
    if (!by_tanh) {
        float scaled = x * -0.70710678118654752440F;
        float half = 0.5F * x;
        return half * (float)complementary_error_function((double)scaled);
    }
    float cube = x * x * x, scaled = 0.044715F * cube;
    float inner = 0.79788456080286535588F * (x + scaled);
    float half = 0.5F * x;
    return half * (1.0F + (float)dtn_tfl_tanh((double)inner));
}

static float hard_swish(float x)
{
    float gate = x + 3.0F;
    return x * (gate < 0.0F ? 0.0F : gate > 6.0F ? 6.0F : gate) / 6.0F;
}

static float function(int32_t kind, float x)
{
    switch (kind) {
    case LOGISTIC:
        return logistic(x);
    case TANH:
        return (float)dtn_tfl_tanh((double)x);
    case EXP:
        return dtn_tfl_exponential_f32(x);
    case SQRT:
        return (float)dtn_tfl_square_root((double)x);
    case RSQRT:
        return 1.0F / (float)dtn_tfl_square_root((double)x);
    case ABS:
        return x < 0.0F ? -x : x + 0.0F;
    case NEG:
        return -x;
    case SQUARE:
        return x * x;
    case FLOOR:
        return dtn_tfl_floor(x);
    case CEIL:
        return -dtn_tfl_floor(-x);
    case ROUND:
        return rounded(x);
    case SIN:
    case COS:
        return sine((double)x, kind - SIN);
    case LOG:
        return (float)dtn_tfl_logarithm((double)x);
    case ELU:
        return x < 0.0F ? (float)dtn_tfl_exponential_less_one((double)x) : x;
    case HARD_SWISH:
        return hard_swish(x);
    case GELU:
    case GELU_BY_TANH:
        return gelu(x, kind == GELU_BY_TANH);
    default:
        return x > 0.0F ? 1.0F : x < 0.0F ? -1.0F : x;
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
