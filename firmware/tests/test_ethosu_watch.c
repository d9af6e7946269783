/* Streams of an Ethos-U that do not wait where they must: each hazard, with its command, byte and counterpart. */
#include <stdlib.h>
#include <string.h>

#include "../src/ethosu/shadow_memory.h"
#include "ethosu_hazard_streams.h"
#include "test.h"

static uint64_t state = 11;

/* ---- What nothing has written ---- */

static void test_unwritten(void)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    (void)sum(&stream, INPUT_AT, 0);
    NONE(&stream);
    new_sums(&stream, "ethos-u55-128", &state);
    uint32_t at = sum(&stream, INPUT_AT + 16, 0);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_UNWRITTEN, .part = DTN_ETHOSU_PART_INPUT, .region = 1,
        .at = INPUT_AT + MAP_BYTES);
    /* A copy of what has no value is none; reading its target is. */
    new_sums(&stream, "ethos-u55-128", &state);
    (void)copy(&stream, 1, INPUT_AT + MAP_BYTES / 2, 1, 0x2000);
    (void)command(&stream, OP_DMA_WAIT, 0);
    at = sum(&stream, 0x2000, 0);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_UNWRITTEN, .part = DTN_ETHOSU_PART_INPUT, .region = 1,
        .at = 0x2000 + MAP_BYTES / 2);
}

/* ---- Copies ---- */

static void test_copies(void)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    (void)copy(&stream, 0, SOURCE_AT, 1, 0x2000);
    (void)command(&stream, OP_DMA_WAIT, 0);
    (void)sum(&stream, 0x2000, 0);
    NONE(&stream);
    /* Its target is read, or written, before it is waited for. */
    new_sums(&stream, "ethos-u55-128", &state);
    uint32_t other = copy(&stream, 0, SOURCE_AT, 1, 0x2000);
    uint32_t at = sum(&stream, 0x2000 + MAP_BYTES - ROW, 0);
    const expected_t reads[] = {
        {at,
         {.kind = DTN_ETHOSU_HAZARD_COPY_RUNS,
          .part = DTN_ETHOSU_PART_INPUT,
          .region = 1,
          .other = other,
          .other_writes = 1,
          .at = 0x2000 + MAP_BYTES - ROW}},
        {at,
         {.kind = DTN_ETHOSU_HAZARD_UNWRITTEN, .part = DTN_ETHOSU_PART_INPUT, .region = 1, .at = 0x2000 + MAP_BYTES}},
    };
    check_hazards(&stream, reads, 2);
    new_sums(&stream, "ethos-u55-128", &state);
    other = copy(&stream, 0, SOURCE_AT, 1, 0x2000);
    at = sum(&stream, INPUT_AT, 0x2000 + ROW);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_COPY_RUNS, .part = DTN_ETHOSU_PART_OUTPUT, .region = 1, .other = other,
        .other_writes = 1, .at = 0x2000 + ROW);
    /* Its source is overwritten. */
    new_sums(&stream, "ethos-u55-128", &state);
    other = copy(&stream, 1, INPUT_AT, 1, 0x2000);
    at = sum(&stream, INPUT_AT, INPUT_AT - ROW);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_COPY_RUNS, .part = DTN_ETHOSU_PART_OUTPUT, .region = 1, .other = other,
        .at = INPUT_AT);
    /* Another copy does: on an Ethos-U55 one may run at the same time. */
    new_sums(&stream, "ethos-u55-128", &state);
    other = copy(&stream, 0, SOURCE_AT, 1, 0x2000);
    at = copy(&stream, 1, 0x2000, 1, 0x3000);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_COPY_RUNS, .part = DTN_ETHOSU_PART_SOURCE, .region = 1, .other = other,
        .other_writes = 1, .at = 0x2000);
    new_sums(&stream, "ethos-u55-128", &state);
    (void)copy(&stream, 0, SOURCE_AT, 1, 0x2000);
    (void)copy(&stream, 0, SOURCE_AT, 1, 0x3000);
    (void)sum(&stream, 0x2000, 0);
    NONE(&stream);
}

