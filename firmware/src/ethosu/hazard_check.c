#include "hazard_check.h"
#include "chain_buffers.h"
#include "deuteron/ethosu_watch.h"
#include "operations.h"
#include "reported_accesses.h"
#include "shadow_memory.h"
#include "shram_buffers.h"

#include <string.h>

/* Waits: their opcodes, and the bits for the number that may still run. */
enum { OP_DMA_WAIT = 0x011, OP_KERNEL_WAIT = 0x012, OP_BRANCH = 0x100, KERNELS_MASK = 3, COPIES_MASK = 15 };

/* Parts of weights and scales: first and second core; and operations that run concurrently. */
enum { CORES = 2, KERNELS = 2 };

/* Size of the state before the cells. */
#define HEAD_BYTES (sizeof(dtn_ethosu_watch_t) + sizeof(dtn_ethosu_reported_t))

/* ---- Operations ---- */

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t parts_of(int32_t size, int32_t part)
{
    return (size + part - 1) / part;
}

/* Block `index` of the output, in the NPU's order: all channels of a position, then the next position of a row. */
static dtn_ethosu_box_t block_of(const dtn_ethosu_map_t *out, const dtn_ethosu_blocks_t *blocks, int64_t index)
{
    int64_t deep = parts_of(out->depth, blocks->depth);
    int64_t across = parts_of(out->width, blocks->width);
    int32_t c = (int32_t)(index % deep) * blocks->depth;
    int32_t x = (int32_t)(index / deep % across) * blocks->width;
    int32_t y = (int32_t)(index / deep / across) * blocks->height;
    return (dtn_ethosu_box_t){y, min_of(y + blocks->height, out->height), x, min_of(x + blocks->width, out->width),
                              c, min_of(c + blocks->depth, out->depth)};
}

static int64_t count_of(const dtn_ethosu_map_t *out, const dtn_ethosu_blocks_t *blocks)
{
    return (int64_t)parts_of(out->depth, blocks->depth) * parts_of(out->width, blocks->width) *
           parts_of(out->height, blocks->height);
}

/* Converts the outputs from `first` to before `end` of a window to the input range, within `size`. */
static void input_range(int32_t *first, int32_t *end, int32_t stride, int32_t pad, int32_t kernel, int32_t factor,
                        int32_t size)
{
    int32_t low = *first * stride - pad;
    int32_t high = (*end - 1) * stride - pad + kernel;
    *first = low < 0 ? 0 : low / factor;
    *end = high <= 0 ? 0 : min_of((high + factor - 1) / factor, size);
}

/* The part of an input that block `index` of the output reads, for part `part` of its channels. */
static dtn_ethosu_box_t input_of(const dtn_ethosu_accesses_t *accesses, const dtn_ethosu_map_t *map,
                                 const dtn_ethosu_blocks_t *blocks, int64_t index, int32_t part)
{
    const dtn_ethosu_geometry_t *g = accesses->geometry;
    dtn_ethosu_box_t box = block_of(accesses->made, blocks, index);
    if (accesses->is_whole || (g != NULL && map == accesses->inputs[1])) {
        box = (dtn_ethosu_box_t){0, map->height, 0, map->width, 0, map->depth};
    } else if (g != NULL) {
        int32_t factor = g->upscale == DTN_ETHOSU_AS_IS ? 1 : 2;
        input_range(&box.y, &box.y_end, g->stride_h, g->pad_top, (g->kernel_h - 1) * g->dilation_h + 1, factor,
                    map->height);
        input_range(&box.x, &box.x_end, g->stride_w, g->pad_left, (g->kernel_w - 1) * g->dilation_w + 1, factor,
                    map->width);
        if (g->is_summed) {
            box.c = part * blocks->in_depth;
            box.c_end = min_of(box.c + blocks->in_depth, map->depth);
        }
    }
    /* A broadcast map has one row, column or channel. */
    box.y = min_of(box.y, map->height - 1);
    box.y_end = min_of(box.y_end, map->height);
    box.x = min_of(box.x, map->width - 1);
    box.x_end = min_of(box.x_end, map->width);
    box.c = min_of(box.c, map->depth - 1);
    box.c_end = min_of(box.c_end, map->depth);
    return box;
}

