#include <string.h>

#include "../src/cortex_m/winograd.h"
#include "layer_call.h"

void layer_random_winograd(layer_t *layer, uint64_t *state)
{
    dtn_cm_windows_t *p = &layer->params.conv;
    const bool is_large = test_between(state, 0, 3) == 0;
    *p = (dtn_cm_windows_t){
        .batches = test_between(state, 1, 2),
        .in_h = test_between(state, 1, is_large ? 14 : 6),
        .in_w = test_between(state, 1, is_large ? 14 : 6),
        .in_c = test_between(state, 1, test_between(state, 0, 7) == 0 ? 90 : 20),
        .out_c = test_between(state, 1, 12),
        .groups = 1,
        .kernel_h = 3,
        .kernel_w = 3,
        .stride_h = 1,
        .stride_w = 1,
        .pad_h = test_between(state, 1, 2),
        .pad_w = test_between(state, 1, 2),
        .dilation_h = 1,
        .dilation_w = 1,
        .in_offset = -layer_zero_point(state),
        .out_offset = layer_zero_point(state),
        .act_min = test_between(state, 0, 3) == 0 ? test_between(state, -128, 0) : -128,
        .act_max = test_between(state, 0, 3) == 0 ? test_between(state, 0, 127) : 127,
        .has_kernel_sum = 1,
    };
    p->pad_h = p->in_h > 2 && test_between(state, 0, 2) == 0 ? 0 : p->pad_h;
    p->pad_w = p->in_w > 2 && test_between(state, 0, 2) == 0 ? 0 : p->pad_w;
    p->out_h = p->in_h + 2 * p->pad_h - 2;
    p->out_w = p->in_w + 2 * p->pad_w - 2;
    if (p->batches == 1 && test_between(state, 0, 1) == 1) {
        layer_random_rows(p, state);
    }
    layer->seed = (uint32_t)test_random(state);
    dtn_cm_winograd_conv2d_params_t *own = &layer->params.winograd;
    own->channels = test_between(state, 0, 1) == 0 ? 0 : test_between(state, 2, p->out_c + 2);
    own->keeps_tiles = own->channels == 0 ? 0 : test_between(state, 0, 1);
    layer->call.param_count = sizeof *own / sizeof(uint32_t);
    const int32_t rows = p->out_c == 1 ? 2 : p->out_c;
    layer_add_value(layer, false, DTN_TYPE_S8, p->batches * p->in_h * p->in_w * p->in_c);
    if (own->channels == 0) {
        layer_add_value(layer, false, DTN_TYPE_S16, (int64_t)dtn_cm_winograd_channel((size_t)p->in_c) * rows);
    } else {
        layer_add_value(layer, false, DTN_TYPE_S8, 9 * p->in_c * p->out_c);
    }
    for (int32_t i = 0; i < 3; i++) {
        layer_add_value(layer, false, DTN_TYPE_S32, 4 * p->out_c);
    }
    const size_t pairs = own->keeps_tiles == 1 ? dtn_cm_winograd_pairs(p) : 1;
    layer_add_value(layer, true, DTN_TYPE_U8,
                    (int64_t)(dtn_cm_winograd_scratch((size_t)p->in_c, pairs) +
                              (size_t)own->channels * dtn_cm_winograd_channel((size_t)p->in_c)));
    layer_add_value(layer, true, DTN_TYPE_S8, p->batches * p->out_h * p->out_w * p->out_c);
}

/* Some layers have the least weight alone, some only limits. */
int32_t layer_winograd_weight(const layer_t *layer, int32_t channel, int32_t tap, int32_t k)
{
    uint32_t mixed = layer->seed ^ ((uint32_t)(channel * 9 + tap) * UINT32_C(0x9E3779B1) + (uint32_t)k);
    mixed = (mixed ^ mixed >> 15) * UINT32_C(0x85EBCA77);
    mixed ^= mixed >> 13;
    switch (layer->seed % 4) {
    case 0:
        return INT8_MIN;
    case 1:
        return mixed % 2 == 0 ? INT8_MIN : INT8_MAX;
    default:
        return (int8_t)(uint8_t)mixed;
    }
}

