/* Requests and their replies, spec/harness.md. A reply is built in the buffer of its request. */
#include <stddef.h>
#include <string.h>

#include "deuteron/crc32.h"
#include "deuteron/port.h"
#include "deuteron/profile.h"
#include "frame.h"

#include "../runner/run.h"

/* NULL in images of programs without state, which do not link state.c. */
__attribute__((weak)) void *dtn_executor_state(const dtn_executor_t *executor, uint32_t *bytes);

/* Header of a request or reply. */
typedef struct {
    uint8_t version;
    uint8_t code; /* the command, or the status */
    uint16_t sequence;
    uint32_t session;
} header_t;

/* Part of an area: how READ, WRITE and CHECKSUM start. */
typedef struct {
    uint32_t area;
    uint32_t index;
    uint32_t offset;
} part_t;

/* Reply to IDENTIFY. */
typedef struct {
    uint32_t block_bytes;
    uint32_t bundle_version;
    uint32_t counts_crc;
    uint32_t crc;
    uint8_t program[DTN_PROGRAM_HASH_BYTES];
    uint32_t flags;
    uint32_t state_bytes;
    uint32_t event_capacity;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t values;
    uint32_t steps;
    uint32_t core_hz;
    uint32_t ticks_hz;
    uint32_t tick_unit;
    uint32_t core;
    uint32_t stack_bytes;
    uint32_t init_error;
    uint32_t init_ticks;
    char board[DTN_HARNESS_NAME_BYTES];
} identity_t;

#define FLAG_PROFILING UINT32_C(1)    /* runs record events inside steps */
#define FLAG_NPU_EMULATED UINT32_C(2) /* the core executes the commands of the NPU */

typedef char identity_is_packed[sizeof(identity_t) == 128 && 128 <= DTN_HARNESS_BLOCK_BYTES ? 1 : -1];

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the words of the protocol are little-endian, and so must be the core"
#endif

enum { WORD = 4 };

static uint8_t *data_of(dtn_harness_t *harness)
{
    return harness->frame.bytes + DTN_HARNESS_HEADER_BYTES;
}

/* Sets the reply's data; returns its status. */
static uint8_t reply(dtn_harness_t *harness, const void *data, uint32_t bytes)
{
    if (bytes != 0) {
        memcpy(data_of(harness), data, bytes);
    }
    harness->frame.count = DTN_HARNESS_HEADER_BYTES + bytes;
    return DTN_HARNESS_OK;
}

static uint8_t reply_error(dtn_harness_t *harness, NeutronError error)
{
    uint32_t word = (uint32_t)error;
    (void)reply(harness, &word, sizeof word);
    return DTN_HARNESS_PROGRAM;
}

static void *state_of(const dtn_harness_t *harness, uint32_t *bytes)
{
    *bytes = 0;
    return dtn_executor_state == NULL ? NULL : dtn_executor_state(harness->executor, bytes);
}

static uint8_t identify(dtn_harness_t *harness)
{
    const dtn_bundle_t *bundle = harness->bundle;
    const dtn_harness_info_t *info = &harness->info;
    identity_t identity = {
        .block_bytes = DTN_HARNESS_BLOCK_BYTES,
        .bundle_version = bundle->version,
        .counts_crc = bundle->counts_crc,
        .crc = bundle->crc,
        .flags = (DTN_PROFILING ? FLAG_PROFILING : 0) | (info->is_npu_emulated ? FLAG_NPU_EMULATED : 0),
        .event_capacity = harness->executor->event_capacity,
        .inputs = bundle->input_count,
        .outputs = bundle->output_count,
        .values = bundle->value_count,
        .steps = bundle->step_count,
        .core_hz = info->core_hz,
        .ticks_hz = info->ticks_hz,
        .tick_unit = info->tick_unit,
        .core = info->core,
        .stack_bytes = info->stack_bytes,
        .init_error = info->init_error,
        .init_ticks = info->init_ticks,
    };
    (void)state_of(harness, &identity.state_bytes);
    memcpy(identity.program, info->program, sizeof identity.program);
    for (uint32_t i = 0; i + 1 < sizeof identity.board && info->board[i] != '\0'; i++) {
        identity.board[i] = info->board[i];
    }
    return reply(harness, &identity, sizeof identity);
}

