/* The driver refuses every broken rule with its own reason, and runs what the format allows. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "../src/driver/model.h"
#include "deuteron/driver.h"
#include "random_call.h"
#include "refusal.h"
#include "tables.h"
#include "test.h"

/* fetch, wait, lut (input to scratch), fill (output); the lut's table is in the weights. */
static void start_small(build_t *build)
{
    uint8_t table[DTN_LUT_BYTES];
    dtn_lut_s8_params_t lut = {32};
    dtn_fill_s8_params_t fill = {16, -5};
    for (uint32_t i = 0; i < sizeof table; i++) {
        table[i] = (uint8_t)(255 - i);
    }
    build_start(build);
    build_ref_t operands[] = {build_input(build, 32), build_constant(build, table, sizeof table),
                              build_scratch(build, 32)};
    build_ref_t filled[] = {build_output(build, 16)};
    build->prefetch_bytes = 256;
    build_fetch(build, 3, 0, 0, 256);
    build_wait(build, 3);
    build_call(build, DTN_KERNEL_LUT_S8, operands, &lut);
    build_call(build, DTN_KERNEL_FILL_S8, filled, &fill);
}

/* Where the words of `start_small`'s blocks are. */
enum { TABLES = 20, FIRST = 24, FETCH = FIRST, WAIT = FETCH + 5, LUT = WAIT + 2, FILL = LUT + 13, END = FILL + 8 };

/* One word changed, CRCs made right again. */
typedef struct {
    uint32_t word;
    uint32_t value;
    dtn_reason_t reason;
    uint32_t detail;
} word_case_t;

