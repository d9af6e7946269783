#include "options.h"

#include <stdbool.h>
#include <string.h>

#include "semihost.h"

/* Longest command line in bytes. */
#ifndef DTN_COMMAND_LINE_BYTES
#define DTN_COMMAND_LINE_BYTES 1024
#endif

static char line[DTN_COMMAND_LINE_BYTES];

void dtn_usage_error(const char *what, const char *name)
{
    dtn_semihost_print("error: ");
    dtn_semihost_print(what);
    dtn_semihost_print(name);
    dtn_semihost_print("\n");
    dtn_semihost_exit(DTN_EXIT_USAGE);
}

/* The next word, ended with a zero byte in place, or NULL; `at` moves behind it. */
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
            dtn_usage_error("no number below 2^32 follows ", option);
        }
        value = value * 10 + unit;
    }
    return value;
}

static void add_file(const char **files, uint32_t *count, const char *option, const char *name)
{
    if (*count == DTN_MAX_FILES) {
        dtn_usage_error("more than 16 times ", option);
    }
    files[*count] = name;
    *count += 1;
}

static void set(dtn_options_t *options, const char *option, const char *value)
{
    if (strcmp(option, "--input") == 0) {
        add_file(options->inputs, &options->input_count, option, value);
    } else if (strcmp(option, "--output") == 0) {
        add_file(options->outputs, &options->output_count, option, value);
    } else if (strcmp(option, "--events") == 0) {
        options->events = value;
    } else if (strcmp(option, "--fault") == 0) {
        options->fault = value;
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

void dtn_options_read(dtn_options_t *options)
{
    *options = (dtn_options_t){.runs = 1};
    if (!dtn_semihost_command_line(line, sizeof line)) {
        dtn_usage_error("the command line is too long", "");
    }
    char *at = line;
    (void)next_word(&at);
    for (const char *option = next_word(&at); option != NULL; option = next_word(&at)) {
        const char *value = next_word(&at);
        if (value == NULL) {
            dtn_usage_error("nothing follows ", option);
        }
        set(options, option, value);
    }
}