/* Start and size of an area; NULL if there is none. */
static uint8_t *area_of(const dtn_harness_t *harness, const part_t *part, uint32_t *bytes)
{
    const dtn_bundle_t *bundle = harness->bundle;
    dtn_executor_t *executor = harness->executor;
    uint32_t index = part->index;
    switch (part->area) {
    case DTN_HARNESS_INPUT:
        if (index >= bundle->input_count) {
            return NULL;
        }
        index = bundle->inputs[index];
        break;
    case DTN_HARNESS_OUTPUT:
        if (index >= bundle->output_count) {
            return NULL;
        }
        index = bundle->outputs[index];
        break;
    case DTN_HARNESS_VALUE:
        break;
    case DTN_HARNESS_STATE:
        return index == 0 ? (uint8_t *)state_of(harness, bytes) : NULL;
    case DTN_HARNESS_EVENTS:
        *bytes = executor->event_count * (uint32_t)sizeof(dtn_event_t);
        return index == 0 ? (uint8_t *)executor->events : NULL;
    default:
        return NULL;
    }
    if (index >= bundle->value_count) {
        return NULL;
    }
    *bytes = bundle->values[index].bytes;
    return (uint8_t *)dtn_executor_value(executor, index);
}

/* The start of a part of an area, NULL if it is not in the area. */
static uint8_t *part_of(const dtn_harness_t *harness, const part_t *part, uint32_t bytes)
{
    uint32_t size = 0;
    uint8_t *start = area_of(harness, part, &size);
    bool is_inside = start != NULL && part->offset <= size && bytes <= size - part->offset;
    return is_inside ? start + part->offset : NULL;
}

static uint8_t write(dtn_harness_t *harness, uint32_t bytes)
{
    part_t part;
    if (bytes < sizeof part) {
        return DTN_HARNESS_LENGTH;
    }
    memcpy(&part, data_of(harness), sizeof part);
    bytes -= (uint32_t)sizeof part;
    uint8_t *at = part_of(harness, &part, bytes);
    if (at == NULL || (part.area != DTN_HARNESS_INPUT && part.area != DTN_HARNESS_STATE)) {
        return DTN_HARNESS_RANGE;
    }
    harness->is_resumable = false; /* the memory of an input is reused during a run */
    memcpy(at, data_of(harness) + sizeof part, bytes);
    return reply(harness, NULL, 0);
}

/* READ and CHECKSUM: a part and its number of bytes. */
static uint8_t read(dtn_harness_t *harness, uint32_t request_bytes, bool is_checksum)
{
    part_t part;
    uint32_t bytes;
    if (request_bytes != sizeof part + sizeof bytes) {
        return DTN_HARNESS_LENGTH;
    }
    memcpy(&part, data_of(harness), sizeof part);
    memcpy(&bytes, data_of(harness) + sizeof part, sizeof bytes);
    const uint8_t *at = part_of(harness, &part, bytes);
    if (at == NULL || (!is_checksum && bytes > DTN_HARNESS_BLOCK_BYTES)) {
        return DTN_HARNESS_RANGE;
    }
    if (!is_checksum) {
        return reply(harness, at, bytes);
    }
    uint32_t crc = dtn_crc32(0, at, bytes);
    return reply(harness, &crc, sizeof crc);
}

static uint8_t reset(dtn_harness_t *harness)
{
    harness->is_resumable = false;
    NeutronError error = dtn_runner_reset(harness->executor);
    return error == ENONE ? reply(harness, NULL, 0) : reply_error(harness, error);
}

/* RUN: whether to continue the last run, and the number of completed steps at which to stop. */
static uint8_t run(dtn_harness_t *harness, uint32_t bytes)
{
    uint32_t words[2];
    dtn_executor_t *executor = harness->executor;
    if (bytes != sizeof words) {
        return DTN_HARNESS_LENGTH;
    }
    memcpy(words, data_of(harness), sizeof words);
    bool is_continued = words[0] != 0;
    if (is_continued && (!harness->is_resumable || dtn_executor_steps_left(executor) == 0)) {
        return DTN_HARNESS_RUN_STATE;
    }
    dtn_run_request_t request = {.stop = words[1], .is_continued = is_continued};
    dtn_runner_run(executor, &request, &harness->run);
    harness->is_resumable = harness->run.error == ENONE;
    return DTN_HARNESS_OK;
}

