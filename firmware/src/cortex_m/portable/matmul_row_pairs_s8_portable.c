#include "matmul_row_pairs_s8_portable.h"

/* Sums of pairs with two rows of weights. */
typedef struct {
    int64_t w;
    int64_t v;
} wide_t;

static inline void multiply_add(wide_t *sums, int32_t pair, int8_t w, int8_t v)
{
    sums->w += (int64_t)pair * w;
    sums->v += (int64_t)pair * v;
}

/* The part of a sum in its lower bits: moved up and down again, which brings the sign in. */
static int32_t lower(int64_t sum)
{
    return (int32_t)((uint32_t)sum << (32 - DTN_CM_PAIR_BITS)) >> (32 - DTN_CM_PAIR_BITS);
}

/* The other part. */
static int32_t upper(int64_t sum)
{
    return (int32_t)((sum - lower(sum)) >> DTN_CM_PAIR_BITS);
}

static inline void add_pairs(const int32_t *pairs, const int8_t *w, const int8_t *v, size_t count,
                             dtn_cm_pair_sums_t *sums)
{
    wide_t wide = {0, 0};
    for (size_t turns = count / 4; turns != 0; turns--) {
        multiply_add(&wide, pairs[0], w[0], v[0]);
        multiply_add(&wide, pairs[1], w[1], v[1]);
        multiply_add(&wide, pairs[2], w[2], v[2]);
        multiply_add(&wide, pairs[3], w[3], v[3]);
        pairs += 4;
        w += 4;
        v += 4;
    }
    for (size_t rest = count % 4; rest != 0; rest--) {
        multiply_add(&wide, *pairs++, *w++, *v++);
    }
    sums->xw += (uint32_t)lower(wide.w);
    sums->xv += (uint32_t)lower(wide.v);
    sums->yw += (uint32_t)upper(wide.w);
    sums->yv += (uint32_t)upper(wide.v);
}

static inline void store_channel(const dtn_cm_pair_job_t *job, const dtn_cm_scale_t *scale, size_t channel, uint32_t x,
                                 uint32_t y)
{
    dtn_cm_factor_t factor = dtn_cm_factor(scale, channel);
    uint32_t bias = job->bias == NULL ? 0U : (uint32_t)job->bias[channel];
    job->y_output[channel] = dtn_cm_scaled(scale, &factor, job->y_start + bias + y);
    job->x_output[channel] = dtn_cm_scaled(scale, &factor, job->x_start + bias + x);
}

void dtn_cm_make_pairs(const int8_t *x, const int8_t *y, int32_t offset, size_t count, int32_t *pairs)
{
    int32_t offsets = offset + offset * (1 << DTN_CM_PAIR_BITS);
    for (size_t k = 0; k < count; k++) {
        pairs[k] = x[k] + y[k] * (1 << DTN_CM_PAIR_BITS) + offsets;
    }
}

void dtn_cm_add_pairs(const int32_t *pairs, const int8_t *w, const int8_t *v, size_t count, dtn_cm_pair_sums_t *sums)
{
    add_pairs(pairs, w, v, count, sums);
}

void dtn_cm_store_pairs(const dtn_cm_pair_job_t *job, size_t first, size_t end, const dtn_cm_pair_sums_t *sums)
{
    for (size_t channel = first; channel < end; channel += 2, sums++) {
        store_channel(job, job->scale, channel, sums->xw, sums->yw);
        if (channel + 1 < end) {
            store_channel(job, job->scale, channel + 1, sums->xv, sums->yv);
        }
    }
}

void dtn_cm_multiply_pairs(const dtn_cm_pair_job_t *given, const int32_t *pairs)
{
    /* Copies, which no store to the output can change. */
    const dtn_cm_pair_job_t job = *given;
    const dtn_cm_scale_t scale = *given->scale;
    const int8_t *w = job.weights;
    for (size_t channel = 0; channel < job.channels; channel += 2) {
        bool is_last = channel + 1 == job.channels;
        const int8_t *v = is_last ? w : w + job.depth;
        dtn_cm_pair_sums_t sums = {0, 0, 0, 0};
        size_t at = 0;
        for (; job.depth - at > DTN_CM_PAIRS; at += DTN_CM_PAIRS) {
            dtn_cm_add_pairs(pairs + at, w + at, v + at, DTN_CM_PAIRS, &sums);
        }
        add_pairs(pairs + at, w + at, v + at, job.depth - at, &sums);
        store_channel(&job, &scale, channel, sums.xw, sums.yw);
        if (!is_last) {
            store_channel(&job, &scale, channel + 1, sums.xv, sums.yv);
        }
        w = v + job.depth;
    }
}
