#include "weighted_layer.h"

/* The field of the output's precision for one factor for all channels. */
enum { IS_GLOBAL_AT = 8 };

/* Bits of the weight format: fast format, and sparse weights. */
enum { IS_FAST = 1U << 0, IS_SPARSE = DTN_ETHOSU_IS_SPARSE };

/* The registers of weights, by stream: an Ethos-U85 has four. */
static const uint16_t weights[DTN_ETHOSU_CORES][2] = {{REG_WEIGHT_BASE, REG_WEIGHT_LENGTH},
                                                      {REG_WEIGHT1_BASE, REG_WEIGHT1_LENGTH},
                                                      {REG_WEIGHT2_BASE, REG_WEIGHT2_LENGTH},
                                                      {REG_WEIGHT3_BASE, REG_WEIGHT3_LENGTH}};

dtn_ethosu_fault_t dtn_ethosu_streams_85(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer)
{
    bool is_fast = (dtn_ethosu_short(m, REG_WEIGHT_FORMAT) & IS_FAST) != 0;
    const uint8_t *bytes = NULL;
    size_t count = 0;
    layer->source_85 = (dtn_ethosu_source_85_t){.packed = layer->streams};
    for (int32_t i = 0; i < (is_fast ? 1 : layer->order_85.streams); i++) {
        dtn_ethosu_fault_t fault = dtn_ethosu_need_longs(m, DTN_ETHOSU_LIST(weights[i][1]));
        /* A stream without weights has no address. */
        count = 0;
        if (fault == DTN_ETHOSU_OK && dtn_ethosu_payload(m, weights[i][1]) > 0) {
            fault = dtn_ethosu_read_bytes(m, REG_WEIGHT_REGION, weights[i][0], weights[i][1], &bytes, &count);
        }
        if (fault != DTN_ETHOSU_OK) {
            return fault;
        }
        if (!m->is_check && !is_fast) {
            dtn_ethosu_weights_start(&layer->streams[i], bytes, count);
        } else if (!m->is_check && !dtn_ethosu_fast_start(&layer->source_85, &layer->order_85, bytes, count)) {
            return dtn_ethosu_fault(m, DTN_ETHOSU_WEIGHTS, 0);
        }
    }
    dtn_ethosu_fault_t fault =
        dtn_ethosu_read_bytes(m, REG_SCALE_REGION, REG_SCALE_BASE, REG_SCALE_LENGTH, &bytes, &count);
    layer->scales[0] = bytes;
    if (fault == DTN_ETHOSU_OK && count < (size_t)layer->geometry.out_c * DTN_ETHOSU_SCALE_BYTES) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_SCALES, REG_SCALE_LENGTH);
    }
    return fault;
}

dtn_ethosu_fault_t dtn_ethosu_matrix_85(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer)
{
    const dtn_ethosu_geometry_t *g = &layer->geometry;
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_OFM_PRECISION));
    layer->pitch = (size_t)g->in_c;
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    if (dtn_ethosu_field(m, REG_OFM_PRECISION, IS_GLOBAL_AT, 1) == 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_PRECISION);
    }
    if (g->kernel_h != 1 || g->kernel_w != 1) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_KERNEL_HEIGHT_M1);
    }
    fault = dtn_ethosu_map(m, &dtn_ethosu_ifm2_registers, 1, g->out_c, g->in_c, false, &layer->matrix);
    if (fault == DTN_ETHOSU_OK &&
        (layer->matrix.bytes > 2 ||
         (layer->matrix.bytes == 2 && (!layer->matrix.is_signed || layer->matrix.zero_point != 0)))) {
        fault = dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM2_PRECISION);
    }
    layer->products = layer->matrix.bytes == 1 ? layer->products : 1;
    return fault == DTN_ETHOSU_OK ? dtn_ethosu_ofm_factor(m, false, &layer->factor) : fault;
}

int32_t dtn_ethosu_channels_85(const dtn_ethosu_t *m)
{
    static const uint8_t pixels[] = {1, 2, 4, 4, 8, 16};
    uint32_t microblock = dtn_ethosu_field(m, REG_ACC_FORMAT, 8, 3);
    return microblock < sizeof pixels ? m->config->channels / pixels[microblock] : 0;
}

