/* Random operations of an Ethos-U85 against what they compute, written plainly; arguments: how many of each, the seed.
 */
#include <stdlib.h>
#include <string.h>

#include "ethosu_85.h"
#include "test.h"

enum { IN_AT = 0x100, SCALES_AT = 0x100, WEIGHTS_AT = 0x800, STREAM_AT = 0x3E00 };
enum { MOST_WEIGHTS = 12000, MOST_ORDERED = 1 << 16, STREAMS = 4, ADJUSTMENT = 5 };

/* A configuration, its streams of weights, and the microblocks that its convolutions have. */
typedef struct {
    const char *name;
    int32_t macs, streams;
    uint8_t microblocks[3];
} config_t;

static const config_t configs[] = {
    {"ethos-u85-128", 128, 1, {0, 1, 1}},   {"ethos-u85-256", 256, 1, {1, 2, 3}},
    {"ethos-u85-512", 512, 2, {2, 3, 3}},   {"ethos-u85-1024", 1024, 4, {2, 3, 4}},
    {"ethos-u85-2048", 2048, 4, {2, 3, 5}},
};
static const int32_t pixels[] = {1, 2, 4, 4, 8, 16};

static const config_t *any_config(uint64_t *state)
{
    return &configs[test_between(state, 0, 4)];
}

/* A kernel, a stride of which the input's sizes follow without pads, and what the order of weights depends on. */
typedef struct {
    int32_t inputs, outputs, kernel_h, kernel_w, stride_h, stride_w, block;
    bool is_depthwise, is_part_kernel, is_short, is_fast, is_sparse;
    int32_t streams, macs, microblock;
} layer_t;

static int16_t weights[MOST_WEIGHTS];
static int16_t ordered[STREAMS][MOST_ORDERED];
static size_t counts[STREAMS];

static int16_t weight_at(const layer_t *l, int32_t o, int32_t y, int32_t x, int32_t i)
{
    return weights[((o * l->kernel_h + y) * l->kernel_w + x) * (l->is_depthwise ? 1 : l->inputs) + i];
}

static void emit(int32_t stream, int16_t weight)
{
    if (counts[stream] == MOST_ORDERED) {
        abort();
    }
    ordered[stream][counts[stream]++] = weight;
}

/* One position of the kernel for the microblock that starts at output `o`; y of -1 is padding. */
static void emit_position(const layer_t *l, int32_t o, int32_t end, int32_t y, int32_t x, int32_t first, int32_t inner)
{
    int32_t together = l->is_depthwise ? 1 : l->is_sparse ? 16 : 8;
    for (int32_t i = 0; i < inner; i += together) {
        for (int32_t z = 0; z < l->microblock; z++) {
            for (int32_t k = 0; k < together; k++) {
                int32_t channel = first + i + k;
                bool inside = y >= 0 && o + z < end && channel < (l->is_depthwise ? 1 : l->inputs);
                emit(z / 4 % l->streams, inside ? weight_at(l, o + z, y, x, channel) : 0);
            }
        }
    }
}

/* A microblock for the part of the kernel from (py, px) on. */
static void emit_microblock(const layer_t *l, int32_t o, int32_t end, int32_t py, int32_t px, int32_t first,
                            int32_t inner)
{
    bool phases = l->is_depthwise || l->is_part_kernel;
    int32_t sy = phases ? l->stride_h : 1, sx = phases ? l->stride_w : 1;
    int32_t high = l->kernel_h - py < 8 ? l->kernel_h - py : 8, wide = l->kernel_w - px < 8 ? l->kernel_w - px : 8;
    int32_t multiple = l->is_depthwise ? 10 : !l->is_part_kernel ? 1 : l->is_short || l->is_sparse ? 10 : 5;
    int32_t extra = !l->is_depthwise || (!l->is_short && l->macs <= 256) ? 0 : l->macs <= 512 ? 2 : 6;
    int32_t count = 0;
    for (int32_t phase = 0; phase < sy * sx; phase++) {
        for (int32_t y = phase / sx; y < high; y += sy) {
            bool is_back = y / sy % 2 != 0;
            int32_t last = phase % sx + (wide - 1 - phase % sx) / sx * sx;
            for (int32_t x = phase % sx; x < wide; x += sx) {
                emit_position(l, o, end, py + y, px + (is_back ? last + phase % sx - x : x), first, inner);
                count++;
                for (int32_t i = 0; count % multiple == 0 && i < extra; i++) {
                    emit_position(l, o, end, -1, 0, first, inner);
                }
            }
        }
    }
    for (int32_t left = count % multiple == 0 ? 0 : multiple - count % multiple + extra; left > 0; left--) {
        emit_position(l, o, end, -1, 0, first, inner);
    }
}