/* An Ethos-U65 has two copies at once; a wait for all but one leaves the last. */
static void test_two_copies(void)
{
    for (uint32_t waits = 0; waits < 2; waits++) {
        stream_t stream;
        new_sums(&stream, "ethos-u65-256", &state);
        uint32_t first = copy(&stream, 0, SOURCE_AT, 1, 0x2000);
        uint32_t second = copy(&stream, 0, SOURCE_AT, 1, 0x3000);
        if (waits > 0) {
            (void)command(&stream, OP_DMA_WAIT, 1);
        }
        uint32_t at = sum(&stream, waits > 0 ? 0x3000 : 0x2000, 0);
        ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_COPY_RUNS, .part = DTN_ETHOSU_PART_INPUT, .region = 1,
            .other = waits > 0 ? second : first, .other_writes = 1, .at = waits > 0 ? 0x3000 : 0x2000);
    }
}

/* ---- Copies during operations ---- */

/* Two sums, then a wait for all but `left` (3: none), then a copy to `to`: whether it meets one that runs. */
static void check_kernels(uint32_t left, uint32_t from, uint32_t to, int32_t runs, dtn_ethosu_part_t part, bool writes)
{
    stream_t stream;
    uint32_t sums[2];
    new_sums(&stream, "ethos-u55-128", &state);
    sums[0] = sum(&stream, INPUT_AT, 0);
    sums[1] = sum(&stream, INPUT_AT, 0x4000);
    if (left < 3) {
        (void)command(&stream, OP_KERNEL_WAIT, left);
    }
    uint32_t at = copy(&stream, 1, from, 1, to);
    if (runs < 0) {
        NONE(&stream);
        return;
    }
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_KERNEL_RUNS, .part = part, .region = 1, .other = sums[runs],
        .other_writes = writes, .at = part == DTN_ETHOSU_PART_SOURCE ? from : to);
}

static void test_kernels(void)
{
    check_kernels(3, 0, 0x6000, 0, DTN_ETHOSU_PART_SOURCE, true);
    check_kernels(1, 0, 0x6000, -1, DTN_ETHOSU_PART_SOURCE, true);
    check_kernels(1, 0x4000, 0x6000, 1, DTN_ETHOSU_PART_SOURCE, true);
    check_kernels(0, 0x4000, 0x6000, -1, DTN_ETHOSU_PART_SOURCE, true);
    check_kernels(3, 0x6000, 0, 0, DTN_ETHOSU_PART_TARGET, true);
    check_kernels(1, 0x6000, INPUT_AT, 1, DTN_ETHOSU_PART_TARGET, false);
    check_kernels(0, 0x6000, INPUT_AT, -1, DTN_ETHOSU_PART_TARGET, false);
}

/* The first of three operations has ended when the third starts. */
static void test_third_kernel(void)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    (void)sum(&stream, INPUT_AT, 0);
    (void)sum(&stream, INPUT_AT, 0x4000);
    (void)sum(&stream, INPUT_AT, 0x5000);
    (void)copy(&stream, 1, 0, 1, 0x6000);
    NONE(&stream);
}

/* ---- Concurrent operations ---- */

/* The second sum reads the rows of the first from `row` on: of its `blocks`, row i is one. */
static void check_blocks(uint32_t blockdep, uint32_t row, int32_t hazard_row, bool is_waited)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    stream_short(&stream, REG_BLOCKDEP, blockdep);
    uint32_t other = sum(&stream, INPUT_AT, 0x2000);
    if (is_waited) {
        (void)command(&stream, OP_KERNEL_WAIT, 0);
    }
    stream_short(&stream, REG_OFM_HEIGHT_M1, 3 - row);
    uint32_t at = sum(&stream, 0x2000 + ROW * row, 0x4000);
    if (hazard_row < 0) {
        NONE(&stream);
        return;
    }
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_BLOCKS, .part = DTN_ETHOSU_PART_INPUT, .region = 1, .other = other,
        .other_writes = 1, .at = 0x2000 + ROW * (uint32_t)hazard_row);
}

/* Row 3 is the last of four rows, which are written in order. With BLOCKDEP 3 the first row that is read must not be
 * one of the last three, the second none of the last two, the third not the last. */
