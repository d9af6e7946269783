#include "../check/check.h"
#include "input_packing.h"
#include "level.h"
#include "panel.h"

/* One row of inputs, and the factors of the last weights of each channel, which overlap those before: zeros first. */
typedef struct {
    const int8_t *in;
    size_t count;
    int32_t zero_point;
    dtn_vector_t offset;
    dtn_vector_t last;
    dtn_vector_t last_offset;
} row_t;

static void finish_row(row_t *row)
{
    dtn_value_t values[DTN_VALUES] = {0};
    dtn_value_t offsets[DTN_VALUES] = {0};
    size_t rest = row->count % DTN_VALUES;
    for (size_t i = 1; i <= rest; i++) {
        values[DTN_VALUES - i] = dtn_value(row->in[row->count - i], row->zero_point);
        offsets[DTN_VALUES - i] = dtn_outside(row->zero_point);
    }
    row->last = dtn_load((const int32_t *)(const void *)values);
    row->last_offset = dtn_load((const int32_t *)(const void *)offsets);
}

/* Adds the products of the row with four channels of weights, `step` apart, to sums. */
static inline __attribute__((always_inline)) void dot(const row_t *row, const int8_t *weights, size_t step,
                                                      const bool has_offset, int32_t *sums)
{
    dtn_vector_t products[4];
    dtn_vector_t offsets[4];
    size_t k = 0;
#pragma GCC unroll 8
    for (int c = 0; c < 4; c++) {
        products[c] = offsets[c] = dtn_splat(0);
    }
    for (; k + DTN_VALUES <= row->count; k += DTN_VALUES) {
        dtn_vector_t in = dtn_inputs(row->in + k, row->zero_point);
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++) {
            dtn_vector_t w = dtn_weights(weights + (size_t)c * step + k);
            products[c] = dtn_dot(products[c], in, w);
            offsets[c] = has_offset ? dtn_dot_offset(offsets[c], row->offset, w) : offsets[c];
        }
    }
    if (k < row->count) {
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++) {
            dtn_vector_t w = dtn_weights(weights + (size_t)c * step + row->count - DTN_VALUES);
            products[c] = dtn_dot(products[c], row->last, w);
            offsets[c] = has_offset ? dtn_dot_offset(offsets[c], row->last_offset, w) : offsets[c];
        }
    }
#pragma GCC unroll 8
    for (int c = 0; c < 4; c++) {
        products[c] = dtn_subtract(products[c], offsets[c]);
    }
    dtn_add_totals(products, sums);
}

/* Adds the products of a row whose zero point is 0 with four channels of weights, `step` apart, to sums. */
static inline void dot_plain(const row_t *row, const int8_t *weights, size_t step, int32_t *sums)
{
    dtn_vector_t products[4] = {dtn_splat(0), dtn_splat(0), dtn_splat(0), dtn_splat(0)};
    size_t k = 0;
    for (; k + DTN_VALUES <= row->count; k += DTN_VALUES) {
        dtn_vector_t in = dtn_plain(row->in + k);
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++) {
            products[c] = dtn_dot_plain(products[c], in, dtn_weights(weights + (size_t)c * step + k));
        }
    }
    if (k < row->count) {
#pragma GCC unroll 8
        for (int c = 0; c < 4; c++) {
            dtn_vector_t w = dtn_weights(weights + (size_t)c * step + row->count - DTN_VALUES);
            products[c] = dtn_dot_plain(products[c], row->last, w);
        }
    }
    dtn_add_totals(products, sums);
}

/* One row of inputs after the other, whose zero point is 0, as in all of the compiler's calls. */
static void run_plain(const dtn_fully_connected_s8_params_t *p, const dtn_layer_t *layer, const int8_t *in, int8_t *out)
{
    row_t row = {.in = in, .count = (size_t)p->in_features};
    for (int32_t r = 0; r < p->rows; r++) {
        const int8_t *weights = layer->weights;
        dtn_vector_t excess = dtn_splat(dtn_excess(row.in, row.count));
        row.last = dtn_last_plain(row.in + row.count, row.count % DTN_VALUES);
        for (int32_t first = 0; first < p->out_features; first += DTN_LANES) {
            int32_t n = p->out_features - first < DTN_LANES ? p->out_features - first : DTN_LANES;
            int32_t head[DTN_PANEL_HEAD];
            int32_t j = 0;
            dtn_panel_head(layer, first, n, head);
            for (; j + 3 < n; j += 4, weights += 4 * row.count) {
                dot_plain(&row, weights, row.count, head + j);
            }
            for (; j < n; j++, weights += row.count) {
                int32_t sums[4] = {head[j]};
                dot_plain(&row, weights, 0, sums);
                head[j] = sums[0];
            }
            dtn_vector_t sums = dtn_subtract(dtn_load(head), excess);
            dtn_store_s8(out + first, dtn_scale(sums, head + DTN_LANES, &layer->limits, layer->limits.ties),
                         &layer->limits, n);
        }
        row.in += row.count;
        out += p->out_features;
    }
}

