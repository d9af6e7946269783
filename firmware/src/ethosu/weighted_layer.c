#include "weighted_layer.h"
#include "accesses.h"

#include <string.h>

/* Maximum products in one 32-bit sum: for inputs of 8 bits and of 16, with weights of 9. */
enum { PRODUCTS_8 = 16384, PRODUCTS_16 = 256 };

/* Output channels of a core: cores take channels in turn. */
static int32_t channels_of_core(int32_t channels, int32_t cores, int32_t core)
{
    return (channels + cores - 1 - core) / cores;
}

dtn_ethosu_fault_t dtn_ethosu_read_bytes(dtn_ethosu_t *m, uint16_t region, uint16_t base, uint16_t length,
                                         const uint8_t **bytes, size_t *count)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(region));
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(base, length));
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    const dtn_ethosu_region_t *in = dtn_ethosu_region(m, dtn_ethosu_short(m, region));
    if (in == NULL) {
        return DTN_ETHOSU_REGION;
    }
    uint64_t at = dtn_ethosu_address(m, base);
    *count = dtn_ethosu_payload(m, length);
    if (at > in->bytes || in->bytes - at < *count) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_BOUNDS, at);
    }
    *bytes = m->is_check ? NULL : in->data + at;
    dtn_ethosu_report_bytes(m, region == REG_SCALE_REGION ? DTN_ETHOSU_PART_SCALES : DTN_ETHOSU_PART_WEIGHTS,
                            dtn_ethosu_short(m, region), at, *count);
    return DTN_ETHOSU_OK;
}

static dtn_ethosu_fault_t read_streams(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer)
{
    static const uint16_t weights[2][2] = {{REG_WEIGHT_BASE, REG_WEIGHT_LENGTH},
                                           {REG_WEIGHT1_BASE, REG_WEIGHT1_LENGTH}};
    static const uint16_t scales[2][2] = {{REG_SCALE_BASE, REG_SCALE_LENGTH}, {REG_SCALE1_BASE, REG_SCALE1_LENGTH}};
    for (int32_t core = 0; core < m->config->cores; core++) {
        int32_t channels = channels_of_core(layer->geometry.out_c, m->config->cores, core);
        if (channels == 0) {
            continue;
        }
        const uint8_t *bytes = NULL;
        size_t count = 0;
        dtn_ethosu_fault_t fault =
            dtn_ethosu_read_bytes(m, REG_WEIGHT_REGION, weights[core][0], weights[core][1], &bytes, &count);
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        if (!m->is_check) {
            dtn_ethosu_weights_start(&layer->streams[core], bytes, count);
        }
        fault =
            dtn_ethosu_read_bytes(m, REG_SCALE_REGION, scales[core][0], scales[core][1], &layer->scales[core], &count);
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        if (count < (size_t)channels * DTN_ETHOSU_SCALE_BYTES) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_SCALES, scales[core][1]);
        }
    }
    return DTN_ETHOSU_OK;
}

static void read_order(const dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer)
{
    const dtn_ethosu_geometry_t *g = &layer->geometry;
    layer->order = (dtn_ethosu_order_t){
        .traversal = is_depthwise        ? DTN_ETHOSU_DEPTHWISE
                     : g->is_part_kernel ? DTN_ETHOSU_PART_KERNEL
                                         : DTN_ETHOSU_DEPTH_FIRST,
        .kernel_h = g->kernel_h,
        .kernel_w = g->kernel_w,
        .part_h = g->part / g->dilation_h,
        .part_w = g->part / g->dilation_w,
        .inputs = is_depthwise ? 1 : g->in_c,
        .small = m->config->channels,
        .is_short = layer->input.bytes == 2,
    };
    layer->pitch = (size_t)g->kernel_h * (size_t)g->kernel_w * (size_t)layer->order.inputs;
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 15U) / 16U * 16U;
}

/* Divides the workspace. A depthwise operation does not gather its window; its weights are transposed instead. */
static dtn_ethosu_fault_t divide_workspace(dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer)
{
    uint64_t block = (uint64_t)layer->block;
    uint64_t streams = rounded(m->config->cores * sizeof(dtn_ethosu_weights_t));
    uint64_t channels = rounded(block * sizeof(dtn_ethosu_channel_t));
    uint64_t rows = rounded(block * layer->pitch * sizeof(int16_t));
    uint64_t column = rounded(layer->pitch * (is_depthwise ? block : 1U) * sizeof(int16_t));
    uint64_t needed = streams + channels + rows + column + m->held;
    if (needed > SIZE_MAX || (!m->is_check && needed > m->memory.workspace_bytes)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_WORKSPACE, needed);
    }
    m->needed = needed > m->needed ? (size_t)needed : m->needed;
    if (m->is_check) {
        return DTN_ETHOSU_OK;
    }
    uint8_t *at = m->memory.workspace;
    layer->streams = (dtn_ethosu_weights_t *)(void *)at;
    layer->channels = (dtn_ethosu_channel_t *)(void *)(at + streams);
    layer->rows = (int16_t *)(void *)(at + streams + channels);
    layer->column = (int16_t *)(void *)(at + streams + channels + rows);
    return DTN_ETHOSU_OK;
}