static void test_blocks(void)
{
    check_blocks(3, 0, -1, false);
    check_blocks(3, 1, 1, false);
    check_blocks(2, 1, -1, false);
    check_blocks(2, 2, 2, false);
    check_blocks(1, 2, -1, false);
    check_blocks(1, 3, 3, false);
    check_blocks(0, 3, -1, false);
    check_blocks(3, 1, -1, true);
}

/* ---- The SHRAM ---- */

static void test_buffers(void)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    stream_short(&stream, REG_IFM_IB_END, 25);
    uint32_t at = sum(&stream, INPUT_AT, 0);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_BUFFERS, .part = DTN_ETHOSU_PART_BUFFERS,
        .region = DTN_ETHOSU_SHRAM_REGION, .at = 25 * 1024);
    new_sums(&stream, "ethos-u55-128", &state);
    stream_short(&stream, REG_IFM_IB_END, 5);
    at = sum(&stream, INPUT_AT, 0);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_BUFFERS, .part = DTN_ETHOSU_PART_BUFFERS,
        .region = DTN_ETHOSU_SHRAM_REGION, .at = 6 * 1024);
    new_sums(&stream, "ethos-u55-128", &state);
    stream_short(&stream, REG_ACC_FORMAT, 3);
    at = sum(&stream, INPUT_AT, 0);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_FAULT, .fault = DTN_ETHOSU_FIELD, .at = REG_ACC_FORMAT);
}

/* Blocks are at most 32 x 64 x 128 large: such have buffers of 514 KiB. */
static void test_block_sizes(void)
{
    static const struct {
        uint16_t opcode;
        uint32_t most;
    } registers[] = {{REG_OFM_BLK_HEIGHT_M1, 31}, {REG_OFM_BLK_WIDTH_M1, 63}, {REG_OFM_BLK_DEPTH_M1, 127}};
    stream_t stream;
    uint32_t at;
    for (uint32_t i = 0; i < 6; i++) {
        new_sums(&stream, "ethos-u55-128", &state);
        stream_short(&stream, registers[i / 2].opcode, i % 2 == 0 ? registers[i / 2].most + 1 : 0xFFFF);
        at = sum(&stream, INPUT_AT, 0);
        ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_FAULT, .fault = DTN_ETHOSU_FIELD, .at = registers[i / 2].opcode);
    }
    new_sums(&stream, "ethos-u55-128", &state);
    for (uint32_t i = 0; i < 3; i++) {
        stream_short(&stream, registers[i].opcode, registers[i].most);
    }
    at = sum(&stream, INPUT_AT, 0);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_BUFFERS, .part = DTN_ETHOSU_PART_BUFFERS,
        .region = DTN_ETHOSU_SHRAM_REGION, .at = 514 * 1024);
}

/* A table of 256 entries behind the buffers; on the smallest configurations the buffers of operations without a table
 * may reach to the SHRAM's end. */
static void test_tables(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        stream_t stream;
        new_sums(&stream, "ethos-u55-64", &state);
        stream_long(&stream, REG_DMA0_LEN, TABLE_BYTES);
        uint32_t other = copy(&stream, 0, SOURCE_AT, SHRAM_SIDE, 14 * 1024);
        if (i > 0) {
            (void)command(&stream, OP_DMA_WAIT, 0);
        }
        stream_short(&stream, REG_ACTIVATION, 16);
        uint32_t at = sum(&stream, INPUT_AT, 0);
        if (i == 0) {
            ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_COPY_RUNS, .part = DTN_ETHOSU_PART_TABLE,
                .region = DTN_ETHOSU_SHRAM_REGION, .other = other, .other_writes = 1, .at = 14 * 1024);
            continue;
        }
        if (i == 1) {
            NONE(&stream);
            continue;
        }
        stream_short(&stream, REG_ACTIVATION, 0);
        stream_short(&stream, REG_IFM_IB_END, 16);
        stream_short(&stream, REG_BLOCKDEP, i == 2 ? 1 : 0);
        uint32_t taker = sum(&stream, INPUT_AT, 0x4000);
        if (i == 2) {
            ONE(&stream, taker, .kind = DTN_ETHOSU_HAZARD_BLOCKS, .part = DTN_ETHOSU_PART_BUFFERS,
                .region = DTN_ETHOSU_SHRAM_REGION, .other = at, .at = 14 * 1024);
            continue;
        }
        stream_short(&stream, REG_ACTIVATION, 16);
        stream_short(&stream, REG_IFM_IB_END, 14);
        at = sum(&stream, INPUT_AT, 0x5000);
        ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_TAKEN, .part = DTN_ETHOSU_PART_TABLE,
            .region = DTN_ETHOSU_SHRAM_REGION, .other = taker, .other_writes = 1, .at = 14 * 1024);
    }
}

