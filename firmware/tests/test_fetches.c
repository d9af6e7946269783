/* The allowed fetches of a program: resident ones in order, one per channel, and no access to bytes in flight. */

#include "prepare_errors.h"
#include "test.h"

/* Prefetch bytes that two fetches fill one after the other, and what is said of the second. */
typedef struct {
    uint32_t first[2]; /* start and length */
    uint32_t second[2];
    dtn_reason_t reason;
    const char *what;
} pair_t;

/* The first 64 of 128 bytes are resident: they are fetched once, in order, and never with bytes that are not. */
static const pair_t pairs[] = {
    {{0, 32}, {32, 32}, DTN_OK, "neighbours"},
    {{0, 32}, {48, 16}, DTN_OK, "a gap"},
    {{0, 32}, {64, 16}, DTN_OK, "streamed bytes"},
    {{64, 64}, {64, 64}, DTN_OK, "streamed bytes fetched twice"},
    {{64, 64}, {0, 32}, DTN_OK, "resident bytes after streamed ones"},
    {{0, 32}, {48, 32}, DTN_REASON_RESIDENT, "bytes of which some are resident"},
    {{0, 32}, {16, 16}, DTN_REASON_RESIDENT, "the last resident bytes fetched twice"},
    {{0, 32}, {0, 16}, DTN_REASON_RESIDENT, "the first resident bytes fetched twice"},
    {{32, 16}, {0, 32}, DTN_REASON_RESIDENT, "the later bytes first"},
};

static void test_resident(void)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const pair_t *pair = &pairs[i];
        build_t build;
        build_start(&build);
        build.prefetch_bytes = 128;
        build.resident_bytes = 64;
        build_constant(&build, NULL, 128);
        build_fetch(&build, 0, 0, pair->first[0], pair->first[1]);
        build_wait(&build, 0);
        build_fetch(&build, 0, 0, pair->second[0], pair->second[1]);
        build_wait(&build, 0);
        build_finish(&build);
        check_error(prepare(&build), pair->reason, pair->reason != DTN_OK ? 2 : 0, pair->what);
        build_free(&build);
    }
}

/* A channel may be fetched on again only after a wait. */
static void test_channels(void)
{
    for (int waits = 0; waits < 2; waits++) {
        build_t build;
        build_start(&build);
        build.prefetch_bytes = 48;
        build_constant(&build, NULL, 32);
        build_fetch(&build, 1, 0, 0, 16);
        build_fetch(&build, 2, 0, 16, 16);
        if (waits != 0) {
            build_wait(&build, 1);
        }
        build_fetch(&build, 1, 16, 32, 16);
        build_wait(&build, 1);
        build_wait(&build, 2);
        build_finish(&build);
        check_error(prepare(&build), waits != 0 ? DTN_OK : DTN_REASON_CHANNEL_BUSY, waits != 0 ? 0 : 2, "fetch twice");
        build_free(&build);
    }
}

/* Channel 1 fetches bytes 16 to 31 of the prefetch area, or of scratch; then, with or without a wait, a call reads
 * bytes there or a fetch writes them. */
