/*
 * Sums times float64 factors on a board: the rows of a core's inner loop against whole products. Many sums lie next to
 * a tie, where the upper bits of a factor decide least.
 *
 * The command line has the number of rows.
 */
#include <stdlib.h>
#include <string.h>

#include "../../src/cortex_m/float64_factor.h"
#include "../../src/cortex_m/inner_loops.h"
#include "../../src/cortex_m/scale.h"
#include "../test.h"
#include "semihost.h"

enum { SUMS = DTN_CM_ROW_SUMS, FILLED = 0x55, UPPER_BITS = 21 };

typedef struct {
    dtn_cm_rounding_t rounding;
    int32_t factors[SUMS * DTN_CM_FACTOR_WORDS];
    int32_t sums[SUMS];
    size_t count;
} row_t;

static uint64_t state = 1;
static char line[64];

int main(void);

static int32_t between(int32_t lo, int32_t hi)
{
    return test_between(&state, lo, hi);
}

static void set_factor(int32_t *factor)
{
    factor[DTN_CM_FACTOR_HIGH] = between(0, (1 << UPPER_BITS) - 1) | (between(0, 3) == 0 ? 0 : 1 << (UPPER_BITS - 1));
    factor[DTN_CM_FACTOR_LOW] = between(0, 7) == 0 ? -1 : between(INT32_MIN, INT32_MAX);
    factor[DTN_CM_FACTOR_SHIFT] = between(0, 7) == 0 ? between(1, 127) : between(52, 86);
}

/* A sum whose product is about half a step from a number. */
static int32_t near_tie(const int32_t *factor)
{
    double value = factor[DTN_CM_FACTOR_HIGH] * 4294967296.0 + (uint32_t)factor[DTN_CM_FACTOR_LOW];
    double sum = between(0, 200) + 0.5;
    for (int32_t i = 0; i < factor[DTN_CM_FACTOR_SHIFT]; i++) {
        sum *= 2;
    }
    sum /= value == 0 ? 1 : value;
    return sum > 2e9 ? INT32_MIN : ((int32_t)sum + between(-1, 1)) * (between(0, 1) * 2 - 1);
}

static void set_row(row_t *row)
{
    bool has_ties = between(0, 1) == 0;
    row->count = (size_t)between(1, SUMS);
    row->rounding = (dtn_cm_rounding_t){row->factors, between(0, 1) == 0 ? 0 : DTN_CM_FACTOR_WORDS, between(-128, 127),
                                        between(-128, 0), between(1, 127)};
    for (size_t j = 0; j < SUMS; j++) {
        set_factor(row->factors + j * DTN_CM_FACTOR_WORDS);
        row->sums[j] = has_ties ? near_tie(row->factors + j * row->rounding.step)
                                : between(INT32_MIN, INT32_MAX) / (1 << between(0, 30));
    }
}

/* True if the outputs of a row are those of whole products, and nothing behind them is written. */
static bool is_right(const row_t *row)
{
    const dtn_cm_rounding_t *r = &row->rounding;
    int8_t output[SUMS + 1];
    memset(output, FILLED, sizeof output);
    dtn_cm_round_sums(r, row->sums, row->count, output);
    bool right = output[row->count] == FILLED;
    for (size_t j = 0; j < row->count; j++) {
        int32_t value = dtn_cm_times_float64(row->sums[j], r->factors + j * r->step);
        right = right && output[j] == dtn_cm_clamp(dtn_cm_plus(value, r->offset), r->lo, r->hi);
    }
    return right;
}

int main(void)
{
    static row_t row;
    const char *words = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    uint32_t wrong = 0;
    for (long left = words == NULL ? 0 : strtol(words, NULL, 10); left > 0; left--) {
        set_row(&row);
        wrong += is_right(&row) ? 0 : 1;
    }
    dtn_semihost_print_number(wrong);
    dtn_semihost_print(" rows are wrong\n");
    dtn_semihost_exit(wrong == 0 ? 0 : 1);
}