/* Vela 5.1.0's commands for a table after a transpose: a copy to after the SHRAM. */
static void test_refused(void)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-64", &state);
    uint32_t at = copy(&stream, 0, SOURCE_AT, SHRAM_SIDE, 16 * 1024);
    ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_FAULT, .fault = DTN_ETHOSU_SHRAM, .at = 16 * 1024);
}

/* ---- Bytes outside of a map ---- */

/* An Ethos-U85's copy of the rows that four indices say, the first of which another copy still writes. Indices lie in
 * one of the regions: the register has no bit for the memory of the tables, as those of the sides do. */
static void test_indices(void)
{
    enum { INDICES_AT = 2044, COUNT = 4, INDEXED = 1 << 11, LINEAR = 0 };
    for (uint32_t bit = 3; bit <= 9; bit++) {
        stream_t stream;
        stream_new(&stream, "ethos-u85-256", &state);
        stream_short(&stream, REG_DMA0_SIZE0, 1);
        stream_long(&stream, REG_DMA0_LEN, 4);
        uint32_t other = copy(&stream, LINEAR, SOURCE_AT, 1, INDICES_AT);
        stream_short(&stream, REG_DMA0_IDX_REGION, bit == 9 ? 1 : 1U | 1U << bit);
        stream_short(&stream, REG_DMA0_SIZE0, COUNT);
        stream_long(&stream, REG_DMA0_LEN, 16);
        stream_long(&stream, REG_DMA0_SRC_STRIDE0, 16);
        stream_long(&stream, REG_DMA0_DST_STRIDE0, 16);
        stream_long(&stream, REG_DMA0_IDX, INDICES_AT);
        stream_long(&stream, REG_DMA0_IDX_MAX, 7);
        uint32_t at = copy(&stream, INDEXED, SOURCE_AT, 1, 0x4000);
        if (bit == 9) {
            ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_COPY_RUNS, .part = DTN_ETHOSU_PART_SECOND_INPUT, .region = 1,
                .other = other, .other_writes = 1, .at = INDICES_AT);
        } else {
            ONE(&stream, at, .kind = DTN_ETHOSU_HAZARD_FAULT, .fault = DTN_ETHOSU_FIELD, .at = REG_DMA0_IDX_REGION);
        }
    }
}

static void count_bytes(dtn_ethosu_scan_t *scan, dtn_ethosu_cell_t *cells, uint64_t at, uint64_t count)
{
    (void)cells;
    (void)at;
    scan->value += count;
}

/* Cells are visited only of memory that is there, whatever an operation tells of itself. */
static void test_bounds(void)
{
    static const struct {
        uint32_t region;
        uint64_t at;
        uint64_t bytes;
        bool is_inside;
    } places[] = {
        {1, STREAM_MEMORY - 4, 4, true},
        {1, STREAM_MEMORY - 4, 5, false},
        {1, STREAM_MEMORY + 1, 0, false},
        {0, UINT64_MAX, 2, false},
        {DTN_ETHOSU_SHRAM_REGION, 24 * 1024 - 1, 1, true},
        {DTN_ETHOSU_SHRAM_REGION, 24 * 1024 - 1, 2, false},
        {DTN_ETHOSU_SHRAM_REGION + 1, 0, 1, false},
    };
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    stream_op(&stream, DTN_ETHOSU_OP_STOP, 0xFFFF);
    size_t bytes = dtn_ethosu_watch_bytes(stream.config, &stream.memory);
    dtn_ethosu_watch_t *watch = (dtn_ethosu_watch_t *)malloc(bytes);
    dtn_ethosu_seen_t seen = {.count = 0};
    (void)dtn_ethosu_watch_start(watch, bytes, stream.config, stream.words, stream.count * sizeof(uint32_t),
                                 &stream.memory);
    watch->seen = &seen;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        dtn_ethosu_scan_t scan = {.watch = watch};
        seen.count = 0;
        dtn_ethosu_visit_bytes(&scan, places[i].region, places[i].at, places[i].bytes, count_bytes);
        CHECK_EQUAL(scan.value, places[i].is_inside ? places[i].bytes : 0);
        CHECK_EQUAL(seen.count, places[i].is_inside ? 0 : 1);
        CHECK_EQUAL(seen.hazards[0].fault, seen.count == 0 ? 0 : DTN_ETHOSU_BOUNDS);
        seen.hazards[0].fault = 0;
    }
    free(watch);
    stream_free(&stream);
}

