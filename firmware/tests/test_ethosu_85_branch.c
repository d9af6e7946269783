/* Branches of an Ethos-U85: loops that end, loops that do not, what they refuse, and what they have to wait for. */
#include <stdlib.h>

#include "deuteron/ethosu_watch.h"
#include "ethosu_85.h"
#include "test.h"

enum {
    COUNT_AT = 0x100,
    OUTPUT_AT = 0x2000,
    ONE_AT = 0x3000,
    HEADER_WORDS = 8,
    SUBTRACT = 2,
    OP_BRANCH = 0x100,
    OP_KERNEL_WAIT = 0x012,
    OP_DMA_WAIT = 0x011,
    UNKNOWN = 0x01F
};
enum { ALWAYS = 0, IF_TRUE = 1, NO_OUTPUT = 1 << 6 };

/* The count of a word of commands that runs again. */
enum { WORD_WORK = 1024 };

static uint64_t state = 7;

static uint32_t place(const stream_t *stream)
{
    return (uint32_t)(stream->count - HEADER_WORDS) * 4;
}

static void branch(stream_t *stream, uint64_t condition, uint32_t target)
{
    stream_long(stream, OP_BRANCH, condition << 32 | target);
}

/* Counts of these sizes at COUNT_AT, each less one of what stands at ONE_AT; the place of the subtraction. */
static uint32_t new_counts(stream_t *stream, const int32_t *sizes, uint32_t bytes)
{
    const u85_turn_t none = {{0, 1, 2}, 3, 0};
    test_map_t counts = {1, COUNT_AT, sizes[0], sizes[1], sizes[2], bytes, true, false, 0};
    test_map_t one = counts;
    one.base = ONE_AT;
    stream_new(stream, "ethos-u85-256", &state);
    stream_map(stream, &dtn_ethosu_ifm_registers, &counts, 0);
    stream_map(stream, &dtn_ethosu_ifm2_registers, &one, 0);
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
    for (int32_t i = 0; i < sizes[0] * sizes[1] * sizes[2] * (int32_t)bytes; i++) {
        memory[COUNT_AT + i] = 0;
        memory[ONE_AT + i] = i % (int32_t)bytes == 0;
    }
    return at;
}

/* One count. */
static uint32_t new_count(stream_t *stream, uint32_t bytes)
{
    const int32_t sizes[3] = {1, 1, 1};
    return new_counts(stream, sizes, bytes);
}

/* A loop runs its operation until the result is zero, each a separate step; a result of two bytes counts as a whole.
 * Each word of commands that run again counts. */
static void test_loop(void)
{
    for (uint32_t bytes = 1; bytes <= 2; bytes++) {
        stream_t stream;
        uint32_t at = new_count(&stream, bytes);
        branch(&stream, IF_TRUE, at);
        uint8_t *counts = stream.memory.regions[1].data + COUNT_AT;
        const uint32_t times = bytes == 1 ? 5 : 2001;
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
        CHECK_EQUAL(machine.work, times + (times - 1) * 3 * WORD_WORK);
        stream_free(&stream);
    }
}

/* Operations are numbered by position: copies do not count, nor do words after commands that look like one. */
static void test_places(void)
{
    stream_t stream;
    const uint32_t first = new_count(&stream, 1);
    const uint32_t copy = place(&stream);
    stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
    stream_long(&stream, REG_OP_SCALAR, DTN_ETHOSU_OP_ELEMENTWISE);
    const uint32_t second = place(&stream);
    stream_op(&stream, DTN_ETHOSU_OP_RESIZE, 0);
    size_t length = stream_end(&stream);
    dtn_ethosu_t machine;
    CHECK_EQUAL(dtn_ethosu_start(&machine, stream.config, stream.words, length, &stream.memory), DTN_ETHOSU_OK);
    CHECK_EQUAL(dtn_ethosu_operations(&machine, 0, first), 0);
    CHECK_EQUAL(dtn_ethosu_operations(&machine, 0, copy), 1);
    CHECK_EQUAL(dtn_ethosu_operations(&machine, first, second), 1);
    CHECK_EQUAL(dtn_ethosu_operations(&machine, second, second), 0);
    CHECK_EQUAL(dtn_ethosu_operations(&machine, second, UINT32_MAX), 1);
    stream_free(&stream);
}