dtn_ethosu_fault_t dtn_ethosu_order_of_85(dtn_ethosu_t *m, bool is_depthwise, dtn_ethosu_layer_t *layer)
{
    const dtn_ethosu_geometry_t *g = &layer->geometry;
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(m, DTN_ETHOSU_LIST(REG_ACC_FORMAT, REG_WEIGHT_FORMAT));
    int32_t channels = dtn_ethosu_channels_85(m);
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    uint32_t format = dtn_ethosu_short(m, REG_WEIGHT_FORMAT);
    if ((format & ~(uint32_t)(IS_FAST | IS_SPARSE)) != 0) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_WEIGHT_FORMAT);
    }
    if (channels == 0 || dtn_ethosu_field(m, REG_ACC_FORMAT, 0, 2) > 1) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_ACC_FORMAT);
    }
    if (dtn_ethosu_field(m, REG_OFM_PRECISION, IS_GLOBAL_AT, 1) != 0 && layer->sums.has_output) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_UNSUPPORTED, REG_OFM_PRECISION);
    }
    layer->is_wide = dtn_ethosu_field(m, REG_ACC_FORMAT, 0, 2) == 1;
    bool is_sparse = (format & IS_SPARSE) != 0;
    bool is_part_kernel = g->is_part_kernel && !is_depthwise;
    bool is_short = layer->input.bytes == 2;
    int32_t streams = m->config->cores;
    if (channels % (4 * streams) != 0 || (is_depthwise && format != 0)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_WEIGHT_FORMAT);
    }
    int32_t block = is_part_kernel                                           ? 16
                    : m->config->macs <= 256 && channels == 16 && !is_sparse ? 32
                    : is_sparse && !is_short                                 ? 128
                                                                             : 64;
    bool has_phases = is_depthwise || is_part_kernel;
    layer->order_85 = (dtn_ethosu_order_85_t){
        .is_depthwise = is_depthwise,
        .kernel_h = g->kernel_h,
        .kernel_w = g->kernel_w,
        .part_h = g->part / g->dilation_h,
        .part_w = g->part / g->dilation_w,
        .stride_h = has_phases ? g->stride_h : 1,
        .stride_w = has_phases ? g->stride_w : 1,
        .inputs = is_depthwise ? 1 : g->in_c,
        .block = block,
        .inner = is_depthwise                               ? 1
                 : is_part_kernel && is_short && !is_sparse ? 8
                                                            : block,
        .together = is_depthwise ? 1
                    : is_sparse  ? 16
                                 : 8,
        .microblock = channels,
        .multiple = is_depthwise            ? 10
                    : !is_part_kernel       ? 1
                    : is_short || is_sparse ? 10
                                            : 5,
        .extra = !is_depthwise || (!is_short && m->config->macs <= 256) ? 0
                 : m->config->macs <= 512                               ? 2
                                                                        : 6,
        .streams = streams,
    };
    layer->pitch = (size_t)g->kernel_h * (size_t)g->kernel_w * (size_t)layer->order_85.inputs;
    return DTN_ETHOSU_OK;
}

static uint64_t number_at(const uint8_t *bytes, uint32_t count)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < count; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

dtn_ethosu_channel_t dtn_ethosu_channel_of_85(const uint8_t *bytes, bool is_wide)
{
    uint32_t bias_bytes = is_wide ? 6 : 4;
    uint64_t sign = UINT64_C(1) << (8 * bias_bytes - 1);
    uint64_t scale = number_at(bytes + bias_bytes, 8 - bias_bytes);
    return (dtn_ethosu_channel_t){(int64_t)(number_at(bytes, bias_bytes) ^ sign) - (int64_t)sign,
                                  {(int64_t)(scale & (is_wide ? 0x7FFFU : 0x7FFFFFFFU)), bytes[8] & 0x3FU}};
}

dtn_ethosu_fault_t dtn_ethosu_read_block_85(dtn_ethosu_t *m, dtn_ethosu_layer_t *layer, int32_t first, int32_t depth)
{
    for (int32_t i = 0; layer->is_matrix && i < depth; i++) {
        const uint8_t *row = dtn_ethosu_pixel(&layer->matrix, 0, first + i);
        dtn_ethosu_read_short(&layer->matrix, row, 0, layer->geometry.in_c, layer->rows + (size_t)i * layer->pitch);
        layer->channels[i] = (dtn_ethosu_channel_t){0, layer->factor};
    }
    if (layer->is_matrix) {
        return DTN_ETHOSU_OK;
    }
    bool is_back = first / layer->block % 2 != 0;
    if (!dtn_ethosu_read_rows_85(&layer->order_85, &layer->source_85, is_back, depth, layer->rows, layer->pitch)) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_WEIGHTS, (uint64_t)first);
    }
    for (int32_t i = 0; i < depth; i++) {
        layer->channels[i] =
            dtn_ethosu_channel_of_85(layer->scales[0] + (size_t)(first + i) * DTN_ETHOSU_SCALE_BYTES, layer->is_wide);
    }
    return DTN_ETHOSU_OK;
}