/* ---- Values ---- */

/* The reads of the last sum of a stream: the input, moved to `moved` before if that is not 0. */
static uint64_t value_of(uint32_t moved, uint32_t from)
{
    stream_t stream;
    new_sums(&stream, "ethos-u55-128", &state);
    if (moved != 0) {
        (void)copy(&stream, 1, INPUT_AT, 1, moved);
        (void)command(&stream, OP_DMA_WAIT, 0);
    }
    (void)sum(&stream, from, 0);
    stream_op(&stream, DTN_ETHOSU_OP_STOP, 0xFFFF);
    stream.words[HEADER_WORDS - 1] = 2U | (uint32_t)(stream.count - HEADER_WORDS) << 16;
    size_t bytes = dtn_ethosu_watch_bytes(stream.config, &stream.memory);
    dtn_ethosu_watch_t *watch = (dtn_ethosu_watch_t *)malloc(bytes);
    dtn_ethosu_seen_t seen = {.count = 0};
    uint64_t value = 0, unwritten = 0, output = 0;
    size_t size = stream.count * sizeof(uint32_t);
    CHECK_EQUAL(dtn_ethosu_watch_start(watch, bytes - 1, stream.config, stream.words, size, &stream.memory),
                DTN_ETHOSU_WORKSPACE);
    CHECK_EQUAL(dtn_ethosu_watch_start(watch, bytes, stream.config, stream.words, size, &stream.memory), DTN_ETHOSU_OK);
    (void)dtn_ethosu_watch_input(watch, 1, INPUT_AT, MAP_BYTES);
    CHECK(!dtn_ethosu_watch_input(watch, 0, 0, 1) && !dtn_ethosu_watch_input(watch, 1, STREAM_MEMORY, 1) &&
              !dtn_ethosu_watch_input(watch, 8, 0, 1),
          "an input lies in memory that is not there, or read only");
    while (dtn_ethosu_watch_step(watch, &seen) == DTN_ETHOSU_OK && seen.event.opcode != DTN_ETHOSU_OP_STOP) {
        value = seen.event.opcode == DTN_ETHOSU_OP_ELEMENTWISE ? seen.values[DTN_ETHOSU_PART_INPUT] : value;
    }
    CHECK(dtn_ethosu_watch_output(watch, 1, 0, MAP_BYTES, &unwritten, &output) && output != 0, "there is no output");
    CHECK(!dtn_ethosu_watch_output(watch, 1, 0, MAP_BYTES + 1, &unwritten, &output), "it is longer");
    CHECK_EQUAL(unwritten, MAP_BYTES);
    free(watch);
    stream_free(&stream);
    return value;
}

static void test_values(void)
{
    uint64_t value = value_of(0, INPUT_AT);
    CHECK_EQUAL(value_of(0x3000, 0x3000), value);
    CHECK(value_of(0, INPUT_AT + ROW) != value, "other bytes are the same values");
}

int main(void)
{
    test_unwritten();
    test_copies();
    test_two_copies();
    test_kernels();
    test_third_kernel();
    test_blocks();
    test_buffers();
    test_block_sizes();
    test_tables();
    test_refused();
    test_indices();
    test_bounds();
    test_values();
    return test_result();
}
