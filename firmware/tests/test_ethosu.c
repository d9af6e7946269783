/* Random operations of an Ethos-U against what they compute, written plainly; arguments: how many of each, the seed. */
#include <stdlib.h>
#include <string.h>

#include "../src/ethosu/feature_map.h"
#include "ethosu_stream.h"
#include "test.h"

enum { IN_AT = 0x100, SECOND_AT = 0x4000, OUT_AT = 0x8000, WEIGHTS_AT = 0x200, SCALES_AT = 0xC000 };

/* A layer's window: what the registers of the geometry say. */
typedef struct {
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int32_t top, left, bottom, right;
    uint32_t upscale;
    bool is_part_kernel;
} window_t;

static const char *const configs[] = {"ethos-u55-32",  "ethos-u55-64",  "ethos-u55-128",
                                      "ethos-u55-256", "ethos-u65-256", "ethos-u65-512"};

static const char *any_config(uint64_t *state)
{
    return configs[test_between(state, 0, 5)];
}

static test_map_t any_map(uint64_t *state, uint32_t base, int32_t height, int32_t width, int32_t depth, uint32_t bytes)
{
    test_map_t map = {1, base, height, width, depth, bytes, true, test_between(state, 0, 1) == 1, 0};
    map.is_signed = bytes != 1 || test_between(state, 0, 3) > 0;
    map.zero_point = bytes != 1 ? 0 : map.is_signed ? test_between(state, -128, 127) : test_between(state, 0, 255);
    return map;
}

static int32_t held(int64_t value, int64_t lo, int64_t hi)
{
    return (int32_t)(value < lo ? lo : value > hi ? hi : value);
}

/* value * scale / 2^shift: rounding 0 twice, 1 down, 2 a tie up. Shifts are below 48, and nothing overflows. */
static int64_t scaled(int64_t value, int64_t scale, uint32_t shift, uint32_t rounding)
{
    int64_t product = value * scale;
    int64_t one = INT64_C(1) << shift;
    if (rounding == 0 && shift > 31) {
        int64_t first = product + (INT64_C(1) << 30);
        int64_t high =
            first >= 0 ? first / (INT64_C(1) << 31) : -((-first + (INT64_C(1) << 31) - 1) / (INT64_C(1) << 31));
        int64_t power = INT64_C(1) << (shift - 31);
        return high < 0 ? -((-high + power / 2) / power) : (high + power / 2) / power;
    }
    int64_t rest = shift > 0 && rounding != 1 ? one / 2 : 0;
    int64_t sum = product + rest;
    return sum >= 0 ? sum / one : -((-sum + one - 1) / one);
}

static int32_t finished(const test_map_t *out, int64_t value)
{
    int64_t lo = out->is_signed ? -(INT64_C(1) << (8 * out->bytes - 1)) : 0;
    int64_t hi = out->is_signed ? (INT64_C(1) << (8 * out->bytes - 1)) - 1 : (INT64_C(1) << (8 * out->bytes)) - 1;
    return held(value + out->zero_point, lo, hi);
}

static void activation(stream_t *stream, const test_map_t *out)
{
    stream_short(stream, REG_ACTIVATION, 0);
    stream_short(stream, REG_ACTIVATION_MIN, !out->is_signed ? 0 : out->bytes == 1 ? 0xFF80 : 0x8000);
    stream_short(stream, REG_ACTIVATION_MAX, !out->is_signed ? 0xFF : out->bytes == 1 ? 0x7F : 0x7FFF);
}

