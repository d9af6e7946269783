/* Faults of an Ethos-U's stream, with position and detail. Then compressed weights, whose vectors are the argument: a
 * line of the stream's bytes in hexadecimal, a line of the weights. */
#include <stdlib.h>
#include <string.h>

#include "../src/ethosu/output_scale.h"
#include "../src/ethosu/weights.h"
#include "ethosu_stream.h"
#include "test.h"

static uint64_t state = 7;

/* A stream that doubles 2 x 2 x 4 values of the read-only region into the other: 16 bytes each. */
static void new_sum(stream_t *stream)
{
    test_map_t in = {0, 0x20, 2, 2, 4, 1, true, false, 0};
    test_map_t out = {1, 0x40, 2, 2, 4, 1, true, false, 0};
    stream_new(stream, "ethos-u55-128", &state);
    stream_short(stream, REG_OFM_HEIGHT_M1, 1);
    stream_short(stream, REG_OFM_WIDTH_M1, 1);
    stream_short(stream, REG_OFM_DEPTH_M1, 3);
    stream_short(stream, REG_IFM_UPSCALE, 0);
    stream_map(stream, &dtn_ethosu_ifm_registers, &in, 0);
    stream_map(stream, &dtn_ethosu_ifm2_registers, &in, 0);
    stream_map(stream, &dtn_ethosu_ofm_registers, &out, 1U << 8);
    stream_short(stream, REG_IFM2_BROADCAST, 0);
    stream_short(stream, REG_ACTIVATION, 0);
    stream_short(stream, REG_ACTIVATION_MIN, 0xFF80);
    stream_short(stream, REG_ACTIVATION_MAX, 0x7F);
    stream_long(stream, REG_OFM_SCALE, 1);
    stream_long(stream, REG_OPA_SCALE, 1);
    stream_long(stream, REG_OPB_SCALE, 1);
}

/* Adds the operation, runs, and compares the fault with what it should be; ends the stream. */
static void check_fault(stream_t *stream, dtn_ethosu_fault_t expected, uint64_t detail)
{
    dtn_ethosu_event_t event = {0};
    uint32_t at = (uint32_t)(stream->count - 8) * 4;
    stream_op(stream, DTN_ETHOSU_OP_ELEMENTWISE, 1);
    dtn_ethosu_fault_t fault = stream_run(stream, &event);
    CHECK(fault == expected, "`%s` instead of `%s`", dtn_ethosu_message(fault), dtn_ethosu_message(expected));
    CHECK_EQUAL(event.detail, detail);
    if (expected != DTN_ETHOSU_OK && expected != DTN_ETHOSU_OPCODE) {
        CHECK_EQUAL(event.offset, at);
        CHECK_EQUAL(event.opcode, DTN_ETHOSU_OP_ELEMENTWISE);
    }
    stream_free(stream);
}

static void check_short(uint32_t opcode, uint32_t value, dtn_ethosu_fault_t expected, uint64_t detail)
{
    stream_t stream;
    new_sum(&stream);
    stream_short(&stream, opcode, value);
    check_fault(&stream, expected, detail);
}

static void check_long(uint32_t opcode, uint64_t value, dtn_ethosu_fault_t expected, uint64_t detail)
{
    stream_t stream;
    new_sum(&stream);
    stream_long(&stream, opcode, value);
    check_fault(&stream, expected, detail);
}