/* Block i is read when all but the last `early` - i blocks of the previous operation are complete. */
static void check_early(dtn_ethosu_scan_t *scan, const dtn_ethosu_accesses_t *accesses,
                        const dtn_ethosu_blocks_t *blocks, uint32_t early)
{
    int64_t jobs = count_of(accesses->made, blocks) * blocks->in_parts;
    for (uint32_t job = 0; job < early && job < jobs; job++) {
        for (uint32_t i = 0; i < 2; i++) {
            if (accesses->inputs[i] != NULL) {
                dtn_ethosu_box_t box = input_of(accesses, accesses->inputs[i], blocks, job / (uint32_t)blocks->in_parts,
                                                (int32_t)job % blocks->in_parts);
                scan->part = DTN_ETHOSU_PART_INPUT + i;
                scan->blocks = early - job;
                dtn_ethosu_visit_box(scan, accesses->inputs[i], &box, dtn_ethosu_read_early);
            }
        }
    }
}

/* Reads weights and scales at the registers' addresses. */
static void read_weights(dtn_ethosu_scan_t *scan, const dtn_ethosu_t *m)
{
    static const uint16_t registers[2][1 + 2 * CORES] = {
        {REG_WEIGHT_REGION, REG_WEIGHT_BASE, REG_WEIGHT_LENGTH, REG_WEIGHT1_BASE, REG_WEIGHT1_LENGTH},
        {REG_SCALE_REGION, REG_SCALE_BASE, REG_SCALE_LENGTH, REG_SCALE1_BASE, REG_SCALE1_LENGTH},
    };
    if (m->event.opcode != DTN_ETHOSU_OP_CONV && m->event.opcode != DTN_ETHOSU_OP_DEPTHWISE) {
        return;
    }
    int32_t cores = min_of(m->config->cores, dtn_ethosu_count(m, REG_OFM_DEPTH_M1));
    for (uint32_t i = 0; i < 2; i++) {
        scan->part = DTN_ETHOSU_PART_WEIGHTS + i;
        for (int32_t core = 0; core < cores; core++) {
            dtn_ethosu_visit_bytes(scan, dtn_ethosu_short(m, registers[i][0]),
                                   dtn_ethosu_address(m, registers[i][1 + 2 * core]),
                                   dtn_ethosu_payload(m, registers[i][2 + 2 * core]), dtn_ethosu_read_constant);
        }
        dtn_ethosu_finish_read(scan);
    }
}

static void write_output(dtn_ethosu_scan_t *scan, const dtn_ethosu_accesses_t *accesses,
                         const dtn_ethosu_blocks_t *blocks)
{
    scan->part = DTN_ETHOSU_PART_OUTPUT;
    dtn_ethosu_visit_map(scan, accesses->out, dtn_ethosu_write_element);
    if (accesses->is_transposed) {
        /* The order of its parts is unknown: all may be among the last. */
        scan->tail = 1;
        dtn_ethosu_visit_map(scan, accesses->out, dtn_ethosu_mark_tail);
        return;
    }
    int64_t count = count_of(accesses->out, blocks);
    for (scan->tail = 1; scan->tail <= DTN_ETHOSU_TAIL_BLOCKS && scan->tail <= count; scan->tail++) {
        dtn_ethosu_box_t box = block_of(accesses->out, blocks, count - scan->tail);
        dtn_ethosu_visit_box(scan, accesses->out, &box, dtn_ethosu_mark_tail);
    }
}

/* Occupies the buffers' range of the SHRAM. */
static void occupy_buffers(dtn_ethosu_scan_t *scan, dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses,
                           const dtn_ethosu_blocks_t *blocks)
{
    uint32_t end = 0;
    uint32_t needed = 0;
    dtn_ethosu_fault_t fault = dtn_ethosu_buffers(m, accesses, blocks, &end, &needed);
    if (fault != DTN_ETHOSU_OK) {
        dtn_ethosu_report_fault(scan->watch, fault, m->event.detail);
        return;
    }
    scan->part = DTN_ETHOSU_PART_BUFFERS;
    scan->region = DTN_ETHOSU_SHRAM_REGION;
    if (needed > 0) {
        dtn_ethosu_report(scan, DTN_ETHOSU_HAZARD_BUFFERS, needed, 0, false);
    }
    uint32_t shram = m->config->shram_bytes;
    dtn_ethosu_visit_bytes(scan, DTN_ETHOSU_SHRAM_REGION, 0, end < shram ? end : shram, dtn_ethosu_write_buffer);
}

