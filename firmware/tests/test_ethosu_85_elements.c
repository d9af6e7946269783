/* Random pools into chains and elementwise operations of an Ethos-U85 against plain C; arguments: how many of each, the
 * seed. */
#include <string.h>

#include "ethosu_85.h"
#include "test.h"

enum { IN_AT = 0x100, SECOND_AT = 0x3000, OP_IRQ = 0x001 };

/* A pool of a kind, into a chain, and what is added to it from there: both without scales. */
static void test_chain(uint64_t *state)
{
    static const uint32_t kinds[] = {0, 3, 5};
    uint32_t kind = kinds[test_between(state, 0, 2)];
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    const int32_t sizes[3] = {test_between(state, 1, 3), test_between(state, 1, 4), test_between(state, 1, 40)};
    int32_t kernel_h = test_between(state, 1, 3), kernel_w = test_between(state, 1, 3);
    u85_turn_t turn = u85_any_turn(state), none = {{0, 1, 2}, 3, 0};
    test_map_t in = u85_any_map(state, IN_AT, sizes[0] + kernel_h - 1, sizes[1] + kernel_w - 1, sizes[2], 1);
    test_map_t between = {2, 0, sizes[0], sizes[1], sizes[2], 4, true, false, 0};
    test_map_t second = u85_any_map(state, SECOND_AT, sizes[0], sizes[1], sizes[2], 4);
    test_map_t out = u85_turned_map(state, &turn, sizes, 4);
    u85_put_window(&stream, sizes[2], kernel_h, kernel_w);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    u85_put_output(&stream, &none, sizes, &between, true);
    stream_short(&stream, REG_OFM_PRECISION, 1U | 2U << 1 | 1U << 8 | (uint32_t)DTN_ETHOSU_CHAINED << 14);
    for (uint32_t scale = REG_OFM_SCALE; scale <= REG_IFM2_SCALE; scale++) {
        u85_put_scale(&stream, scale, 1, 0, 1);
    }
    stream_short(&stream, REG_ACC_FORMAT, 0);
    stream_op(&stream, DTN_ETHOSU_OP_POOL, kind);
    stream_op(&stream, OP_IRQ, 0);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &between, 0);
    stream_short(&stream, REG_IFM_PRECISION, 1U | 2U << 2 | (uint32_t)DTN_ETHOSU_CHAINED << 14);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &second, 0);
    stream_short(&stream, REG_IFM_BROADCAST, 0);
    stream_short(&stream, REG_IFM2_BROADCAST, 0);
    u85_put_output(&stream, &turn, sizes, &out, true);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, 34);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (int32_t at = 0; at < sizes[0] * sizes[1] * sizes[2]; at++) {
        int32_t y = at / sizes[2] / sizes[1], x = at / sizes[2] % sizes[1], c = at % sizes[2];
        int32_t pooled = map_value(&stream, &in, y, x, c);
        for (int32_t place = 1; place < kernel_h * kernel_w; place++) {
            int32_t value = map_value(&stream, &in, y + place / kernel_w, x + place % kernel_w, c);
            pooled = kind == 3 ? pooled + value : (kind == 0) == (value > pooled) ? value : pooled;
        }
        CHECK_EQUAL(u85_turned_value(&stream, &turn, &out, y, x, c), pooled | map_value(&stream, &second, y, x, c));
    }
    stream_free(&stream);
}

/* The result of an elementwise operation on two scaled operands. */
static int64_t element(uint32_t kind, int64_t a, int64_t b)
{
    int64_t low = a < b ? a : b, high = a < b ? b : a;
    switch (kind) {
    case 0:
        return a * b;
    case 1:
        return a + b;
    case 2:
        return a - b;
    case 3:
        return low;
    case 4:
        return high;
    case 6:
        return a < 0 ? -a : a;
    case 11:
        return b == 0 ? 0 : a / b;
    case 16:
        return a == b ? -1 : 0;
    case 17:
        return a != b ? -1 : 0;
    case 18:
        return a >= b ? -1 : 0;
    case 19:
        return a > b ? -1 : 0;
    case 33:
        return a & b;
    case 34:
        return a | b;
    case 35:
        return a ^ b;
    case 36:
        return ~a;
    default:
        return a & ~b;
    }
}