static void test_fields(void)
{
    stream_t stream;
    new_sum(&stream);
    check_fault(&stream, DTN_ETHOSU_OK, 0);
    check_short(REG_IFM_REGION, 2, DTN_ETHOSU_REGION, 2);
    check_short(REG_IFM_REGION, 9, DTN_ETHOSU_REGION, 9);
    check_short(REG_OFM_REGION, 0, DTN_ETHOSU_READ_ONLY, 0);
    check_short(REG_IFM_UPSCALE, 1, DTN_ETHOSU_FIELD, REG_IFM_UPSCALE);
    check_short(REG_IFM_PRECISION, 3 << 2, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    check_short(REG_IFM_PRECISION, 2 << 6, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    check_short(REG_IFM_PRECISION, 1 | 3 << 8, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    check_short(REG_OFM_PRECISION, 1 | 1 << 8 | 3 << 14, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
    check_short(REG_IFM_ZERO_POINT, 200, DTN_ETHOSU_FIELD, REG_IFM_ZERO_POINT);
    check_short(REG_ACTIVATION, 1 << 12, DTN_ETHOSU_FIELD, REG_ACTIVATION);
    check_short(REG_ACTIVATION, 1, DTN_ETHOSU_FIELD, REG_ACTIVATION);
    check_short(REG_ACTIVATION, 3, DTN_ETHOSU_BUILT_IN, REG_ACTIVATION);
    check_short(REG_ACTIVATION, 4, DTN_ETHOSU_BUILT_IN, REG_ACTIVATION);
    check_short(REG_ACTIVATION_MIN, 0x7F + 1, DTN_ETHOSU_FIELD, REG_ACTIVATION_MIN);
    check_short(REG_OFM_DEPTH_M1, 0xFFFF, DTN_ETHOSU_BOUNDS, 0x40);
    check_long(REG_OFM_STRIDE_X, 0, DTN_ETHOSU_FIELD, REG_OFM_STRIDE_X);
    check_long(REG_OFM_BASE0, STREAM_MEMORY - 15, DTN_ETHOSU_BOUNDS, STREAM_MEMORY - 15);
    check_long(REG_OFM_BASE0, STREAM_MEMORY - 16, DTN_ETHOSU_OK, 0);
    check_long(REG_IFM_BASE0, UINT64_C(0xFFFFFFFFFF), DTN_ETHOSU_BOUNDS, UINT64_C(0xFFFFFFFFFF));
    /* Rows of a negative stride lie before the base: one of 16 bytes is there, one of 256 is not. */
    check_long(REG_IFM_STRIDE_X + 1, UINT64_C(0xFFFFFFFFF0), DTN_ETHOSU_OK, 0);
    check_long(REG_IFM_STRIDE_X + 1, UINT64_C(0xFFFFFFFF00), DTN_ETHOSU_BOUNDS, 0x20);
}

/* An operation of 2^48 elements, refused before its maps are. */
static void test_work(void)
{
    stream_t stream;
    new_sum(&stream);
    stream_short(&stream, REG_OFM_HEIGHT_M1, 0xFFFF);
    stream_short(&stream, REG_OFM_WIDTH_M1, 0xFFFF);
    stream_short(&stream, REG_OFM_DEPTH_M1, 0xFFFF);
    check_fault(&stream, DTN_ETHOSU_WORK, UINT64_C(1) << 32);
}

/* Bricks of 16 channels that lie on each other. */
static void test_bricks(void)
{
    stream_t stream;
    new_sum(&stream);
    stream_short(&stream, REG_OFM_DEPTH_M1, 32);
    stream_short(&stream, REG_IFM_PRECISION, 1 | 1 << 6);
    stream_long(&stream, REG_IFM_STRIDE_X + 2, 1);
    check_fault(&stream, DTN_ETHOSU_FIELD, REG_IFM_STRIDE_X);
}

/* A table of 512 lines has none for values of 16 bits without a sign. */
static void test_tables(void)
{
    stream_t stream;
    new_sum(&stream);
    stream_short(&stream, REG_OFM_PRECISION, 1 << 1 | 1 << 8);
    stream_short(&stream, REG_ACTIVATION_MIN, 0);
    stream_short(&stream, REG_ACTIVATION, 16);
    check_fault(&stream, DTN_ETHOSU_FIELD, REG_OFM_PRECISION);
}

/* More copies than any network has: what each takes is counted. */
static void test_copied_work(void)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    stream_new(&stream, "ethos-u55-64", &state);
    stream.memory.regions[0].bytes = stream.memory.regions[1].bytes = (size_t)1 << 31;
    stream_short(&stream, REG_DMA0_SRC_REGION, 0);
    stream_short(&stream, REG_DMA0_DST_REGION, 1);
    stream_long(&stream, REG_DMA0_SRC, 0);
    stream_long(&stream, REG_DMA0_DST, 0);
    stream_long(&stream, REG_DMA0_LEN, UINT64_C(1) << 31);
    for (int32_t i = 0; i < 33; i++) {
        stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
    }
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_WORK);
    stream_free(&stream);
}

/* A product of 32 bits is shifted only, whatever the scale of the output. */
static void test_wide_product(void)
{
    static const uint32_t scales[] = {1, 1U << 30, 0, 2, 3U << 29, 0x6BAD98C8};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        test_map_t in = {0, 0x20, 2, 2, 4, 4, true, false, 0}, out = {1, 0x40, 2, 2, 4, 4, true, false, 0};
        dtn_ethosu_event_t event = {0};
        stream_t stream;
        new_sum(&stream);
        stream_map(&stream, &dtn_ethosu_ifm_registers, &in, 0);
        stream_map(&stream, &dtn_ethosu_ifm2_registers, &in, 0);
        stream_map(&stream, &dtn_ethosu_ofm_registers, &out, 1U << 14 | 1U << 8);
        stream_long(&stream, REG_OFM_SCALE, UINT64_C(33) << 32 | scales[i]);
        stream_op(&stream, DTN_ETHOSU_OP_ELEMENTWISE, 0);
        CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
        int64_t value = map_value(&stream, &in, 1, 0, 3);
        CHECK_EQUAL(map_stored(&stream, &out, 1, 0, 3), value * value >> 33);
        stream_free(&stream);
    }
}

/* An output without a table has no place of one, whatever stood there. */
static void test_no_table(void)
{
    static const char *const configs[] = {"ethos-u55-128", "ethos-u85-256"};
    for (size_t i = 0; i < 2; i++) {
        dtn_ethosu_t machine = {.config = dtn_ethosu_config(configs[i])};
        const dtn_ethosu_map_t map = {.bytes = 1, .is_signed = true};
        dtn_ethosu_output_t output;
        memset(machine.is_set, 0xFF, sizeof machine.is_set);
        memset(&output, 0xA5, sizeof output);
        CHECK_EQUAL(dtn_ethosu_output(&machine, &map, &output), DTN_ETHOSU_OK);
        CHECK(output.table_at == 0 && output.table_bytes == 0 && output.table_data == NULL, "there is a table");
    }
}

static void test_alignment(void)
{
    stream_t stream;
    new_sum(&stream);
    test_map_t wide = {0, 0x21, 2, 2, 4, 2, true, false, 0};
    stream_map(&stream, &dtn_ethosu_ifm_registers, &wide, 0);
    check_fault(&stream, DTN_ETHOSU_ALIGNMENT, 0x21);
}

/* Checks a stream of the registers with these opcodes, each with another value. */
static dtn_ethosu_fault_t check_registers(stream_t *stream, dtn_ethosu_t *machine, const uint32_t *opcodes,
                                          size_t count)
{
    dtn_ethosu_event_t event;
    stream->count = 8;
    for (size_t i = 0; i < count; i++) {
        if (opcodes[i] >= 0x100) {
            stream_short(stream, opcodes[i], (uint32_t)i + 1);
        } else {
            stream_long(stream, opcodes[i], (uint64_t)i + 1);
        }
    }
    return dtn_ethosu_check(machine, stream->config, stream->words, stream_end(stream), &stream->memory, &event);
}

/* Every register of every product has a separate slot, and a machine is small. */
static void test_registers(void)
{
    static const char *const configs[] = {"ethos-u55-128", "ethos-u65-256", "ethos-u85-256"};
    static const size_t counts[] = {78, 87, 99};
    dtn_ethosu_t machine;
    CHECK(sizeof machine <= 1280, "a machine has %u bytes", (unsigned)sizeof machine);
    for (size_t c = 0; c < 3; c++) {
        uint32_t opcodes[0x200];
        size_t count = 0;
        stream_t stream;
        stream_new(&stream, configs[c], &state);
        for (uint32_t opcode = 0; opcode < 0x200; opcode++) {
            opcodes[count] = opcode;
            count += check_registers(&stream, &machine, &opcodes[count], 1) == DTN_ETHOSU_OK ? 1U : 0U;
        }
        CHECK_EQUAL(count, counts[c]);
        CHECK_EQUAL(check_registers(&stream, &machine, opcodes, count), DTN_ETHOSU_OK);
        for (size_t i = 0; i < count; i++) {
            const uint32_t opcode = opcodes[i];
            const uint64_t value =
                opcode >= 0x100 ? dtn_ethosu_short(&machine, opcode) : dtn_ethosu_address(&machine, opcode);
            CHECK_EQUAL(value, i + 1);
            CHECK_EQUAL(dtn_ethosu_need(&machine, (const uint16_t[]){(uint16_t)opcode}, 1,
                                        opcode >= 0x100 ? 0 : DTN_ETHOSU_SHORTS),
                        DTN_ETHOSU_OK);
        }
        stream_free(&stream);
    }
}

static void test_unset(void)
{
    stream_t stream;
    stream_new(&stream, "ethos-u55-128", &state);
    check_fault(&stream, DTN_ETHOSU_UNSET, REG_OFM_HEIGHT_M1);
}

static void test_opcodes(void)
{
    check_short(0x1FF, 0, DTN_ETHOSU_OPCODE, 0x1FF);
    /* A register of an Ethos-U65. */
    check_short(REG_DMA0_SIZE0, 0, DTN_ETHOSU_OPCODE, REG_DMA0_SIZE0);
    check_long(REG_WEIGHT1_BASE, 0, DTN_ETHOSU_OPCODE, REG_WEIGHT1_BASE | 1U << 14);
}

/* Copies, between regions and into the SHRAM. */
static void check_copy(uint32_t to, uint64_t address, uint64_t length, dtn_ethosu_fault_t expected, uint64_t detail)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    stream_new(&stream, "ethos-u55-64", &state);
    stream_short(&stream, REG_DMA0_SRC_REGION, 0);
    stream_short(&stream, REG_DMA0_DST_REGION, to);
    stream_long(&stream, REG_DMA0_SRC, 0x10);
    stream_long(&stream, REG_DMA0_DST, address);
    stream_long(&stream, REG_DMA0_LEN, length);
    stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
    CHECK_EQUAL(stream_run(&stream, &event), expected);
    CHECK_EQUAL(event.detail, detail);
    if (expected == DTN_ETHOSU_OK) {
        const uint8_t *copied = to == 1 ? stream.memory.regions[1].data : stream.memory.shram;
        CHECK_EQUAL(memcmp(copied + address, stream.memory.regions[0].data + 0x10, length), 0);
    }
    stream_free(&stream);
}

