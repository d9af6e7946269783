#include "executor.h"

#include <stddef.h>

#include "../driver/progress.h"
#include "bundle.h"
#include "delegate.h"
#include "deuteron/errors.h"
#include "deuteron/port.h"
#include "io.h"
#include "run_step.h"
#include "values.h"

#if DTN_PROFILING
/* NULL if the port has none. Weak only here, so that a port's definition, which includes its header, is strong. */
__attribute__((weak)) bool dtn_port_npu_cycles(uint32_t *cycles);
__attribute__((weak)) bool dtn_port_npu_counter(uint32_t index, uint32_t *what, uint32_t *count);
#endif

NeutronError dtn_executor_init(dtn_executor_t *executor, const dtn_bundle_t *bundle, const dtn_memory_t *memories)
{
    if (executor == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    *executor = (dtn_executor_t){.memories = memories};
    NeutronError error = dtn_bundle_check(bundle, memories);
    return error == ENONE ? dtn_executor_prepare(executor, bundle) : error;
}

#if DTN_PROFILING
/* For a caller that wants events. */
static void record_until(dtn_executor_t *executor, uint32_t kind, uint32_t index, uint32_t start, uint32_t stop)
{
    if (executor->event_count == executor->event_capacity) {
        executor->event_lost++;
        return;
    }
    dtn_event_t event = {kind, index, start, stop};
    executor->events[executor->event_count++] = event;
}

/* Values of the NPU's own counters, and the kinds of their events. */
typedef struct {
    uint32_t count;
    uint32_t kinds[1 + DTN_NPU_COUNTERS];
    uint32_t values[1 + DTN_NPU_COUNTERS];
} counters_t;

/* A started step: ticks, and the NPU's own counters if it has any. */
typedef struct {
    uint32_t start;
    counters_t counters;
} begun_t;

static void read_counters(counters_t *counters)
{
    enum { WHAT_AT = 8 };
    if (dtn_port_npu_cycles != NULL && dtn_port_npu_cycles(counters->values)) {
        counters->kinds[counters->count++] = DTN_EVENT_NPU;
    }
    uint32_t what;
    for (uint32_t i = 0; dtn_port_npu_counter != NULL && i < DTN_NPU_COUNTERS &&
                         dtn_port_npu_counter(i, &what, &counters->values[counters->count]);
         i++) {
        counters->kinds[counters->count++] = DTN_EVENT_COUNTER | what << WHAT_AT;
    }
}

static void begin_step(const dtn_executor_t *executor, begun_t *begun)
{
    begun->counters.count = 0;
    /* The NPU may have clock and power only during its steps. */
    if (executor->events != NULL && executor->bundle->steps[executor->step].kind == DTN_STEP_DELEGATE) {
        read_counters(&begun->counters);
    }
    begun->start = dtn_run_ticks(executor);
}

/* Records the counts of the step, up to the first counter that exists only before or after it. */
static void record_counters(dtn_executor_t *executor, const counters_t *before)
{
    counters_t after;
    after.count = 0;
    read_counters(&after);
    for (uint32_t i = 0; i < before->count && i < after.count && before->kinds[i] == after.kinds[i]; i++) {
        record_until(executor, before->kinds[i], executor->step, before->values[i], after.values[i]);
    }
}

/* Records the driver's events of the step, then the step itself, whose stop is before that copy. */
static void record_step(dtn_executor_t *executor, const begun_t *begun)
{
    enum { START = 1, STOP = 3, WORDS = 4 };
    if (executor->events == NULL) {
        return;
    }
    const dtn_step_t *step = &executor->bundle->steps[executor->step];
    uint32_t stop = dtn_port_ticks();
    uint32_t count = 0;
    if (begun->counters.count != 0) {
        record_counters(executor, &begun->counters);
    }
    if (step->kind == DTN_STEP_DELEGATE) {
        const uint32_t *records = dtn_delegate_records(executor, step, &count);
        for (uint32_t i = 0; i < count; i++) {
            const bool is_command = i + 1 < count;
            record_until(executor, is_command ? DTN_EVENT_COMMAND : DTN_EVENT_DRIVER, i,
                         records[is_command ? START : STOP], records[is_command ? STOP : START]);
            records += WORDS;
        }
    }
    record_until(executor, DTN_EVENT_STEP, executor->step, begun->start, stop);
    if (count != 0) {
        record_until(executor, DTN_EVENT_RECORDING, executor->step, stop, dtn_port_ticks());
    }
}

static void record(dtn_executor_t *executor, uint32_t kind, uint32_t index, uint32_t start)
{
    if (executor->events != NULL) {
        record_until(executor, kind, index, start, dtn_port_ticks());
    }
}
#else
static void record(dtn_executor_t *executor, uint32_t kind, uint32_t index, uint32_t start)
{
    if (executor->events != NULL && executor->event_count < executor->event_capacity) {
        dtn_event_t event = {kind, index, start, dtn_run_ticks(executor)};
        executor->events[executor->event_count++] = event;
    }
}

typedef uint32_t begun_t;

static void begin_step(const dtn_executor_t *executor, begun_t *begun)
{
    *begun = dtn_run_ticks(executor);
}

static void record_step(dtn_executor_t *executor, const begun_t *begun)
{
    record(executor, DTN_EVENT_STEP, executor->step, *begun);
}
#endif

NeutronError dtn_run_copy(dtn_executor_t *executor, uint32_t kind, const void *const *buffers)
{
    const dtn_bundle_t *bundle = executor->bundle;
    bool in = kind == DTN_EVENT_COPY_IN;
    uint32_t count = in ? bundle->input_count : bundle->output_count;
    for (uint32_t i = 0; buffers != NULL && i < count; i++) {
        const dtn_value_t *value = &bundle->values[in ? bundle->inputs[i] : bundle->outputs[i]];
        uint32_t start = dtn_run_ticks(executor);
        void *own = dtn_value_data(executor, value);
        void *other = (void *)buffers[i]; /* outputs are not const */
        if (other == NULL) {
            continue;
        }
        dtn_reason_t reason = dtn_copy(in ? own : other, in ? other : own, value->bytes, DTN_REASON_IO_COPY);
        if (reason != DTN_OK) {
            return dtn_error(reason, in ? i : bundle->input_count + i);
        }
        record(executor, kind, i, start);
    }
    return ENONE;
}

NeutronError dtn_run_step(dtn_executor_t *executor)
{
    begun_t begun;
    begin_step(executor, &begun);
    NeutronError error = dtn_step_call(executor, executor->step, DTN_PHASE_RUN);
    if (error != ENONE) {
        return error;
    }
    record_step(executor, &begun);
    /* Nothing aborts a run that changes the state. */
    bool changes = executor->bundle->steps[executor->step++].kind == DTN_STEP_CHANGE;
    dtn_reason_t reason = dtn_progress();
    return changes ? ENONE : dtn_error(reason, 0);
}

NeutronError dtn_executor_run(dtn_executor_t *executor, const void *const *inputs, void *const *outputs)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    NeutronError error = dtn_run_start(executor, inputs);
    for (uint32_t left = executor->bundle->step_count; error == ENONE && left != 0; left--) {
        error = dtn_run_step(executor);
    }
    if (error == ENONE) {
        error = dtn_run_copy(executor, DTN_EVENT_COPY_OUT, (const void *const *)outputs);
    }
#if DTN_PROFILING
    executor->run_stop = dtn_run_ticks(executor);
#endif
    return error;
}

/* NULL without a bundle or beyond its inputs or outputs. */
static void *io_data(const dtn_executor_t *executor, bool in, uint32_t index)
{
    const dtn_bundle_t *bundle = executor == NULL ? NULL : executor->bundle;
    if (bundle == NULL || index >= (in ? bundle->input_count : bundle->output_count)) {
        return NULL;
    }
    return dtn_value_data(executor, &bundle->values[(in ? bundle->inputs : bundle->outputs)[index]]);
}

void *dtn_executor_input(const dtn_executor_t *executor, uint32_t index)
{
    return io_data(executor, true, index);
}

const void *dtn_executor_output(const dtn_executor_t *executor, uint32_t index)
{
    return io_data(executor, false, index);
}

NeutronError dtn_executor_deinit(dtn_executor_t *executor)
{
    if (executor == NULL || executor->bundle == NULL) {
        return dtn_error(DTN_REASON_NULL_POINTER, 0);
    }
    NeutronError error = dtn_delegates_unprepare(executor);
    executor->bundle = NULL;
    return error;
}