static void order(const layer_t *l)
{
    int32_t block = l->is_part_kernel                                        ? 16
                    : l->macs <= 256 && l->microblock == 16 && !l->is_sparse ? 32
                    : l->is_sparse && !l->is_short                           ? 128
                                                                             : 64;
    int32_t inner = l->is_depthwise ? 1 : l->is_part_kernel && l->is_short && !l->is_sparse ? 8 : block;
    int32_t blocks = l->is_depthwise ? 1 : (l->inputs + block - 1) / block;
    memset(counts, 0, sizeof counts);
    for (int32_t from = 0; from < l->outputs; from += l->block) {
        int32_t end = l->outputs - from < l->block ? l->outputs : from + l->block;
        for (int32_t b = 0; b < blocks; b++) {
            int32_t first = (from / l->block % 2 == 0 ? b : blocks - 1 - b) * block;
            int32_t these = l->is_depthwise ? 1 : l->inputs - first < block ? l->inputs - first : block;
            for (int32_t part = 0; part < (l->kernel_w + 7) / 8 * ((l->kernel_h + 7) / 8); part++) {
                int32_t px = part / ((l->kernel_h + 7) / 8) * 8, py = part % ((l->kernel_h + 7) / 8) * 8;
                for (int32_t i = 0; i < these; i += inner) {
                    for (int32_t o = from; o < end; o += l->microblock) {
                        emit_microblock(l, o, end, py, px, first + i, inner);
                    }
                }
            }
        }
    }
}

/* A weight with its sign in the lowest bit. */
static uint32_t folded(int32_t weight)
{
    return (uint32_t)abs(weight) << 1 | (weight < 0 ? 1U : 0U);
}

/* Slices that are not compressed. */
static size_t put_packed(uint8_t *bytes, int32_t stream)
{
    bits_t bits = {bytes, 0};
    for (size_t from = 0; from < counts[stream]; from += 4096) {
        size_t count = counts[stream] - from < 4096 ? counts[stream] - from : 4096;
        const uint32_t header[][2] = {{6, 3}, {(uint32_t)count - 1, 15}, {7, 3}, {0, 1}, {1, 1}, {0, 10}, {7, 3}};
        for (size_t i = 0; i < sizeof header / sizeof header[0]; i++) {
            put_bits(&bits, header[i][0], header[i][1]);
        }
        for (size_t i = 0; i < count; i++) {
            put_bits(&bits, folded(ordered[stream][from + i]), 9);
        }
    }
    return (bits.at + 7) / 8;
}

/* The fast format: of 8 bits, or numbers of entries of a table, which weights of -7 to 8 are. */
static size_t put_fast(uint8_t *bytes, const layer_t *l, bool is_raw, bool is_small)
{
    bits_t bits = {bytes, 0};
    put_bits(&bits, is_raw ? 1 : 0, 1);
    put_bits(&bits, is_small ? 1 : 0, 1);
    for (int32_t i = 0; i < 102; i++) {
        put_bits(&bits, 0, 1);
    }
    put_bits(&bits, ADJUSTMENT, 8);
    for (int32_t i = 0; i < 16; i++) {
        put_bits(&bits, folded(i - 7), 9);
    }
    int32_t inner = l->is_part_kernel                                        ? (l->is_short && !l->is_sparse ? 8 : 16)
                    : l->macs <= 256 && l->microblock == 16 && !l->is_sparse ? 32
                    : l->is_sparse && !l->is_short                           ? 128
                                                                             : 64;
    int32_t multiple = !l->is_part_kernel ? 1 : l->is_short || l->is_sparse ? 10 : 5;
    size_t step = (size_t)(l->microblock * inner * multiple / l->streams);
    for (size_t from = 0; from < counts[0]; from += step) {
        for (int32_t s = 0; s < l->streams; s++) {
            for (size_t i = from; i < from + step; i++) {
                int32_t weight = ordered[s][i];
                put_bits(&bits, (uint32_t)(is_raw ? weight + ADJUSTMENT : weight + 7) & 0xFFU,
                         is_raw     ? 8
                         : is_small ? 2
                                    : 4);
            }
        }
    }
    return (bits.at + 7) / 8;
}

