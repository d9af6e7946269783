/*
 * An application of two programs with little memory: both use the same memories, with separate contexts. A camera's two
 * frames are bound as input in turn; one program runs in steps; the watchdog's function aborts a run; a function plays
 * the chip's CRC unit. It prints the results.
 */
#include "deuteron/crc32.h"
#include "deuteron/driver.h"
#include "deuteron/errors.h"
#include "dtn_bundle.h"
#include "plain.h"
#include "semihost.h"

#include <stdbool.h>
#include <string.h>

enum { BYTES = 4096, OUTPUTS = 3, FRAMES = 2, ROUNDS = 4, MEMORIES = 2 };
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define MEMORY __attribute__((aligned(16)))

static uint8_t values[LARGER(DTN_BUNDLE_MEMORY0_BYTES, PLAIN_MEMORY0_BYTES)] MEMORY;
static uint8_t scratch[LARGER(DTN_BUNDLE_MEMORY1_BYTES, PLAIN_MEMORY1_BYTES)] MEMORY;
static uint8_t contexts[DTN_BUNDLE_CONTEXTS_BYTES] MEMORY;
static uint8_t plain_contexts[PLAIN_CONTEXTS_BYTES] MEMORY;
static uint8_t frames[FRAMES][BYTES] MEMORY;
static uint8_t result[BYTES] MEMORY;
static uint8_t expected[FRAMES][OUTPUTS][BYTES] MEMORY;
static uint8_t plain_expected[BYTES] MEMORY;

static const dtn_memory_t memories[MEMORIES] = {{values, sizeof values}, {scratch, sizeof scratch}};

static dtn_executor_t program;
static dtn_executor_t other;
static uint32_t crc_calls;

int main(void);

/* In the place of the library's. */
uint32_t dtn_crc32(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)data;
    crc_calls++;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (uint32_t bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0);
        }
    }
    return ~crc;
}

static bool stop(void *user)
{
    (void)user;
    return false;
}

static void print(const char *what, uint32_t number)
{
    dtn_semihost_print(what);
    dtn_semihost_print_number(number);
}

static bool is_right(uint32_t frame)
{
    bool right = true;
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        right = right && memcmp(dtn_executor_output(&program, i), expected[frame][i], BYTES) == 0;
    }
    return right;
}

/* The outputs by the programs' own memories and by copies: what all else is compared with. */
static NeutronError expect(void)
{
    NeutronError error = dtn_executor_init(&program, &dtn_bundle, dtn_bundle_memories);
    for (uint32_t frame = 0; error == ENONE && frame < FRAMES; frame++) {
        for (uint32_t i = 0; i < BYTES; i++) {
            frames[frame][i] = (uint8_t)(i * 37 + i / 64 + frame);
        }
        const void *inputs[] = {frames[frame]};
        void *outputs[] = {expected[frame][0], expected[frame][1], expected[frame][2]};
        error = dtn_executor_run(&program, inputs, outputs);
    }
    error = error == ENONE ? dtn_executor_init(&other, &plain, plain_memories) : error;
    const void *inputs[] = {frames[0]};
    void *outputs[] = {plain_expected};
    return error == ENONE ? dtn_executor_run(&other, inputs, outputs) : error;
}

static NeutronError share(void)
{
    const dtn_memory_t own = {contexts, sizeof contexts};
    const dtn_memory_t others = {plain_contexts, sizeof plain_contexts};
    NeutronError error = dtn_executor_init_shared(&program, &dtn_bundle, memories, &own);
    return error == ENONE ? dtn_executor_init_shared(&other, &plain, memories, &others) : error;
}

int main(void)
{
    static dtn_binding_t camera;
    static dtn_binding_t display;
    uint32_t right = 0;
    uint32_t other_right = 0;
    uint32_t steps = 0;
    NeutronError error = neutronInit();
    error = error == ENONE ? expect() : error;
    error = error == ENONE ? share() : error;
    error = error == ENONE ? dtn_executor_bind_output(&program, 1, &display, result, BYTES) : error;
    for (uint32_t round = 0; error == ENONE && round < ROUNDS; round++) {
        const uint32_t frame = round % FRAMES;
        error = dtn_executor_bind_input(&program, 0, &camera, frames[frame], BYTES);
        error = error == ENONE ? dtn_executor_start(&program, NULL) : error;
        while (error == ENONE && dtn_executor_steps_left(&program) != 0) {
            error = dtn_executor_step(&program);
            steps++;
        }
        error = error == ENONE ? dtn_executor_finish(&program, NULL) : error;
        right += error == ENONE && is_right(frame) && dtn_executor_output(&program, 1) == result;
        const void *inputs[] = {frames[0]};
        if (error == ENONE) {
            error = dtn_executor_run(&other, inputs, NULL);
            other_right += error == ENONE && memcmp(dtn_executor_output(&other, 0), plain_expected, BYTES) == 0;
        }
    }
    print("reason ", (uint32_t)DTN_ERROR_REASON(error));
    print(", right ", right);
    print(", other ", other_right);
    print(", steps ", steps);
    dtn_set_progress(stop, NULL);
    print("; aborted by reason ", (uint32_t)DTN_ERROR_REASON(dtn_executor_run(&program, NULL, NULL)));
    dtn_set_progress(NULL, NULL);
    error = dtn_executor_run(&program, NULL, NULL);
    print(", then reason ", (uint32_t)DTN_ERROR_REASON(error));
    dtn_semihost_print(is_right((ROUNDS - 1) % FRAMES) ? ", right" : ", wrong");
    dtn_semihost_print(crc_calls > 0 ? "; by the chip's CRC\n" : "; by the library's CRC\n");
    dtn_semihost_exit(0);
}
