#include "matmul_blocks_mve.h"

#define DTN_CM_ROWS_OF_BLOCK DTN_CM_BLOCK

#include "conv2d_3x3_mve.h"
#include "conv2d_windows_mve.h"

/* Channels whose bias is changed on the stack. */
enum { WITH_OFFSET = 64 };

/* A group whose input has no offset. */
static bool without_offset(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    if (takes_3x3(group)) {
        convolve_3x3(group);
        return true;
    }
    return dtn_cm_convolve_windows(group, scratch, bytes);
}

/* Some channels of a group, with what the input's offset adds to their sums: in the padding stands what has none. */
static bool with_offset(const dtn_cm_group_t *group, size_t first, void *scratch, size_t bytes)
{
    int32_t starts[WITH_OFFSET];
    dtn_cm_group_t some = *group;
    size_t left = group->outputs - first;
    some.outputs = left < WITH_OFFSET ? left : WITH_OFFSET;
    some.weights += first * group->patch;
    some.output += first;
    some.scale.multipliers += first;
    some.scale.shifts += first;
    some.bias = starts;
    some.pad_value -= group->offset;
    some.offset = 0;
    for (size_t j = 0; j < some.outputs; j++) {
        int32_t share = dtn_cm_total(some.weights + j * some.patch, some.patch) * group->offset;
        starts[j] = group->bias == NULL ? share : dtn_cm_plus(group->bias[first + j], share);
    }
    return dtn_cm_is_s8(some.pad_value) && without_offset(&some, scratch, bytes);
}

bool dtn_cm_convolve(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    if (group->bias != NULL && group->offset == 0) {
        return without_offset(group, scratch, bytes);
    }
    bool is_done = true;
    for (size_t first = 0; is_done && first < group->outputs; first += WITH_OFFSET) {
        is_done = with_offset(group, first, scratch, bytes);
    }
    return is_done;
}
