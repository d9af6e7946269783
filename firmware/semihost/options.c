#include "options.h"

#include <stdbool.h>
#include <string.h>

#include "semihost.h"

void dtn_usage_error(const char *what, const char *name)
{
    dtn_semihost_print("error: ");
    dtn_semihost_print(what);
    dtn_semihost_print(name);
    dtn_semihost_print("\n");
    dtn_semihost_exit(DTN_EXIT_USAGE);
}

/* The next word, terminated with a zero byte in place, or NULL; moves `at` after it. */
static const char *next_word(char **at)
{
    char *word = *at;
    while (*word == ' ') {
        word++;
    }
    if (*word == '\0') {
        return NULL;
    }
    char *end = word;
    while (*end != ' ' && *end != '\0') {
        end++;
    }
    *at = *end == '\0' ? end : end + 1;
    *end = '\0';
    return word;
}

static uint32_t number(const char *option, const char *word)
{
    uint32_t value = 0;
    for (const char *digit = word; *digit != '\0'; digit++) {
        uint32_t unit = (uint32_t)(*digit - '0');
        if (unit > 9 || value > (UINT32_MAX - unit) / 10) {
            dtn_usage_error("a number below 2^32 must follow ", option);
        }
        value = value * 10 + unit;
    }
    return value;
}

static void set(dtn_options_t *options, const char *option, const char *value)
{
    if (strcmp(option, "--input") == 0) {
        options->inputs[options->input_count++] = value;
    } else if (strcmp(option, "--output") == 0) {
        options->outputs[options->output_count++] = value;
    } else if (strcmp(option, "--events") == 0) {
        options->events = value;
    } else if (strcmp(option, "--fault") == 0) {
        options->fault = value;
    } else if (strcmp(option, "--resets") == 0) {
        options->resets = value;
    } else if (strcmp(option, "--runs") == 0) {
        options->runs = number(option, value);
    } else if (strcmp(option, "--flash-latency-ns") == 0) {
        options->flash_latency_ns = number(option, value);
    } else if (strcmp(option, "--flash-bytes-per-second") == 0) {
        options->flash_bytes_per_second = number(option, value);
#if DTN_PROFILING
    } else if (strcmp(option, "--profile") == 0) {
        options->profile = value;
    } else if (strcmp(option, "--event-capacity") == 0) {
        options->event_capacity = number(option, value);
#endif
    } else {
        dtn_usage_error("unknown option ", option);
    }
}

void dtn_options_read(dtn_options_t *options, dtn_heap_t *heap)
{
    char *at = (char *)heap->at;
    if (!dtn_semihost_command_line(at, heap->left)) {
        dtn_usage_error("the command line is too long", "");
    }
    uint32_t bytes = (uint32_t)strlen(at) + 1;
    (void)dtn_heap_allocate(heap, bytes, 1);
    uint32_t most_files = bytes / (uint32_t)sizeof "--input x"; /* no file option is shorter */
    *options = (dtn_options_t){
        .inputs = (const char **)dtn_heap_allocate(heap, most_files, sizeof(char *)),
        .outputs = (const char **)dtn_heap_allocate(heap, most_files, sizeof(char *)),
        .runs = 1,
    };
    (void)next_word(&at);
    for (const char *option = next_word(&at); option != NULL; option = next_word(&at)) {
        const char *value = next_word(&at);
        if (value == NULL) {
            dtn_usage_error("a value must follow ", option);
        }
        set(options, option, value);
    }
}
