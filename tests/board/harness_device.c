/* A board with the harness in this process, for ctypes: a line of bytes, resets at any byte or step, and memory that
 * another master writes. */
#include <setjmp.h>
#include <string.h>

#include "deuteron/harness.h"

extern const dtn_bundle_t dtn_bundle;
extern const dtn_memory_t dtn_bundle_memories[];

void device_start(const uint8_t *program);
void device_restart_at(uint32_t step);
uint32_t device_runs(void);
uint32_t device_feed(const uint8_t *bytes, uint32_t count, uint8_t *reply, uint32_t capacity);
uint32_t device_fault(uint32_t bytes, uint8_t *reply, uint32_t capacity);
void device_damage_at(uint32_t step, uint32_t value);
void device_restart_after(uint32_t bytes);
void device_late(uint32_t step, uint32_t value, uint32_t requests);
uint32_t device_edges(uint8_t *levels);

enum { EVENTS = 64, EDGES = 256, LATE_BYTES = 8 };

#define NEVER UINT32_C(0xFFFFFFFE)

static dtn_executor_t executor;
static dtn_harness_t harness;
static dtn_event_t events[EVENTS];
static const uint8_t *hash;
static const uint8_t *incoming;
static uint32_t incoming_count;
static uint8_t *outgoing;
static uint32_t outgoing_count;
static uint32_t outgoing_capacity;
static uint32_t restart_step = NEVER;
static uint32_t damage_step = NEVER;
static uint32_t damaged_value;
static uint32_t runs;
static uint32_t restart_bytes = NEVER;
static uint32_t late_step = NEVER;
static uint32_t late_value;
static uint32_t late_requests;
static uint32_t late_left;
static bool is_armed; /* the step runs */
static bool is_late;
static bool is_running;
static uint8_t late[LATE_BYTES];
static uint8_t edges[EDGES];
static uint32_t edge_count;
static jmp_buf power;

void device_start(const uint8_t *program)
{
    hash = program;
    memset(&harness, 0, sizeof harness);
    restart_bytes = NEVER;
    for (uint32_t i = 0; i < dtn_bundle.memory_count; i++) {
        memset(dtn_bundle_memories[i].data, 0xA5, dtn_bundle_memories[i].bytes);
    }
    harness.info = (dtn_harness_info_t){.board = "host", .program = program, .core_hz = 1000, .ticks_hz = 1000};
    harness.info.init_error = (uint32_t)dtn_executor_init(&executor, &dtn_bundle, dtn_bundle_memories);
    harness.bundle = &dtn_bundle;
    harness.executor = &executor;
    executor.events = events;
    executor.event_capacity = EVENTS;
}

void device_restart_at(uint32_t step)
{
    restart_step = step;
}

/* Changes the exponent of a value whenever a step starts, as another master of the memory. */
void device_damage_at(uint32_t step, uint32_t value)
{
    damage_step = step;
    damaged_value = value;
}

/* Restarts before the byte of either direction that follows so many. */
void device_restart_after(uint32_t bytes)
{
    restart_bytes = bytes;
}

/* The result of a step arrives late, as by a DMA: when the step ends its first bytes are wrong, and they become right
 * before the request that follows so many. */
void device_late(uint32_t step, uint32_t value, uint32_t requests)
{
    late_step = step;
    late_value = value;
    late_requests = requests;
    is_late = false;
    is_armed = false;
}

/* The levels of the step pin since the last call. */
uint32_t device_edges(uint8_t *levels)
{
    uint32_t count = edge_count;
    memcpy(levels, edges, count);
    edge_count = 0;
    return count;
}

static void write_late(void)
{
    uint8_t *data = (uint8_t *)dtn_executor_value(&executor, late_value);
    memcpy(late, data, LATE_BYTES);
    memset(data, 0x55, LATE_BYTES);
    late_left = late_requests;
    is_late = true;
    is_armed = false;
}

static void arrive_late(void)
{
    if (is_late && late_left-- == 0) {
        memcpy(dtn_executor_value(&executor, late_value), late, LATE_BYTES);
        is_late = false;
    }
}

static void count_byte(void)
{
    if (restart_bytes != NEVER && restart_bytes-- == 0) {
        restart_bytes = NEVER;
        longjmp(power, 1);
    }
}

uint32_t device_runs(void)
{
    return runs;
}

uint32_t device_feed(const uint8_t *bytes, uint32_t count, uint8_t *reply, uint32_t capacity)
{
    incoming = bytes;
    incoming_count = count;
    outgoing = reply;
    outgoing_count = 0;
    outgoing_capacity = capacity;
    if (count != 0) {
        arrive_late();
    }
    if (setjmp(power) == 0) {
        dtn_harness_poll(&harness);
    } else {
        restart_step = NEVER;
        is_late = false;
        device_start(hash);
    }
    return outgoing_count;
}

/* Reports a fault, as the handler does that stops the processor. */
uint32_t device_fault(uint32_t bytes, uint8_t *reply, uint32_t capacity)
{
    static const uint32_t fault[128] = {
        5, UINT32_C(1) << 15 | UINT32_C(1) << 9, 0, 0, 0x60000000, 0x20000F00, 0x1234, 0x5678};
    outgoing = reply;
    outgoing_count = 0;
    outgoing_capacity = capacity;
    dtn_harness_fault(&harness, fault, bytes);
    return outgoing_count;
}

int32_t dtn_port_getc(void)
{
    if (incoming_count == 0) {
        return -1;
    }
    count_byte();
    incoming_count--;
    return *incoming++;
}

bool dtn_port_putc(uint8_t byte)
{
    if (outgoing_count == outgoing_capacity) {
        return false;
    }
    count_byte();
    outgoing[outgoing_count++] = byte;
    return true;
}

uint32_t dtn_stack_used(void)
{
    return 0;
}

void dtn_port_trigger(uint32_t pin, bool level)
{
    if (pin == DTN_TRIGGER_RUN) {
        runs += level;
        is_running = level;
        return;
    }
    if (edge_count < EDGES) {
        edges[edge_count++] = (uint8_t)level;
    }
    if (is_armed && executor.step == late_step + 1) {
        write_late();
    }
    if (!is_running) {
        return;
    }
    is_armed = executor.step == late_step;
    if (executor.step == damage_step) {
        ((uint8_t *)dtn_executor_value(&executor, damaged_value))[3] ^= 0x40;
    }
    if (executor.step == restart_step) {
        longjmp(power, 1);
    }
}
