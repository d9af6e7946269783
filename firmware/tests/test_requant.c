/* The rounding functions against the vectors that the Python twin made; arguments: requant.txt, divide.txt. */
#include <stdbool.h>
#include <stdlib.h>

#include "../src/kernels/fast/block.h"
#include "../src/kernels/requant.h"
#include "test.h"

/* Reads up to `count` numbers of a line that is not a comment; false at the end of the file. */
static bool next_line(FILE *file, int64_t *numbers, int count)
{
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        char *at = line;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        for (int i = 0; i < count; i++) {
            numbers[i] = (int64_t)strtoll(at, &at, 10);
        }
        return true;
    }
    return false;
}

static int8_t saturate(int64_t value)
{
    return (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
}

static int test_shift(FILE *file)
{
    int64_t v[4];
    int lines = 0;
    for (; next_line(file, v, 4); lines++) {
        dtn_requant_row_t row = {(int32_t)v[1], (int32_t)v[2]};
        dtn_range_t range = {0, -128, 127};
        dtn_block_t block;
        uint32_t sums[DTN_BLOCK];
        int8_t out[DTN_BLOCK];
        CHECK(dtn_rne_shift(v[0] * v[1], row.shift) == v[3], "%jd * %jd / 2^%jd is not %jd", (intmax_t)v[0],
              (intmax_t)v[1], (intmax_t)v[2], (intmax_t)v[3]);
        CHECK_EQUAL(dtn_requant_s8((int32_t)v[0], row, 0, -128, 127), saturate(v[3]));
        dtn_block_fill(&block, row);
        for (int j = 0; j < DTN_BLOCK; j++) {
            sums[j] = (uint32_t)(int32_t)v[0];
        }
        dtn_block_store(sums, &block, range, out, DTN_BLOCK);
        CHECK(out[0] == saturate(v[3]) && out[DTN_BLOCK - 1] == out[0], "block: %jd * %jd / 2^%jd is not %jd",
              (intmax_t)v[0], (intmax_t)v[1], (intmax_t)v[2], (intmax_t)v[3]);
    }
    return lines;
}

static int test_divide(FILE *file)
{
    int64_t v[3];
    int lines = 0;
    for (; next_line(file, v, 3); lines++) {
        CHECK(dtn_rne_divide_signed(v[0], (uint64_t)v[1]) == v[2], "%jd / %jd is not %jd", (intmax_t)v[0],
              (intmax_t)v[1], (intmax_t)v[2]);
    }
    return lines;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return 2;
    }
    FILE *shifts = fopen(argv[1], "r");
    FILE *divisions = fopen(argv[2], "r");
    if (shifts == NULL || divisions == NULL) {
        return 2;
    }
    CHECK(test_shift(shifts) > 1000, "too few vectors of shifts");
    CHECK(test_divide(divisions) > 100, "too few vectors of divisions");
    fclose(shifts);
    fclose(divisions);
    return test_result();
}
