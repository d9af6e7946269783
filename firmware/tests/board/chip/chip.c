/* Start-up code as chip makers ship it, and an application on port/template: runs a bundle on a file of the host. */
#include <string.h>

#include "deuteron/executor.h"
#include "fetch_hooks.h"
#include "semihost.h"

extern uint8_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];
extern const dtn_bundle_t dtn_bundle;
extern const dtn_memory_t dtn_bundle_memories[];

typedef union {
    void *stack;
    void (*handler)(void);
} vector_t;

int main(void);
void reset(void);

const vector_t vectors[] __attribute__((section(".vectors"), used)) = {{.stack = stack_top}, {.handler = reset}};

static uint8_t input[4096];
static uint8_t outputs[3][4096];

void reset(void)
{
    *(volatile uint32_t *)0xE000ED88U |= UINT32_C(0xF) << 20; /* the FPU */
    memcpy(data_start, data_load, (size_t)(data_end - data_start));
    memset(bss_start, 0, (size_t)(bss_end - bss_start));
    dtn_semihost_exit((uint32_t)main());
}

int main(void)
{
    dtn_executor_t executor;
    const void *from[] = {input};
    void *to[] = {outputs[0], outputs[1], outputs[2]};
    dtn_file_t file = dtn_semihost_open("x", false);
    if (file == DTN_NO_FILE || !dtn_semihost_read(file, input, sizeof input)) {
        return 2;
    }
    NeutronError error = neutronInit();
    if (error == ENONE) {
        error = fetch_hooks_install();
    }
    if (error == ENONE) {
        error = dtn_executor_init(&executor, &dtn_bundle, dtn_bundle_memories);
    }
    if (error == ENONE) {
        error = dtn_executor_run(&executor, from, to);
    }
    if (error != ENONE) {
        dtn_semihost_print(dtn_error_string(error));
        return 1;
    }
    file = dtn_semihost_open("y", true);
    return dtn_semihost_write(file, outputs, sizeof outputs) && dtn_semihost_close(file) ? 0 : 2;
}
