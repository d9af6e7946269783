/* Operators of an image with one defect each, which -DDEFECT chooses; they replace those of the library. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "deuteron/bundle.h"
#include "deuteron/cortex_m.h"

#define WRONG_CONSTANT 1  /* one constant of the pool's kernel: the lower bound of its results */
#define OVERWRITTEN 2     /* something writes to the input of the second convolution */
#define DAMAGED_WEIGHTS 3 /* weights of the linear layer change after the program was checked */
#define LATE 4            /* the first bytes of the pool arrive DELAY ticks later, as by a DMA with a wrong wait */
#define FAULT 5           /* the check of the linear layer reads where there is no memory */
#define FAULT_IN_RUN 7    /* its run does */
#define WRONG_WEIGHT 6    /* the sign of one weight of the second convolution */

enum { SECOND_INPUT_BYTES = 512 };

int32_t genuine(const dtn_operator_call_t *call, dtn_phase_t phase);

#if DEFECT == WRONG_CONSTANT || DEFECT == LATE
#include "../../firmware/src/cortex_m/pooling.h"
#if DEFECT == WRONG_CONSTANT
#define dtn_cm_largest_pixels(window, lo, hi, out, count)                                                              \
    dtn_cm_largest_pixels(window, (int8_t)((lo) + 1), hi, out, count)
#endif
#define dtn_cm_quantized_max_pool2d genuine
#include "../../firmware/src/cortex_m/dtn_cm_quantized_max_pool2d.c"
#undef dtn_cm_quantized_max_pool2d
#define REPLACED dtn_cm_quantized_max_pool2d
#elif DEFECT == OVERWRITTEN || DEFECT == WRONG_WEIGHT
#define dtn_cm_quantized_conv2d genuine
#include "../../firmware/src/cortex_m/dtn_cm_quantized_conv2d.c"
#undef dtn_cm_quantized_conv2d
#define REPLACED dtn_cm_quantized_conv2d
#else
#define dtn_cm_quantized_linear genuine
#include "../../firmware/src/cortex_m/dtn_cm_quantized_linear.c"
#undef dtn_cm_quantized_linear
#define REPLACED dtn_cm_quantized_linear
#endif

int32_t REPLACED(const dtn_operator_call_t *call, dtn_phase_t phase);

#if DEFECT == LATE
enum { LATE_BYTES = 32 };

static uint8_t late[LATE_BYTES];
static uint8_t *volatile destination;

#define SYSTICK ((volatile uint32_t *)0xE000E010U)

void dtn_on_system_tick(void);

void dtn_on_system_tick(void)
{
    SYSTICK[0] = 0;
    memcpy(destination, late, LATE_BYTES);
}

static void delay(const dtn_operator_call_t *call)
{
    const dtn_tensor_t *out = &call->values[call->input_count];
    destination = (uint8_t *)out->data;
    memcpy(late, destination, LATE_BYTES);
    memset(destination, 0x55, LATE_BYTES);
    SYSTICK[1] = DELAY;
    SYSTICK[2] = 0;
    SYSTICK[0] = 7;
}
#endif

int32_t REPLACED(const dtn_operator_call_t *call, dtn_phase_t phase)
{
#if DEFECT == OVERWRITTEN
    if (phase == DTN_PHASE_RUN && call->values[0].bytes == SECOND_INPUT_BYTES) {
        ((uint8_t *)call->values[0].data)[7] ^= 0x40;
    }
#elif DEFECT == DAMAGED_WEIGHTS
    if (phase == DTN_PHASE_RUN) {
        memset(call->values[1].data, 0x5A, 64);
    }
#elif DEFECT == WRONG_WEIGHT
    static bool is_changed;
    if (phase == DTN_PHASE_RUN && !is_changed && call->values[0].bytes == SECOND_INPUT_BYTES) {
        ((uint8_t *)call->values[1].data)[0] ^= 0x80;
        is_changed = true;
    }
#endif
#if DEFECT == FAULT || DEFECT == FAULT_IN_RUN
    if (phase == (DEFECT == FAULT ? DTN_PHASE_CHECK : DTN_PHASE_RUN)) {
        (void)*(volatile uint32_t *)UINT32_C(0xF0000000);
    }
#endif
    int32_t reason = genuine(call, phase);
#if DEFECT == LATE
    if (phase == DTN_PHASE_RUN) {
        delay(call);
    }
#endif
    return reason;
}