static void test_copies(void)
{
    check_copy(1, 0x30, 100, DTN_ETHOSU_OK, 0);
    check_copy(1 << 8, 15 * 1024, 1024, DTN_ETHOSU_OK, 0);
    /* Vela 5.1.0's commands for a table after a transpose on this configuration. */
    check_copy(1 << 8, 16 * 1024, 256, DTN_ETHOSU_SHRAM, 16 * 1024);
    check_copy(0, 0x30, 100, DTN_ETHOSU_READ_ONLY, 0);
    check_copy(1, 0x30, 0, DTN_ETHOSU_FIELD, REG_DMA0_LEN);
    check_copy(1, STREAM_MEMORY - 99, 100, DTN_ETHOSU_BOUNDS, STREAM_MEMORY - 99);
    check_copy(1, 0, STREAM_MEMORY, DTN_ETHOSU_BOUNDS, 0x10);
    /* An Ethos-U55 has no copies of two dimensions: nothing can set how many rows there are. */
    check_copy(1 | 1 << 9, 0, 16, DTN_ETHOSU_UNSET, REG_DMA0_SIZE0);
    check_copy(1 | 2 << 9, 0, 16, DTN_ETHOSU_STRIDED_COPY, REG_DMA0_DST_REGION);
}

/* Copies of an Ethos-U65 to rows that lie `skip` bytes apart. */
static void check_rows(uint32_t from, uint64_t address, uint32_t rows, uint64_t skip, dtn_ethosu_fault_t expected,
                       uint64_t detail)
{
    stream_t stream;
    dtn_ethosu_event_t event = {0};
    stream_new(&stream, "ethos-u65-256", &state);
    stream_short(&stream, REG_DMA0_SRC_REGION, from);
    stream_short(&stream, REG_DMA0_DST_REGION, 1 | 1 << 9);
    stream_long(&stream, REG_DMA0_SRC, 0x10);
    stream_long(&stream, REG_DMA0_DST, address);
    stream_long(&stream, REG_DMA0_LEN, 24);
    stream_short(&stream, REG_DMA0_SIZE0, rows);
    stream_long(&stream, REG_DMA0_SKIP0, skip);
    stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
    memset(stream.memory.regions[1].data, 0x55, STREAM_MEMORY);
    CHECK_EQUAL(stream_run(&stream, &event), expected);
    CHECK_EQUAL(event.detail, detail);
    for (uint32_t i = 0; expected == DTN_ETHOSU_OK && i < rows; i++) {
        const uint8_t *row = stream.memory.regions[1].data + address + i * (24 + skip);
        CHECK_EQUAL(memcmp(row, stream.memory.regions[0].data + 0x10 + 24 * (size_t)i, 24), 0);
        CHECK(skip == 0 || row + 24 == stream.memory.regions[1].data + STREAM_MEMORY || row[24] == 0x55,
              "there is more than row %u", i);
    }
    stream_free(&stream);
}