/* An endless loop ends when its commands reach a stream's limit, with an operation and without. */
static void test_for_ever(void)
{
    for (uint32_t operations = 0; operations < 2; operations++) {
        stream_t stream;
        uint32_t at = new_count(&stream, 1);
        const uint32_t target = operations == 0 ? at + 4 : at;
        branch(&stream, ALWAYS, target);
        size_t length = stream_end(&stream);
        dtn_ethosu_t machine;
        dtn_ethosu_event_t event = {0};
        CHECK_EQUAL(dtn_ethosu_start(&machine, stream.config, stream.words, length, &stream.memory), DTN_ETHOSU_OK);
        machine.work = DTN_ETHOSU_MOST_WORK - 100 * 3 * WORD_WORK;
        CHECK_EQUAL(dtn_ethosu_run(&machine, &event), DTN_ETHOSU_WORK);
        CHECK_EQUAL(event.offset, at + 4);
        CHECK(event.detail > DTN_ETHOSU_MOST_WORK && event.detail <= DTN_ETHOSU_MOST_WORK + 3 * WORD_WORK,
              "ends at %u more", (unsigned)(event.detail - DTN_ETHOSU_MOST_WORK));
        stream_free(&stream);
    }
}

/* A branch that is always taken leads over what stands between. */
static void test_forward(void)
{
    stream_t stream;
    uint32_t at = new_count(&stream, 1);
    branch(&stream, ALWAYS, at + 16);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, SUBTRACT);
    dtn_ethosu_event_t event = {0};
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    CHECK_EQUAL(stream.memory.regions[1].data[COUNT_AT], 0xFF);
    stream_free(&stream);
}

/* A check takes the commands as they stand: those that a branch leads over, too. */
static void test_checked_in_order(void)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    uint32_t at = new_count(&stream, 1);
    branch(&stream, ALWAYS, at + 16);
    stream_op(&stream, UNKNOWN, 0);
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OPCODE);
    CHECK_EQUAL(event.offset, at + 12);
    stream_free(&stream);
}

static void check_refused(const int32_t *sizes, uint64_t condition, uint32_t target, dtn_ethosu_fault_t expected,
                          uint64_t detail)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    (void)new_counts(&stream, sizes, 1);
    uint32_t at = place(&stream);
    branch(&stream, condition, target);
    dtn_ethosu_fault_t fault = stream_run(&stream, &event);
    CHECK(fault == expected, "`%s` instead of `%s`", dtn_ethosu_message(fault), dtn_ethosu_message(expected));
    CHECK_EQUAL(event.offset, at);
    CHECK_EQUAL(event.detail, detail);
    stream_free(&stream);
}