static const word_case_t words_refused[] = {
    {DTN_HEADER_MAGIC, 0x64434D6F, DTN_REASON_MAGIC, 0},
    {DTN_HEADER_DEUTERON_MAGIC, 0, DTN_REASON_NOT_DEUTERON, 0},
    {DTN_HEADER_VERSION, 0x00000009, DTN_REASON_VERSION, 0},
    {DTN_HEADER_VERSION, 0x00010001, DTN_REASON_VERSION, 0},
    {DTN_HEADER_VERSION, 0x00020000, DTN_REASON_VERSION, 0},
    {DTN_HEADER_FLAGS, 2, DTN_REASON_FLAGS, 0},
    {DTN_HEADER_COMMANDS, 4, DTN_REASON_COMMAND_COUNT, 3},
    {DTN_HEADER_COMMANDS, 6, DTN_REASON_COMMAND_COUNT, 4},
    {DTN_HEADER_COMMANDS, 0, DTN_REASON_COMMAND_COUNT, 4},
    {DTN_HEADER_SCRATCH_BYTES, 33, DTN_REASON_HEADER_SIZE, 0},
    {DTN_HEADER_SCRATCH_BYTES, 16, DTN_REASON_OPERAND_RANGE, 2},
    {DTN_LAYOUT_A_PREFETCH_BYTES, 248, DTN_REASON_HEADER_SIZE, 0},
    {DTN_LAYOUT_A_PREFETCH_BYTES, 240, DTN_REASON_FETCH_RANGE, 0},
    {DTN_LAYOUT_A_INPUTS, 256, DTN_REASON_TENSOR_COUNT, 0},
    {DTN_LAYOUT_A_OUTPUTS, 0xFFFFFFFF, DTN_REASON_TENSOR_COUNT, 0},
    {DTN_LAYOUT_A_OUTPUTS, 5, DTN_REASON_FIRST_COMMAND, 0},
    {DTN_LAYOUT_A_OUTPUTS, 0, DTN_REASON_RESERVED, 0},
    {13, 1, DTN_REASON_RESERVED, 0},
    {14, 1, DTN_REASON_RESERVED, 0},
    {DTN_HEADER_RESIDENT_BYTES, 8, DTN_REASON_HEADER_SIZE, 0},
    {DTN_HEADER_RESIDENT_BYTES, 0x10000000, DTN_REASON_HEADER_SIZE, 0},
    {DTN_HEADER_RESIDENT_BYTES, 240, DTN_REASON_RESIDENT, 0},
    {17, 1, DTN_REASON_RESERVED, 0},
    {19, 1, DTN_REASON_RESERVED, 0},
    {TABLES + 2, 1, DTN_REASON_RESERVED, 0},
    {END + 1, 1, DTN_REASON_RESERVED, 0},
    {DTN_HEADER_FIRST_COMMAND, 80, DTN_REASON_FIRST_COMMAND, 0},
    {DTN_HEADER_FIRST_COMMAND, 100, DTN_REASON_FIRST_COMMAND, 0},
    {DTN_HEADER_FIRST_COMMAND, 0xFFFFFFF0, DTN_REASON_FIRST_COMMAND, 0},
    {FETCH, 0x00050000, DTN_REASON_OPCODE, 0},
    {FETCH, 0x00050005, DTN_REASON_OPCODE, 0},
    {FETCH, 0x00050102, DTN_REASON_OPCODE, 0},
    {FETCH, 0x00040002, DTN_REASON_LENGTH, 0},
    {FETCH, 0x00000002, DTN_REASON_LENGTH, 0},
    {FETCH, 0xFFFF0002, DTN_REASON_LENGTH, 0},
    {FETCH + 1, 4, DTN_REASON_CHANNEL, 0},
    {FETCH + 2, 8, DTN_REASON_FETCH_RANGE, 0},
    {FETCH + 2, 16, DTN_REASON_FETCH_RANGE, 0},
    {FETCH + 3, 16, DTN_REASON_FETCH_RANGE, 0},
    {FETCH + 3, 0xFFFFFFF0, DTN_REASON_FETCH_RANGE, 0},
    {FETCH + 4, 0, DTN_REASON_FETCH_RANGE, 0},
    {FETCH + 4, 24, DTN_REASON_FETCH_RANGE, 0},
    {FETCH + 1, 2, DTN_REASON_CHANNEL_BUSY, 4},
    {WAIT, 0x00030003, DTN_REASON_LENGTH, 1},
    {WAIT + 1, 4, DTN_REASON_CHANNEL, 1},
    {LUT, 0x00020001, DTN_REASON_LENGTH, 2},
    {LUT, 0x000E0001, DTN_REASON_SIGNATURE, 2},
    {LUT + 1, 0x01030000, DTN_REASON_KERNEL_UNKNOWN, 2},
    {LUT + 1, 0x01030012, DTN_REASON_KERNEL_UNKNOWN, 2},
    {LUT + 1, 0x0103000A, DTN_REASON_KERNEL_UNLISTED, 2},
    {LUT + 1, 0x0104000C, DTN_REASON_SIGNATURE, 2},
    {LUT + 1, 0x0203000C, DTN_REASON_SIGNATURE, 2},
    {LUT + 3, 0x00000005, DTN_REASON_OPERAND_REGION, 2},
    {LUT + 3, 0x00000100, DTN_REASON_OPERAND_REGION, 2},
    {LUT + 3, 0x00010000, DTN_REASON_OPERAND_REGION, 2},
    {LUT + 4, 1, DTN_REASON_OPERAND_RANGE, 2},
    {LUT + 4, 0xFFFFFFFF, DTN_REASON_OPERAND_RANGE, 2},
    {LUT + 5, 33, DTN_REASON_OPERAND_RANGE, 2},
    {LUT + 5, 31, DTN_REASON_OPERAND_SIZE, 2},
    {LUT + 8, 240, DTN_REASON_OPERAND_SIZE, 2},
    {LUT + 9, 0x00000102, DTN_REASON_OPERAND_REGION, 2},
    {LUT + 9, 3, DTN_REASON_OPERAND_READ_ONLY, 2},
    {LUT + 9, 4, DTN_REASON_OPERAND_READ_ONLY, 2},
    {LUT + 9, 0, DTN_REASON_OPERAND_READ_ONLY, 2},
    {LUT + 12, 0, DTN_REASON_PARAMETER, 2},
    {LUT + 12, 31, DTN_REASON_OPERAND_SIZE, 2},
    {FILL + 6, 15, DTN_REASON_OPERAND_SIZE, 3},
    {FILL + 7, 128, DTN_REASON_PARAMETER, 3},
};

