/* Random products of two inputs, kept sums and resizes of an Ethos-U85 against plain C; arguments: how many of each,
 * the seed. */
#include <string.h>

#include "ethosu_85.h"
#include "test.h"

enum { IN_AT = 0x100, SECOND_AT = 0x3000, START_AT = 0x6000 };

/* A product of two inputs whose sums start at those that an operation before it kept: of 32 bits. */
static void test_product(uint64_t *state)
{
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    const int32_t sizes[3] = {1, test_between(state, 1, 6), test_between(state, 1, 20)};
    int32_t depth = test_between(state, 1, 40);
    uint32_t bytes = (uint32_t)test_between(state, 1, 2), shift = (uint32_t)test_between(state, 20, 40);
    uint32_t scale = (uint32_t)test_between(state, 1, 1 << 20), rounding = (uint32_t)test_between(state, 0, 5);
    u85_turn_t turn = u85_any_turn(state);
    test_map_t in = u85_any_map(state, IN_AT, 1, sizes[1], depth, bytes);
    test_map_t second = u85_any_map(state, SECOND_AT, 1, sizes[2], depth, bytes);
    test_map_t start = u85_any_map(state, START_AT, 1, sizes[1], sizes[2], 4);
    test_map_t out = u85_turned_map(state, &turn, sizes, 1);
    in.is_signed = second.is_signed = start.is_signed = true;
    in.zero_point = second.zero_point = bytes == 1 ? -3 : 0;
    u85_put_window(&stream, depth, 1, 1);
    u85_put_output(&stream, &turn, sizes, &out, true);
    u85_put_scale(&stream, REG_OFM_SCALE, scale, shift, rounding);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &start, 0);
    stream_short(&stream, REG_ACC_FORMAT, 2U << 4 | 1U << 6);
    stream_op(&stream, DTN_ETHOSU_OP_POOL, 4);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &second, 0);
    stream_short(&stream, REG_OFM_BLK_DEPTH_M1, 15);
    stream_short(&stream, REG_ACC_FORMAT, 1U << 4);
    stream_op(&stream, DTN_ETHOSU_OP_CONV, 1);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (int32_t at = 0; at < sizes[1] * sizes[2]; at++) {
        int32_t x = at / sizes[2], c = at % sizes[2];
        int64_t sum = map_value(&stream, &start, 0, x, c);
        for (int32_t i = 0; i < depth; i++) {
            sum += (int64_t)map_value(&stream, &in, 0, x, i) * map_value(&stream, &second, 0, c, i);
        }
        CHECK_EQUAL(u85_turned_value(&stream, &turn, &out, 0, x, c),
                    u85_finished(&out, u85_scaled(sum, scale, shift, rounding)));
    }
    stream_free(&stream);
}

/* A product whose second input and output have one place in a chain: what it reads was there before. */
static void test_chained_product(uint64_t *state)
{
    const uint32_t chained = (uint32_t)DTN_ETHOSU_CHAINED << 14;
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    const int32_t depth = test_between(state, 1, 20);
    const int32_t sizes[3] = {1, test_between(state, 1, 6), test_between(state, 1, 20)};
    const int32_t second_sizes[3] = {1, sizes[2], depth};
    test_map_t in = {1, IN_AT, 1, sizes[1], depth, 1, true, false, 0};
    test_map_t second = {1, SECOND_AT, 1, sizes[2], depth, 1, true, false, 0}, between = second;
    test_map_t out = {1, U85_OUT_AT, 1, sizes[1], sizes[2], 1, true, false, 0}, behind = out;
    between.region = behind.region = 2;
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    u85_put_window(&stream, depth, 1, 1);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &second, 0);
    u85_put_output(&stream, &none, second_sizes, &between, true);
    stream_short(&stream, REG_OFM_PRECISION, 1U | 1U << 8 | chained);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, 0, 1);
    stream_short(&stream, REG_ACC_FORMAT, 0);
    stream_op(&stream, DTN_ETHOSU_OP_POOL, 0);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &between, chained);
    u85_put_output(&stream, &none, sizes, &behind, true);
    stream_short(&stream, REG_OFM_PRECISION, 1U | 1U << 8 | chained);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, 9, 1);
    stream_short(&stream, REG_OFM_BLK_DEPTH_M1, 15);
    stream_op(&stream, DTN_ETHOSU_OP_CONV, 1);
    u85_put_window(&stream, sizes[2], 1, 1);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &behind, chained);
    u85_put_output(&stream, &none, sizes, &out, true);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, 0, 1);
    stream_op(&stream, DTN_ETHOSU_OP_POOL, 0);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (int32_t at = 0; at < sizes[1] * sizes[2]; at++) {
        int32_t x = at / sizes[2], c = at % sizes[2];
        int64_t sum = 0;
        for (int32_t i = 0; i < depth; i++) {
            sum += (int64_t)map_value(&stream, &in, 0, x, i) * map_value(&stream, &second, 0, c, i);
        }
        CHECK_EQUAL(map_stored(&stream, &out, 0, x, c), u85_finished(&out, u85_scaled(sum, 1, 9, 1)));
    }
    stream_free(&stream);
}