static void test_elementwise(uint64_t *state)
{
    static const uint32_t kinds[] = {0, 1, 2, 3, 4, 6, 11, 16, 17, 18, 19, 33, 34, 35, 36, 42};
    uint32_t kind = kinds[test_between(state, 0, 15)], bytes = test_between(state, 0, 2) == 0 ? 2 : 1;
    bool has_scales = (kind >= 1 && kind <= 6) || (kind >= 16 && kind <= 19),
         is_scalar = test_between(state, 0, 3) == 0;
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    const int32_t sizes[3] = {test_between(state, 1, 4), test_between(state, 1, 4), test_between(state, 1, 40)};
    uint32_t spreads[2] = {(uint32_t)test_between(state, 0, 7), is_scalar ? 8U : (uint32_t)test_between(state, 0, 7)};
    test_map_t maps[2];
    uint32_t scales[2], shifts[2], ways[2];
    u85_turn_t turn = u85_any_turn(state);
    test_map_t out = u85_turned_map(state, &turn, sizes, bytes);
    for (uint32_t i = 0; i < 2; i++) {
        maps[i] = u85_any_map(state, i == 0 ? IN_AT : SECOND_AT, (spreads[i] & 1U) != 0 ? 1 : sizes[0],
                              (spreads[i] & 2U) != 0 ? 1 : sizes[1], (spreads[i] & 4U) != 0 ? 1 : sizes[2], bytes);
        scales[i] = has_scales ? (uint32_t)test_between(state, 1, 1 << 20) : 1;
        shifts[i] = has_scales ? (uint32_t)test_between(state, 0, 20) : 0;
        ways[i] = (uint32_t)test_between(state, 0, 1);
        stream_map(&stream, i == 0 ? &dtn_ethosu_ifm_registers : &dtn_ethosu_ifm2_registers, &maps[i], 0);
        stream_short(&stream, i == 0 ? REG_IFM_BROADCAST : REG_IFM2_BROADCAST, spreads[i]);
        u85_put_scale(&stream, i == 0 ? REG_IFM_SCALE : REG_IFM2_SCALE, scales[i], shifts[i], ways[i]);
    }
    uint32_t rounding = (uint32_t)test_between(state, 0, 5), scale = (uint32_t)test_between(state, 1, 1 << 10);
    uint32_t shift = (uint32_t)test_between(state, 0, 20);
    int32_t scalar = test_between(state, -1000, 1000);
    stream_short(&stream, REG_IFM_UPSCALE, 0);
    stream_long(&stream, REG_OP_SCALAR, (uint32_t)scalar);
    u85_put_output(&stream, &turn, sizes, &out, true);
    u85_put_scale(&stream, REG_OFM_SCALE, scale, shift, rounding);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, kind);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (int32_t at = 0; at < sizes[0] * sizes[1] * sizes[2]; at++) {
        int32_t y = at / sizes[2] / sizes[1], x = at / sizes[2] % sizes[1], c = at % sizes[2];
        int64_t values[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t s = spreads[i];
            values[i] = s == 8 ? scalar - maps[i].zero_point
                               : map_value(&stream, &maps[i], (s & 1U) != 0 ? 0 : y, (s & 2U) != 0 ? 0 : x,
                                           (s & 4U) != 0 ? 0 : c);
            values[i] = has_scales ? u85_scaled(values[i], scales[i], shifts[i], ways[i]) : values[i];
        }
        int64_t expected = u85_scaled(element(kind, values[0], values[1]), scale, shift, rounding);
        CHECK_EQUAL(u85_turned_value(&stream, &turn, &out, y, x, c), u85_finished(&out, expected));
    }
    stream_free(&stream);
}

/* One random call of each. */
static void test_seed(uint64_t *state)
{
    test_chain(state);
    test_elementwise(state);
}

int main(int count, char **arguments)
{
    each_seed(count, arguments, test_seed);
    return test_result();
}