static void test_rows(void)
{
    check_rows(0, 0x40, 5, 40, DTN_ETHOSU_OK, 0);
    check_rows(0, STREAM_MEMORY - (4 * 64 + 24), 5, 40, DTN_ETHOSU_OK, 0);
    check_rows(0, STREAM_MEMORY - (4 * 64 + 23), 5, 40, DTN_ETHOSU_BOUNDS, STREAM_MEMORY - (4 * 64 + 23));
    check_rows(0, 0x40, 5, 0, DTN_ETHOSU_OK, 0);
    check_rows(0, 0x40, 0, 40, DTN_ETHOSU_OK, 0);
    check_rows(0, 0x40, 2, UINT64_C(0xFFFFFFFFFF), DTN_ETHOSU_BOUNDS, 0x40);
    check_rows(0, 0, 3000, 0, DTN_ETHOSU_BOUNDS, 0x10);
    check_rows(1 << 9, 0x40, 5, 40, DTN_ETHOSU_STRIDED_COPY, REG_DMA0_SRC_REGION);
}

/* ---- The header ---- */

static void test_header(void)
{
    stream_t stream;
    dtn_ethosu_t machine;
    dtn_ethosu_event_t event = {0};
    new_sum(&stream);
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    size_t bytes = stream.count * sizeof(uint32_t);
    const dtn_ethosu_config_t *config = stream.config;
    CHECK(dtn_ethosu_config_of(stream.words, bytes) == config, "the configuration is not found again");
    const dtn_ethosu_memory_t *memory = &stream.memory;
    CHECK_EQUAL(dtn_ethosu_step(&machine, NULL), DTN_ETHOSU_NULL_POINTER);
    CHECK_EQUAL(dtn_ethosu_start(&machine, NULL, stream.words, bytes, memory), DTN_ETHOSU_NULL_POINTER);
    CHECK_EQUAL(dtn_ethosu_start(&machine, config, stream.words + 1, bytes - 4, memory), DTN_ETHOSU_MISALIGNED);
    CHECK_EQUAL(dtn_ethosu_start(&machine, config, stream.words, bytes - 4, memory), DTN_ETHOSU_HEADER);
    CHECK_EQUAL(dtn_ethosu_step(&machine, &event), DTN_ETHOSU_FINISHED);
    CHECK_EQUAL(dtn_ethosu_start(&machine, dtn_ethosu_config("ethos-u65-256"), stream.words, bytes, memory),
                DTN_ETHOSU_CONFIGURATION);
    stream.memory.shram_bytes = config->shram_bytes - 1;
    CHECK_EQUAL(dtn_ethosu_start(&machine, config, stream.words, bytes, memory), DTN_ETHOSU_SHRAM_SIZE);
    stream.memory.shram_bytes = STREAM_SHRAM;
    /* Without its last command the stream has no end. */
    stream.words[7] -= 1U << 16;
    CHECK_EQUAL(dtn_ethosu_start(&machine, config, stream.words, bytes - 4, memory), DTN_ETHOSU_OK);
    CHECK_EQUAL(dtn_ethosu_run(&machine, &event), DTN_ETHOSU_TRUNCATED);
    stream.words[0] ^= 1U;
    CHECK_EQUAL(dtn_ethosu_start(&machine, config, stream.words, bytes - 4, memory), DTN_ETHOSU_HEADER);
    CHECK(dtn_ethosu_config_of(stream.words, bytes) == NULL, "damaged data have a configuration");
    CHECK(dtn_ethosu_config("ethos-u55-512") == NULL && dtn_ethosu_config_at(11) == NULL, "there are eleven");
    stream_free(&stream);
}

