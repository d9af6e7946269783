/* The operations of an Ethos-U85 that are refused: chains, broadcasts, formats and scales that it does not have. */
#include <string.h>

#include "ethosu_85.h"
#include "test.h"

enum { IN_AT = 0x100 };

/* A stream that a register's value or an operation ends: the fault, and its detail. */
static void check_refused(uint64_t *state, uint32_t opcode, uint64_t value, uint32_t op, uint32_t param,
                          dtn_ethosu_fault_t expected, uint64_t detail)
{
    const int32_t sizes[3] = {2, 2, 4};
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    test_map_t in = {1, IN_AT, 2, 2, 4, 1, true, false, 0};
    test_map_t out = {1, U85_OUT_AT, 2, 2, 4, 1, true, false, 0};
    stream_t stream;
    stream_new(&stream, "ethos-u85-256", state);
    u85_put_window(&stream, 4, 1, 1);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_map(&stream, &dtn_ethosu_ifm2_registers, &in, 0);
    stream_short(&stream, REG_IFM_BROADCAST, 0);
    u85_put_scale(&stream, REG_IFM_SCALE, 1, 0, 1);
    u85_put_output(&stream, &none, sizes, &out, true);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, 0, 1);
    stream_short(&stream, REG_OFM_BLK_DEPTH_M1, 15);
    stream_short(&stream, REG_ACC_FORMAT, 0);
    if (opcode >> 8 == 1) {
        stream_short(&stream, opcode, (uint32_t)value);
    } else {
        stream_long(&stream, opcode, value);
    }
    stream_op(&stream, op, param);
    dtn_ethosu_event_t event = {0};
    dtn_ethosu_fault_t fault = stream_run(&stream, &event);
    CHECK(fault == expected, "`%s` instead of `%s`", dtn_ethosu_message(fault), dtn_ethosu_message(expected));
    CHECK_EQUAL(event.detail, detail);
    stream_free(&stream);
}

/* A resize to 64-bit results, with a register value whose effect on these is not documented. */
static void check_wide(uint64_t *state, uint32_t opcode, uint32_t value, dtn_ethosu_fault_t expected)
{
    const int32_t sizes[3] = {2, 2, 4};
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    test_map_t in = {1, IN_AT, 2, 2, 4, 1, true, false, 0};
    test_map_t out = {1, U85_OUT_AT, 2, 2, 4, 8, true, false, 0};
    stream_t stream;
    stream_new(&stream, "ethos-u85-256", state);
    u85_put_window(&stream, 4, 2, 2);
    stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
    u85_put_output(&stream, &none, sizes, &out, true);
    u85_put_scale(&stream, REG_OFM_SCALE, 1, 16, 1);
    for (uint32_t axis = 0; axis < 2; axis++) {
        stream_short(&stream, axis == 0 ? REG_RESIZE_Y_SCALE_N_M1 : REG_RESIZE_X_SCALE_N_M1, 0);
        stream_short(&stream, axis == 0 ? REG_RESIZE_Y_OFFSET : REG_RESIZE_X_OFFSET, 0);
        stream_long(&stream, axis == 0 ? REG_RESIZE_Y_STEP : REG_RESIZE_X_STEP, UINT64_C(1) << 32);
    }
    stream_short(&stream, opcode, value);
    stream_op(&stream, DTN_ETHOSU_OP_RESIZE, 0);
    dtn_ethosu_event_t event = {0};
    CHECK_EQUAL(stream_run(&stream, &event), expected);
    CHECK_EQUAL(event.detail, expected == DTN_ETHOSU_OK ? 0 : opcode);
    stream_free(&stream);
}