/* Rows shorter than a vector: a vector's channels at a time, all rows with one panel. */
static void run_short(const dtn_fully_connected_s8_params_t *p, const dtn_layer_t *layer, const int8_t *in, int8_t *out)
{
    enum { GROUPS = DTN_VALUES / DTN_GROUP };
    size_t count = (size_t)p->in_features;
    int32_t panel[DTN_PANEL_HEAD + GROUPS * DTN_LANES];
    for (int32_t first = 0; first < p->out_features; first += DTN_LANES) {
        int32_t n = p->out_features - first;
        dtn_panel_write(layer, first, n < DTN_LANES ? n : DTN_LANES, panel);
        for (int32_t r = 0; r < p->rows; r++) {
            dtn_value_t values[DTN_VALUES] = {0};
            int32_t groups[GROUPS];
            dtn_vector_t sums = dtn_load(panel);
            for (size_t i = 0; i < count; i++) {
                values[i] = dtn_value(in[(size_t)r * count + i], p->in_zp);
            }
            memcpy(groups, values, sizeof groups);
            for (size_t g = 0; g * DTN_GROUP < count; g++) {
                sums = dtn_dot(sums, dtn_splat(groups[g]), dtn_load(panel + DTN_PANEL_HEAD + g * DTN_LANES));
            }
            dtn_store_s8(out + (size_t)r * (size_t)p->out_features + first,
                         dtn_scale(sums, panel + DTN_LANES, &layer->limits, layer->limits.ties), &layer->limits, n);
        }
    }
}

/* One row of inputs after the other. */
static void run_long(const dtn_fully_connected_s8_params_t *p, const dtn_layer_t *layer, const int8_t *in, int8_t *out)
{
    row_t row = {.in = in, .count = (size_t)p->in_features, .zero_point = p->in_zp, .offset = dtn_offset(p->in_zp)};
    for (int32_t r = 0; r < p->rows; r++) {
        const int8_t *weights = layer->weights;
        finish_row(&row);
        for (int32_t first = 0; first < p->out_features; first += DTN_LANES) {
            int32_t n = p->out_features - first < DTN_LANES ? p->out_features - first : DTN_LANES;
            int32_t head[DTN_PANEL_HEAD];
            int32_t j = 0;
            dtn_panel_head(layer, first, n, head);
            for (; j + 3 < n; j += 4, weights += 4 * row.count) {
                if (dtn_has_offset(p->in_zp)) {
                    dot(&row, weights, row.count, true, head + j);
                } else {
                    dot(&row, weights, row.count, false, head + j);
                }
            }
            for (; j < n; j++, weights += row.count) {
                int32_t sums[4] = {head[j]};
                dot(&row, weights, 0, true, sums);
                head[j] = sums[0];
            }
            dtn_store_s8(out + first, dtn_scale(dtn_load(head), head + DTN_LANES, &layer->limits, layer->limits.ties),
                         &layer->limits, n);
        }
        row.in += row.count;
        out += p->out_features;
    }
}

/* Inputs of a row. All of its channels are computed at once, from panels. */
enum { MOST_INPUTS = 16384 };

/* Panels whose sums stay in registers together: fewer would wait for each other. */
enum { PANELS = 8 };