bool layer_is_winograd(const layer_t *layer)
{
    const dtn_cm_windows_t *p = &layer->params.conv;
    if (layer->kind != WINOGRAD || p->in_c <= 0 || p->in_c >= 128 || p->out_c <= 0 || p->out_c >= 128) {
        return false;
    }
    const size_t inputs = (size_t)p->in_c;
    const size_t outputs = (size_t)p->out_c;
    return layer->call.values[1].bytes == (layer->params.winograd.channels == 0
                                               ? dtn_cm_winograd_channel(inputs) * (outputs == 1 ? 2 : outputs)
                                               : 9 * inputs * outputs);
}

/* The transformed weight of a channel at a position (a, b). */
static int32_t winograd_product(const layer_t *layer, int32_t channel, int32_t a, int32_t b, int32_t k)
{
    static const int32_t g[DTN_CM_TILE_INPUTS][3] = {{1, 0, 0}, {1, 1, 1},  {1, -1, 1},
                                                     {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};
    int32_t product = 0;
    for (int32_t tap = 0; tap < 9; tap++) {
        product += g[a][tap / 3] * g[b][tap % 3] * layer_winograd_weight(layer, channel, tap, k);
    }
    return product;
}

static void fill_plain_weights(const layer_t *layer, int8_t *weights)
{
    const dtn_cm_windows_t *p = &layer->params.conv;
    for (int32_t i = 0; i < 9 * p->in_c * p->out_c; i++) {
        weights[i] = (int8_t)layer_winograd_weight(layer, i / (9 * p->in_c), i / p->in_c % 9, i % p->in_c);
    }
}

static void fill_winograd_weights(const layer_t *layer, int16_t *weights)
{
    const dtn_cm_windows_t *p = &layer->params.conv;
    const int32_t fours = (p->in_c + 3) / 4;
    memset(weights, 0, layer->call.values[1].bytes);
    for (int32_t first = 0; first < p->out_c;) {
        const int32_t count = (int32_t)dtn_cm_winograd_group((size_t)first, (size_t)p->out_c, 3);
        for (int32_t at = 0; at < DTN_CM_TILE_PRODUCTS; at++) {
            for (int32_t i = 0; i < count && first + i < p->out_c; i++) {
                for (int32_t k = 0; k < p->in_c; k++) {
                    const int32_t word = k / 4 * 2 + k % 2;
                    weights[2 * ((at * 2 * fours + word) * count + i) + k / 2 % 2] =
                        (int16_t)winograd_product(layer, first + i, at / 6, at % 6, k);
                }
            }
        }
        weights += 4 * DTN_CM_TILE_PRODUCTS * fours * count;
        first += count;
    }
}

/* Kernel sums up to those with which the largest inputs make sums of 2^25 - 1. */
static void fill_winograd_sums(const layer_t *layer, int32_t *sums, uint64_t *state)
{
    const dtn_cm_windows_t *p = &layer->params.conv;
    for (int32_t channel = 0; channel < p->out_c; channel++) {
        int32_t most = (1 << 25) - 1;
        for (int32_t i = 0; i < 9 * p->in_c; i++) {
            const int32_t weight = layer_winograd_weight(layer, channel, i / p->in_c, i % p->in_c);
            most -= 128 * (weight < 0 ? -weight : weight);
        }
        const int32_t kind = test_between(state, 0, 3);
        sums[channel] = kind == 0 ? most : kind == 1 ? -most : test_between(state, -20000, 20000);
    }
}

void layer_fill_winograd(const layer_t *layer, uint32_t index, uint64_t *state)
{
    const dtn_tensor_t *value = &layer->call.values[index];
    const uint32_t kind = layer->seed / 4 % 6;
    if (index == 0 && kind < 2) {
        memset(value->data, kind == 0 ? INT8_MIN : INT8_MAX, value->bytes);
    } else if (index == 1) {
        if (layer->params.winograd.channels == 0) {
            fill_winograd_weights(layer, (int16_t *)value->data);
        } else {
            fill_plain_weights(layer, (int8_t *)value->data);
        }
    } else if (index == 4 && value->bytes == 4U * (uint32_t)layer->params.conv.out_c) {
        fill_winograd_sums(layer, (int32_t *)value->data, state);
    }
}
