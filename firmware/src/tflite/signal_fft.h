/**
 * @file
 * The fast Fourier transform of real samples of one type.
 *
 * The file that includes this one defines the type of samples, `part_t` and PART_TYPE, and `wide_t` for sums and
 * products. SHARE(n) is the factor of a step of n points. `sum` adds two products; factors of a damaged
 * program make it wrap. Three functions make a sample of a wide number: `low` keeps the low bits, `rounded` is for
 * products, `half` for half of a sum.
 */
#ifndef DTN_TFLITE_SIGNAL_FFT_H
#define DTN_TFLITE_SIGNAL_FFT_H

typedef dtn_tfl_signal_fft_params_t params_t;

/** A complex number; results that do not fit keep their low bits. */
typedef struct {
    part_t re;
    part_t im;
} complex_t;

enum { MOST_POINTS = 1 << 14 };

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 2, 1, params_t) || !dtn_cm_are(call->values, 3, PART_TYPE)) {
        return false;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    if (p->points < 2 || p->points > MOST_POINTS || (p->points & (p->points - 1)) != 0) {
        return false;
    }
    bool is_inverse = p->inverse == 1;
    const dtn_tensor_t *samples = &call->values[is_inverse ? 2 : 0], *spectra = &call->values[is_inverse ? 0 : 2];
    return (is_inverse ? p->length == 2 * p->points : p->inverse == 0 && p->length <= 2 * p->points) &&
           dtn_cm_has_size(samples, DTN_CM_LIST((int32_t)sizeof(part_t), p->rows, p->length)) &&
           dtn_cm_has_size(spectra, DTN_CM_LIST((int32_t)sizeof(complex_t), p->rows, p->points + 1)) &&
           dtn_cm_has_size(&call->values[1], DTN_CM_LIST((int32_t)sizeof(complex_t), p->points + p->points / 2));
}

static complex_t plus(complex_t a, complex_t b)
{
    return (complex_t){low((wide_t)a.re + b.re), low((wide_t)a.im + b.im)};
}

static complex_t minus(complex_t a, complex_t b)
{
    return (complex_t){low((wide_t)a.re - b.re), low((wide_t)a.im - b.im)};
}

static complex_t times(complex_t a, complex_t b)
{
    return (complex_t){rounded((wide_t)a.re * b.re - (wide_t)a.im * b.im),
                       rounded(sum((wide_t)a.re * b.im, (wide_t)a.im * b.re))};
}

static complex_t scaled(complex_t a, wide_t factor)
{
    return (complex_t){rounded(a.re * factor), rounded(a.im * factor)};
}

static complex_t conjugate(complex_t a)
{
    return (complex_t){a.re, low(-(wide_t)a.im)};
}

/* The place of a point before the first step: its digits of base 4, the last of base 2 if need be, in reverse order. */
static int32_t place_of(int32_t point, int32_t points)
{
    int32_t place = 0;
    while (points > 1) {
        int32_t radix = points % 4 == 0 ? 4 : 2;
        points /= radix;
        place += point % radix * points;
        point /= radix;
    }
    return place;
}

/* Joins the transforms of two interleaved parts, each of one point. */
static void join_two(complex_t *x, const complex_t *factors)
{
    complex_t a = scaled(x[0], SHARE(2)), b = times(scaled(x[1], SHARE(2)), factors[0]);
    x[0] = plus(a, b);
    x[1] = minus(a, b);
}

/* Joins the values number k of the transforms of four interleaved parts, `size` apart; `step` is k turns of factors. */
static void join_four(complex_t *x, size_t size, const complex_t *factors, size_t step, bool is_inverse)
{
    complex_t a = scaled(x[0], SHARE(4)), b = times(scaled(x[size], SHARE(4)), factors[step]);
    complex_t c = times(scaled(x[2 * size], SHARE(4)), factors[2 * step]);
    complex_t d = times(scaled(x[3 * size], SHARE(4)), factors[3 * step]);
    complex_t even = plus(a, c), odd = plus(b, d), difference = minus(a, c), turned = minus(b, d);
    turned = (complex_t){turned.im, low(-(wide_t)turned.re)}; /* by -i */
    x[0] = plus(even, odd);
    x[2 * size] = minus(even, odd);
    x[is_inverse ? 3 * size : size] = plus(difference, turned);
    x[is_inverse ? size : 3 * size] = minus(difference, turned);
}

