/*
 * The harness on damaged and hostile lines: noise, damaged frames, and well-formed frames with any header and data.
 * Every byte that it sends belongs to a whole frame, it never touches memory that a request may not touch, and the
 * program runs right afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/frame.h"
#include "deuteron/crc32.h"
#include "deuteron/driver.h"
#include "small_bundle.h"
#include "test.h"

enum { LINE_BYTES = 2 * (DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_BLOCK_BYTES + 64), SESSION = 77 };

/* The two directions of the line. */
static struct {
    uint8_t in[LINE_BYTES];
    uint32_t in_count;
    uint32_t in_read;
    uint8_t out[LINE_BYTES];
    uint32_t out_count;
    uint32_t out_space;
} line;

int32_t dtn_port_getc(void)
{
    return line.in_read == line.in_count ? -1 : line.in[line.in_read++];
}

bool dtn_port_putc(uint8_t byte)
{
    if (line.out_count == line.out_space) {
        return false;
    }
    line.out[line.out_count++] = byte;
    return true;
}

uint32_t dtn_stack_used(void)
{
    return 0;
}

typedef struct {
    small_t small;
    small_buffers_t buffers;
    dtn_executor_t executor;
    dtn_event_t events[2 * SMALL_STEPS];
    dtn_harness_t harness;
    uint64_t random;
    uint16_t sequence;
} fixture_t;

static const uint8_t hash[32] = {1, 2, 3};

static void start(fixture_t *fixture, uint64_t seed)
{
    memset(fixture, 0, sizeof *fixture);
    fixture->random = seed;
    small_start(&fixture->small);
    const program_t *program = &fixture->small.program;
    CHECK_EQUAL(dtn_executor_init(&fixture->executor, &program->bundle, program->memories), ENONE);
    fixture->executor.events = fixture->events;
    fixture->executor.event_capacity = SMALL_STEPS;
    fixture->harness.info = (dtn_harness_info_t){.board = "a name that is longer than its field", .program = hash};
    fixture->harness.bundle = &program->bundle;
    fixture->harness.executor = &fixture->executor;
}

static void end(fixture_t *fixture)
{
    CHECK_EQUAL(dtn_executor_deinit(&fixture->executor), ENONE);
    small_free(&fixture->small);
}

/* Encodes a frame onto the line by the sender of the library. */
static void encode(const uint8_t *content, uint32_t count)
{
    static dtn_frame_t frame;
    memcpy(frame.bytes, content, count);
    frame.count = count;
    line.out_count = 0;
    line.out_space = LINE_BYTES;
    dtn_frame_send(&frame);
    memcpy(line.in, line.out, line.out_count);
    line.in_count = line.out_count;
    line.in_read = 0;
}

/* Lets the harness handle the line; returns the reply's bytes, or 0 for none, and checks that there is no half one. */
static uint32_t handle(fixture_t *fixture, uint8_t *reply, uint32_t space)
{
    static dtn_frame_t frame;
    uint32_t count = 0;
    line.out_count = 0;
    line.out_space = space;
    dtn_harness_poll(&fixture->harness);
    dtn_frame_clear(&frame);
    for (uint32_t i = 0; i < line.out_count; i++) {
        dtn_frame_state_t state = dtn_frame_put(&frame, line.out[i]);
        CHECK(state != DTN_FRAME_DAMAGED || space < LINE_BYTES, "a damaged reply");
        if (state == DTN_FRAME_COMPLETE) {
            count = frame.count;
            memcpy(reply, frame.bytes, count);
            dtn_frame_clear(&frame);
        }
    }
    return count;
}

static uint32_t any(fixture_t *fixture, uint32_t below)
{
    return (uint32_t)(test_random(&fixture->random) >> 33) % below;
}

static uint32_t request(fixture_t *fixture, uint8_t command, const void *data, uint32_t bytes, uint8_t *reply)
{
    static uint8_t content[DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_BLOCK_BYTES];
    const uint32_t session = SESSION;
    fixture->sequence++;
    content[0] = DTN_HARNESS_PROTOCOL;
    content[1] = command;
    memcpy(content + 2, &fixture->sequence, sizeof fixture->sequence);
    memcpy(content + 4, &session, sizeof session);
    if (bytes != 0) {
        memcpy(content + DTN_HARNESS_HEADER_BYTES, data, bytes);
    }
    encode(content, DTN_HARNESS_HEADER_BYTES + bytes);
    uint32_t count = handle(fixture, reply, LINE_BYTES);
    CHECK(count >= DTN_HARNESS_HEADER_BYTES && reply[1] == DTN_HARNESS_OK, "command %d has status %d", command,
          reply[1]);
    return count - DTN_HARNESS_HEADER_BYTES;
}

/* Runs the program by requests; its results must be right. */
static void check_run(fixture_t *fixture)
{
    static uint8_t reply[DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_BLOCK_BYTES];
    const dtn_bundle_t *bundle = &fixture->small.program.bundle;
    small_buffers_t *buffers = &fixture->buffers;
    fixture->harness.session = SESSION; /* as IDENTIFY would; the sequence goes on */
    fixture->harness.sequence = fixture->sequence;
    fixture->harness.command = UINT8_MAX;
    small_fill(buffers, test_random(&fixture->random));
    for (uint32_t i = 0; i < bundle->input_count; i++) {
        uint32_t bytes = bundle->values[bundle->inputs[i]].bytes;
        uint8_t data[128] = {DTN_HARNESS_INPUT};
        data[4] = (uint8_t)i;
        memcpy(data + 12, buffers->inputs[i], bytes);
        (void)request(fixture, DTN_HARNESS_WRITE, data, 12 + bytes, reply);
    }
    const uint32_t whole[2] = {0, UINT32_MAX};
    CHECK_EQUAL(request(fixture, DTN_HARNESS_RUN, whole, sizeof whole, reply), sizeof(dtn_harness_run_t));
    for (uint32_t i = 0; i < bundle->output_count; i++) {
        const uint32_t part[4] = {DTN_HARNESS_OUTPUT, i, 0, bundle->values[bundle->outputs[i]].bytes};
        CHECK_EQUAL(request(fixture, DTN_HARNESS_READ, part, sizeof part, reply), part[3]);
        memcpy(buffers->outputs[i], reply + DTN_HARNESS_HEADER_BYTES, part[3]);
    }
    CHECK(small_is_right(buffers), "wrong outputs");
}

