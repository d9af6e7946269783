/* When start-up calls `dtn_board_start`: before it writes to memory, and once. */
#include "deuteron/port.h"
#include "semihost.h"
#include "startup.h"

extern uint32_t __dtn_stack_limit[];

int main(void);
void dtn_board_start(void);

static volatile uint32_t data = 5;
static volatile uint32_t bss;
/* Neither loaded nor cleared: the emulator's memory is 0. */
static struct {
    volatile uint32_t calls;
    volatile uint32_t data;
    volatile uint32_t stack;
} seen __attribute__((section(".dtn_arena.seen")));

void dtn_board_start(void)
{
    seen.calls = seen.calls + 1;
    seen.data = data;
    seen.stack = *__dtn_stack_limit;
    data = 7;
    bss = 7;
}

static void line(const char *name, uint32_t value)
{
    dtn_semihost_print(name);
    dtn_semihost_print_hex(value);
    dtn_semihost_print("\n");
}

int main(void)
{
    (void)dtn_port_init();
    line("calls ", seen.calls);
    line("data before ", seen.data);
    line("stack before ", seen.stack);
    line("data ", data);
    line("bss ", bss);
    line("stack ", *__dtn_stack_limit);
    dtn_semihost_exit(0);
}