static void test_refused(uint64_t *state)
{
    const uint32_t average = 1, sum = 3, chained = 2U << 14, pool = DTN_ETHOSU_OP_POOL, precision = REG_OFM_PRECISION;
    const uint32_t reversed = 1U | 1U << 8 | 1U << 9, turned = 1U | 1U << 8 | 1U << 11;
    check_refused(state, REG_ACC_FORMAT, 0, pool, sum, DTN_ETHOSU_OK, 0);
    check_refused(state, REG_ACC_FORMAT, 0, pool, 6, DTN_ETHOSU_ARGMAX, pool);
    check_refused(state, REG_ACC_FORMAT, 1U << 4, pool, sum, DTN_ETHOSU_UNSUPPORTED, REG_ACC_FORMAT);
    check_refused(state, REG_ACC_FORMAT, 1U << 4, pool, 4, DTN_ETHOSU_REGION, REG_ACC_FORMAT);
    check_refused(state, REG_ACC_FORMAT, 3U << 4, pool, 4, DTN_ETHOSU_FIELD, REG_ACC_FORMAT);
    check_refused(state, precision, 1U | 1U << 8 | 4U << 11, pool, sum, DTN_ETHOSU_FIELD, precision);
    check_refused(state, precision, 1U | 1U << 8 | 1U << 14, pool, sum, DTN_ETHOSU_TILES, precision);
    check_refused(state, precision, turned, pool, sum, DTN_ETHOSU_OK, 0);
    check_refused(state, precision, turned | reversed, pool, sum, DTN_ETHOSU_UNSUPPORTED, precision);
    check_refused(state, precision, turned | chained, pool, sum, DTN_ETHOSU_UNSUPPORTED, precision);
    check_refused(state, precision, reversed | chained, pool, sum, DTN_ETHOSU_UNSUPPORTED, precision);
    check_refused(state, REG_OFM_SCALE, 1, pool, average, DTN_ETHOSU_OK, 0);
    /* A window of one element is scaled as any value. */
    check_refused(state, REG_OFM_SCALE, 2, pool, average, DTN_ETHOSU_OK, 0);
    check_refused(state, REG_OFM_SCALE, UINT64_C(1) << 32 | 1U, pool, average, DTN_ETHOSU_OK, 0);
    check_refused(state, REG_IFM_BROADCAST, 1U << 4, DTN_ETHOSU_OP_ELEMENTWISE, 6, DTN_ETHOSU_FIELD, REG_IFM_BROADCAST);
    check_refused(state, REG_IFM2_BROADCAST, 1U << 6, DTN_ETHOSU_OP_ELEMENTWISE, 0, DTN_ETHOSU_FIELD,
                  REG_IFM2_BROADCAST);
    check_refused(state, REG_WEIGHT_FORMAT, 1U << 1, DTN_ETHOSU_OP_CONV, 0, DTN_ETHOSU_FIELD, REG_WEIGHT_FORMAT);
    check_refused(state, REG_WEIGHT_FORMAT, 1U << 5, DTN_ETHOSU_OP_CONV, 0, DTN_ETHOSU_FIELD, REG_WEIGHT_FORMAT);
    check_refused(state, REG_IFM_PRECISION, 1U | chained, pool, sum, DTN_ETHOSU_REGION, 1);
    check_refused(state, REG_OFM_SCALE, UINT64_C(6) << 45 | 1U, pool, sum, DTN_ETHOSU_FIELD, REG_OFM_SCALE);
    check_refused(state, REG_ACTIVATION, 10, pool, sum, DTN_ETHOSU_BUILT_IN, REG_ACTIVATION);
    check_refused(state, REG_ACTIVATION, 2, pool, sum, DTN_ETHOSU_FIELD, REG_ACTIVATION);
    check_refused(state, REG_ACTIVATION, 5, pool, sum, DTN_ETHOSU_FIELD, precision);
    check_refused(state, REG_ACC_FORMAT, 0, DTN_ETHOSU_OP_RESIZE, 1, DTN_ETHOSU_UNSUPPORTED, DTN_ETHOSU_OP_RESIZE);
    check_refused(state, REG_ACC_FORMAT, 0, DTN_ETHOSU_OP_RESIZE, 0, DTN_ETHOSU_UNSET, REG_RESIZE_Y_SCALE_N_M1);
    check_refused(state, REG_ACC_FORMAT, 0, DTN_ETHOSU_OP_ELEMENTWISE, 12, DTN_ETHOSU_FIELD, DTN_ETHOSU_OP_ELEMENTWISE);
    check_wide(state, REG_OFM_ZERO_POINT, 0, DTN_ETHOSU_OK);
    check_wide(state, REG_OFM_ZERO_POINT, 1, DTN_ETHOSU_UNSUPPORTED);
    check_wide(state, REG_ACTIVATION, 0, DTN_ETHOSU_UNSUPPORTED);
}

int main(void)
{
    uint64_t any = 1;
    test_refused(&any);
    return test_result();
}