static void test_words_refused(void)
{
    for (size_t i = 0; i < sizeof words_refused / sizeof words_refused[0]; i++) {
        const word_case_t *c = &words_refused[i];
        char what[64];
        build_t build;
        start_small(&build);
        build_finish(&build);
        build.microcode[c->word] = c->value;
        build_seal(&build);
        snprintf(what, sizeof what, "word %u = 0x%X", (unsigned)c->word, (unsigned)c->value);
        check_error(prepare(&build), c->reason, c->detail, what);
        build_free(&build);
    }
}

static void test_sizes_refused(void)
{
    static const uint32_t sizes[] = {0, 80, 88, (16U << 20) + 16};
    build_t build;
    start_small(&build);
    build_finish(&build);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        build.microcode[DTN_HEADER_MICROCODE_BYTES] = sizes[i];
        check_error(prepare(&build), DTN_REASON_HEADER_SIZE, 0, "microcode size");
    }
    build.microcode[DTN_HEADER_MICROCODE_BYTES] = build.microcode_bytes;
    build.microcode[DTN_HEADER_WEIGHTS_BYTES] = 0;
    build_seal(&build);
    check_error(prepare(&build), DTN_REASON_HEADER_SIZE, 0, "no weights");
    build.microcode[DTN_HEADER_WEIGHTS_BYTES] = 24;
    build_seal(&build);
    check_error(prepare(&build), DTN_REASON_HEADER_SIZE, 0, "weights not a multiple of 16");
    build_free(&build);
}

static void test_damage_refused(void)
{
    build_t build;
    start_small(&build);
    build_finish(&build);
    check_error(prepare(&build), DTN_OK, 0, "the small model");
    build.microcode[TABLES] ^= 1;
    check_error(prepare(&build), DTN_REASON_MICROCODE_CRC, 0, "a flipped bit of microcode");
    build.microcode[TABLES] ^= 1;
    build.weights[100] ^= 1;
    check_error(prepare(&build), DTN_REASON_WEIGHTS_CRC, 0, "a flipped bit of weights");
    build.weights[100] ^= 1;
    build.kernels[1] = DTN_KERNEL_LUT_S8;
    build.kernels[2] = DTN_KERNEL_FILL_S8;
    check_error(prepare(&build), DTN_REASON_KERNELS_BLOCK, 0, "kernels out of order");
    build.kernels[0] = DTN_KERNEL_KINDS;
    check_error(prepare(&build), DTN_REASON_KERNELS_BLOCK, 0, "too many kernels");
    build.kernels[0] = 1;
    build.kernels[1] = DTN_KERNEL_KINDS;
    check_error(prepare(&build), DTN_REASON_KERNELS_BLOCK, 0, "an unknown kernel");
    build_free(&build);
}

static void test_absent_kernel(void)
{
    dtn_kernel_t some[DTN_KERNEL_KINDS];
    dtn_model_t model;
    build_t build;
    start_small(&build);
    build_finish(&build);
    NeutronModelConfig config = build_config(&build);
    memcpy(some, table_fast, sizeof some);
    CHECK_EQUAL(dtn_model_check(&config, some, &model), ENONE);
    some[DTN_KERNEL_LUT_S8] = NULL;
    check_error(dtn_model_check(&config, some, &model), DTN_REASON_KERNEL_ABSENT, DTN_KERNEL_LUT_S8, "no lut linked");
    build_free(&build);
}