/* Up to `panels` panels of one row of inputs. */
static inline __attribute__((always_inline)) void block(const dtn_layer_t *layer, const dtn_value_t *values,
                                                        const int32_t *panel, const int panels, int32_t n, int8_t *out)
{
    const size_t size = dtn_panel_size(layer);
    const int32_t *weights = panel + DTN_PANEL_HEAD;
    dtn_vector_t sums[PANELS];
#pragma GCC unroll 8
    for (int i = 0; i < panels; i++) {
        sums[i] = dtn_load(panel + (size_t)i * size);
    }
    for (size_t k = 0; k < layer->length; k += DTN_GROUP, weights += DTN_LANES) {
        int32_t group;
        memcpy(&group, values + k, sizeof group);
#pragma GCC unroll 8
        for (int i = 0; i < panels; i++) {
            sums[i] = dtn_dot(sums[i], dtn_splat(group), dtn_load(weights + (size_t)i * size));
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < panels; i++) {
        const int32_t *factors = panel + (size_t)i * size + DTN_LANES;
        dtn_vector_t scaled = dtn_scale(sums[i], factors, &layer->limits, layer->limits.ties);
        dtn_store_s8(out + i * DTN_LANES, scaled, &layer->limits, n - i * DTN_LANES);
    }
}

/* All channels of one row of inputs after the other. */
static void run_panels(const dtn_fully_connected_s8_params_t *p, const dtn_layer_t *layer, const int32_t *panels,
                       const int8_t *in, int8_t *out)
{
    dtn_value_t values[MOST_INPUTS + DTN_GROUP] DTN_PANEL_ALIGNED;
    size_t size = dtn_panel_size(layer);
    memset(values + layer->length, 0, DTN_GROUP * sizeof *values);
    for (int32_t r = 0; r < p->rows; r++, in += layer->length, out += p->out_features) {
        const int32_t *panel = panels;
        int32_t c = 0;
        dtn_values(in, layer->length, p->in_zp, values);
        for (; p->out_features - c > (PANELS - 1) * DTN_LANES; c += PANELS * DTN_LANES, panel += PANELS * size) {
            block(layer, values, panel, PANELS, p->out_features - c, out + c);
        }
        for (; c < p->out_features; c += DTN_LANES, panel += size) {
            block(layer, values, panel, 1, p->out_features - c, out + c);
        }
    }
}

static dtn_layer_t layer_of(const dtn_call_t *call)
{
    const dtn_operand_t *operands = call->operands;
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    dtn_layer_t layer = {
        .weights = (const int8_t *)operands[DTN_FULLY_CONNECTED_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_FULLY_CONNECTED_S8_BIAS].data,
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_FULLY_CONNECTED_S8_REQUANT].data,
        .row_step = p->requant_count == 1 ? 0 : 1,
        .in_zp = p->in_zp,
        .runs = 1,
        .length = (size_t)p->in_features,
        .limits = {p->out_zp, p->act_min, p->act_max, true},
    };
    return layer;
}

int32_t DTN_LEVEL_NAME(dtn_k_fully_connected_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    const int8_t *in = (const int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_INPUT].data;
    int8_t *out = (int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_OUTPUT].data;
    dtn_layer_t layer = layer_of(call);
    if (phase == DTN_PHASE_CHECK || !dtn_are_small(layer.rows, p->requant_count)) {
        return dtn_k_fully_connected_s8(call, phase);
    }
    layer.limits.ties = dtn_may_tie(&layer, p->out_features);
    if (p->in_features < DTN_VALUES) {
        run_short(p, &layer, in, out);
    } else if (p->in_zp == 0) {
        run_plain(p, &layer, in, out);
    } else {
        run_long(p, &layer, in, out);
    }
    return DTN_OK;
}

size_t DTN_LEVEL_NAME(dtn_panels_fully_connected_s8)(const dtn_call_t *call, int32_t *panels)
{
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    dtn_layer_t layer = layer_of(call);
    if (p->in_features > MOST_INPUTS || !dtn_are_small(layer.rows, p->requant_count)) {
        return 0;
    }
    if (panels != NULL) {
        dtn_panels_prepare(&layer, p->out_features, panels);
    }
    return dtn_panels_size(&layer, p->out_features);
}

int32_t DTN_LEVEL_NAME(dtn_paneled_fully_connected_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    const dtn_fully_connected_s8_params_t *p = (const dtn_fully_connected_s8_params_t *)(const void *)call->params;
    const int32_t *panels = dtn_panels_of(call, sizeof *p);
    if (panels == NULL) {
        return DTN_LEVEL_NAME(dtn_k_fully_connected_s8)(call, phase);
    }
    dtn_layer_t layer = layer_of(call);
    layer.limits.ties = panels[0] != 0;
    run_panels(p, &layer, panels + DTN_PANELS_HEAD, (const int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_INPUT].data,
               (int8_t *)call->operands[DTN_FULLY_CONNECTED_S8_OUTPUT].data);
    return DTN_OK;
}
