/*
 * Random calls of the Cortex-M layers, most of them damaged. Calls that a check accepts must stay within their values,
 * each a separate heap block for the sanitizers, and give the results of a plain loop.
 */
#include <stdlib.h>
#include <string.h>

#include "layer_call.h"

static uint64_t state;

/* Changes a word, a size, a type or a count. */
static void damage(layer_t *layer)
{
    dtn_operator_call_t *call = &layer->call;
    uint32_t values = call->input_count + call->output_count;
    dtn_tensor_t *value = &call->values[test_between(&state, 0, (int32_t)values - 1)];
    uint32_t *word = &layer->params.words[test_between(&state, 0, (int32_t)call->param_count - 1)];
    switch (test_between(&state, 0, 9)) {
    case 0:
        value->bytes = value->bytes == 0 || test_between(&state, 0, 1) == 0 ? value->bytes + 1 : value->bytes - 1;
        break;
    case 1:
        value->type = (uint32_t)test_between(&state, 0, 3);
        break;
    case 2:
        call->param_count += test_between(&state, 0, 1) == 0 ? 1U : UINT32_MAX;
        break;
    case 3:
        call->input_count -= 1;
        call->output_count += 1;
        break;
    case 4:
        *word = (uint32_t)test_random(&state);
        break;
    case 5:
        *word ^= UINT32_C(1) << test_between(&state, 0, 31);
        break;
    default:
        *word += (uint32_t)test_between(&state, -3, 3);
        break;
    }
}

/* Values in heap blocks of their own. */
static void place(layer_t *layer, void *blocks[DTN_MAX_OPERATOR_VALUES])
{
    dtn_operator_call_t *call = &layer->call;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        dtn_tensor_t *value = &call->values[i];
        /* ExecuTorch's runtime may start a scratch of bytes anywhere; behind the factors there is one. That runtime
         * lacks WINOGRAD. */
        size_t start =
            layer->kind != WINOGRAD && i > 3 && value->type == DTN_TYPE_U8 ? (size_t)test_between(&state, 0, 4) : 0;
        blocks[i] = malloc(start + value->bytes);
        value->data = (uint8_t *)blocks[i] + start;
        layer_fill(layer, i, &state);
    }
}

/* True when the call ran. */
static bool one_call(uint64_t seed)
{
    state = seed * UINT64_C(0x9E3779B97F4A7C15);
    layer_t layer;
    void *blocks[DTN_MAX_OPERATOR_VALUES];
    layer_random(&layer, &state);
    bool damaged = test_between(&state, 0, 3) != 0;
    for (int32_t i = damaged ? test_between(&state, 1, 3) : 0; i > 0; i--) {
        damage(&layer);
    }
    place(&layer, blocks);
    dtn_operator_call_t *call = &layer.call;
    bool ran = false;
    if (layer_operators[layer.kind](call, DTN_PHASE_CHECK) == DTN_OK) {
        ran = layer_operators[layer.kind](call, DTN_PHASE_RUN) == DTN_OK;
    } else {
        CHECK(damaged, "seed %" PRIu64 " is refused", seed);
    }
    if (ran) {
        const dtn_tensor_t *output = layer_output(&layer);
        int8_t *expected = (int8_t *)malloc(output->bytes);
        layer_expect(&layer, expected);
        CHECK(memcmp(expected, output->data, output->bytes) == 0, "seed %" PRIu64 " computes something else", seed);
        free(expected);
    }
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        free(blocks[i]);
    }
    return ran;
}

int main(int count, char **arguments)
{
    return test_seeds(count, arguments, one_call, 75);
}