static void geometry(stream_t *stream, const window_t *w, const test_map_t *in, const test_map_t *out)
{
    stream_short(stream, REG_IFM_PAD_TOP, (uint32_t)w->top);
    stream_short(stream, REG_IFM_PAD_LEFT, (uint32_t)w->left);
    stream_short(stream, REG_IFM_PAD_BOTTOM, (uint32_t)w->bottom);
    stream_short(stream, REG_IFM_PAD_RIGHT, (uint32_t)w->right);
    stream_short(stream, REG_IFM_DEPTH_M1, (uint32_t)in->depth - 1);
    stream_short(stream, REG_IFM_UPSCALE, w->upscale);
    stream_short(stream, REG_OFM_HEIGHT_M1, (uint32_t)out->height - 1);
    stream_short(stream, REG_OFM_WIDTH_M1, (uint32_t)out->width - 1);
    stream_short(stream, REG_OFM_DEPTH_M1, (uint32_t)out->depth - 1);
    stream_short(stream, REG_KERNEL_HEIGHT_M1, (uint32_t)((w->kernel_h - 1) * w->dilation_h));
    stream_short(stream, REG_KERNEL_WIDTH_M1, (uint32_t)((w->kernel_w - 1) * w->dilation_w));
    uint32_t x = (uint32_t)w->stride_w - 1;
    uint32_t y = (uint32_t)w->stride_h - 1;
    stream_short(stream, REG_KERNEL_STRIDE,
                 (x & 1U) | (y & 1U) << 1 | (w->is_part_kernel ? 4U : 0U) | (uint32_t)(w->dilation_w - 1) << 3 |
                     (uint32_t)(w->dilation_h - 1) << 4 | (x >> 1) << 6 | (y >> 1) << 9);
}