static void test_arguments(void)
{
    build_t build;
    start_small(&build);
    build_finish(&build);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    check_error(neutronModelPrepare(NULL, &handle), DTN_REASON_NULL_POINTER, 0, "no config");
    check_error(neutronModelPrepare(&config, NULL), DTN_REASON_NULL_POINTER, 0, "no handle");
    config.weights = NULL;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_NULL_POINTER, 0, "no weights");
    config = build_config(&build);
    config.microcode = (const uint8_t *)config.microcode + 8;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_MISALIGNED, 0, "misaligned microcode");
    config = build_config(&build);
    config.kernels = (const uint8_t *)config.kernels + 8;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_MISALIGNED, 0, "misaligned kernels");
    check_error(neutronModelUnprepare(NULL), DTN_REASON_BAD_HANDLE, 0, "unprepare of nothing");
    check_error(neutronRunBlocking(NULL, NULL), DTN_REASON_BAD_HANDLE, 0, "run of nothing");
    check_error(neutronSetConfig(NULL), DTN_REASON_NULL_POINTER, 0, "no hooks");
    build_free(&build);
}

/* Memory of the caller's for the context: used when aligned, refused when not, dead after unprepare. */
static void test_context(void)
{
    build_t build;
    build_buffers_t buffers;
    start_small(&build);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    void *block = build_alloc((uint32_t)(neutronGetModelContextSize() + sizeof(void *)));
    /* The least alignment that ExecuTorch's delegate asks for. */
    void *memory = (uint8_t *)block + sizeof(void *);
    NeutronModelHandle handle = (uint8_t *)memory - 1;
    check_error(neutronModelPrepare(&config, &handle), DTN_REASON_MISALIGNED, 0, "misaligned context");
    handle = memory;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK(handle == memory, "the context is elsewhere");
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    check_error(neutronRunBlocking(handle, NULL), DTN_REASON_NULL_POINTER, 0, "no buffers");
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_BAD_HANDLE, 0, "run after unprepare");
    check_error(neutronModelUnprepare(handle), DTN_REASON_BAD_HANDLE, 0, "unprepare twice");
    free(block);
    build_buffers_free(&buffers);
    build_free(&build);
}

static void test_buffers_refused(void)
{
    build_t build;
    build_buffers_t buffers;
    start_small(&build);
    build.profiling = true;
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    void **places[] = {&buffers.inputs[0], &buffers.outputs[0], &buffers.outputs[1], &buffers.outputs[2],
                       &buffers.config.scratchWeights};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        void *kept = *places[i];
        *places[i] = NULL;
        check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_NULL_POINTER, 0, "a buffer missing");
        if (i >= 2) {
            *places[i] = (uint8_t *)kept + 8;
            check_error(neutronRunBlocking(handle, &buffers.config), DTN_REASON_MISALIGNED, 0, "a buffer misaligned");
        }
        *places[i] = kept;
    }
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

static void test_profile(void)
{
    static const uint32_t codes[] = {0x0307 << 8, 0x0308 << 8, 0x0C06 << 8, 0x0B06 << 8, 0};
    build_t build;
    build_buffers_t buffers;
    start_small(&build);
    build.profiling = true;
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    const uint32_t *records = (const uint32_t *)buffers.outputs[build.outputs + 1];
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        const uint32_t *record = records + 4 * i;
        CHECK_EQUAL(record[0], codes[i] + 1);
        CHECK_EQUAL(record[2], codes[i] + 2);
        CHECK(record[3] - record[1] < 1000000000U, "record %u lasts %u ns", (unsigned)i,
              (unsigned)(record[3] - record[1]));
    }
    /* The closing record spans all others. */
    for (size_t i = 0; i < 4; i++) {
        CHECK(records[4 * i + 1] - records[17] <= records[19] - records[17], "record %u starts outside", (unsigned)i);
    }
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build.microcode[DTN_LAYOUT_B_PROFILE_BYTES] -= 16;
    build_seal(&build);
    check_error(prepare(&build), DTN_REASON_PROFILE_SIZE, 0, "profile too small");
    build_buffers_free(&buffers);
    build_free(&build);
}

