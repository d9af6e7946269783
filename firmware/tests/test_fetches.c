/* Which fetches a program may make, and when: resident ones in order, one per channel, nobody on what is on its way. */

#include "refusal.h"
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

/* Channel 1 fetches prefetch bytes 16 to 31; then, with or without a wait, a call reads bytes there or a fetch writes
 * them. */
static NeutronError prefetch_error(build_ref_t used, bool by_call, bool waits)
{
    dtn_copy_s8_params_t copy = {0, {1, 1, 1, 1, 1, (int32_t)used.bytes}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
    build_t build;
    build_start(&build);
    build.prefetch_bytes = 48;
    build_constant(&build, NULL, 48);
    build_ref_t operands[] = {used, build_output(&build, used.bytes)};
    build_fetch(&build, 1, 0, 16, 16);
    if (waits) {
        build_wait(&build, 1);
    }
    if (by_call) {
        build_call(&build, DTN_KERNEL_COPY_S8, operands, &copy);
    } else {
        build_fetch(&build, 3, 0, used.offset, used.bytes);
    }
    build_wait(&build, 1);
    build_wait(&build, 3);
    build_finish(&build);
    NeutronError error = prepare(&build);
    build_free(&build);
    return error;
}

static void test_in_flight(void)
{
    static const build_ref_t beside[] = {{DTN_REGION_PREFETCH, 0, 0, 16}, {DTN_REGION_PREFETCH, 0, 32, 16}};
    static const build_ref_t within[] = {{DTN_REGION_PREFETCH, 0, 0, 32},
                                         {DTN_REGION_PREFETCH, 0, 0, 48},
                                         {DTN_REGION_PREFETCH, 0, 16, 16},
                                         {DTN_REGION_PREFETCH, 0, 16, 32}};
    static const build_ref_t first = {DTN_REGION_PREFETCH, 0, 0, 17};
    static const build_ref_t last = {DTN_REGION_PREFETCH, 0, 31, 1};
    static const build_ref_t weights = {DTN_REGION_WEIGHTS, 0, 16, 16};
    for (int by_call = 0; by_call < 2; by_call++) {
        for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
            check_error(prefetch_error(beside[i], by_call != 0, false), DTN_OK, 0, "beside what is fetched");
        }
        for (size_t i = 0; i < sizeof within / sizeof within[0]; i++) {
            check_error(prefetch_error(within[i], by_call != 0, false), DTN_REASON_IN_FLIGHT, 1, "what is fetched");
            check_error(prefetch_error(within[i], by_call != 0, true), DTN_OK, 0, "what was fetched");
        }
    }
    check_error(prefetch_error(first, true, false), DTN_REASON_IN_FLIGHT, 1, "the first byte that is fetched");
    check_error(prefetch_error(last, true, false), DTN_REASON_IN_FLIGHT, 1, "the last byte that is fetched");
    check_error(prefetch_error(weights, true, false), DTN_OK, 0, "the weights themselves");
}

int main(void)
{
    test_resident();
    test_channels();
    test_in_flight();
    return test_result();
}