static NeutronError fetch_error(uint32_t area, build_ref_t used, bool by_call, bool waits)
{
    dtn_copy_s8_params_t copy = {0, {1, 1, 1, 1, 1, (int32_t)used.bytes}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
    uint32_t flag = area == DTN_REGION_SCRATCH ? DTN_FETCH_TO_SCRATCH : 0;
    build_t build;
    build_start(&build);
    build.prefetch_bytes = 48;
    build_scratch(&build, 48);
    build_constant(&build, NULL, 48);
    build_ref_t operands[] = {used, build_output(&build, used.bytes)};
    build_fetch(&build, 1 | flag, 0, 16, 16);
    if (waits) {
        build_wait(&build, 1);
    }
    if (by_call) {
        build_call(&build, DTN_KERNEL_COPY_S8, operands, &copy);
    } else {
        build_fetch(&build, 3 | (used.region == DTN_REGION_SCRATCH ? DTN_FETCH_TO_SCRATCH : 0), 0, used.offset,
                    used.bytes);
    }
    build_wait(&build, 1);
    build_wait(&build, 3);
    build_finish(&build);
    NeutronError error = prepare(&build);
    build_free(&build);
    return error;
}

static void test_in_flight(uint32_t area, uint32_t other)
{
    const build_ref_t adjacent[] = {{area, 0, 0, 16}, {area, 0, 32, 16}, {other, 0, 16, 16}};
    const build_ref_t within[] = {{area, 0, 0, 32}, {area, 0, 0, 48}, {area, 0, 16, 16}, {area, 0, 16, 32}};
    const build_ref_t first = {area, 0, 0, 17};
    const build_ref_t last = {area, 0, 31, 1};
    const build_ref_t weights = {DTN_REGION_WEIGHTS, 0, 16, 16};
    for (int by_call = 0; by_call < 2; by_call++) {
        for (size_t i = 0; i < sizeof adjacent / sizeof adjacent[0]; i++) {
            check_error(fetch_error(area, adjacent[i], by_call != 0, false), DTN_OK, 0, "next to the fetched bytes");
        }
        for (size_t i = 0; i < sizeof within / sizeof within[0]; i++) {
            check_error(fetch_error(area, within[i], by_call != 0, false), DTN_REASON_IN_FLIGHT, 1, "what is fetched");
            check_error(fetch_error(area, within[i], by_call != 0, true), DTN_OK, 0, "what was fetched");
        }
    }
    check_error(fetch_error(area, first, true, false), DTN_REASON_IN_FLIGHT, 1, "the first byte that is fetched");
    check_error(fetch_error(area, last, true, false), DTN_REASON_IN_FLIGHT, 1, "the last byte that is fetched");
    check_error(fetch_error(area, weights, true, false), DTN_OK, 0, "the weights themselves");
}

/* Scratch bytes that are on their way may not be written by a call either. */
static void test_written_in_flight(void)
{
    for (int waits = 0; waits < 2; waits++) {
        dtn_fill_s8_params_t fill = {16, 1};
        build_t build;
        build_start(&build);
        build_ref_t target = build_scratch(&build, 16);
        build_constant(&build, NULL, 16);
        build_fetch_to_scratch(&build, 2, 0, 0, 16);
        if (waits != 0) {
            build_wait(&build, 2);
        }
        build_call(&build, DTN_KERNEL_FILL_S8, &target, &fill);
        build_wait(&build, 2);
        build_finish(&build);
        check_error(prepare(&build), waits != 0 ? DTN_OK : DTN_REASON_IN_FLIGHT, waits != 0 ? 0 : 1, "a call's output");
        build_free(&build);
    }
}

/* A fetch to scratch keeps to scratch, is never resident, and is of version 1.1. */
static void test_to_scratch(void)
{
    static const struct {
        uint32_t scratch_bytes;
        uint32_t at;
        uint32_t minor;
        uint32_t channel;
        dtn_reason_t reason;
    } cases[] = {
        {32, 16, 1, 3, DTN_OK},
        {32, 0, 1, 0, DTN_OK}, /* an offset that would be resident in the prefetch area */
        {32, 32, 1, 0, DTN_REASON_FETCH_RANGE},
        {0, 0, 1, 0, DTN_REASON_FETCH_RANGE},
        {32, 8, 1, 0, DTN_REASON_FETCH_RANGE},
        {32, 16, 0, 0, DTN_REASON_CHANNEL},
        {32, 16, 1, 4, DTN_REASON_CHANNEL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        build_t build;
        build_start(&build);
        build.scratch_bytes = cases[i].scratch_bytes;
        build.prefetch_bytes = 64;
        build.resident_bytes = 16;
        build_constant(&build, NULL, 32);
        build_fetch(&build, 1, 0, 0, 16);
        build_wait(&build, 1);
        build_fetch_to_scratch(&build, cases[i].channel, 0, cases[i].at, 16);
        build_wait(&build, cases[i].channel % DTN_CHANNELS);
        build_finish(&build);
        build.microcode[DTN_HEADER_VERSION] = DTN_MICROCODE_VERSION_MAJOR << 16 | cases[i].minor;
        build_seal(&build);
        check_error(prepare(&build), cases[i].reason, cases[i].reason != DTN_OK ? 2 : 0, "a fetch to scratch");
        build_free(&build);
    }
}

int main(void)
{
    test_resident();
    test_channels();
    test_in_flight(DTN_REGION_PREFETCH, DTN_REGION_SCRATCH);
    test_in_flight(DTN_REGION_SCRATCH, DTN_REGION_PREFETCH);
    test_written_in_flight();
    test_to_scratch();
    return test_result();
}
