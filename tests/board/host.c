/* One executor for a bundle of this library, so that ctypes needs no structs of the firmware. */
#include "deuteron/errors.h"
#include "deuteron/executor.h"

/* -DBUNDLE=name of the bundle, -DMEMORIES=name of its memories */
extern const dtn_bundle_t BUNDLE;
extern const dtn_memory_t MEMORIES[];

const char *host_init(void);
const char *host_run(const void *const *inputs, void *const *outputs);
const char *host_run_bound(void **inputs, void **outputs, uint32_t *is_bound);

static dtn_executor_t executor;

static const char *sentence(NeutronError error)
{
    return error == ENONE ? NULL : dtn_error_string(error);
}

const char *host_init(void)
{
    NeutronError error = neutronInit();
    return sentence(error == ENONE ? dtn_executor_init(&executor, &BUNDLE, MEMORIES) : error);
}

const char *host_run(const void *const *inputs, void *const *outputs)
{
    return sentence(dtn_executor_run(&executor, inputs, outputs));
}

/* The same with all inputs and outputs bound that may be, whose buffers are aligned to 16; `is_bound` says which are.
 */
const char *host_run_bound(void **inputs, void **outputs, uint32_t *is_bound)
{
    enum { MOST = 16 };
    static dtn_binding_t bindings[MOST];
    const dtn_bundle_t *bundle = executor.bundle;
    for (uint32_t i = 0; i < bundle->input_count + bundle->output_count; i++) {
        bool in = i < bundle->input_count;
        uint32_t index = in ? i : i - bundle->input_count;
        uint32_t bytes = bundle->values[in ? bundle->inputs[index] : bundle->outputs[index]].bytes;
        void **buffer = in ? &inputs[index] : &outputs[index];
        NeutronError error = i == MOST ? dtn_error(DTN_REASON_TENSOR_COUNT, i)
                             : in      ? dtn_executor_bind_input(&executor, index, &bindings[i], *buffer, bytes)
                                       : dtn_executor_bind_output(&executor, index, &bindings[i], *buffer, bytes);
        if (error != ENONE && DTN_ERROR_REASON(error) != DTN_REASON_BUFFER_SHARED) {
            return sentence(error);
        }
        is_bound[i] = error == ENONE;
        *buffer = error == ENONE ? NULL : *buffer;
    }
    NeutronError error = dtn_executor_run(&executor, (const void *const *)inputs, outputs);
    for (uint32_t i = 0; i < bundle->input_count + bundle->output_count; i++) {
        (void)dtn_executor_unbind(&executor, &bindings[i]);
    }
    return sentence(error);
}