static uint8_t execute(dtn_harness_t *harness, uint32_t command, uint32_t bytes, bool is_repeated)
{
    if (command == DTN_HARNESS_IDENTIFY) {
        return bytes == 0 ? identify(harness) : DTN_HARNESS_LENGTH;
    }
    if (command > DTN_HARNESS_RUN) {
        return DTN_HARNESS_COMMAND;
    }
    if (harness->info.init_error != 0) {
        return reply_error(harness, (NeutronError)harness->info.init_error);
    }
    switch (command) {
    case DTN_HARNESS_RESET:
        return bytes == 0 ? reset(harness) : DTN_HARNESS_LENGTH;
    case DTN_HARNESS_WRITE:
        return write(harness, bytes);
    case DTN_HARNESS_READ:
    case DTN_HARNESS_CHECKSUM:
        return read(harness, bytes, command == DTN_HARNESS_CHECKSUM);
    default:
        /* The other commands may be repeated; a run would change the state, and has overwritten its inputs. */
        if (!is_repeated) {
            harness->run_status = run(harness, bytes);
        }
        return harness->run_status == DTN_HARNESS_OK ? reply(harness, &harness->run, sizeof harness->run)
                                                     : harness->run_status;
    }
}

/* The status of the reply to a complete frame. */
static uint8_t handle(dtn_harness_t *harness, const header_t *header)
{
    uint32_t bytes = harness->frame.count - DTN_HARNESS_HEADER_BYTES;
    harness->frame.count = DTN_HARNESS_HEADER_BYTES;
    if (header->version != DTN_HARNESS_PROTOCOL) {
        return DTN_HARNESS_VERSION;
    }
    bool is_first = header->code == DTN_HARNESS_IDENTIFY && header->session != harness->session;
    if (header->session == 0 || (!is_first && header->session != harness->session)) {
        return DTN_HARNESS_SESSION;
    }
    uint16_t ahead = is_first ? 1 : (uint16_t)(header->sequence - harness->sequence);
    if (ahead > 1 || (ahead == 0 && header->code != harness->command)) {
        return DTN_HARNESS_SEQUENCE;
    }
    if (is_first) {
        harness->is_resumable = false; /* an unfinished run was another host's */
    }
    harness->session = header->session;
    harness->sequence = header->sequence;
    harness->command = header->code;
    return execute(harness, header->code, bytes, ahead == 0);
}

static void answer(dtn_harness_t *harness, header_t header, uint8_t status)
{
    header.version = DTN_HARNESS_PROTOCOL;
    header.code = status;
    memcpy(harness->frame.bytes, &header, sizeof header);
    dtn_frame_send(&harness->frame);
}

void dtn_harness_fault(dtn_harness_t *harness, const void *data, uint32_t bytes)
{
    header_t header = {.sequence = harness->sequence, .session = harness->session};
    uint32_t step = harness->executor == NULL ? 0 : harness->executor->step;
    uint32_t most = DTN_HARNESS_BLOCK_BYTES - (uint32_t)sizeof step;
    bytes = bytes < most ? bytes : most;
    (void)reply(harness, data, bytes);
    memcpy(data_of(harness) + bytes, &step, sizeof step);
    harness->frame.count += (uint32_t)sizeof step;
    answer(harness, header, DTN_HARNESS_FAULT);
}

void dtn_harness_poll(dtn_harness_t *harness)
{
    for (int32_t byte = dtn_port_getc(); byte >= 0; byte = dtn_port_getc()) {
        dtn_frame_state_t state = dtn_frame_put(&harness->frame, (uint8_t)byte);
        header_t header = {0};
        if (state == DTN_FRAME_COMPLETE) {
            memcpy(&header, harness->frame.bytes, sizeof header);
            answer(harness, header, handle(harness, &header));
        } else if (state == DTN_FRAME_DAMAGED) {
            harness->frame.count = DTN_HARNESS_HEADER_BYTES;
            answer(harness, header, DTN_HARNESS_DAMAGED);
        }
    }
}