static layer_t any_layer(uint64_t *state, const config_t *config, bool is_depthwise)
{
    layer_t l = {.is_depthwise = is_depthwise, .streams = config->streams, .macs = config->macs};
    l.microblock = config->macs / 8 / pixels[config->microblocks[test_between(state, 0, 2)]];
    if (is_depthwise && l.microblock > 16) {
        l.microblock = 16;
    }
    l.inputs = test_between(state, 1, is_depthwise ? 40 : 70);
    l.outputs = is_depthwise ? l.inputs : test_between(state, 1, 40);
    l.kernel_h = test_between(state, 1, is_depthwise ? 9 : 3);
    l.kernel_w = test_between(state, 1, 3);
    l.stride_h = test_between(state, 1, 3);
    l.stride_w = test_between(state, 1, 2);
    l.block = l.microblock * test_between(state, 1, 2);
    l.is_part_kernel = !is_depthwise && test_between(state, 0, 1) == 1;
    l.is_short = test_between(state, 0, 3) == 0;
    l.is_fast = !is_depthwise && test_between(state, 0, 1) == 1;
    l.is_sparse = !is_depthwise && test_between(state, 0, 3) == 0;
    return l;
}

static void put_layer(uint64_t *state, stream_t *stream, const layer_t *l, uint32_t microblock, const int32_t *bias,
                      const uint32_t *scale, const uint32_t *shift)
{
    uint8_t *memory = stream->memory.regions[0].data;
    bool is_raw = test_between(state, 0, 1) == 1, is_small = !is_raw && test_between(state, 0, 1) == 1;
    for (size_t i = 0; i < MOST_WEIGHTS; i++) {
        int32_t largest = is_raw || !l->is_fast ? 120 : is_small ? -4 : 8;
        weights[i] = (int16_t)test_between(state, l->is_fast && !is_raw ? -7 : -120, largest);
    }
    order(l);
    stream_short(stream, REG_WEIGHT_REGION, 0);
    stream_short(stream, REG_SCALE_REGION, 0);
    stream_short(stream, REG_WEIGHT_FORMAT, (l->is_fast ? 1U : 0U) | (l->is_sparse ? 1U << 4 : 0U));
    stream_short(stream, REG_ACC_FORMAT, (l->is_short ? 1U : 0U) | microblock << 8);
    stream_short(stream, REG_OFM_BLK_DEPTH_M1, (uint32_t)l->block - 1);
    static const uint16_t registers[] = {REG_WEIGHT_BASE, REG_WEIGHT1_BASE, REG_WEIGHT2_BASE, REG_WEIGHT3_BASE};
    for (int32_t s = 0; s < (l->is_fast ? 1 : l->streams); s++) {
        size_t at = WEIGHTS_AT + (size_t)s * STREAM_AT;
        size_t bytes = l->is_fast ? put_fast(memory + at, l, is_raw, is_small) : put_packed(memory + at, s);
        stream_long(stream, registers[s], at);
        stream_long(stream, registers[s] + 1U, bytes);
    }
    for (int32_t o = 0; o < l->outputs; o++) {
        bits_t bits = {memory + SCALES_AT + o * 10, 0};
        put_bits(&bits, (uint32_t)bias[o], 32);
        put_bits(&bits, l->is_short && bias[o] < 0 ? 0xFFFF : 0, l->is_short ? 16 : 0);
        put_bits(&bits, scale[o], l->is_short ? 16 : 32);
        put_bits(&bits, shift[o], 16);
    }
    stream_long(stream, REG_SCALE_BASE, SCALES_AT);
    stream_long(stream, REG_SCALE_LENGTH, (uint64_t)l->outputs * 10);
}

/* True when the streams' places are large enough for a layer's weights of 9 bits, or the fast one's of 8. */
static bool fits(const layer_t *l)
{
    size_t most = l->is_fast ? STREAM_MEMORY - WEIGHTS_AT - 64 : STREAM_AT - 64;
    int32_t inputs = l->is_depthwise ? 1 : (l->inputs + 127) / 128 * 128;
    int32_t positions = (l->kernel_h * l->kernel_w + 9) / 10 * 10 + 12;
    int32_t outputs = (l->outputs + l->block - 1) / l->block * l->block;
    size_t each = (size_t)inputs * (size_t)positions * (size_t)outputs / (size_t)l->streams;
    return (l->is_fast ? each * (size_t)l->streams : each * 9 / 8) < most && each < MOST_ORDERED;
}

