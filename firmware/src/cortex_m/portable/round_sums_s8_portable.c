#include "../round_sums_s8.h"

void dtn_cm_round_sums(const dtn_cm_rounding_t *rounding, const int32_t *sums, size_t count, int8_t *output)
{
    dtn_cm_round_sums_one_by_one(rounding, sums, count, output);
}