/* ---- Compressed weights ---- */

enum { LINE = 1 << 16, MOST = 4096 };

static void check_weights(const uint8_t *bytes, size_t length, const int16_t *weights, size_t count)
{
    static dtn_ethosu_weights_t stream;
    static int16_t read[MOST];
    /* A copy that ends where its allocation ends. */
    uint8_t *exact = (uint8_t *)malloc(length);
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, bytes, length);
    dtn_ethosu_weights_start(&stream, exact, length);
    for (size_t at = 0, step = 1; at < count; at += step, step = step % 40 + 1) {
        step = count - at < step ? count - at : step;
        CHECK(dtn_ethosu_weights_read(&stream, read + at, step), "the stream ends at weight %zu of %zu", at, count);
    }
    CHECK_EQUAL(memcmp(read, weights, count * sizeof *read), 0);
    CHECK(!dtn_ethosu_weights_read(&stream, read, MOST), "there are weights behind the last");
    /* Cut short, it is broken at some place, and never read beyond its end; the last bytes, at most 31, are padding. */
    for (size_t cut = 0; cut < length; cut += length / 16 + 1) {
        dtn_ethosu_weights_start(&stream, exact + length - cut, cut);
        (void)dtn_ethosu_weights_read(&stream, read, MOST);
        dtn_ethosu_weights_start(&stream, exact, cut);
        CHECK(cut + 32 > length || !dtn_ethosu_weights_read(&stream, read, count), "%zu of %zu bytes are enough", cut,
              length);
    }
    free(exact);
}

static int test_weights(const char *path)
{
    static char line[LINE];
    static uint8_t bytes[LINE / 2];
    static int16_t weights[MOST];
    int streams = 0;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL, "cannot read `%s`", path);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') {
            continue;
        }
        size_t length = strcspn(line, "\n") / 2, count = 0;
        for (size_t i = 0; i < length; i++) {
            char digits[3] = {line[2 * i], line[2 * i + 1], '\0'};
            bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
        }
        if (fgets(line, sizeof line, file) == NULL) {
            break;
        }
        char *next = line;
        for (char *at = line; count < MOST; at = next, count++) {
            weights[count] = (int16_t)strtol(at, &next, 10);
            if (next == at) {
                break;
            }
        }
        check_weights(bytes, length, weights, count);
        streams++;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return streams;
}

int main(int count, char **arguments)
{
    test_fields();
    test_work();
    test_bricks();
    test_tables();
    test_copied_work();
    test_wide_product();
    test_no_table();
    test_alignment();
    test_registers();
    test_unset();
    test_opcodes();
    test_copies();
    test_rows();
    test_header();
    CHECK(count == 2 && test_weights(arguments[1]) > 10, "too few compressed weights");
    return test_result();
}