/* Reads weights, scales and the table of an Ethos-U85's operation. */
static void read_needs(dtn_ethosu_scan_t *scan, const dtn_ethosu_reported_t *needs)
{
    for (scan->part = DTN_ETHOSU_PART_WEIGHTS; scan->part <= DTN_ETHOSU_PART_TABLE; scan->part++) {
        for (uint32_t i = 0; i < needs->count; i++) {
            const dtn_ethosu_range_t *need = &needs->bytes[i];
            if (need->part == scan->part) {
                dtn_ethosu_visit_bytes(scan, need->region, need->at, need->bytes, dtn_ethosu_read_constant);
            }
        }
        dtn_ethosu_finish_read(scan);
    }
}

static void check_operation(dtn_ethosu_watch_t *watch, const dtn_ethosu_accesses_t *accesses)
{
    dtn_ethosu_t *m = &watch->machine;
    dtn_ethosu_blocks_t blocks;
    dtn_ethosu_scan_t scan = {.watch = watch, .number = dtn_ethosu_command_number(watch), .before = watch->kernels[0]};
    dtn_ethosu_fault_t fault = dtn_ethosu_blocks(m, accesses, &blocks);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_BLOCKDEP));
    }
    if (fault != DTN_ETHOSU_OK) {
        dtn_ethosu_report_fault(watch, fault, watch->machine.event.detail);
        return;
    }
    bool is_u85 = dtn_ethosu_is_u85(m);
    uint32_t early = scan.before != 0 ? dtn_ethosu_field(m, REG_BLOCKDEP, 0, is_u85 ? 3 : 2) : 0;
    /* An operation starts when the second last one has ended. */
    watch->kernels[1] = 0;
    watch->operations++;
    for (uint32_t i = 0; i < 2; i++) {
        scan.part = DTN_ETHOSU_PART_INPUT + i;
        if (accesses->inputs[i] != NULL) {
            dtn_ethosu_visit_map(&scan, accesses->inputs[i], dtn_ethosu_read_element);
        }
        dtn_ethosu_finish_read(&scan);
    }
    if (is_u85) {
        read_needs(&scan, watch->needs);
    } else {
        read_weights(&scan, m);
        scan.part = DTN_ETHOSU_PART_TABLE;
        dtn_ethosu_visit_bytes(&scan, DTN_ETHOSU_SHRAM_REGION, accesses->output->table_at,
                               accesses->output->table_bytes, dtn_ethosu_read_constant);
        dtn_ethosu_finish_read(&scan);
    }
    check_early(&scan, accesses, &blocks, early);
    scan.blocks = early;
    if (!is_u85) {
        occupy_buffers(&scan, m, accesses, &blocks);
    }
    if (accesses->out != NULL) {
        write_output(&scan, accesses, &blocks);
    }
    dtn_ethosu_note_start(watch->kernels, scan.number, KERNELS);
}

/* Checks an Ethos-U85's operation at its end, when all its accesses are known. */
static void check_reported(dtn_ethosu_watch_t *watch)
{
    dtn_ethosu_t *m = &watch->machine;
    dtn_ethosu_reported_t *needs = watch->needs;
    const dtn_ethosu_map_t made = {.height = dtn_ethosu_count(m, REG_OFM_HEIGHT_M1),
                                   .width = dtn_ethosu_count(m, REG_OFM_WIDTH_M1),
                                   .depth = dtn_ethosu_count(m, REG_OFM_DEPTH_M1)};
    const dtn_ethosu_accesses_t accesses = {
        .inputs = {needs->has[0] ? &needs->maps[0] : NULL, needs->has[1] ? &needs->maps[1] : NULL},
        .made = &made,
        .out = needs->has[2] ? &needs->maps[2] : NULL,
        .geometry = needs->has_geometry ? &needs->geometry : NULL,
        .is_whole = m->event.opcode == DTN_ETHOSU_OP_RESIZE,
        .is_transposed = dtn_ethosu_is_transposed(m),
    };
    check_operation(watch, &accesses);
    memset(needs, 0, sizeof *needs);
}

