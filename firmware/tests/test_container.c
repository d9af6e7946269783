/* The driver refuses every broken rule of a container's blocks with its own reason. */
#include <stdio.h>
#include <string.h>

#include "../src/driver/model.h"
#include "prepare_errors.h"
#include "reference_kernels.h"
#include "small_container.h"
#include "test.h"

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
    {DTN_HEADER_VERSION, 0x00010003, DTN_REASON_VERSION, 0},
    {DTN_HEADER_VERSION, 0x00020000, DTN_REASON_VERSION, 0},
    {DTN_HEADER_FLAGS, 4, DTN_REASON_FLAGS, 0},
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
    {AT_TABLES + 2, 1, DTN_REASON_RESERVED, 0},
    {AT_END + 1, 1, DTN_REASON_RESERVED, 0},
    {DTN_HEADER_FIRST_COMMAND, 80, DTN_REASON_FIRST_COMMAND, 0},
    {DTN_HEADER_FIRST_COMMAND, 100, DTN_REASON_FIRST_COMMAND, 0},
    {DTN_HEADER_FIRST_COMMAND, 0xFFFFFFF0, DTN_REASON_FIRST_COMMAND, 0},
    {AT_FETCH, 0x00050000, DTN_REASON_OPCODE, 0},
    {AT_FETCH, 0x00050005, DTN_REASON_OPCODE, 0},
    {AT_FETCH, 0x00050102, DTN_REASON_OPCODE, 0},
    {AT_FETCH, 0x00040002, DTN_REASON_LENGTH, 0},
    {AT_FETCH, 0x00000002, DTN_REASON_LENGTH, 0},
    {AT_FETCH, 0xFFFF0002, DTN_REASON_LENGTH, 0},
    {AT_FETCH + 1, 4, DTN_REASON_CHANNEL, 0},
    {AT_FETCH + 2, 8, DTN_REASON_FETCH_RANGE, 0},
    {AT_FETCH + 2, 16, DTN_REASON_FETCH_RANGE, 0},
    {AT_FETCH + 3, 16, DTN_REASON_FETCH_RANGE, 0},
    {AT_FETCH + 3, 0xFFFFFFF0, DTN_REASON_FETCH_RANGE, 0},
    {AT_FETCH + 4, 0, DTN_REASON_FETCH_RANGE, 0},
    {AT_FETCH + 4, 24, DTN_REASON_FETCH_RANGE, 0},
    {AT_FETCH + 1, 2, DTN_REASON_CHANNEL_BUSY, 4},
    {AT_WAIT, 0x00030003, DTN_REASON_LENGTH, 1},
    {AT_WAIT + 1, 4, DTN_REASON_CHANNEL, 1},
    {AT_LUT, 0x00020001, DTN_REASON_LENGTH, 2},
    {AT_LUT, 0x000E0001, DTN_REASON_SIGNATURE, 2},
    {AT_LUT + 1, 0x01030000, DTN_REASON_KERNEL_UNKNOWN, 2},
    {AT_LUT + 1, 0x01030012, DTN_REASON_KERNEL_UNKNOWN, 2},
    {AT_LUT + 1, 0x0103000A, DTN_REASON_KERNEL_UNLISTED, 2},
    {AT_LUT + 1, 0x0104000C, DTN_REASON_SIGNATURE, 2},
    {AT_LUT + 1, 0x0203000C, DTN_REASON_SIGNATURE, 2},
    {AT_LUT + 3, 0x00000005, DTN_REASON_OPERAND_REGION, 2},
    {AT_LUT + 3, 0x00000100, DTN_REASON_OPERAND_REGION, 2},
    {AT_LUT + 3, 0x00010000, DTN_REASON_OPERAND_REGION, 2},
    {AT_LUT + 4, 1, DTN_REASON_OPERAND_RANGE, 2},
    {AT_LUT + 4, 0xFFFFFFFF, DTN_REASON_OPERAND_RANGE, 2},
    {AT_LUT + 5, 33, DTN_REASON_OPERAND_RANGE, 2},
    {AT_LUT + 5, 31, DTN_REASON_OPERAND_SIZE, 2},
    {AT_LUT + 8, 240, DTN_REASON_OPERAND_SIZE, 2},
    {AT_LUT + 9, 0x00000102, DTN_REASON_OPERAND_REGION, 2},
    {AT_LUT + 9, 3, DTN_REASON_OPERAND_READ_ONLY, 2},
    {AT_LUT + 9, 4, DTN_REASON_OPERAND_READ_ONLY, 2},
    {AT_LUT + 9, 0, DTN_REASON_OPERAND_READ_ONLY, 2},
    {AT_LUT + 12, 0, DTN_REASON_PARAMETER, 2},
    {AT_LUT + 12, 31, DTN_REASON_OPERAND_SIZE, 2},
    {AT_FILL + 6, 15, DTN_REASON_OPERAND_SIZE, 3},
    {AT_FILL + 7, 128, DTN_REASON_PARAMETER, 3},
};

static void test_words_refused(void)
{
    for (size_t i = 0; i < sizeof words_refused / sizeof words_refused[0]; i++) {
        const word_case_t *c = &words_refused[i];
        char what[64];
        build_t build;
        small_container(&build);
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
    small_container(&build);
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

static void test_debug_size(void)
{
    for (uint32_t bytes = 0; bytes <= 32; bytes += 8) {
        build_t build;
        build_start(&build);
        build.profiling = true;
        build_finish(&build);
        build.microcode[DTN_LAYOUT_B_DEBUG_BYTES] = bytes;
        build_seal(&build);
        check_error(prepare(&build), bytes % 16 == 0 ? DTN_OK : DTN_REASON_HEADER_SIZE, 0, "a debug size");
        build_free(&build);
    }
}

static void test_damage_refused(void)
{
    build_t build;
    small_container(&build);
    build_finish(&build);
    check_error(prepare(&build), DTN_OK, 0, "the small model");
    build.microcode[AT_TABLES] ^= 1;
    check_error(prepare(&build), DTN_REASON_MICROCODE_CRC, 0, "a flipped bit of microcode");
    build.microcode[AT_TABLES] ^= 1;
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
    small_container(&build);
    build_finish(&build);
    NeutronModelConfig config = build_config(&build);
    memcpy(some, neutronKernels, sizeof some);
    CHECK_EQUAL(dtn_model_check(&config, some, &model), ENONE);
    some[DTN_KERNEL_LUT_S8] = NULL;
    check_error(dtn_model_check(&config, some, &model), DTN_REASON_KERNEL_ABSENT, DTN_KERNEL_LUT_S8, "no lut linked");
    build_free(&build);
}

int main(void)
{
    test_words_refused();
    test_sizes_refused();
    test_debug_size();
    test_damage_refused();
    test_absent_kernel();
    return test_result();
}
