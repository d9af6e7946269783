/* Branches of an Ethos-U85: loops that end, loops that do not, what they refuse, and what they have to wait for. */
#include <stdlib.h>

#include "deuteron/ethosu_watch.h"
#include "ethosu_85.h"
#include "test.h"

enum { COUNT_AT = 0x100, ONE_AT = 0x3000, HEADER_WORDS = 8, SUBTRACT = 2, OP_BRANCH = 0x100, OP_KERNEL_WAIT = 0x012 };
enum { ALWAYS = 0, IF_TRUE = 1 };

static uint64_t state = 7;

static uint32_t place(const stream_t *stream)
{
    return (uint32_t)(stream->count - HEADER_WORDS) * 4;
}

static void branch(stream_t *stream, uint64_t condition, uint32_t target)
{
    stream_long(stream, OP_BRANCH, condition << 32 | target);
}

/* `width` counts at COUNT_AT, each less one of what stands at ONE_AT; the place of the subtraction. */
static uint32_t new_count(stream_t *stream, int32_t width, uint32_t bytes)
{
    const int32_t sizes[3] = {1, width, 1};
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    test_map_t counts = {1, COUNT_AT, 1, width, 1, bytes, true, false, 0};
    test_map_t one = {1, ONE_AT, 1, width, 1, bytes, true, false, 0};
    stream_new(stream, "ethos-u85-256", &state);
    stream_map(stream, &dtn_eu_ifm_registers, &counts, 0);
    stream_map(stream, &dtn_eu_ifm2_registers, &one, 0);
    stream_short(stream, REG_IFM_UPSCALE, 0);
    stream_short(stream, REG_IFM_BROADCAST, 0);
    stream_short(stream, REG_IFM2_BROADCAST, 0);
    stream_short(stream, REG_BLOCKDEP, 0);
    stream_short(stream, REG_OFM_BLK_HEIGHT_M1, 0);
    stream_short(stream, REG_OFM_BLK_WIDTH_M1, 0);
    stream_short(stream, REG_OFM_BLK_DEPTH_M1, 15);
    u85_put_output(stream, &none, sizes, &counts, true);
    for (uint32_t scale = REG_OFM_SCALE; scale <= REG_IFM2_SCALE; scale++) {
        u85_put_scale(stream, scale, 1, 0, 1);
    }
    uint32_t at = place(stream);
    stream_op(stream, DTN_ETHOSU_OP_ELEMENTWISE, SUBTRACT);
    uint8_t *memory = stream->memory.regions[1].data;
    for (int32_t i = 0; i < width * (int32_t)bytes; i++) {
        memory[COUNT_AT + i] = 0;
        memory[ONE_AT + i] = i % (int32_t)bytes == 0;
    }
    return at;
}

/* A loop runs its operation until the result is zero, each a step of its own; a result of two bytes counts as a whole.
 */
static void test_loop(void)
{
    for (uint32_t bytes = 1; bytes <= 2; bytes++) {
        stream_t stream;
        uint32_t at = new_count(&stream, 1, bytes);
        branch(&stream, IF_TRUE, at);
        uint8_t *counts = stream.memory.regions[1].data + COUNT_AT;
        const uint32_t times = bytes == 1 ? 5 : 257;
        counts[0] = (uint8_t)times;
        counts[bytes - 1] = bytes == 1 ? counts[0] : (uint8_t)(times >> 8);
        size_t length = stream_end(&stream);
        dtn_ethosu_t machine;
        dtn_ethosu_event_t event = {0};
        CHECK_EQUAL(dtn_ethosu_start(&machine, stream.config, stream.words, length, &stream.memory), DTN_ETHOSU_OK);
        for (uint32_t i = 0; i < times; i++) {
            CHECK_EQUAL(dtn_ethosu_step(&machine, &event), DTN_ETHOSU_OK);
            CHECK_EQUAL(event.offset, at);
        }
        CHECK_EQUAL(counts[0], 0);
        CHECK_EQUAL(dtn_ethosu_step(&machine, &event), DTN_ETHOSU_OK);
        CHECK_EQUAL(event.opcode, DTN_ETHOSU_OP_STOP);
        stream_free(&stream);
    }
}