/* True for a product of two inputs (Ethos-U85), which the command's parameter selects. */
static bool is_matrix(const dtn_ethosu_t *m, bool is_depthwise)
{
    return dtn_ethosu_is_u85(m) && !is_depthwise && (m->event.param & 1U) != 0;
}

static dtn_ethosu_fault_t read_maps(dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer)
{
    const dtn_ethosu_geometry_t *g = &layer->geometry;
    if (is_depthwise && g->in_c != g->out_c) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_GEOMETRY, REG_IFM_DEPTH_M1);
    }
    dtn_ethosu_fault_t fault = dtn_ethosu_input(m, g, g->in_c, &layer->input);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    layer->products = layer->input.bytes == 1 ? PRODUCTS_8 : PRODUCTS_16;
    /* 16-bit inputs are signed without zero point; 32-bit inputs do not exist. */
    if (layer->input.bytes > 2 ||
        (layer->input.bytes == 2 && (!layer->input.is_signed || layer->input.zero_point != 0))) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_PRECISION);
    }
    /* Inputs first: in a chain the output may reuse their memory. */
    layer->is_matrix = is_matrix(m, is_depthwise);
    if (layer->is_matrix) {
        fault = dtn_ethosu_matrix_85(m, layer);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_sums(m, g->out_h, g->out_w, g->out_c, &layer->sums);
    }
    if (fault == DTN_ETHOSU_OK && layer->sums.has_output) {
        fault = dtn_ethosu_map(m, &dtn_ethosu_ofm_registers, g->out_h, g->out_w, g->out_c, true, &layer->out);
    }
    if (fault == DTN_ETHOSU_OK && layer->sums.has_output) {
        fault = dtn_ethosu_output(m, &layer->out, &layer->output);
    }
    return fault;
}

dtn_ethosu_fault_t dtn_ethosu_layer(dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer)
{
    dtn_ethosu_fault_t fault = dtn_ethosu_geometry(m, !is_depthwise, &layer->geometry);
    if (fault == DTN_ETHOSU_OK) {
        fault = read_maps(m, is_depthwise, layer);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_OFM_BLK_DEPTH_M1));
    }
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    layer->block = dtn_ethosu_count(m, REG_OFM_BLK_DEPTH_M1);
    int32_t most = dtn_ethosu_is_u85(m) ? DTN_ETHOSU_MOST_BLOCK_85 : DTN_ETHOSU_MOST_BLOCK;
    /* The cores channels_of_core a block evenly. */
    if (layer->block > most || layer->block % m->config->cores != 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_OFM_BLK_DEPTH_M1);
    }
    if (dtn_ethosu_is_u85(m) && !layer->is_matrix) {
        fault = dtn_ethosu_order_of_85(m, is_depthwise, layer);
    } else if (!layer->is_matrix) {
        read_order(m, is_depthwise, layer);
    }
    if (fault == DTN_ETHOSU_OK) {
        fault = divide_workspace(m, is_depthwise, layer);
    }
    if (fault == DTN_ETHOSU_OK && !layer->is_matrix) {
        fault = dtn_ethosu_is_u85(m) ? dtn_ethosu_streams_85(m, layer) : read_streams(m, layer);
    }
    if (fault == DTN_ETHOSU_OK) {
        dtn_ethosu_report_accesses(m, &(dtn_ethosu_accesses_t){.inputs = {&layer->input},
                                                               .out = &layer->out,
                                                               .made = &layer->out,
                                                               .geometry = &layer->geometry,
                                                               .output = &layer->output});
    }
    return fault;
}

static dtn_ethosu_channel_t channel_of(const uint8_t *bytes)
{
    uint64_t bias = 0;
    uint32_t scale = 0;
    for (uint32_t i = 0; i < 5; i++) {
        bias |= (uint64_t)bytes[i] << (8 * i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        scale |= (uint32_t)bytes[5 + i] << (8 * i);
    }
    return (dtn_ethosu_channel_t){(int64_t)(bias ^ UINT64_C(0x8000000000)) - INT64_C(0x8000000000),
                                  {scale, bytes[9] & 0x3FU}};
}

dtn_ethosu_fault_t dtn_ethosu_read_block(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer, int32_t first, int32_t depth)
{
    if (dtn_ethosu_is_u85(m)) {
        return dtn_ethosu_read_block_85(m, layer, first, depth);
    }
    int32_t cores = m->config->cores;
    for (int32_t core = 0; core < cores; core++) {
        /* Each core has every n-th channel of a block, from its number on. */
        int32_t channels = channels_of_core(depth, cores, core);
        if (channels == 0) {
            continue;
        }
        int16_t *rows = layer->rows + (size_t)core * layer->pitch;
        if (!dtn_ethosu_read_rows(&layer->order, &layer->streams[core], channels, rows, layer->pitch * (size_t)cores)) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_WEIGHTS, (uint64_t)first);
        }
        for (int32_t i = 0; i < channels; i++) {
            size_t place = (size_t)(first / cores + i) * DTN_ETHOSU_SCALE_BYTES;
            layer->channels[core + i * cores] = channel_of(layer->scales[core] + place);
        }
    }
    return DTN_ETHOSU_OK;
}