/* The transform of points at their places. */
static void transform(const params_t *p, complex_t *x, const complex_t *factors)
{
    const size_t points = (size_t)p->points;
    const bool has_two = (points & 0x5555) == 0; /* an odd power of two */
    for (size_t i = 0; has_two && i < points; i += 2) {
        join_two(&x[i], factors);
    }
    for (size_t size = has_two ? 2 : 1; size < points; size *= 4) {
        for (size_t first = 0; first < points; first += 4 * size) {
            for (size_t k = 0; k < size; k++) {
                join_four(&x[first + k], size, factors, k * (points / (4 * size)), p->inverse == 1);
            }
        }
    }
}

/* The spectrum of real samples: the transform of even samples as real and odd ones as imaginary parts, taken apart. */
static void forward(const params_t *p, const part_t *in, const complex_t *factors, complex_t *out)
{
    const int32_t points = p->points;
    for (int32_t i = 0; i < points; i++) {
        part_t even = 2 * i < p->length ? in[2 * i] : 0, odd = 2 * i + 1 < p->length ? in[2 * i + 1] : 0;
        out[place_of(i, points)] = (complex_t){even, odd};
    }
    transform(p, out, factors);
    complex_t sums = scaled(out[0], SHARE(2));
    out[0] = (complex_t){low((wide_t)sums.re + sums.im), 0};
    out[points] = (complex_t){low((wide_t)sums.re - sums.im), 0};
    for (int32_t k = 1; k <= points / 2; k++) {
        complex_t a = scaled(out[k], SHARE(2)), b = scaled(conjugate(out[points - k]), SHARE(2));
        complex_t even = plus(a, b), odd = times(minus(a, b), factors[points + k - 1]);
        out[k] = (complex_t){half((wide_t)even.re + odd.re), half((wide_t)even.im + odd.im)};
        out[points - k] = (complex_t){half((wide_t)even.re - odd.re), half((wide_t)odd.im - even.im)};
    }
}

/* The real samples of a spectrum. */
static void backward(const params_t *p, const complex_t *in, const complex_t *factors, complex_t *out)
{
    const int32_t points = p->points;
    complex_t ends = {low((wide_t)in[0].re + in[points].re), low((wide_t)in[0].re - in[points].re)};
    out[0] = scaled(ends, SHARE(2));
    for (int32_t k = 1; k <= points / 2; k++) {
        complex_t a = scaled(in[k], SHARE(2)), b = scaled(conjugate(in[points - k]), SHARE(2));
        complex_t even = plus(a, b), odd = times(minus(a, b), factors[points + k - 1]);
        out[place_of(k, points)] = plus(even, odd);
        out[place_of(points - k, points)] = conjugate(minus(even, odd));
    }
    transform(p, out, factors);
}

static int32_t run(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const params_t *p = DTN_CM_PARAMS(call, params_t);
    const part_t *in = (const part_t *)call->values[0].data;
    const complex_t *factors = (const complex_t *)call->values[1].data;
    complex_t *out = (complex_t *)call->values[2].data;
    for (int32_t row = 0; row < p->rows; row++) {
        if (p->inverse == 1) {
            backward(p, (const complex_t *)in, factors, out);
            in += 2 * (p->points + 1);
            out += p->points;
        } else {
            forward(p, in, factors, out);
            in += p->length;
            out += p->points + 1;
        }
    }
    return DTN_OK;
}

#endif /* DTN_TFLITE_SIGNAL_FFT_H */