/* A window with an input that it fits, once enlarged. */
static window_t any_window(uint64_t *state, int32_t out_h, int32_t out_w, int32_t *in_h, int32_t *in_w,
                           bool may_enlarge)
{
    window_t w = {0};
    for (bool fits = false; !fits;) {
        w.kernel_h = test_between(state, 1, 10);
        w.kernel_w = test_between(state, 1, 4);
        w.stride_h = test_between(state, 1, 3);
        w.stride_w = test_between(state, 1, 4);
        w.dilation_h = test_between(state, 1, 2);
        w.dilation_w = test_between(state, 1, 2);
        w.top = test_between(state, 0, 2);
        w.left = test_between(state, 0, 2);
        w.bottom = test_between(state, 0, 2);
        w.right = test_between(state, 0, 2);
        w.upscale = may_enlarge && test_between(state, 0, 2) == 0 ? (uint32_t)test_between(state, 1, 2) : 0;
        w.is_part_kernel = test_between(state, 0, 1) == 1;
        int32_t factor = w.upscale == 0 ? 1 : 2;
        int32_t height = (out_h - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1 - w.top - w.bottom;
        int32_t width = (out_w - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1 - w.left - w.right;
        *in_h = (height + factor - 1) / factor;
        *in_w = (width + factor - 1) / factor;
        fits = height > 0 && width > 0;
    }
    return w;
}

/* The input that a position of a window meets, less its zero point; false where there is none. */
static bool meets(const stream_t *stream, const window_t *w, const test_map_t *in, const test_map_t *out, int32_t oy,
                  int32_t ox, int32_t ky, int32_t kx, int32_t c, int32_t *value)
{
    int32_t height = (out->height - 1) * w->stride_h + (w->kernel_h - 1) * w->dilation_h + 1 - w->top - w->bottom;
    int32_t width = (out->width - 1) * w->stride_w + (w->kernel_w - 1) * w->dilation_w + 1 - w->left - w->right;
    int32_t y = oy * w->stride_h + ky * w->dilation_h - w->top;
    int32_t x = ox * w->stride_w + kx * w->dilation_w - w->left;
    bool filled = w->upscale == 2 && (y % 2 != 0 || x % 2 != 0);
    if (y < 0 || x < 0 || y >= height || x >= width || filled) {
        return false;
    }
    *value = map_value(stream, in, w->upscale == 0 ? y : y / 2, w->upscale == 0 ? x : x / 2, c);
    return true;
}

/* ---- Weights that are not compressed: a slice of numbers of 9 bits ---- */

/* Numbers are in chunks of 8: of each the rests follow behind those of the chunk before, and nothing else does. */
static void put_slice(bits_t *bits, const int16_t *weights, size_t count)
{
    put_bits(bits, 6, 3);
    put_bits(bits, (uint32_t)count - 1, 15);
    put_bits(bits, 7, 3);
    put_bits(bits, 0, 1);
    put_bits(bits, 1, 1);
    put_bits(bits, 0, 10);
    put_bits(bits, 7, 3);
    for (size_t i = 0; i < count; i++) {
        int32_t magnitude = abs(weights[i]);
        put_bits(bits, (uint32_t)magnitude << 1 | (weights[i] < 0 ? 1U : 0U), 9);
    }
}

/* Weights of a layer, [out][y][x][in], and how the registers describe them. */
typedef struct {
    int16_t values[4096];
    int64_t bias[64];
    int32_t scale[64];
    uint32_t shift[64];
    int32_t block;
} weights_t;

static int16_t weight_at(const weights_t *weights, const window_t *w, int32_t inputs, int32_t o, int32_t y, int32_t x,
                         int32_t i)
{
    return weights->values[((o * w->kernel_h + y) * w->kernel_w + x) * inputs + i];
}

/* The order of an NPU's stream, as a list of places: depth first, part kernel first, or depthwise. */
static size_t ordered(const stream_t *stream, const weights_t *weights, const window_t *w, int32_t inputs,
                      int32_t outputs, int32_t core, bool is_depthwise, bool is_short, int16_t *list)
{
    int32_t cores = stream->config->cores, small = stream->config->channels;
    int32_t mine = (outputs + cores - 1 - core) / cores;
    int32_t block = (weights->block + cores - 1 - core) / cores;
    bool part = w->is_part_kernel && !is_depthwise;
    int32_t deep = part || is_short ? 16 : 32;
    int32_t multiple = is_depthwise ? 4 : !part ? 1 : is_short ? 2 : 4;
    size_t n = 0;
    for (int32_t first = 0; first < mine; first += block) {
        int32_t in_block = mine - first < block ? mine - first : block;
        for (int32_t from = 0; from < (is_depthwise ? 1 : inputs); from += deep) {
            int32_t left = inputs - from < deep ? inputs - from : deep;
            int32_t these = is_depthwise ? 8 : part ? left : deep;
            for (int32_t py = 0; py < w->kernel_h; py += 8 / w->dilation_h) {
                for (int32_t px = 0; px < w->kernel_w; px += 8 / w->dilation_w) {
                    int32_t high = w->kernel_h - py < 8 / w->dilation_h ? w->kernel_h - py : 8 / w->dilation_h;
                    int32_t wide = w->kernel_w - px < 8 / w->dilation_w ? w->kernel_w - px : 8 / w->dilation_w;
                    int32_t places = (high * wide + multiple - 1) / multiple * multiple;
                    for (int32_t outer = 0; outer < (part ? these : 1); outer += 8) {
                        for (int32_t o = 0; o < in_block; o += small) {
                            for (int32_t p = 0; p < places; p++) {
                                for (int32_t inner = 0; inner < (part ? 1 : these); inner += 8) {
                                    for (int32_t k = 0; k < small; k++) {
                                        for (int32_t i = 0; i < (is_depthwise ? 1 : 8); i++) {
                                            int32_t channel = from + outer + inner + i, at = o + k;
                                            bool inside = at < in_block && p / wide < high &&
                                                          channel < (is_depthwise ? 1 : inputs);
                                            list[n++] = inside ? weight_at(weights, w, is_depthwise ? 1 : inputs,
                                                                           (first + at) * cores + core, py + p / wide,
                                                                           px + p % wide, channel)
                                                               : 0;
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    return n;
}

static void put_scales(stream_t *stream, const weights_t *weights, int32_t outputs, int32_t core, size_t at)
{
    uint8_t *to = stream->memory.regions[0].data + at;
    for (int32_t o = core; o < outputs; o += stream->config->cores, to += 10) {
        for (uint32_t i = 0; i < 5; i++) {
            to[i] = (uint8_t)((uint64_t)weights->bias[o] >> (8 * i));
        }
        for (uint32_t i = 0; i < 4; i++) {
            to[5 + i] = (uint8_t)((uint32_t)weights->scale[o] >> (8 * i));
        }
        to[9] = (uint8_t)weights->shift[o];
    }
}

static void put_weights(stream_t *stream, const weights_t *weights, const window_t *w, int32_t inputs, int32_t outputs,
                        bool is_depthwise, bool is_short)
{
    static int16_t list[1 << 15];
    stream_short(stream, REG_WEIGHT_REGION, 0);
    stream_short(stream, REG_SCALE_REGION, 0);
    stream_short(stream, REG_OFM_BLK_DEPTH_M1, (uint32_t)weights->block - 1);
    for (int32_t core = 0; core < stream->config->cores; core++) {
        size_t at = WEIGHTS_AT + (size_t)core * 0x6000;
        size_t scales = SCALES_AT + (size_t)core * 0x400;
        size_t count = ordered(stream, weights, w, inputs, outputs, core, is_depthwise, is_short, list);
        bits_t bits = {stream->memory.regions[0].data + at, 0};
        for (size_t from = 0; from < count; from += 4096) {
            put_slice(&bits, list + from, count - from < 4096 ? count - from : 4096);
        }
        put_scales(stream, weights, outputs, core, scales);
        stream_long(stream, core == 0 ? REG_WEIGHT_BASE : REG_WEIGHT1_BASE, at);
        stream_long(stream, core == 0 ? REG_WEIGHT_LENGTH : REG_WEIGHT1_LENGTH, (bits.at + 7) / 8);
        stream_long(stream, core == 0 ? REG_SCALE_BASE : REG_SCALE1_BASE, scales);
        stream_long(stream, core == 0 ? REG_SCALE_LENGTH : REG_SCALE1_LENGTH, (uint64_t)outputs * 10);
    }
}

/* ---- Operations ---- */

static void test_layer(uint64_t *state, bool is_depthwise)
{
    static weights_t weights;
    stream_t stream;
    stream_new(&stream, any_config(state), state);
    int32_t inputs = is_depthwise ? test_between(state, 1, 36) : test_between(state, 1, 20);
    int32_t outputs = is_depthwise ? inputs : test_between(state, 1, 20);
    int32_t in_h = 0, in_w = 0, out_h = test_between(state, 1, 4), out_w = test_between(state, 1, 3);
    window_t w = any_window(state, out_h, out_w, &in_h, &in_w, true);
    while (w.kernel_h * w.kernel_w * (is_depthwise ? 1 : inputs) * outputs > 4096) {
        w = any_window(state, out_h, out_w, &in_h, &in_w, true);
    }
    uint32_t bytes = test_between(state, 0, 3) == 0 ? 2 : 1;
    test_map_t in = any_map(state, IN_AT, in_h, in_w, inputs, bytes);
    test_map_t out = any_map(state, OUT_AT, out_h, out_w, outputs, bytes);
    uint32_t rounding = (uint32_t)test_between(state, 0, 2);
    weights.block = 8 * stream.config->cores * test_between(state, 1, 2);
    for (size_t i = 0; i < 4096; i++) {
        weights.values[i] = (int16_t)test_between(state, -255, 255);
    }
    for (int32_t o = 0; o < outputs; o++) {
        weights.bias[o] = test_between(state, -100000, 100000);
        weights.scale[o] = test_between(state, 0, bytes == 2 ? 0x7FFF : 1 << 30);
        weights.shift[o] = (uint32_t)test_between(state, bytes == 2 ? 16 : 30, bytes == 2 ? 30 : 46);
    }
    geometry(&stream, &w, &in, &out);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_map(&stream, &dtn_ethosu_ofm_registers, &out, rounding << 14);
    activation(&stream, &out);
    put_weights(&stream, &weights, &w, inputs, outputs, is_depthwise, bytes == 2);
    stream_op(&stream, is_depthwise ? DTN_ETHOSU_OP_DEPTHWISE : DTN_ETHOSU_OP_CONV, 0);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    CHECK_EQUAL(event.opcode, DTN_ETHOSU_OP_STOP);
    for (int32_t oy = 0; oy < out_h; oy++) {
        for (int32_t ox = 0; ox < out_w; ox++) {
            for (int32_t o = 0; o < outputs; o++) {
                int64_t sum = weights.bias[o];
                for (int32_t at = 0; at < w.kernel_h * w.kernel_w * (is_depthwise ? 1 : inputs); at++) {
                    int32_t depth = is_depthwise ? 1 : inputs, place = at / depth, value = 0;
                    int32_t ky = place / w.kernel_w, kx = place % w.kernel_w;
                    if (meets(&stream, &w, &in, &out, oy, ox, ky, kx, is_depthwise ? o : at % depth, &value)) {
                        sum += value * weight_at(&weights, &w, depth, o, ky, kx, at % depth);
                    }
                }
                int64_t expected = scaled(sum, weights.scale[o], weights.shift[o], rounding);
                CHECK_EQUAL(map_stored(&stream, &out, oy, ox, o), finished(&out, expected));
            }
        }
    }
    stream_free(&stream);
}

static void test_pool(uint64_t *state)
{
    stream_t stream;
    stream_new(&stream, any_config(state), state);
    uint32_t kind = (uint32_t)test_between(state, 0, 2);
    int32_t in_h = 0, in_w = 0, out_h = test_between(state, 1, 4), out_w = test_between(state, 1, 4);
    int32_t depth = test_between(state, 1, 40);
    window_t w = any_window(state, out_h, out_w, &in_h, &in_w, false);
    w.dilation_h = w.dilation_w = 1;
    /* Pools have larger kernels than weights have. */
    bool is_large = test_between(state, 0, 15) == 0;
    if (is_large) {
        out_h = out_w = depth = 1;
        w.kernel_h = test_between(state, 65, 128);
        w.kernel_w = test_between(state, 64, 100);
    }
    in_h = (out_h - 1) * w.stride_h + w.kernel_h - w.top - w.bottom;
    in_w = (out_w - 1) * w.stride_w + w.kernel_w - w.left - w.right;
    uint32_t bytes = test_between(state, 0, 3) == 0 ? 2 : 1;
    if (in_h < 1 || in_w < 1) {
        stream_free(&stream);
        return;
    }
    test_map_t in = any_map(state, IN_AT, in_h, in_w, depth, bytes);
    in.is_bricks = in.is_bricks && !is_large;
    test_map_t out = any_map(state, OUT_AT, out_h, out_w, kind == 2 ? 1 : depth, bytes);
    uint32_t shift = (uint32_t)test_between(state, 20, 40);
    int32_t scale = test_between(state, 1, 1 << 30);
    uint32_t rounding = (uint32_t)test_between(state, 0, 2);
    geometry(&stream, &w, &in, &out);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_map(&stream, &dtn_ethosu_ofm_registers, &out, rounding << 14 | 1U << 8);
    activation(&stream, &out);
    stream_long(&stream, REG_OFM_SCALE, (uint64_t)shift << 32 | (uint32_t)scale);
    stream_op(&stream, DTN_ETHOSU_OP_POOL, kind);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (int32_t oy = 0; oy < out_h; oy++) {
        for (int32_t ox = 0; ox < out_w; ox++) {
            for (int32_t c = 0; c < out.depth; c++) {
                int64_t result = kind == 0 ? INT32_MIN : 0; /* a maximum without positions inside the map */
                for (int32_t at = 0; at < w.kernel_h * w.kernel_w * (kind == 2 ? depth : 1); at++) {
                    int32_t place = kind == 2 ? at / depth : at, value = 0;
                    int32_t ky = place / w.kernel_w, kx = place % w.kernel_w;
                    if (!meets(&stream, &w, &in, &out, oy, ox, ky, kx, kind == 2 ? at % depth : c, &value)) {
                        continue;
                    }
                    result = kind != 0 ? result + value : value > result ? value : result;
                }
                CHECK_EQUAL(map_stored(&stream, &out, oy, ox, c),
                            finished(&out, scaled(result, scale, shift, rounding)));
            }
        }
    }
    stream_free(&stream);
}

/* An elementwise operation's result before the output's scale; `a` and `b` in the order of the operation. */
static int64_t element(uint32_t kind, int64_t a, int64_t b)
{
    switch (kind) {
    case 0:
        return a * b;
    case 1:
        return a + b;
    case 2:
        return a - b;
    case 3:
        return a < b ? a : b;
    case 4:
        return a > b ? a : b;
    case 6:
        return a < 0 ? -a : a;
    default:
        return a;
    }
}

static void test_elementwise(uint64_t *state)
{
    stream_t stream;
    stream_new(&stream, any_config(state), state);
    static const uint32_t kinds[] = {0, 1, 2, 3, 4, 5, 6};
    uint32_t kind = kinds[test_between(state, 0, 6)];
    int32_t h = test_between(state, 1, 4), width = test_between(state, 1, 4), depth = test_between(state, 1, 40);
    uint32_t spread = (uint32_t)test_between(state, 0, 7);
    bool reversed = test_between(state, 0, 1) == 1;
    bool scalar = test_between(state, 0, 3) == 0;
    uint32_t bytes = test_between(state, 0, 3) == 0 ? 2 : 1;
    test_map_t a = any_map(state, IN_AT, h, width, depth, bytes);
    test_map_t b = any_map(state, SECOND_AT, (spread & 1U) != 0 ? 1 : h, (spread & 2U) != 0 ? 1 : width,
                           (spread & 4U) != 0 ? 1 : depth, bytes);
    b.is_signed = a.is_signed;
    b.zero_point = bytes != 1 ? 0 : held(b.zero_point, b.is_signed ? -128 : 0, b.is_signed ? 127 : 255);
    test_map_t out = any_map(state, OUT_AT, h, width, depth, bytes);
    uint32_t rounding = (uint32_t)test_between(state, 0, 2), mode = (uint32_t)test_between(state, 0, 2);
    bool has_factor = kind != 3 && kind != 4;
    int32_t scale = test_between(state, 1, 0x7FFF), opa = test_between(state, 1, 0x7FFF),
            opb = test_between(state, 1, 0x7FFF);
    uint32_t shift = (uint32_t)test_between(state, 10, 40), opa_shift = (uint32_t)test_between(state, 0, 20);
    int32_t number = a.is_signed ? test_between(state, -128, 127) : test_between(state, 0, 255);
    stream_short(&stream, REG_OFM_HEIGHT_M1, (uint32_t)h - 1);
    stream_short(&stream, REG_OFM_WIDTH_M1, (uint32_t)width - 1);
    stream_short(&stream, REG_OFM_DEPTH_M1, (uint32_t)depth - 1);
    stream_short(&stream, REG_IFM_UPSCALE, 0);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &a, mode << 8 | 2U << 14);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &b, 0);
    stream_map(&stream, &dtn_ethosu_ofm_registers, &out, rounding << 14 | (has_factor ? 1U << 8 : 0U));
    stream_short(&stream, REG_IFM2_BROADCAST, spread | (reversed ? 1U << 6 : 0U) | (scalar ? 1U << 7 : 0U));
    stream_short(&stream, REG_IFM2_SCALAR, (uint32_t)number);
    activation(&stream, &out);
    stream_long(&stream, REG_OFM_SCALE, (uint64_t)shift << 32 | (uint32_t)scale);
    stream_long(&stream, REG_OPA_SCALE, (uint64_t)opa_shift << 32 | (uint32_t)opa);
    stream_long(&stream, REG_OPB_SCALE, (uint32_t)opb);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, kind);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    bool is_sum = kind == 1 || kind == 2;
    bool is_unary = kind == 5 || kind == 6;
    for (int32_t y = 0; y < h; y++) {
        for (int32_t x = 0; x < width; x++) {
            for (int32_t c = 0; c < depth; c++) {
                int64_t first = map_value(&stream, &a, y, x, c);
                int64_t second = scalar ? number - b.zero_point
                                        : map_value(&stream, &b, (spread & 1U) != 0 ? 0 : y, (spread & 2U) != 0 ? 0 : x,
                                                    (spread & 4U) != 0 ? 0 : c);
                int64_t left = reversed && !is_unary ? second : first;
                int64_t right = reversed && !is_unary ? first : second;
                if (is_sum) {
                    int32_t power = 1 << (bytes == 1 ? 19 : 14);
                    left = mode == 1 ? scaled(left, opa, opa_shift, 2) : left * (mode == 0 ? opa : power);
                    right = mode == 2 ? scaled(right, opa, opa_shift, 2) : right * (mode == 0 ? opb : power);
                }
                int64_t result = element(kind, left, right);
                bool is_scaled = has_factor && (kind != 5 || result < 0);
                result = is_scaled ? scaled(result, scale, shift, rounding) : result;
                CHECK_EQUAL(map_stored(&stream, &out, y, x, c), finished(&out, result));
            }
        }
    }
    stream_free(&stream);
}

/* One random call of each. */
static void test_seed(uint64_t *state)
{
    test_layer(state, false);
    test_layer(state, true);
    test_pool(state);
    test_elementwise(state);
}

int main(int count, char **arguments)
{
    each_seed(count, arguments, test_seed);
    return test_result();
}