static int32_t held(int32_t value, int32_t size)
{
    return value < 0 ? 0 : value >= size ? size - 1 : value;
}

/* The larger of a number's place and the one before it, rounded down. */
static int32_t divided_down(int32_t value, int32_t by)
{
    return value >= 0 ? value / by : -((by - 1 - value) / by);
}

/* Elements of up to `most` parts; many parts are of int16, and their sums beyond 32 bits. */
static void test_resize(uint64_t *state, int32_t most)
{
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    bool is_large = most > 9, is_nearest = !is_large && test_between(state, 0, 1) == 1;
    const int32_t sizes[3] = {test_between(state, 1, 9), test_between(state, 1, 9), test_between(state, 1, 20)};
    const int32_t parts[2] = {test_between(state, 1, most), test_between(state, 1, most)};
    const int32_t steps[2] = {test_between(state, 1, 12), test_between(state, 1, 12)};
    int32_t from[2];
    uint32_t shift = 16 + (is_nearest ? 0 : (uint32_t)test_between(state, 0, 6));
    u85_turn_t turn = u85_any_turn(state);
    uint32_t bytes = is_large ? 2 : (uint32_t)test_between(state, 1, 2);
    test_map_t in = u85_any_map(state, IN_AT, test_between(state, 1, 6), test_between(state, 1, 6), sizes[2], bytes);
    bool is_wide = is_large || (!is_nearest && test_between(state, 0, 1) == 1);
    test_map_t out = u85_turned_map(state, &turn, sizes, is_nearest ? bytes : is_wide ? 8 : 4);
    u85_put_window(&stream, sizes[2], in.height, in.width);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    u85_put_output(&stream, &turn, sizes, &out, true);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, shift, 1);
    for (uint32_t i = 0; i < 2; i++) {
        from[i] = test_between(state, -parts[i], parts[i] - 1);
        stream_short(&stream, i == 0 ? REG_RESIZE_Y_SCALE_N_M1 : REG_RESIZE_X_SCALE_N_M1, (uint32_t)parts[i] - 1);
        stream_short(&stream, i == 0 ? REG_RESIZE_Y_OFFSET : REG_RESIZE_X_OFFSET, (uint32_t)from[i] & 0xFFFU);
        stream_long(&stream, i == 0 ? REG_RESIZE_Y_STEP : REG_RESIZE_X_STEP,
                    (uint64_t)(steps[i] / parts[i]) << 32 | (uint32_t)(steps[i] % parts[i]));
    }
    stream_op(&stream, DTN_ETHOSU_OP_RESIZE, is_nearest ? 2 : 0);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (int32_t at = 0; at < sizes[0] * sizes[1] * sizes[2]; at++) {
        int32_t oy = at / sizes[2] / sizes[1], ox = at / sizes[2] % sizes[1], c = at % sizes[2];
        int32_t y = oy * steps[0] + from[0], x = ox * steps[1] + from[1];
        int32_t iy = divided_down(y, parts[0]), ix = divided_down(x, parts[1]);
        int32_t dy = y - iy * parts[0], dx = x - ix * parts[1];
        int32_t ys[2] = {held(iy, in.height), held(iy + 1, in.height)};
        int32_t xs[2] = {held(ix, in.width), held(ix + 1, in.width)};
        int64_t sum = 0;
        for (int32_t i = 0; i < 4; i++) {
            int64_t of_row = i / 2 == 0 ? parts[0] - dy : dy, of_column = i % 2 == 0 ? parts[1] - dx : dx;
            sum += map_value(&stream, &in, ys[i / 2], xs[i % 2], c) * of_row * of_column;
        }
        if (is_nearest) {
            sum = map_value(&stream, &in, ys[2 * dy >= parts[0]], xs[2 * dx >= parts[1]], c);
        }
        int64_t scaled = u85_scaled(sum, 1, shift - 16, 1);
        CHECK_EQUAL(u85_turned_value(&stream, &turn, &out, oy, ox, c), is_wide ? scaled : u85_finished(&out, scaled));
    }
    stream_free(&stream);
}