static void test_layer(uint64_t *state, bool is_depthwise)
{
    const config_t *config = any_config(state);
    layer_t l = any_layer(state, config, is_depthwise);
    while (!fits(&l)) {
        l = any_layer(state, config, is_depthwise);
    }
    uint32_t microblock = 0;
    while (config->macs / 8 / pixels[microblock] != l.microblock) {
        microblock++;
    }
    stream_t stream;
    stream_new(&stream, config->name, state);
    const int32_t sizes[3] = {test_between(state, 1, 3), test_between(state, 1, 3), l.outputs};
    u85_turn_t turn = u85_any_turn(state);
    uint32_t bytes = l.is_short ? 2 : 1, rounding = (uint32_t)test_between(state, 0, 5);
    test_map_t in = u85_any_map(state, IN_AT, (sizes[0] - 1) * l.stride_h + l.kernel_h,
                                (sizes[1] - 1) * l.stride_w + l.kernel_w, l.inputs, bytes);
    test_map_t out = u85_turned_map(state, &turn, sizes, bytes);
    int32_t bias[40];
    uint32_t scale[40], shift[40];
    for (int32_t o = 0; o < l.outputs; o++) {
        bias[o] = test_between(state, -100000, 100000);
        scale[o] = (uint32_t)test_between(state, 0, l.is_short ? 0x7FFF : 1 << 30);
        shift[o] = (uint32_t)test_between(state, l.is_short ? 16 : 30, l.is_short ? 30 : 46);
    }
    for (uint16_t pad = REG_IFM_PAD_TOP; pad <= REG_IFM_PAD_BOTTOM; pad++) {
        stream_short(&stream, pad, 0);
    }
    stream_short(&stream, REG_IFM_DEPTH_M1, (uint32_t)l.inputs - 1);
    stream_short(&stream, REG_IFM_UPSCALE, 0);
    stream_short(&stream, REG_KERNEL_HEIGHT_M1, (uint32_t)l.kernel_h - 1);
    stream_short(&stream, REG_KERNEL_WIDTH_M1, (uint32_t)l.kernel_w - 1);
    uint32_t x = (uint32_t)l.stride_w - 1, y = (uint32_t)l.stride_h - 1;
    stream_short(&stream, REG_KERNEL_STRIDE,
                 (x & 1U) | (y & 1U) << 1 | (l.is_part_kernel ? 4U : 0U) | (x >> 1) << 6 | (y >> 1) << 9);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    u85_put_output(&stream, &turn, sizes, &out, false);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, 0, rounding);
    put_layer(state, &stream, &l, microblock, bias, scale, shift);
    stream_op(&stream, is_depthwise ? DTN_ETHOSU_OP_DEPTHWISE : DTN_ETHOSU_OP_CONV, 0);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    CHECK_EQUAL(event.opcode, DTN_ETHOSU_OP_STOP);
    int32_t depth = is_depthwise ? 1 : l.inputs;
    for (int32_t at = 0; at < sizes[0] * sizes[1] * sizes[2]; at++) {
        int32_t oy = at / sizes[2] / sizes[1], ox = at / sizes[2] % sizes[1], o = at % sizes[2];
        int64_t sum = bias[o];
        for (int32_t term = 0; term < l.kernel_h * l.kernel_w * depth; term++) {
            int32_t ky = term / depth / l.kernel_w, kx = term / depth % l.kernel_w, i = term % depth;
            sum += (int64_t)map_value(&stream, &in, oy * l.stride_h + ky, ox * l.stride_w + kx, is_depthwise ? o : i) *
                   weight_at(&l, o, ky, kx, i);
        }
        CHECK_EQUAL(u85_turned_value(&stream, &turn, &out, oy, ox, o),
                    u85_finished(&out, u85_scaled(sum, scale[o], shift[o], rounding)));
    }
    stream_free(&stream);
}

/* One random call of each. */
static void test_seed(uint64_t *state)
{
    test_layer(state, false);
    test_layer(state, true);
}

int main(int count, char **arguments)
{
    each_seed(count, arguments, test_seed);
    return test_result();
}
