#include "../dot_product_s8.h"
#include "../inner_loops.h"

void dtn_cm_add_row(const int8_t *inputs, int32_t offset, const int8_t *weights, size_t depth, size_t channels,
                    uint32_t *sums)
{
    for (size_t first = 0; first < channels; first += DTN_CM_ROWS) {
        const int8_t *rows[DTN_CM_ROWS];
        dtn_cm_rows_of(weights, depth, first, channels, rows);
        uint32_t four[DTN_CM_ROWS] = {0};
        dtn_cm_add_dots(inputs, offset, rows, 0, depth, four);
        for (size_t j = 0; j < DTN_CM_ROWS && first + j < channels; j++) {
            sums[first + j] += four[j];
        }
    }
}
