#include "../check/check.h"
#include "../window.h"
#include "level.h"
#include "panel.h"
#include "vector.h"

/* Channels of a chunk: two vectors of sums, whose channels are zipped as dtn_zip_low and dtn_zip_high do; chunks at a
 * time; and most pairs of taps of a window: larger windows take the portable kernel. */
enum { CHUNK = 2 * DTN_LANES, MOST_CHUNKS = 64, MOST_PAIRS = 32 };
/* Pointers to the inputs of a row of output pixels: as many as fit for some pixels of the largest windows. */
enum { MOST_POINTERS = 512 };

/* Numbers that are constant for a block of channels; pointers and counts are the block's. */
typedef struct {
    const dtn_depthwise_conv2d_s8_params_t *p;
    const int8_t *image;
    int8_t *out;
    int32_t channels;
    dtn_limits_t limits;
    size_t taps;
    size_t pairs;
    size_t chunk_size;     /* numbers of a chunk's panel: two heads, then two vectors of weights per pair of taps */
    const int32_t *panels; /* of all chunks */
    int8_t outside[MOST_CHUNKS * CHUNK]; /* the inputs of taps that are not on the map */
} depthwise_t;

/* Channel of a chunk whose sum is element `j` of its two vectors. */
static int32_t interleaved(int32_t j)
{
    int32_t lane = j % DTN_LANES;
    return lane / 4 * 8 + j / DTN_LANES * 4 + lane % 4;
}

/* First channel of a chunk, whose turn is `c`: the last one overlaps the one before instead of ending early. */
static int32_t chunk_first(int32_t channels, int32_t c)
{
    return channels > CHUNK && c > channels - CHUNK ? channels - CHUNK : c;
}

/* The weights of a tap, counted down the columns of a window, for the `n` channels from `weights` on, over and over. */
static dtn_vector_t tap_weights(const dtn_depthwise_conv2d_s8_params_t *p, const int8_t *weights, size_t tap, int32_t n)
{
    int8_t all[CHUNK];
    size_t rows = (size_t)p->kernel_h;
    const int8_t *from = weights + (tap % rows * (size_t)p->kernel_w + tap / rows) * (size_t)p->out_c;
    if (n == CHUNK) {
        return dtn_widen(from, CHUNK);
    }
    for (int32_t j = 0; j < CHUNK; j++) {
        all[j] = from[j % n];
    }
    return dtn_widen(all, CHUNK);
}

/* Writes the panel of the `n` channels from `first` on, which may be fewer than a chunk. */
static void prepare(const depthwise_t *dw, const dtn_layer_t *layer, int32_t first, int32_t n, int32_t *panel)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    size_t taps = (size_t)p->kernel_h * (size_t)p->kernel_w;
    int32_t *weights = panel + 2 * DTN_PANEL_HEAD;
    int32_t channels[CHUNK];
    for (int32_t j = 0; j < CHUNK; j++) {
        channels[j] = first + interleaved(j) % n;
    }
    for (size_t t = 0; t < taps; t += 2) {
        dtn_vector_t a = tap_weights(p, layer->weights + first, t, n);
        dtn_vector_t b = t + 1 < taps ? tap_weights(p, layer->weights + first, t + 1, n) : dtn_splat(0);
        dtn_keep(weights + t * DTN_LANES, dtn_zip_low(a, b));
        dtn_keep(weights + (t + 1) * DTN_LANES, dtn_zip_high(a, b));
    }
    dtn_vector_t zero_points = dtn_splat((int32_t)(((uint32_t)p->in_zp & 0xFFFFU) * 0x10001U));
    for (int32_t half = 0; half < 2; half++) {
        int32_t *head = panel + half * DTN_PANEL_HEAD;
        dtn_vector_t sums = dtn_splat(0);
        for (size_t i = 0; i < dw->pairs; i++) {
            sums = dtn_dot_pairs(sums, zero_points, dtn_load(weights + i * CHUNK + half * DTN_LANES));
        }
        dtn_panel_gather(layer, channels + half * DTN_LANES, head);
        dtn_keep(head, dtn_subtract(dtn_load(head), sums));
    }
}

/* `n` channels of an output pixel; the inputs of each tap begin at `taps`. */
static inline __attribute__((always_inline)) void
chunk_run(const depthwise_t *dw, const int32_t *panel, const int8_t *const *taps, int32_t first, int32_t n, int8_t *out)
{
    const int32_t *high_head = panel + DTN_PANEL_HEAD;
    const int32_t *weights = panel + 2 * DTN_PANEL_HEAD;
    dtn_vector_t low = dtn_load(panel);
    dtn_vector_t high = dtn_load(high_head);
    for (size_t i = 0; i < dw->pairs; i++) {
        size_t last = 2 * i + 1 < dw->taps ? 2 * i + 1 : 2 * i; /* an odd window's last tap again: its weight is 0 */
        dtn_vector_t a = dtn_widen(taps[2 * i] + first, n);
        dtn_vector_t b = dtn_widen(taps[last] + first, n);
        low = dtn_dot_pairs(low, dtn_zip_low(a, b), dtn_load(weights + i * CHUNK));
        high = dtn_dot_pairs(high, dtn_zip_high(a, b), dtn_load(weights + i * CHUNK + DTN_LANES));
    }
    low = dtn_scale(low, panel + DTN_LANES, &dw->limits, dw->limits.ties);
    high = dtn_scale(high, high_head + DTN_LANES, &dw->limits, dw->limits.ties);
    dtn_store_zipped_s8(out + first, low, high, &dw->limits, n);
}

