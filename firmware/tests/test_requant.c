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

/* The quotient without a division against the one with: awkward and random factors, and sums round their ties. */
static void test_quotient(void)
{
    static const int32_t edges[] = {0, 1, 2, 3, 255, 1 << 16, (1 << 30) - 1, 1 << 30, INT32_MAX};
    uint64_t state = 1;
    for (int32_t i = 0; i < 300000; i++) {
        int32_t bits = test_between(&state, 0, 61);
        uint64_t divisor = 1 + (test_random(&state) & ((UINT64_C(1) << bits) - 1U));
        int32_t multiplier = i % 3 == 0 ? edges[test_between(&state, 0, 8)] : test_between(&state, 0, INT32_MAX);
        int32_t sum = i % 5 == 0 ? edges[test_between(&state, 0, 8)] : test_between(&state, -(1 << 20), 1 << 20);
        if (i % 4 == 0 && multiplier > 0) {
            /* A result of a few halves: near a tie, or on it. */
            uint64_t halves = (uint64_t)test_between(&state, 1, 300) * divisor / 2U / (uint64_t)multiplier;
            sum = (int32_t)(halves > INT32_MAX ? INT32_MAX : halves) * (i % 8 == 0 ? 1 : -1);
        }
        dtn_quotient_t quotient = dtn_quotient(multiplier, divisor);
        int64_t expected = dtn_rne_divide_signed((int64_t)sum * multiplier, divisor);
        int64_t found = dtn_rne_quotient(sum, &quotient);
        bool near = expected > -(1 << 20) && expected < 1 << 20;
        CHECK(near ? found == expected : saturate(found) == saturate(expected),
              "%" PRId32 " * %" PRId32 " / %" PRIu64 " is %jd, not %jd", sum, multiplier, divisor, (intmax_t)expected,
              (intmax_t)found);
    }
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
    test_quotient();
    fclose(shifts);
    fclose(divisions);
    return test_result();
}