/* A frame that is well formed: a likely header and likely data, often of the length that the command takes. */
static uint32_t make_frame(fixture_t *fixture, uint8_t *content)
{
    static const uint8_t wanted[] = {0, 0, 12, 16, 16, 8};
    uint8_t command = (uint8_t)any(fixture, any(fixture, 16) == 0 ? 256 : DTN_HARNESS_RUN + 1);
    uint32_t bytes = any(fixture, 4) == 0 ? any(fixture, DTN_HARNESS_BLOCK_BYTES + 1) : 4 * any(fixture, 8);
    if (command < sizeof wanted && any(fixture, 4) != 0) {
        bytes = wanted[command] + (command == DTN_HARNESS_WRITE ? 4 * any(fixture, 9) : 0);
    }
    uint16_t sequence = (uint16_t)(fixture->harness.sequence + 1);
    if (any(fixture, 4) == 0) {
        sequence = (uint16_t)(sequence + any(fixture, 8) - (any(fixture, 9) == 0 ? 9 : 1));
    }
    uint32_t session = any(fixture, 8) == 0 ? any(fixture, 3) : fixture->harness.session;
    content[0] = any(fixture, 32) == 0 ? (uint8_t)any(fixture, 256) : DTN_HARNESS_PROTOCOL;
    content[1] = command;
    memcpy(content + 2, &sequence, sizeof sequence);
    memcpy(content + 4, &session, sizeof session);
    for (uint32_t i = 0; i < bytes; i += 4) {
        uint32_t word = any(fixture, 4) == 0 ? (uint32_t)test_random(&fixture->random) : any(fixture, 12);
        memcpy(content + DTN_HARNESS_HEADER_BYTES + i, &word, bytes - i < 4 ? bytes - i : 4);
    }
    return DTN_HARNESS_HEADER_BYTES + bytes;
}

/* One attack: noise, a damaged frame, or a whole one. */
static void attack(fixture_t *fixture)
{
    static uint8_t content[DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_BLOCK_BYTES];
    uint32_t kind = any(fixture, 4);
    if (kind == 0) {
        line.in_count = any(fixture, LINE_BYTES);
        for (uint32_t i = 0; i < line.in_count; i++) {
            line.in[i] = any(fixture, 8) == 0 ? 0 : (uint8_t)any(fixture, 256);
        }
        line.in_read = 0;
        return;
    }
    encode(content, make_frame(fixture, content));
    for (uint32_t i = kind == 1 ? any(fixture, 4) : 0; i > 0; i--) {
        uint32_t at = any(fixture, line.in_count);
        if (any(fixture, 2) == 0) {
            line.in[at] ^= (uint8_t)(1U << any(fixture, 8));
        } else {
            memmove(line.in + at, line.in + at + 1, line.in_count - at - 1);
            line.in_count--;
        }
    }
}

int main(int count, char **arguments)
{
    enum { EACH = 64, STATUSES = DTN_HARNESS_FAULT + 1, MANY = 100000 };
    static const char *const names[STATUSES] = {"ok",     "damaged", "version", "session",   "sequence", "command",
                                                "length", "range",   "program", "run_state", "fault"};
    static fixture_t fixture;
    uint64_t replies[STATUSES] = {0};
    static uint8_t reply[DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_BLOCK_BYTES + DTN_HARNESS_CRC_BYTES];
    uint64_t frames = count > 1 ? strtoull(arguments[1], NULL, 10) : 200000;
    CHECK_EQUAL(neutronInit(), ENONE);
    start(&fixture, count > 2 ? strtoull(arguments[2], NULL, 10) : 41);
    check_run(&fixture);
    for (uint64_t i = 0; i < frames && test_failures == 0; i++) {
        attack(&fixture);
        if (handle(&fixture, reply, any(&fixture, 50) == 0 ? any(&fixture, 40) : LINE_BYTES) != 0) {
            CHECK(reply[1] < STATUSES, "status %u", (unsigned)reply[1]);
            replies[reply[1] % STATUSES]++; /* of the last frame, as the noise may hold several */
        }
        if (i % EACH == 0) {
            line.in[0] = 0; /* ends what the attack has left open */
            line.in_count = 1;
            line.in_read = 0;
            (void)handle(&fixture, reply, LINE_BYTES);
            check_run(&fixture);
        }
    }
    end(&fixture);
    printf("attacks %llu", (unsigned long long)frames);
    for (uint32_t i = 0; i < STATUSES; i++) {
        printf(" %s %llu", names[i], (unsigned long long)replies[i]);
        const bool is_possible = i != DTN_HARNESS_PROGRAM && i != DTN_HARNESS_FAULT; /* the program is right */
        CHECK(!is_possible || replies[i] != 0 || frames < MANY, "no attack gets the status %s", names[i]);
    }
    printf("\n");
    return test_result();
}