/* Output pixels whose windows are looked up together: they share columns where these lie side by side. */
static int32_t pixels_at_once(const dtn_depthwise_conv2d_s8_params_t *p, int32_t left)
{
    int32_t columns = MOST_POINTERS / p->kernel_h;
    int32_t most = p->dilation_w == 1 ? (columns - p->kernel_w) / p->stride_w + 1 : 1;
    return left < most ? left : most;
}

/* Where the inputs of `count` columns of windows begin, row by row of each column; those that are not on the map find
 * the zero point. */
static void find_columns(const depthwise_t *dw, const int8_t *image, dtn_window_t rows, int64_t start, int32_t count,
                         const int8_t **to)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    const int8_t *lines[2 * MOST_PAIRS];
    int64_t steps[2 * MOST_PAIRS];
    for (int32_t ky = 0; ky < p->kernel_h; ky++) {
        bool inside = ky >= rows.first && ky < rows.end;
        lines[ky] = inside ? image + (rows.start + (int64_t)ky * p->dilation_h) * p->in_w * p->in_c : dw->outside;
        steps[ky] = inside ? p->in_c : 0;
    }
    for (int32_t i = 0; i < count; i++, to += p->kernel_h) {
        int64_t x = start + (int64_t)i * p->dilation_w;
        bool inside = x >= 0 && x < p->in_w;
        for (int32_t ky = 0; ky < p->kernel_h; ky++) {
            to[ky] = inside ? lines[ky] + x * steps[ky] : dw->outside;
        }
    }
}

/* All channels of an output pixel. */
static void pixel_run(const depthwise_t *dw, const int8_t *const *taps, int8_t *out)
{
    const int32_t *panel = dw->panels;
    if (dw->channels < CHUNK) {
        chunk_run(dw, panel, taps, 0, dw->channels, out);
        return;
    }
    for (int32_t c = 0; c < dw->channels; c += CHUNK, panel += dw->chunk_size) {
        chunk_run(dw, panel, taps, chunk_first(dw->channels, c), CHUNK, out);
    }
}

/* `n` neighbouring output pixels from column `ox` on; with few channels, several pixels are one chunk where their
 * inputs lie side by side. */
static void pixels_run(const depthwise_t *dw, const int8_t *image, dtn_window_t rows, int32_t ox, int32_t n,
                       int8_t *out)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    const int8_t *columns[MOST_POINTERS];
    int64_t start = (int64_t)ox * p->stride_w - p->pad_left;
    int32_t together = dw->channels == p->out_c && p->stride_w == 1 && CHUNK % p->out_c == 0 ? CHUNK / p->out_c : 1;
    find_columns(dw, image, rows, start, (n - 1) * p->stride_w + p->kernel_w, columns);
    for (int32_t i = 0; i < n;) {
        const int8_t *const *taps = columns + (ptrdiff_t)i * p->stride_w * p->kernel_h;
        bool dense = start + i >= 0 && start + i + together + p->kernel_w - 1 <= p->in_w;
        if (together > 1 && i + together <= n && dense) {
            chunk_run(dw, dw->panels, taps, 0, CHUNK, out + (ptrdiff_t)i * p->out_c);
            i += together;
        } else {
            pixel_run(dw, taps, out + (ptrdiff_t)i * p->out_c);
            i++;
        }
    }
}

static void run(const depthwise_t *dw)
{
    const dtn_depthwise_conv2d_s8_params_t *p = dw->p;
    const int8_t *image = dw->image;
    int8_t *out = dw->out;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            dtn_window_t rows = dtn_window(oy, p->stride_h, p->pad_top, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0, n; ox < p->out_w; ox += n, out += (ptrdiff_t)n * p->out_c) {
                n = pixels_at_once(p, p->out_w - ox);
                pixels_run(dw, image, rows, ox, n, out);
            }
        }
        image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
}

static dtn_layer_t layer_of(const dtn_call_t *call)
{
    const dtn_operand_t *operands = call->operands;
    const dtn_depthwise_conv2d_s8_params_t *p = (const dtn_depthwise_conv2d_s8_params_t *)(const void *)call->params;
    dtn_layer_t layer = {
        .weights = (const int8_t *)operands[DTN_DEPTHWISE_CONV2D_S8_WEIGHTS].data,
        .bias = (const int32_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_BIAS].data,
        .rows = (const dtn_requant_row_t *)(const void *)operands[DTN_DEPTHWISE_CONV2D_S8_REQUANT].data,
        .row_step = p->requant_count == 1 ? 0 : 1,
        .in_zp = p->in_zp,
        .runs = (size_t)p->kernel_h,
        .length = (size_t)p->kernel_w,
        .limits = {p->out_zp, p->act_min, p->act_max, true},
    };
    return layer;
}