static void test_refused(void)
{
    static const int32_t one[3] = {1, 1, 1};
    static const int32_t more[][3] = {{2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
    check_refused(one, 2, 0, DTN_ETHOSU_FIELD, OP_BRANCH);
    check_refused(one, ALWAYS, 2, DTN_ETHOSU_TARGET, 2);
    for (uint32_t axis = 0; axis < 3; axis++) {
        check_refused(more[axis], IF_TRUE, 0, DTN_ETHOSU_BRANCH, OP_BRANCH);
    }
}

/* Branches lead to commands, of which NPU_OP_STOP is the last: to behind the stream, and to behind the first stop. */
static void test_targets(void)
{
    for (uint32_t stops = 1; stops <= 2; stops++) {
        for (uint32_t past = 0; past < 2; past++) {
            stream_t stream;
            dtn_ethosu_event_t event = {0};
            uint32_t at = new_count(&stream, 1);
            const uint32_t target = at + 12 + 4 * past;
            branch(&stream, ALWAYS, target);
            if (stops == 2) {
                stream_op(&stream, DTN_ETHOSU_OP_STOP, 0);
            }
            CHECK_EQUAL(stream_run(&stream, &event), past == 1 ? DTN_ETHOSU_TARGET : DTN_ETHOSU_OK);
            CHECK_EQUAL(event.detail, past == 1 ? target : 0);
            CHECK_EQUAL(event.offset, past == 1 && stops == 1 ? at + 4 : at + 12);
            stream_free(&stream);
        }
    }
}

/* A branch tests the operation before it, not an earlier one. */
static void test_last_result(void)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    (void)new_count(&stream, 1);
    stream_short(&stream, REG_OFM_WIDTH_M1, 1);
    stream_short(&stream, REG_OFM_WIDTH0_M1, 1);
    stream_short(&stream, REG_IFM_WIDTH0_M1, 1);
    stream_short(&stream, REG_IFM2_WIDTH0_M1, 1);
    stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, SUBTRACT);
    uint32_t at = place(&stream);
    branch(&stream, IF_TRUE, at + 8);
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_BRANCH);
    CHECK_EQUAL(event.offset, at);
    stream_free(&stream);
}

/* A product of matrices of one element whose sums stay where they are: nothing stands where its output would. */
static void put_kept_product(stream_t *stream)
{
    for (uint16_t pad = REG_IFM_PAD_TOP; pad <= REG_IFM_PAD_BOTTOM; pad++) {
        stream_short(stream, pad, 0);
    }
    stream_short(stream, REG_IFM_DEPTH_M1, 0);
    stream_short(stream, REG_KERNEL_HEIGHT_M1, 0);
    stream_short(stream, REG_KERNEL_WIDTH_M1, 0);
    stream_short(stream, REG_KERNEL_STRIDE, 0);
    stream_short(stream, REG_ACC_FORMAT, NO_OUTPUT);
    stream_op(stream, DTN_ETHOSU_OP_CONV, 1);
}

static void test_without_output(void)
{
    for (uint32_t asks = 0; asks < 2; asks++) {
        stream_t stream;
        dtn_ethosu_event_t event = {0};
        (void)new_count(&stream, 1);
        stream.count--; /* without its operation */
        put_kept_product(&stream);
        uint32_t at = place(&stream);
        if (asks == 1) {
            branch(&stream, IF_TRUE, at + 8);
        }
        const dtn_ethosu_fault_t fault = stream_run(&stream, &event);
        CHECK(fault == (asks == 1 ? DTN_ETHOSU_BRANCH : DTN_ETHOSU_OK), "`%s`", dtn_ethosu_message(fault));
        CHECK_EQUAL(event.offset, at);
        CHECK_EQUAL(event.detail, asks == 1 ? OP_BRANCH : 0);
        stream_free(&stream);
    }
}

/* Before any operation there is no result to test, and only an Ethos-U85 has branches. */
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

/* A stream that has ended under watch; `seen` is its last command. */
static dtn_ethosu_watch_t *watched(stream_t *stream, dtn_ethosu_seen_t *seen)
{
    size_t length = stream_end(stream);
    size_t bytes = dtn_ethosu_watch_bytes(stream->config, &stream->memory);
    dtn_ethosu_watch_t *watch = (dtn_ethosu_watch_t *)malloc(bytes);
    CHECK_EQUAL(dtn_ethosu_watch_start(watch, bytes, stream->config, stream->words, length, &stream->memory),
                DTN_ETHOSU_OK);
    (void)dtn_ethosu_watch_input(watch, 1, COUNT_AT, 1);
    (void)dtn_ethosu_watch_input(watch, 1, ONE_AT, 1);
    dtn_ethosu_fault_t fault = dtn_ethosu_watch_step(watch, seen);
    while (fault == DTN_ETHOSU_OK && seen->event.opcode != DTN_ETHOSU_OP_STOP) {
        CHECK_EQUAL(seen->count, 0);
        fault = dtn_ethosu_watch_step(watch, seen);
    }
    CHECK(fault == DTN_ETHOSU_OK, "`%s` at %u", dtn_ethosu_message(fault), (unsigned)seen->event.offset);
    return watch;
}