/* A branch that is always taken leads over what stands between. */
static void test_forward(void)
{
    stream_t stream;
    uint32_t at = new_count(&stream, 1, 1);
    branch(&stream, ALWAYS, at + 16);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, SUBTRACT);
    dtn_ethosu_event_t event = {0};
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    CHECK_EQUAL(stream.memory.regions[1].data[COUNT_AT], 0xFF);
    stream_free(&stream);
}

static void check_refused(int32_t width, uint64_t condition, uint32_t target, dtn_ethosu_fault_t expected,
                          uint64_t detail)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    (void)new_count(&stream, width, 1);
    uint32_t at = place(&stream);
    branch(&stream, condition, target == UINT32_MAX ? at : target);
    dtn_ethosu_fault_t fault = stream_run(&stream, &event);
    CHECK(fault == expected, "`%s` instead of `%s`", dtn_ethosu_message(fault), dtn_ethosu_message(expected));
    CHECK_EQUAL(event.offset, at);
    CHECK_EQUAL(event.detail, detail == UINT32_MAX ? at : detail);
    stream_free(&stream);
}

static void test_refused(void)
{
    check_refused(1, 2, 0, DTN_ETHOSU_FIELD, OP_BRANCH);
    check_refused(1, ALWAYS, 2, DTN_ETHOSU_TARGET, 2);
    check_refused(1, ALWAYS, 4 * STREAM_WORDS, DTN_ETHOSU_TARGET, 4 * STREAM_WORDS);
    check_refused(2, IF_TRUE, 0, DTN_ETHOSU_BRANCH, OP_BRANCH);
    /* For ever, without an operation and with one. */
    check_refused(1, ALWAYS, UINT32_MAX, DTN_ETHOSU_LOOP, UINT32_MAX);
    check_refused(1, ALWAYS, 0, DTN_ETHOSU_LOOP, 0);
}

/* Before any operation there is no result to ask for, and no other Ethos-U has branches. */
static void test_alone(void)
{
    static const char *const configs[] = {"ethos-u85-256", "ethos-u55-128"};
    for (uint32_t i = 0; i < 2; i++) {
        stream_t stream;
        dtn_ethosu_event_t event = {0};
        stream_new(&stream, configs[i], &state);
        branch(&stream, IF_TRUE, 0);
        CHECK_EQUAL(stream_run(&stream, &event), i == 0 ? DTN_ETHOSU_BRANCH : DTN_ETHOSU_OPCODE);
        stream_free(&stream);
    }
}

/* A branch behind an operation that nothing has waited for is a hazard, told with the command behind it. */
static void test_watched(void)
{
    for (uint32_t waits = 0; waits < 2; waits++) {
        stream_t stream;
        uint32_t first = new_count(&stream, 1, 1);
        if (waits == 1) {
            stream_op(&stream, OP_KERNEL_WAIT, 0);
        }
        uint32_t at = place(&stream);
        branch(&stream, IF_TRUE, first);
        size_t length = stream_end(&stream);
        size_t bytes = dtn_ethosu_watch_bytes(stream.config, &stream.memory);
        dtn_ethosu_watch_t *watch = (dtn_ethosu_watch_t *)malloc(bytes);
        dtn_ethosu_seen_t seen;
        CHECK_EQUAL(dtn_ethosu_watch_start(watch, bytes, stream.config, stream.words, length, &stream.memory),
                    DTN_ETHOSU_OK);
        (void)dtn_ethosu_watch_input(watch, 1, COUNT_AT, 1);
        (void)dtn_ethosu_watch_input(watch, 1, ONE_AT, 1);
        CHECK_EQUAL(dtn_ethosu_watch_step(watch, &seen), DTN_ETHOSU_OK);
        CHECK_EQUAL(seen.count, 0);
        CHECK_EQUAL(dtn_ethosu_watch_step(watch, &seen), DTN_ETHOSU_OK);
        CHECK_EQUAL(seen.event.opcode, DTN_ETHOSU_OP_STOP);
        CHECK_EQUAL(seen.count, 1 - waits);
        if (seen.count == 1) {
            CHECK_EQUAL(seen.hazards[0].kind, DTN_ETHOSU_HAZARD_BRANCH);
            CHECK_EQUAL(seen.hazards[0].at, at);
            CHECK_EQUAL(seen.hazards[0].other, first);
        }
        free(watch);
        stream_free(&stream);
    }
}

int main(void)
{
    test_loop();
    test_forward();
    test_refused();
    test_alone();
    test_watched();
    return test_result();
}
