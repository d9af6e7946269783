/*
 * Random calls of the Cortex-M layers on a board, as test_cortex_m_layers.c has them on a host. Each value ends where
 * the memory protection unit begins to refuse: what is read or written behind it is a fault.
 *
 * The command line has the number of calls and the seed of the first.
 */
#include <stdlib.h>
#include <string.h>

#include "../layer_call.h"
#include "guards.h"
#include "semihost.h"

enum { MOST_BYTES = 12 * 1024, VALUES = DTN_GUARDS };

typedef struct {
    uint8_t memory[MOST_BYTES];
    uint8_t guard[DTN_GUARD_BYTES];
} slot_t;

static slot_t slots[VALUES] __attribute__((aligned(DTN_GUARD_BYTES)));
static int8_t expected[MOST_BYTES];
static char line[64];

int main(void);

/* Places each value at the end of its slot and fills it; false when one does not fit. */
static bool place(layer_t *layer, uint64_t *state)
{
    dtn_operator_call_t *call = &layer->call;
    uint32_t count = call->input_count + call->output_count;
    for (uint32_t i = 0; i < count; i++) {
        dtn_tensor_t *value = &call->values[i];
        if (i >= VALUES || value->bytes > MOST_BYTES) {
            return false;
        }
        value->data = slots[i].guard - value->bytes;
        layer_fill(layer, i, state);
    }
    return true;
}

/* What became of a call. */
typedef enum { TOO_LARGE, REFUSED, RIGHT, WRONG } result_t;

static result_t one_call(uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15);
    layer_t layer;
    layer_random(&layer, &state);
    if (!place(&layer, &state)) {
        return TOO_LARGE;
    }
    if (layer_operators[layer.kind](&layer.call, DTN_PHASE_CHECK) != DTN_OK ||
        layer_operators[layer.kind](&layer.call, DTN_PHASE_RUN) != DTN_OK) {
        return REFUSED;
    }
    layer_expect(&layer, expected);
    const dtn_tensor_t *output = layer_output(&layer);
    return memcmp(expected, output->data, output->bytes) == 0 ? RIGHT : WRONG;
}

static void print(const char *text, uint32_t number)
{
    dtn_semihost_print(text);
    dtn_semihost_print_number(number);
    dtn_semihost_print("\n");
}

static uint32_t run(uint32_t calls, uint32_t first)
{
    uint32_t results[WRONG + 1] = {0};
    for (uint32_t i = 0; i < calls; i++) {
        result_t result = one_call(first + i);
        results[result]++;
        if (result == WRONG) {
            print("computes something else: seed ", first + i);
        }
    }
    print("right ", results[RIGHT]);
    return results[WRONG] == 0 ? 0 : 1;
}

int main(void)
{
    for (uint32_t i = 0; i < VALUES; i++) {
        dtn_guard(i, slots[i].guard);
    }
    dtn_guards_on(slots, sizeof slots);
    char *next = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    uint32_t calls = next == NULL ? 0 : (uint32_t)strtoul(next, &next, 10);
    uint32_t first = next == NULL ? 0 : (uint32_t)strtoul(next, &next, 10);
    if (calls == 0) {
        /* Shows that the guards work. */
        dtn_semihost_exit(*(volatile uint8_t *)slots[first % VALUES].guard);
    }
    dtn_semihost_exit(run(calls, first));
}