/* False for calls of the portable kernel. */
static bool depthwise_start(depthwise_t *dw, const dtn_call_t *call)
{
    const dtn_depthwise_conv2d_s8_params_t *p = (const dtn_depthwise_conv2d_s8_params_t *)(const void *)call->params;
    int64_t taps = (int64_t)p->kernel_h * p->kernel_w;
    dw->p = p;
    dw->taps = (size_t)taps;
    dw->pairs = ((size_t)taps + 1) / 2;
    dw->chunk_size = 2 * DTN_PANEL_HEAD + dw->pairs * CHUNK;
    return p->multiplier == 1 && taps <= 2 * MOST_PAIRS;
}

/* Writes the panels of the `channels` channels from `first` on. */
static void prepare_block(const depthwise_t *dw, const dtn_layer_t *layer, int32_t first, int32_t channels,
                          int32_t *panels)
{
    for (int32_t c = 0; c < channels; c += CHUNK, panels += dw->chunk_size) {
        prepare(dw, layer, first + chunk_first(channels, c), channels < CHUNK ? channels : CHUNK, panels);
    }
}

/* Channels that are run together, with so many chunks' panels at a time. */
static int32_t block_channels(size_t chunks)
{
    return CHUNK * (int32_t)(chunks < MOST_CHUNKS ? chunks : MOST_CHUNKS);
}

/* The `channels` channels from `first` on. */
static void run_block(depthwise_t *dw, const dtn_call_t *call, int32_t first, int32_t channels, const int32_t *panels)
{
    dw->channels = channels;
    dw->panels = panels;
    dw->image = (const int8_t *)call->operands[DTN_DEPTHWISE_CONV2D_S8_INPUT].data + first;
    dw->out = (int8_t *)call->operands[DTN_DEPTHWISE_CONV2D_S8_OUTPUT].data + first;
    run(dw);
}

int32_t DTN_LEVEL_NAME(dtn_k_depthwise_conv2d_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    depthwise_t dw;
    dtn_layer_t layer = layer_of(call);
    if (phase == DTN_PHASE_CHECK || !depthwise_start(&dw, call) || !dtn_are_small(layer.rows, dw.p->requant_count)) {
        return dtn_k_depthwise_conv2d_s8(call, phase);
    }
    int32_t panels[DTN_PANEL_MEMORY] DTN_PANEL_ALIGNED;
    int32_t block = block_channels(DTN_PANEL_MEMORY / dw.chunk_size);
    layer.limits.ties = dtn_may_tie(&layer, dw.p->out_c);
    dw.limits = layer.limits;
    memset(dw.outside, dw.p->in_zp, sizeof dw.outside);
    for (int32_t first = 0; first < dw.p->out_c; first += block) {
        int32_t n = dw.p->out_c - first < block ? dw.p->out_c - first : block;
        prepare_block(&dw, &layer, first, n, panels);
        run_block(&dw, call, first, n, panels);
    }
    return DTN_OK;
}

size_t DTN_LEVEL_NAME(dtn_panels_depthwise_conv2d_s8)(const dtn_call_t *call, int32_t *panels)
{
    depthwise_t dw;
    dtn_layer_t layer = layer_of(call);
    if (!depthwise_start(&dw, call) || !dtn_are_small(layer.rows, dw.p->requant_count)) {
        return 0;
    }
    int32_t block = block_channels(MOST_CHUNKS);
    layer.limits.ties = dtn_may_tie(&layer, dw.p->out_c);
    dw.limits = layer.limits;
    size_t size = DTN_PANELS_HEAD;
    for (int32_t first = 0; first < dw.p->out_c; first += block) {
        int32_t n = dw.p->out_c - first < block ? dw.p->out_c - first : block;
        if (panels != NULL) {
            panels[0] = layer.limits.ties ? 1 : 0;
            prepare_block(&dw, &layer, first, n, panels + size);
        }
        size += (size_t)((n + CHUNK - 1) / CHUNK) * dw.chunk_size;
    }
    return size;
}

int32_t DTN_LEVEL_NAME(dtn_paneled_depthwise_conv2d_s8)(const dtn_call_t *call, dtn_phase_t phase)
{
    depthwise_t dw;
    const int32_t *panels = dtn_panels_of(call, sizeof *dw.p);
    if (panels == NULL || !depthwise_start(&dw, call)) {
        return DTN_LEVEL_NAME(dtn_k_depthwise_conv2d_s8)(call, phase);
    }
    int32_t block = block_channels(MOST_CHUNKS);
    dw.limits = (dtn_limits_t){dw.p->out_zp, dw.p->act_min, dw.p->act_max, panels[0] != 0};
    memset(dw.outside, dw.p->in_zp, sizeof dw.outside);
    panels += DTN_PANELS_HEAD;
    for (int32_t first = 0; first < dw.p->out_c; first += block) {
        int32_t n = dw.p->out_c - first < block ? dw.p->out_c - first : block;
        run_block(&dw, call, first, n, panels);
        panels += (size_t)((n + CHUNK - 1) / CHUNK) * dw.chunk_size;
    }
    return DTN_OK;
}
