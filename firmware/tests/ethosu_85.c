#include "ethosu_85.h"

#include "test.h"

const char *u85_any_config(uint64_t *state)
{
    static const char *const configs[] = {"ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024",
                                          "ethos-u85-2048"};
    return configs[test_between(state, 0, 4)];
}

test_map_t u85_any_map(uint64_t *state, uint32_t base, int32_t height, int32_t width, int32_t depth, uint32_t bytes)
{
    test_map_t map = {1, base, height, width, depth, bytes, true, test_between(state, 0, 1) == 1, 0};
    map.is_signed = bytes != 1 || test_between(state, 0, 3) > 0;
    map.zero_point = bytes != 1 ? 0 : map.is_signed ? test_between(state, -128, 127) : test_between(state, 0, 255);
    return map;
}

int64_t u85_scaled(int64_t value, int64_t scale, uint32_t shift, uint32_t rounding)
{
    int64_t product = value * scale;
    int64_t power = INT64_C(1) << shift;
    int64_t first = shift > 31 ? INT64_C(1) << 30 : 0;
    int64_t added[] = {power / 2 + (value < 0 ? -first : first), power / 2, power / 2 + first,
                       value < 0 ? power / 2 - 1 : power / 2,    0,         0};
    if (shift == 0 || rounding == 4) {
        return product / power;
    }
    int64_t sum = product + added[rounding];
    return sum >= 0 ? sum / power : -((-sum + power - 1) / power);
}

int32_t u85_finished(const test_map_t *out, int64_t value)
{
    int64_t lo = out->is_signed ? -(INT64_C(1) << (8 * out->bytes - 1)) : 0;
    int64_t hi = out->is_signed ? (INT64_C(1) << (8 * out->bytes - 1)) - 1 : (INT64_C(1) << (8 * out->bytes)) - 1;
    int64_t sum = value + out->zero_point;
    return (int32_t)(sum < lo ? lo : sum > hi ? hi : sum);
}

u85_turn_t u85_any_turn(uint64_t *state)
{
    static const u85_turn_t turns[] = {
        {{0, 1, 2}, 3, 0},        {{1, 0, 2}, 3, 1U << 11}, {{0, 2, 1}, 3, 2U << 11},
        {{1, 2, 0}, 3, 3U << 11}, {{2, 0, 1}, 3, 6U << 11}, {{2, 1, 0}, 3, 7U << 11},
        {{0, 1, 2}, 0, 1U << 9},  {{0, 1, 2}, 1, 2U << 9},  {{0, 1, 2}, 2, 3U << 9},
    };
    return turns[test_between(state, 0, 1) == 0 ? 0 : test_between(state, 0, 8)];
}

test_map_t u85_turned_map(uint64_t *state, const u85_turn_t *turn, const int32_t *sizes, uint32_t bytes)
{
    return u85_any_map(state, U85_OUT_AT, sizes[turn->axes[0]], sizes[turn->axes[1]], sizes[turn->axes[2]], bytes);
}

int64_t u85_turned_value(const stream_t *stream, const u85_turn_t *turn, const test_map_t *out, int32_t y, int32_t x,
                         int32_t c)
{
    const int32_t from[3] = {y, x, c}, sizes[3] = {out->height, out->width, out->depth};
    int32_t to[3];
    for (int32_t i = 0; i < 3; i++) {
        to[i] = from[turn->axes[i]];
        to[i] = i == turn->reversed ? sizes[i] - 1 - to[i] : to[i];
    }
    return map_stored(stream, out, to[0], to[1], to[2]);
}

void u85_put_output(stream_t *stream, const u85_turn_t *turn, const int32_t *sizes, const test_map_t *out,
                    bool is_global)
{
    stream_short(stream, REG_OFM_HEIGHT_M1, (uint32_t)sizes[0] - 1);
    stream_short(stream, REG_OFM_WIDTH_M1, (uint32_t)sizes[1] - 1);
    stream_short(stream, REG_OFM_DEPTH_M1, (uint32_t)sizes[2] - 1);
    stream_map(stream, &dtn_ethosu_ofm_registers, out, turn->fields | (is_global ? 1U << 8 : 0U));
    stream_short(stream, REG_ACTIVATION, out->bytes >= 4 ? 1U << 12 : 0U);
    stream_short(stream, REG_ACTIVATION_MIN, !out->is_signed ? 0 : out->bytes == 1 ? 0xFF80 : 0x8000);
    stream_short(stream, REG_ACTIVATION_MAX, !out->is_signed ? 0xFF : out->bytes == 1 ? 0x7F : 0x7FFF);
}

void u85_put_scale(stream_t *stream, uint32_t opcode, uint32_t scale, uint32_t shift, uint32_t rounding)
{
    stream_long(stream, opcode, (uint64_t)(shift | rounding << 13) << 32 | scale);
}

void u85_put_window(stream_t *stream, int32_t depth, int32_t kernel_h, int32_t kernel_w)
{
    for (uint16_t pad = REG_IFM_PAD_TOP; pad <= REG_IFM_PAD_BOTTOM; pad++) {
        stream_short(stream, pad, 0);
    }
    stream_short(stream, REG_IFM_DEPTH_M1, (uint32_t)depth - 1);
    stream_short(stream, REG_IFM_UPSCALE, 0);
    stream_short(stream, REG_KERNEL_HEIGHT_M1, (uint32_t)kernel_h - 1);
    stream_short(stream, REG_KERNEL_WIDTH_M1, (uint32_t)kernel_w - 1);
    stream_short(stream, REG_KERNEL_STRIDE, 0);
}