/* What the hooks below were asked, in order. */
static char log_text[64];

static void log_copy(void *dst, void *src, uint32_t size, uint32_t channel)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "copy %u on %u;", (unsigned)size, (unsigned)channel);
    memcpy(dst, src, size);
}

static void log_wait(uint32_t channel)
{
    size_t used = strlen(log_text);
    snprintf(log_text + used, sizeof log_text - used, "wait %u;", (unsigned)channel);
}

static void test_hooks(void)
{
    NeutronConfig hooks = {log_copy, log_wait};
    NeutronConfig half = {log_copy, NULL};
    build_t build;
    build_buffers_t buffers;
    start_small(&build);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronSetConfig(&hooks), ENONE);
    check_error(neutronSetConfig(&half), DTN_REASON_NULL_POINTER, 0, "half of the hooks");
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "the hooks were asked: %s", log_text);
    CHECK(memcmp(buffers.prefetch, build.weights, 256) == 0, "the prefetch area does not hold the weights");
    CHECK_EQUAL(neutronInit(), ENONE); /* puts the default hooks back */
    CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
    CHECK(strcmp(log_text, "copy 256 on 3;wait 3;") == 0, "hooks used after neutronInit: %s", log_text);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    build_buffers_free(&buffers);
    build_free(&build);
}

/* Resident weights are copied by the first run only, as long as the promise holds. */
static void test_resident(void)
{
    static NeutronConfig hooks = {log_copy, log_wait};
    static const char whole[] = "copy 64 on 0;wait 0;copy 16 on 1;wait 1;";
    static const char rest[] = "wait 0;copy 16 on 1;wait 1;";
    build_t build;
    build_buffers_t buffers;
    build_start(&build);
    build.prefetch_bytes = 80;
    build.resident_bytes = 64;
    build_constant(&build, NULL, 80);
    build_fetch(&build, 0, 0, 0, 64);
    build_wait(&build, 0);
    build_fetch(&build, 1, 64, 64, 16);
    build_wait(&build, 1);
    build_finish(&build);
    build_buffers(&build, 1, &buffers);
    NeutronModelConfig config = build_config(&build);
    NeutronModelHandle handle = NULL;
    CHECK_EQUAL(neutronModelPrepare(&config, &handle), ENONE);
    CHECK_EQUAL(neutronSetConfig(&hooks), ENONE);
    struct {
        int keep;   /* -1: as it is */
        bool other; /* another prefetch area */
        const char *log;
    } runs[] = {{-1, false, whole}, {-1, false, whole}, {1, false, whole}, {-1, false, rest}, {-1, false, rest},
                {-1, true, whole},  {-1, false, whole}, {-1, false, rest}, {0, false, whole}, {-1, false, whole}};
    uint8_t *area = (uint8_t *)buffers.config.scratchWeights;
    uint8_t *another = build_alloc(build.prefetch_bytes);
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        if (runs[i].keep >= 0) {
            CHECK_EQUAL(dtn_model_keep_prefetch(handle, runs[i].keep != 0), ENONE);
        }
        log_text[0] = '\0';
        buffers.config.scratchWeights = runs[i].other ? another : area;
        CHECK_EQUAL(neutronRunBlocking(handle, &buffers.config), ENONE);
        CHECK(strcmp(log_text, runs[i].log) == 0, "run %zu asked the hooks: %s", i, log_text);
        CHECK(memcmp(buffers.config.scratchWeights, build.weights, 80) == 0, "run %zu: not the weights", i);
    }
    free(another);
    CHECK_EQUAL(neutronInit(), ENONE);
    CHECK_EQUAL(neutronModelUnprepare(handle), ENONE);
    check_error(dtn_model_keep_prefetch(NULL, true), DTN_REASON_BAD_HANDLE, 0, "a handle that is none");
    buffers.config.scratchWeights = area;
    build_buffers_free(&buffers);
    build_free(&build);
}