/* An operation that puts nothing out has written nothing under watch, either. */
static void test_watched_without_output(void)
{
    stream_t stream;
    uint64_t unwritten = 0;
    uint64_t value = 0;
    dtn_ethosu_seen_t seen;
    (void)new_count(&stream, 1);
    stream.count--;
    stream_long(&stream, REG_OFM_BASE0, OUTPUT_AT);
    put_kept_product(&stream);
    dtn_ethosu_watch_t *watch = watched(&stream, &seen);
    CHECK_EQUAL(seen.count, 0);
    CHECK_EQUAL(dtn_ethosu_watch_output(watch, 1, OUTPUT_AT, 1, &unwritten, &value), false);
    CHECK_EQUAL(unwritten, OUTPUT_AT);
    free(watch);
    stream_free(&stream);
}

/* Appends a copy of a byte to an unused address, and returns that. */
static uint32_t put_copy(stream_t *stream)
{
    stream_short(stream, REG_DMA0_SRC_REGION, 0);
    stream_short(stream, REG_DMA0_DST_REGION, 1);
    stream_long(stream, REG_DMA0_SRC, 0);
    stream_long(stream, REG_DMA0_DST, OUTPUT_AT);
    stream_short(stream, REG_DMA0_SIZE0, 1);
    stream_long(stream, REG_DMA0_LEN, 1);
    uint32_t at = place(stream);
    stream_op(stream, DTN_ETHOSU_OP_DMA_START, 0);
    return at;
}

/* Branches after unfinished operations and copies are hazards, reported with the next command: each with the last that
 * runs. `order` says what stands before them: operations o, copies c, their waits O and C. */
static void check_watched(const char *order, char last)
{
    stream_t stream;
    dtn_ethosu_seen_t seen;
    uint32_t places[2] = {0, 0};
    (void)new_count(&stream, 1);
    stream_op(&stream, OP_KERNEL_WAIT, 0);
    for (const char *next = order; *next != 0; next++) {
        if (*next == 'c') {
            places[1] = put_copy(&stream);
        } else if (*next == 'o') {
            places[0] = place(&stream);
            stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, SUBTRACT);
        } else {
            stream_op(&stream, *next == 'O' ? OP_KERNEL_WAIT : OP_DMA_WAIT, 0);
        }
    }
    const uint32_t at = place(&stream);
    branch(&stream, ALWAYS, 0);
    branch(&stream, ALWAYS, 0);
    dtn_ethosu_watch_t *watch = watched(&stream, &seen);
    CHECK_EQUAL(seen.count, last == 0 ? 0 : 2);
    for (uint32_t i = 0; i < seen.count; i++) {
        CHECK_EQUAL(seen.hazards[i].kind, DTN_ETHOSU_HAZARD_BRANCH);
        CHECK_EQUAL(seen.hazards[i].at, at + 8 * i);
        CHECK_EQUAL(seen.hazards[i].part, 0);
        CHECK_EQUAL(seen.hazards[i].other, places[last == 'c']);
    }
    free(watch);
    stream_free(&stream);
}

static void test_watched(void)
{
    check_watched("", 0);
    check_watched("o", 'o');
    check_watched("c", 'c');
    check_watched("co", 'o');
    check_watched("oc", 'c');
    check_watched("coO", 'c');
    check_watched("ocC", 'o');
    check_watched("ocCO", 0);
}

int main(void)
{
    test_loop();
    test_places();
    test_for_ever();
    test_forward();
    test_checked_in_order();
    test_refused();
    test_targets();
    test_last_result();
    test_without_output();
    test_alone();
    test_watched();
    test_watched_without_output();
    return test_result();
}