/* Records an access that an Ethos-U85 reports before the end of an operation. */
static void record_access(dtn_ethosu_watch_t *watch, const dtn_ethosu_accesses_t *accesses)
{
    dtn_ethosu_reported_t *needs = watch->needs;
    const dtn_ethosu_range_t *need = accesses->need;
    if (need == NULL) {
        needs->geometry = *accesses->geometry;
        needs->has_geometry = true;
    } else if (need->map != NULL) {
        uint32_t side = need->part == DTN_ETHOSU_PART_OUTPUT ? 2 : need->part;
        needs->maps[side] = *need->map;
        needs->has[side] = true;
    } else if (needs->count < DTN_ETHOSU_MOST_NEEDS) {
        needs->bytes[needs->count++] = *need;
    } else {
        dtn_ethosu_report_fault(watch, DTN_ETHOSU_WORKSPACE, needs->count);
    }
}

/* ---- The stream ---- */

/* After a branch, earlier operations are unknown: the last one that may still run is recorded. */
static void check_branch(dtn_ethosu_watch_t *watch)
{
    dtn_ethosu_scan_t scan = {.watch = watch, .number = dtn_ethosu_command_number(watch)};
    const uint32_t kernel = watch->kernels[0];
    const uint32_t copy = watch->copies[0];
    if (kernel != 0 || copy != 0) {
        dtn_ethosu_report(&scan, DTN_ETHOSU_HAZARD_BRANCH, watch->machine.event.offset, kernel > copy ? kernel : copy,
                          true);
    }
}

static void handle_wait(dtn_ethosu_watch_t *watch)
{
    const dtn_ethosu_event_t *event = &watch->machine.event;
    bool is_kernels = event->opcode == OP_KERNEL_WAIT;
    uint32_t *running = is_kernels ? watch->kernels : watch->copies;
    uint32_t left = event->param & (is_kernels ? (uint32_t)KERNELS_MASK : (uint32_t)COPIES_MASK);
    for (uint32_t i = left; (is_kernels || event->opcode == OP_DMA_WAIT) && i < DTN_ETHOSU_AT_ONCE; i++) {
        running[i] = 0;
    }
}

static void observe(dtn_ethosu_t *machine, const dtn_ethosu_accesses_t *accesses)
{
    dtn_ethosu_watch_t *watch = (dtn_ethosu_watch_t *)(void *)machine;
    if (accesses == NULL && machine->event.opcode == OP_BRANCH) {
        check_branch(watch);
    } else if (accesses == NULL) {
        handle_wait(watch);
    } else if (accesses->rows != NULL) {
        dtn_ethosu_check_copy(watch, accesses->rows);
    } else if (accesses->is_end) {
        check_reported(watch);
    } else if (dtn_ethosu_is_u85(machine)) {
        record_access(watch, accesses);
    } else {
        check_operation(watch, accesses);
    }
}

static uint64_t cells_of(const dtn_ethosu_config_t *config, const dtn_ethosu_memory_t *memory, uint32_t region)
{
    if (region == DTN_ETHOSU_SHRAM_REGION) {
        return config->shram_bytes;
    }
    return memory->regions[region].is_read_only ? 0 : memory->regions[region].bytes;
}

size_t dtn_ethosu_watch_bytes(const dtn_ethosu_config_t *config, const dtn_ethosu_memory_t *memory)
{
    uint64_t cells = 0;
    for (uint32_t i = 0; i <= DTN_ETHOSU_SHRAM_REGION; i++) {
        cells += cells_of(config, memory, i);
    }
    const uint64_t most = (SIZE_MAX - HEAD_BYTES) / sizeof(dtn_ethosu_cell_t);
    return cells <= most ? HEAD_BYTES + (size_t)cells * sizeof(dtn_ethosu_cell_t) : SIZE_MAX;
}

