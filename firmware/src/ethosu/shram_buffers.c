#include "shram_buffers.h"
#include "weighted_layer.h"

/* Banks of the output buffer, which is first; the maximum positions in a part of a kernel. */
enum { OUTPUT_BANKS = 2, PART = 8 };

/* The largest blocks of any of these NPUs. */
enum { MOST_HEIGHT = 32, MOST_WIDTH = 64, MOST_DEPTH = 128 };

/* Formats of accumulators. */
enum { I32 = 0, I40 = 1, F16 = 2 };

/* Allocation granularity in banks, by the MACs of a core; and the block that is computed at a time. */
typedef struct {
    uint16_t macs;
    uint8_t unit_h;
    uint8_t unit_w;
    uint8_t input[3]; /* of 1, 2 and 4 bytes */
    uint8_t sums[3];  /* by format */
} granules_t;

static const granules_t all_granules[] = {
    {32, 1, 1, {2, 2, 4}, {4, 4, 4}},
    {64, 1, 1, {2, 2, 4}, {4, 8, 4}},
    {128, 1, 2, {4, 4, 8}, {8, 12, 4}},
    {256, 2, 2, {8, 8, 16}, {16, 20, 8}},
};

static const granules_t *granules_of(const dtn_ethosu_t *m)
{
    uint32_t macs = (uint32_t)m->config->macs / m->config->cores;
    for (size_t i = 0; i < sizeof all_granules / sizeof all_granules[0]; i++) {
        if (all_granules[i].macs == macs) {
            return &all_granules[i];
        }
    }
    return NULL;
}

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t divided(int32_t value, int32_t by)
{
    return (value + by - 1) / by;
}

static int32_t rounded(int32_t value, int32_t to)
{
    return divided(value, to) * to;
}

static bool is_elementwise(const dtn_ethosu_accesses_t *accesses)
{
    return accesses->geometry == NULL;
}

/* Number of parts into which an Ethos-U85 divides the input channels, if outputs depend on all of them. */
static dtn_ethosu_fault_t parts_of_85(dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses,
                                      dtn_ethosu_blocks_t *blocks)
{
    const dtn_ethosu_geometry_t *g = accesses->geometry;
    blocks->in_depth = blocks->depth;
    blocks->in_parts = 1;
    if (g == NULL || !g->is_summed) {
        return DTN_ETHOSU_OK;
    }
    bool is_conv = m->event.opcode == DTN_ETHOSU_OP_CONV;
    bool is_sparse = is_conv && (dtn_ethosu_short(m, REG_WEIGHT_FORMAT) & DTN_ETHOSU_IS_SPARSE) != 0;
    uint32_t bytes = accesses->inputs[0] != NULL ? accesses->inputs[0]->bytes : 1;
    bool is_thin = m->config->macs <= 256 && dtn_ethosu_channels_85(m) == 16 && !is_sparse;
    blocks->in_depth = is_conv && g->is_part_kernel ? 16
                       : bytes == 4 || is_thin      ? 32
                       : is_sparse && bytes == 1    ? 128
                                                    : 64;
    blocks->in_parts = divided(g->in_c, blocks->in_depth);
    return DTN_ETHOSU_OK;
}

dtn_ethosu_fault_t dtn_ethosu_blocks(dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses,
                                     dtn_ethosu_blocks_t *blocks)
{
    dtn_ethosu_fault_t fault =
        dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_OFM_BLK_WIDTH_M1, REG_OFM_BLK_HEIGHT_M1, REG_OFM_BLK_DEPTH_M1));
    blocks->height = dtn_ethosu_count(m, REG_OFM_BLK_HEIGHT_M1);
    blocks->width = dtn_ethosu_count(m, REG_OFM_BLK_WIDTH_M1);
    blocks->depth = dtn_ethosu_count(m, REG_OFM_BLK_DEPTH_M1);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (dtn_ethosu_is_u85(m)) {
        return parts_of_85(m, accesses, blocks);
    }
    if (blocks->height > MOST_HEIGHT) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_BLK_HEIGHT_M1);
    }
    if (blocks->width > MOST_WIDTH || blocks->depth > MOST_DEPTH) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD,
                                blocks->width > MOST_WIDTH ? REG_OFM_BLK_WIDTH_M1 : REG_OFM_BLK_DEPTH_M1);
    }
    blocks->in_depth = blocks->depth;
    blocks->in_parts = 1;
    /* Operations whose outputs depend on all input channels read these in parts. */
    if (!is_elementwise(accesses) && accesses->geometry->is_summed) {
        int32_t channels = accesses->geometry->in_c;
        bool is_part_kernel = m->event.opcode == DTN_ETHOSU_OP_CONV && accesses->geometry->is_part_kernel;
        blocks->in_depth = accesses->inputs[0]->bytes == 2 ? rounded(min_of(channels, 16), 4)
                                                           : rounded(min_of(channels, is_part_kernel ? 16 : 32), 8);
        blocks->in_parts = divided(channels, blocks->in_depth);
    }
    return DTN_ETHOSU_OK;
}

