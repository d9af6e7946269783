/*
 * Random calls of the NPU's kernels on a board: those that it links give the bytes of their references, as
 * test_kernels.c shows for a host.
 *
 * The command line has the number of calls of each kernel and the seed of the first.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "../../src/driver/model.h"
#include "../random_call.h"
#include "../reference_kernels.h"
#include "semihost.h"

/* Behind each block of memory, and so before the next: bytes that nothing may change. */
enum { CAPACITY = 1 << 20, GUARD_BYTES = 256, GUARD = 0xA5, MOST_BLOCKS = 64 };

static uint8_t memory_pool[CAPACITY] __attribute__((aligned(BUILD_ALIGNMENT), section(".dtn_arena")));
static size_t taken;
static uint8_t *guards[MOST_BLOCKS];
static size_t blocks;
static char line[64];

int main(void);

/* The builder's part of a C library: memory, all of which is freed at once, after each call. */
int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    taken = (taken + alignment - 1) / alignment * alignment;
    *memory = memory_pool + taken;
    taken += bytes + GUARD_BYTES;
    if (taken > CAPACITY || blocks == MOST_BLOCKS) {
        return 1;
    }
    guards[blocks] = (uint8_t *)*memory + bytes;
    memset(guards[blocks++], GUARD, GUARD_BYTES);
    return 0;
}

static bool are_guards_whole(void)
{
    for (size_t i = 0; i < blocks; i++) {
        for (size_t at = 0; at < GUARD_BYTES; at++) {
            if (guards[i][at] != GUARD) {
                return false;
            }
        }
    }
    return true;
}

void free(void *memory)
{
    (void)memory;
}

void abort(void)
{
    dtn_semihost_print("no memory\n");
    dtn_semihost_exit(1);
}

static bool run(const build_t *build, const dtn_kernel_t *kernels, build_buffers_t *buffers)
{
    static dtn_model_t model;
    NeutronModelConfig config = build_config(build);
    return dtn_model_check(&config, kernels, &model) == ENONE &&
           dtn_model_run(&model, &buffers->config, false) == ENONE;
}

static bool is_right(uint32_t kind, uint64_t seed)
{
    static build_t build;
    static build_buffers_t expected;
    static build_buffers_t found;
    uint64_t state = seed;
    taken = blocks = 0;
    build_start(&build);
    random_call(&build, kind, &state);
    build_finish(&build);
    build_buffers(&build, seed, &expected);
    build_buffers(&build, seed, &found);
    if (!run(&build, table_ref, &expected) || !run(&build, neutronKernels, &found)) {
        return false;
    }
    for (uint32_t i = 0; i < build.outputs; i++) {
        if (memcmp(expected.outputs[i], found.outputs[i], build.output_bytes[i]) != 0) {
            return false;
        }
    }
    return are_guards_whole();
}

static uint32_t run_all(uint32_t calls, uint32_t first)
{
    uint32_t wrong = 0;
    uint32_t right = 0;
    for (uint32_t kind = 1; kind < DTN_KERNEL_KINDS; kind++) {
        for (uint32_t i = 0; i < calls; i++) {
            if (is_right(kind, (first + i) * UINT64_C(0x9E3779B97F4A7C15))) {
                right++;
                continue;
            }
            wrong++;
            dtn_semihost_print("not the reference's bytes, or bytes outside of the output's: kernel ");
            dtn_semihost_print_number(kind);
            dtn_semihost_print(", seed ");
            dtn_semihost_print_number(first + i);
            dtn_semihost_print("\n");
        }
    }
    dtn_semihost_print("right ");
    dtn_semihost_print_number(right);
    dtn_semihost_print("\n");
    return wrong == 0 ? 0 : 1;
}

int main(void)
{
    char *next = dtn_semihost_command_line(line, sizeof line) ? strchr(line, ' ') : NULL;
    uint32_t calls = next == NULL ? 0 : (uint32_t)strtoul(next, &next, 10);
    uint32_t first = next == NULL ? 0 : (uint32_t)strtoul(next, &next, 10);
    dtn_semihost_exit(run_all(calls, first));
}
