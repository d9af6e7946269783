/* Copies that go wrong, by what the command line names: what is reported, and that nothing is copied after it. */
#include "core.h"
#include "deuteron/io.h"
#include "faults.h"
#include "semihost.h"

#include <string.h>

enum { BYTES = 8192, SMALL = 64 };

int main(void);

static uint8_t from[BYTES];
static volatile uint8_t to[BYTES];

static void say(const char *what, int32_t error)
{
    dtn_semihost_print(what);
    dtn_semihost_print(error == 0 ? " copied\n" : " refused\n");
}

static void copy(const char *what, size_t bytes)
{
    say(what, dtn_io_copy((void *)to, from, bytes));
}

static void pass_time(void)
{
    for (volatile uint32_t i = 0; i < 3000000; i++) {
    }
}

int main(void)
{
    static char line[64];
    memset(from, 7, sizeof from);
    const char *fault = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    if (fault == NULL) {
        return 2;
    }
    if (strcmp(fault + 1, "masked") == 0) {
        uint32_t state = dtn_interrupts_off();
        copy("masked", BYTES);
        dtn_interrupts_restore(state);
    } else {
        (void)dtn_faults_set(fault + 1);
        copy("first", BYTES);
        pass_time();
        dtn_semihost_print(to[BYTES / 2 - 1] == 0 ? "nothing came later\n" : "something came later\n");
        copy("small", SMALL);
    }
    copy("next", BYTES);
    dtn_semihost_exit(to[BYTES - 1] == 7 ? 0 : 1);
}