/* A product of 32 bits is shifted only: the scale of the register has no effect. */
static void test_wide_product(uint64_t *state)
{
    const int32_t sizes[3] = {1, 2, 5};
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    uint32_t shift = (uint32_t)test_between(state, 31, 40), rounding = (uint32_t)test_between(state, 0, 5);
    static const uint32_t scales[] = {1, 1U << 30, 3};
    uint32_t scale = scales[test_between(state, 0, 2)];
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    test_map_t a = {1, IN_AT, 1, 2, 5, 4, true, false, 0}, b = {1, SECOND_AT, 1, 2, 5, 4, true, true, 0};
    test_map_t out = {1, U85_OUT_AT, 1, 2, 5, 4, true, false, 0};
    stream_map(&stream, &dtn_ethosu_ifm_registers, &a, 0);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &b, 0);
    stream_short(&stream, REG_IFM_UPSCALE, 0);
    stream_short(&stream, REG_IFM_BROADCAST, 0);
    stream_short(&stream, REG_IFM2_BROADCAST, 0);
    u85_put_output(&stream, &none, sizes, &out, true);
    u85_put_scale(&stream, REG_IFM_SCALE, 1, 0, 0);
    u85_put_scale(&stream, REG_IFM2_SCALE, 1, 0, 0);
    u85_put_scale(&stream, REG_OFM_SCALE, scale, shift, rounding);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, 0);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    CHECK_EQUAL(event.detail, 0);
    for (int32_t i = 0; i < 10; i++) {
        int64_t product = (int64_t)map_value(&stream, &a, 0, i / 5, i % 5) * map_value(&stream, &b, 0, i / 5, i % 5);
        CHECK_EQUAL(map_stored(&stream, &out, 0, i / 5, i % 5),
                    u85_finished(&out, u85_scaled(product, 1, shift, rounding)));
    }
    stream_free(&stream);
}

/* Sums that leave 64 bits go round: those that a product starts at, and those that get a bias. */
static void test_large_sums(uint64_t *state)
{
    const int32_t sizes[3] = {1, 1, 1};
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    const uint8_t scales[10] = {1, 0, 0, 0, 1};
    const int64_t most = INT64_MAX;
    const int16_t one = 1;
    test_map_t in = {1, IN_AT, 1, 1, 1, 2, true, false, 0}, second = {1, SECOND_AT, 1, 1, 1, 2, true, false, 0};
    test_map_t start = {1, START_AT, 1, 1, 1, 8, true, false, 0}, out = {1, U85_OUT_AT, 1, 1, 1, 1, true, false, 0};
    for (uint32_t is_product = 0; is_product < 2; is_product++) {
        stream_t stream;
        stream_new(&stream, u85_any_config(state), state);
        memcpy(stream.memory.regions[0].data, scales, sizeof scales);
        memcpy(stream.memory.regions[1].data + IN_AT, &one, sizeof one);
        memcpy(stream.memory.regions[1].data + SECOND_AT, &one, sizeof one);
        memcpy(stream.memory.regions[1].data + START_AT, &most, sizeof most);
        u85_put_window(&stream, 1, 1, 1);
        u85_put_output(&stream, &none, sizes, &out, is_product == 1);
        u85_put_scale(&stream, REG_OFM_SCALE, 1, 0, 0);
        stream_short(&stream, REG_SCALE_REGION, 0);
        stream_long(&stream, REG_SCALE_BASE, 0);
        stream_long(&stream, REG_SCALE_LENGTH, sizeof scales);
        stream_map(&stream, &dtn_ethosu_ifm2_registers, &start, 0);
        stream_short(&stream, REG_IFM2_PRECISION, 1U | 3U << 2);
        stream_short(&stream, REG_ACC_FORMAT, 2U << 4 | is_product << 6);
        stream_op(&stream, DTN_ETHOSU_OP_POOL, 4);
        if (is_product == 1) {
            stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
            stream_map(&stream, &dtn_ethosu_ifm2_registers, &second, 0);
            stream_short(&stream, REG_OFM_BLK_DEPTH_M1, 15);
            stream_short(&stream, REG_ACC_FORMAT, 1U << 4);
            stream_op(&stream, DTN_ETHOSU_OP_CONV, 1);
        }
        dtn_ethosu_event_t event;
        CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
        CHECK_EQUAL(map_stored(&stream, &out, 0, 0, 0), INT8_MIN);
        stream_free(&stream);
    }
}

/* One random call of each. */
static void test_seed(uint64_t *state)
{
    test_product(state);
    test_chained_product(state);
    test_resize(state, 9);
    test_resize(state, 2048);
    test_wide_product(state);
}

int main(int count, char **arguments)
{
    uint64_t any = 1;
    test_large_sums(&any);
    each_seed(count, arguments, test_seed);
    return test_result();
}
