/* The runner, see runner.h. */
#include "board.h"
#include "deuteron/port.h"
#include "deuteron/profile.h"
#include "events.h"
#include "fault_injection.h"
#include "heap.h"
#include "options.h"
#include "run.h"
#include "runner.h"
#include "semihost.h"
#include "startup.h"

int main(void);

/* The files and buffers of the program's tensors. */
typedef struct {
    dtn_file_t *files;
    void **buffers;
    uint32_t *bytes;
    uint32_t count; /* 0 if none was named */
} tensors_t;

static dtn_file_t open_file(const char *name, bool write)
{
    dtn_file_t file = dtn_semihost_open(name, write);
    if (file == DTN_NO_FILE) {
        dtn_usage_error("cannot open ", name);
    }
    return file;
}

static void write_file(dtn_file_t file, const void *data, size_t bytes)
{
    if (!dtn_semihost_write(file, data, bytes)) {
        dtn_usage_error("cannot write to a file", "");
    }
}

static void open_tensors(tensors_t *tensors, dtn_heap_t *heap, const char *const *names, uint32_t named,
                         const uint32_t *values, uint32_t count, bool write)
{
    if (named != 0 && named != count) {
        dtn_usage_error("the number of files is not the program's number of ", write ? "outputs" : "inputs");
    }
    tensors->count = named;
    tensors->files = (dtn_file_t *)dtn_heap_allocate(heap, named, sizeof *tensors->files);
    tensors->buffers = (void **)dtn_heap_allocate(heap, named, sizeof *tensors->buffers);
    tensors->bytes = (uint32_t *)dtn_heap_allocate(heap, named, sizeof *tensors->bytes);
    for (uint32_t i = 0; i < named; i++) {
        tensors->bytes[i] = dtn_bundle.values[values[i]].bytes;
        tensors->files[i] = open_file(names[i], write);
        tensors->buffers[i] = dtn_heap_allocate(heap, tensors->bytes[i], 1);
    }
}

static void check_sizes(const tensors_t *inputs, const dtn_options_t *options)
{
    for (uint32_t i = 0; i < inputs->count; i++) {
        uint64_t needed = (uint64_t)inputs->bytes[i] * options->runs;
        int32_t size = dtn_semihost_size(inputs->files[i]);
        if (size < 0 || (uint64_t)size != needed) {
            dtn_usage_error("wrong size for this input in all runs: ", options->inputs[i]);
        }
    }
}

/* In numbers, for which the host has the texts: in the image these would need as much memory as a small program. */
static void print_error(NeutronError error, const char *what, uint32_t number)
{
    dtn_semihost_print("error: ");
    dtn_semihost_print(what);
    dtn_semihost_print_number(number);
    dtn_semihost_print(": reason ");
    dtn_semihost_print_number((uint32_t)DTN_ERROR_REASON(error));
    dtn_semihost_print(", detail ");
    dtn_semihost_print_number(DTN_ERROR_DETAIL(error));
    dtn_semihost_print(", code ");
    dtn_semihost_print_number((uint32_t)error);
    dtn_semihost_print("\n");
}

static void set_fault(const dtn_options_t *options)
{
    if (options->fault == NULL) {
        return;
    }
    if (dtn_faults_set == NULL) {
        dtn_usage_error("this image has no fault injection for ", options->fault);
    }
    if (!dtn_faults_set(options->fault)) {
        dtn_usage_error("not a fault: ", options->fault);
    }
}

static void prepare(dtn_executor_t *executor, const dtn_options_t *options, dtn_runner_header_t *header)
{
    dtn_prepared_t prepared = dtn_runner_prepare(executor, options->flash_latency_ns, options->flash_bytes_per_second);
    header->init_ticks = prepared.init_ticks;
    if (!prepared.is_npu_started) {
        dtn_usage_error("the NPU's driver does not start", "");
    }
    if (prepared.error != ENONE) {
        print_error(prepared.error, "bundle version ", dtn_bundle.version);
        dtn_semihost_exit(DTN_EXIT_FAILED);
    }
}

/* Memory for every event of a run. */
static void prepare_events(dtn_executor_t *executor, dtn_heap_t *heap)
{
    executor->event_capacity = dtn_bundle.step_count + dtn_bundle.input_count + dtn_bundle.output_count;
    executor->events = (dtn_event_t *)dtn_heap_allocate(heap, executor->event_capacity, sizeof(dtn_event_t));
}

#if DTN_PROFILING
/* Memory for the requested number of events, or as many as fit. */
static void prepare_profile(dtn_executor_t *executor, dtn_heap_t *heap, const dtn_options_t *options)
{
    uint32_t most = (uint32_t)(heap->left / sizeof(dtn_event_t));
    if (options->profile == NULL) {
        return;
    }
    if (!dtn_events_open(options->profile)) {
        dtn_usage_error("cannot open ", options->profile);
    }
    executor->event_capacity = options->event_capacity == 0 ? most : options->event_capacity;
    executor->events = (dtn_event_t *)dtn_heap_allocate(heap, executor->event_capacity, sizeof(dtn_event_t));
}
#endif