/* Resident fetches stay inside their bytes, one after the other. */
static void test_resident_fetches(void)
{
    static const struct {
        uint32_t target;
        uint32_t bytes;
        dtn_reason_t reason;
    } second[] = {{32, 32, DTN_OK},
                  {48, 16, DTN_OK},
                  {64, 16, DTN_OK},
                  {48, 32, DTN_REASON_RESIDENT},
                  {16, 16, DTN_REASON_RESIDENT},
                  {0, 16, DTN_REASON_RESIDENT}};
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        build_t build;
        build_start(&build);
        build.prefetch_bytes = 80;
        build.resident_bytes = 64;
        build_constant(&build, NULL, 80);
        build_fetch(&build, 0, 0, 0, 32);
        build_wait(&build, 0);
        build_fetch(&build, 0, 0, second[i].target, second[i].bytes);
        build_wait(&build, 0);
        build_finish(&build);
        check_error(prepare(&build), second[i].reason, second[i].reason != DTN_OK ? 2 : 0, "a second resident fetch");
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

static void test_errors(void)
{
    NeutronError error = dtn_error(DTN_REASON_OPERAND_SIZE, 7);
    CHECK_EQUAL(error, 3 | 2 << 3 | 47 << 8 | 7 << 16);
    CHECK_EQUAL(DTN_ERROR_REASON(error), DTN_REASON_OPERAND_SIZE);
    CHECK_EQUAL(DTN_ERROR_DETAIL(error), 7);
    CHECK_EQUAL(DTN_ERROR_DETAIL(dtn_error(DTN_REASON_OPCODE, 100000)), 0x7FFF);
    CHECK_EQUAL(dtn_error(DTN_OK, 5), ENONE);
    CHECK(strcmp(dtn_error_string(error), "an operand's size is not what the parameters need") == 0, "%s",
          dtn_error_string(error));
    CHECK(strcmp(dtn_error_string(ENONE), "no error") == 0, "%s", dtn_error_string(ENONE));
    CHECK(strcmp(dtn_error_string(0x2F03), "unknown error") == 0, "another category");
    CHECK(strcmp(dtn_error_string(-1), "unknown error") == 0, "a negative number");
    CHECK(strcmp(getNeutronErrorComponent(error), "driver") == 0, "%s", getNeutronErrorComponent(error));
    CHECK(strcmp(getNeutronErrorCategory(error), "microcode") == 0, "%s", getNeutronErrorCategory(error));
    CHECK(strcmp(getNeutronErrorComponent(7), "unknown") == 0, "%s", getNeutronErrorComponent(7));
    CHECK(strcmp(getNeutronErrorCategory(31 << 3), "unknown") == 0, "%s", getNeutronErrorCategory(31 << 3));
}

static void test_other_npu(void)
{
    bool ready = false;
    NeutronError error = neutronIsReady(NULL, &ready);
    check_error(error, DTN_REASON_OTHER_NPU, 0, "neutronIsReady");
    CHECK_EQUAL(GET_ERROR_CATEGORY(error), ERROR_CATEGORY_DRIVER_UNSUPPORTED);
    check_error(neutronRunNonBlocking(NULL, NULL), DTN_REASON_OTHER_NPU, 0, "neutronRunNonBlocking");
    CHECK(neutronMemAlloc(16, 16) == NULL, "neutronMemAlloc found memory");
    CHECK_EQUAL(neutronGetSdkVersion().hashUint32, 0x10000);
    CHECK_EQUAL(neutronSuspend(), ENONE);
    CHECK_EQUAL(neutronResume(), ENONE);
    CHECK_EQUAL(neutronDeinit(), ENONE);
}

int main(void)
{
    test_words_refused();
    test_sizes_refused();
    test_damage_refused();
    test_absent_kernel();
    test_arguments();
    test_context();
    test_buffers_refused();
    test_profile();
    test_hooks();
    test_resident();
    test_resident_fetches();
    test_channels();
    test_in_flight();
    test_errors();
    test_other_npu();
    return test_result();
}