/* Banks of an input's double buffer: one half is filled while the other is read. */
static int32_t input_banks(const dtn_ethosu_accesses_t *accesses, const dtn_ethosu_blocks_t *blocks,
                           const granules_t *granules)
{
    const dtn_ethosu_geometry_t *g = accesses->geometry;
    int32_t height = blocks->height;
    int32_t width = blocks->width;
    if (g != NULL) {
        int32_t kernel_h = min_of((g->kernel_h - 1) * g->dilation_h + 1, PART);
        int32_t kernel_w = min_of((g->kernel_w - 1) * g->dilation_w + 1, PART);
        int32_t factor = g->upscale == DTN_ETHOSU_AS_IS ? 1 : 2;
        int32_t more = g->upscale == DTN_ETHOSU_NEAREST ? 1 : 0;
        height = divided((height - 1) * g->stride_h + kernel_h + more, factor);
        width = divided((width - 1) * g->stride_w + kernel_w + more, factor);
    }
    int32_t bytes = accesses->inputs[0]->bytes;
    int64_t pixels = (int64_t)rounded(height, granules->unit_h) * rounded(width, granules->unit_w);
    int64_t banks = (pixels * rounded(blocks->in_depth * bytes, 8) + DTN_ETHOSU_BANK - 1) / DTN_ETHOSU_BANK * 2;
    int32_t granule = granules->input[bytes / 2];
    return (int32_t)((banks + granule - 1) / granule * granule);
}

/* Banks of the accumulators' double buffer. */
static int32_t sum_banks(const dtn_ethosu_accesses_t *accesses, const dtn_ethosu_blocks_t *blocks,
                         const granules_t *granules, uint32_t format)
{
    static const uint8_t bits[] = {32, 40, 16};
    /* One-row outputs of a one-row kernel need half of a two-row block. */
    bool is_row = granules->unit_h == 2 && accesses->out->height == 1 && accesses->geometry->kernel_h == 1;
    int64_t pixels = (int64_t)(is_row ? 1 : blocks->height) * blocks->width;
    int64_t bytes = pixels * rounded(blocks->depth, 8) * bits[format] / 8;
    int64_t banks = (bytes + DTN_ETHOSU_BANK - 1) / DTN_ETHOSU_BANK * 2;
    int32_t granule = granules->sums[format];
    return (int32_t)((banks + granule - 1) / granule * granule);
}

dtn_ethosu_fault_t dtn_ethosu_buffers(dtn_ethosu_t *m, const dtn_ethosu_accesses_t *accesses,
                                      const dtn_ethosu_blocks_t *blocks, uint32_t *end, uint32_t *needed)
{
    const granules_t *granules = granules_of(m);
    bool has_second = accesses->inputs[1] != NULL;
    *end = *needed = 0;
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_IFM_IB_END, REG_AB_START, REG_ACC_FORMAT));
    if (fault == DTN_ETHOSU_OK && has_second) {
        fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_IFM2_IB_START));
    }
    uint32_t format = dtn_ethosu_short(m, REG_ACC_FORMAT);
    if (fault == DTN_ETHOSU_OK && (format > F16 || granules == NULL)) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACC_FORMAT);
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    int32_t inputs_end = (int32_t)dtn_ethosu_short(m, REG_IFM_IB_END);
    int32_t sums_start = (int32_t)dtn_ethosu_short(m, REG_AB_START);
    int32_t banks = input_banks(accesses, blocks, granules);
    int32_t last = (int32_t)m->config->shram_bytes / DTN_ETHOSU_BANK;
    int32_t over = 0;
    int32_t buffers_end = inputs_end;
    if (accesses->output->table_bytes > 0) {
        last = (int32_t)accesses->output->table_at / DTN_ETHOSU_BANK;
    }
    if (is_elementwise(accesses)) {
        /* No accumulators; a second map, unless it is a single value, has its own buffer. */
        int32_t first_end = OUTPUT_BANKS + banks;
        const dtn_ethosu_map_t *second = accesses->inputs[1];
        bool is_single = has_second && second->height == 1 && second->width == 1 && second->depth == 1;
        int32_t second_end = (int32_t)dtn_ethosu_short(m, REG_IFM2_IB_START) + banks;
        if (has_second && first_end > (int32_t)dtn_ethosu_short(m, REG_IFM2_IB_START)) {
            over = first_end;
        } else if (has_second && (!is_single || accesses->inputs[0]->bytes == 4) && second_end > inputs_end) {
            over = second_end;
        } else if (first_end > inputs_end) {
            over = first_end;
        }
    } else {
        buffers_end = sums_start + sum_banks(accesses, blocks, granules, format);
        if (inputs_end > sums_start || OUTPUT_BANKS + banks > inputs_end) {
            over = OUTPUT_BANKS + banks > inputs_end ? OUTPUT_BANKS + banks : inputs_end;
        }
    }
    if (over == 0 && buffers_end > last) {
        over = buffers_end;
    }
    *end = (uint32_t)buffers_end * DTN_ETHOSU_BANK;
    *needed = (uint32_t)over * DTN_ETHOSU_BANK;
    return DTN_ETHOSU_OK;
}