dtn_ethosu_fault_t dtn_ethosu_watch_start(void *place, size_t bytes, const dtn_ethosu_config_t *config,
                                          const void *command_data, size_t command_data_bytes,
                                          const dtn_ethosu_memory_t *memory)
{
    if (place == NULL || config == NULL || command_data == NULL || memory == NULL) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    if ((uintptr_t)place % sizeof(uint64_t) != 0) {
        return DTN_ETHOSU_MISALIGNED;
    }
    if (bytes < dtn_ethosu_watch_bytes(config, memory)) {
        return DTN_ETHOSU_WORKSPACE;
    }
    dtn_ethosu_watch_t *watch = (dtn_ethosu_watch_t *)place;
    memset(watch, 0, sizeof *watch);
    dtn_ethosu_fault_t fault = dtn_ethosu_begin(&watch->machine, config, command_data, command_data_bytes, memory);
    watch->machine.is_finished = fault != DTN_ETHOSU_OK;
    watch->machine.is_check = true;
    watch->machine.observer = observe;
    watch->needs = (dtn_ethosu_reported_t *)(void *)(watch + 1);
    memset(watch->needs, 0, sizeof *watch->needs);
    dtn_ethosu_cell_t *next = (dtn_ethosu_cell_t *)(void *)(watch->needs + 1);
    for (uint32_t i = 0; i <= DTN_ETHOSU_SHRAM_REGION; i++) {
        size_t count = (size_t)cells_of(config, memory, i);
        memset(next, 0, count * sizeof *next);
        watch->cells[i] = count > 0 ? next : NULL;
        next += count;
    }
    return fault;
}

/* True if bytes are in a region that the stream may write. */
static bool has_cells(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes)
{
    return region < DTN_ETHOSU_REGIONS && watch->cells[region] != NULL &&
           dtn_ethosu_is_valid_range(watch, region, at, bytes);
}

bool dtn_ethosu_watch_input(dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes)
{
    if (!has_cells(watch, region, at, bytes)) {
        return false;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        dtn_ethosu_cell_t *cell = &watch->cells[region][at + i];
        cell->writer = DTN_ETHOSU_IS_WRITTEN;
        cell->value = dtn_ethosu_value_id(UINT32_MAX - region, (uint32_t)(at + i));
    }
    return true;
}

dtn_ethosu_fault_t dtn_ethosu_watch_step(dtn_ethosu_watch_t *watch, dtn_ethosu_seen_t *seen)
{
    if (watch == NULL || seen == NULL) {
        return DTN_ETHOSU_NULL_POINTER;
    }
    *seen = (dtn_ethosu_seen_t){.count = 0};
    watch->seen = seen;
    dtn_ethosu_fault_t fault = dtn_ethosu_step(&watch->machine, &seen->event);
    if (fault != DTN_ETHOSU_OK) {
        dtn_ethosu_report_fault(watch, fault, watch->machine.event.detail);
    }
    return fault;
}

bool dtn_ethosu_watch_output(const dtn_ethosu_watch_t *watch, uint32_t region, uint64_t at, uint64_t bytes,
                             uint64_t *unwritten, uint64_t *value)
{
    *unwritten = at;
    *value = 0;
    if (!has_cells(watch, region, at, bytes)) {
        return false;
    }
    for (; *unwritten < at + bytes; (*unwritten)++) {
        const dtn_ethosu_cell_t *cell = &watch->cells[region][*unwritten];
        if ((cell->writer & DTN_ETHOSU_IS_WRITTEN) == 0) {
            return false;
        }
        *value = dtn_ethosu_hash(*value, cell->value);
    }
    return true;
}

const char *dtn_ethosu_hazard_message(dtn_ethosu_hazard_kind_t kind)
{
    switch (kind) {
#define X(number, name, sentence)                                                                                      \
    case DTN_ETHOSU_HAZARD_##name:                                                                                     \
        return sentence;
        DTN_ETHOSU_HAZARDS(X)
#undef X
    default:
        return "no hazard";
    }
}
