/*
 * Random calls of the Cortex-M layers on a board, as test_cortex_m_layers.c has them on a host. Nothing behind a
 * value may be read or written, and nothing below one written.
 *
 * The command line has the number of calls and the seed of the first.
 */
#include <stdlib.h>
#include <string.h>

#include "../layer_call.h"
#include "guarded_values.h"
#include "semihost.h"

static int8_t expected[DTN_SLOT_BYTES];
static char line[64];

int main(void);

/* The result of a call. */
typedef enum { TOO_LARGE, REFUSED, RIGHT, WRONG } result_t;

static result_t one_call(uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15);
    layer_t layer;
    layer_random(&layer, &state);
    if (!dtn_slots_place(&layer.call)) {
        return TOO_LARGE;
    }
    for (uint32_t i = 0; i < layer.call.input_count + layer.call.output_count; i++) {
        layer_fill(&layer, i, &state);
    }
    if (layer_operators[layer.kind](&layer.call, DTN_PHASE_CHECK) != DTN_OK ||
        layer_operators[layer.kind](&layer.call, DTN_PHASE_RUN) != DTN_OK) {
        return REFUSED;
    }
    layer_expect(&layer, expected);
    const dtn_tensor_t *output = layer_output(&layer);
    const bool is_right = memcmp(expected, output->data, output->bytes) == 0;
    return is_right && dtn_slots_are_kept(&layer.call) ? RIGHT : WRONG;
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
            print("computes something else, or writes below a value: seed ", first + i);
        }
    }
    print("right ", results[RIGHT]);
    return results[WRONG] == 0 ? 0 : 1;
}

int main(void)
{
    dtn_slots_on();
    char *next = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    uint32_t calls = next == NULL ? 0 : (uint32_t)strtoul(next, &next, 10);
    uint32_t first = next == NULL ? 0 : (uint32_t)strtoul(next, &next, 10);
    if (calls == 0) {
        /* Shows that the guards work. */
        dtn_semihost_exit(*(volatile uint8_t *)dtn_slots[first % DTN_GUARDS].guard);
    }
    dtn_semihost_exit(run(calls, first));
}