/* Runs once; true on success. */
static bool run_once(dtn_executor_t *executor, const tensors_t *inputs, const tensors_t *outputs, uint32_t number,
                     dtn_harness_run_t *run)
{
    for (uint32_t i = 0; i < inputs->count; i++) {
        if (!dtn_semihost_read(inputs->files[i], inputs->buffers[i], inputs->bytes[i])) {
            dtn_usage_error("cannot read from a file", "");
        }
    }
    dtn_run_request_t request = {
        .inputs = inputs->count == 0 ? NULL : (const void *const *)inputs->buffers,
        .outputs = outputs->count == 0 ? NULL : outputs->buffers,
        .stop = UINT32_MAX,
    };
    dtn_runner_run(executor, &request, run);
    if (run->error != ENONE) {
        print_error((NeutronError)run->error, "run ", number);
        return false;
    }
#if DTN_PROFILING
    if (!dtn_profile_send(executor, number, DTN_TICKS_HZ, DTN_PROFILE_INSTRUCTIONS)) {
        dtn_usage_error("cannot write to a file", "");
    }
#endif
    for (uint32_t i = 0; i < outputs->count; i++) {
        write_file(outputs->files[i], outputs->buffers[i], outputs->bytes[i]);
    }
    return true;
}

static dtn_file_t open_resets(const dtn_options_t *options)
{
    if (options->resets == NULL) {
        return DTN_NO_FILE;
    }
    dtn_file_t file = open_file(options->resets, false);
    int32_t size = dtn_semihost_size(file);
    if (size < 0 || (uint32_t)size != options->runs) {
        dtn_usage_error("not a byte for each run: ", options->resets);
    }
    return file;
}

/* Resets the state before a run for which the next byte of the file asks. */
static void reset(dtn_executor_t *executor, dtn_file_t resets)
{
    uint8_t is_reset = 0;
    if (resets != DTN_NO_FILE && !dtn_semihost_read(resets, &is_reset, 1)) {
        dtn_usage_error("cannot read from a file", "");
    }
    if (is_reset != 0 && dtn_runner_reset(executor) != ENONE) {
        dtn_usage_error("cannot reset the state", "");
    }
}

static bool close_tensors(const tensors_t *tensors)
{
    bool closed = true;
    for (uint32_t i = 0; i < tensors->count; i++) {
        closed = dtn_semihost_close(tensors->files[i]) && closed;
    }
    return closed;
}

static uint32_t run_all(dtn_executor_t *executor, dtn_heap_t *heap, const dtn_options_t *options,
                        dtn_runner_header_t *header)
{
    tensors_t inputs;
    tensors_t outputs;
    open_tensors(&inputs, heap, options->inputs, options->input_count, dtn_bundle.inputs, dtn_bundle.input_count,
                 false);
    open_tensors(&outputs, heap, options->outputs, options->output_count, dtn_bundle.outputs, dtn_bundle.output_count,
                 true);
    check_sizes(&inputs, options);
    dtn_file_t events = DTN_NO_FILE;
    if (options->events != NULL) {
        prepare_events(executor, heap);
        events = open_file(options->events, true);
        write_file(events, header, sizeof *header);
    }
#if DTN_PROFILING
    prepare_profile(executor, heap, options);
#endif
    dtn_file_t resets = open_resets(options);
    bool good = true;
    for (uint32_t i = 0; i < options->runs; i++) {
        dtn_harness_run_t run;
        reset(executor, resets);
        good = run_once(executor, &inputs, &outputs, i, &run) && good;
        if (events != DTN_NO_FILE) {
            write_file(events, &run, sizeof run);
            write_file(events, executor->events, run.events * sizeof(dtn_event_t));
        }
    }
    bool closed = close_tensors(&inputs) & close_tensors(&outputs);
#if DTN_PROFILING
    closed = dtn_events_close() && closed;
#endif
    if (!closed || (events != DTN_NO_FILE && !dtn_semihost_close(events))) {
        dtn_usage_error("cannot close a file", "");
    }
    return good ? DTN_EXIT_OK : DTN_EXIT_FAILED;
}

int main(void)
{
    dtn_options_t options;
    dtn_executor_t executor;
    dtn_heap_t heap;
    heap.at = (uint8_t *)dtn_free_memory(&heap.left);
    dtn_options_read(&options, &heap);
    dtn_runner_header_t header = {
        .magic = DTN_RUNNER_MAGIC,
        .version = DTN_RUNNER_VERSION,
        .ticks_hz = DTN_TICKS_HZ,
        .stack_bytes = dtn_stack_bytes(),
        .runs = options.runs,
    };
    set_fault(&options);
    prepare(&executor, &options, &header);
    dtn_semihost_exit(run_all(&executor, &heap, &options, &header));
}
