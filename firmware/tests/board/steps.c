/*
 * The steps of `dtn_bundle`, operators all, each on copies of its values behind which nothing may be read or written.
 *
 * The program has no inputs. The second half of its outputs are constants: what the first half must be.
 */
#include <string.h>

#include "deuteron/executor.h"
#include "guarded_values.h"
#include "semihost.h"

extern const dtn_bundle_t dtn_bundle;
extern const dtn_memory_t dtn_bundle_memories[];

int main(void);

static const uint8_t *content(const dtn_value_t *value)
{
    const void *start = value->memory < DTN_MEMORY_CONSTANT
                            ? dtn_bundle_memories[value->memory].data
                            : dtn_bundle.constants[value->memory - DTN_MEMORY_CONSTANT].data;
    return (const uint8_t *)start + value->offset;
}

/* False when a value is too large, the operator refuses the call, or it writes below a value. */
static bool run(const dtn_step_t *step)
{
    const uint32_t *words = dtn_bundle.words + step->first;
    uint32_t count = step->inputs + step->outputs;
    dtn_operator_call_t call = {words + count, step->params, step->inputs, step->outputs, {{NULL, 0, 0}}};
    for (uint32_t i = 0; i < count; i++) {
        const dtn_value_t *value = &dtn_bundle.values[words[i]];
        call.values[i] = (dtn_tensor_t){NULL, value->bytes, value->type};
    }
    if (step->kind != DTN_STEP_OPERATOR || !dtn_slots_place(&call)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        memcpy(call.values[i].data, content(&dtn_bundle.values[words[i]]), call.values[i].bytes);
    }
    dtn_operator_t operator = dtn_bundle.operators[step->index];
    if (operator(&call, DTN_PHASE_CHECK) != DTN_OK || operator(&call, DTN_PHASE_RUN) != DTN_OK ||
        !dtn_slots_are_kept(&call)) {
        return false;
    }
    for (uint32_t i = step->inputs; i < count; i++) {
        const dtn_value_t *value = &dtn_bundle.values[words[i]];
        uint8_t *memory = (uint8_t *)dtn_bundle_memories[value->memory].data;
        memcpy(memory + value->offset, call.values[i].data, value->bytes);
    }
    return true;
}

static void print(const char *text, uint32_t number)
{
    dtn_semihost_print(text);
    dtn_semihost_print_number(number);
    dtn_semihost_print("\n");
}

int main(void)
{
    dtn_slots_on();
    for (uint32_t i = 0; i < dtn_bundle.step_count; i++) {
        if (!run(&dtn_bundle.steps[i])) {
            print("does not run: step ", i);
            dtn_semihost_exit(1);
        }
    }
    uint32_t right = 0;
    uint32_t outputs = dtn_bundle.output_count / 2;
    for (uint32_t i = 0; i < outputs; i++) {
        const dtn_value_t *value = &dtn_bundle.values[dtn_bundle.outputs[i]];
        const dtn_value_t *expected = &dtn_bundle.values[dtn_bundle.outputs[outputs + i]];
        bool is_right = memcmp(content(value), content(expected), expected->bytes) == 0;
        right += is_right ? 1 : 0;
        if (!is_right) {
            print("differs: output ", i);
        }
    }
    print("right ", right);
    dtn_semihost_exit(right == outputs ? 0 : 1);
}
