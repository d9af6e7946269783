/* GP2 for runs and GP3 for steps, by the core's own port (SIO). Registers are those of the RP2350's headers. */
#include "trigger.h"

#include <stdbool.h>
#include <stdint.h>

#include "deuteron/harness.h"
#include "pins.h"

#define SIO_OUT_SET (*(volatile uint32_t *)0xD0000018U)
#define SIO_OUT_CLR (*(volatile uint32_t *)0xD0000020U)
#define SIO_OE_SET (*(volatile uint32_t *)0xD0000038U)

enum { FIRST_PIN = 2 };

void dtn_port_trigger(uint32_t pin, bool level)
{
    uint32_t bit = UINT32_C(1) << (FIRST_PIN + pin);
    if (level) {
        SIO_OUT_SET = bit;
    } else {
        SIO_OUT_CLR = bit;
    }
}

void dtn_trigger_start(void)
{
    pins_release(RESET_PINS);
    for (uint32_t pin = DTN_TRIGGER_RUN; pin <= DTN_TRIGGER_STEP; pin++) {
        dtn_port_trigger(pin, false);
        SIO_OE_SET = UINT32_C(1) << (FIRST_PIN + pin);
        pins_use(FIRST_PIN + pin, FUNCTION_SIO);
    }
}
