#include "kernel_window.h"

/* Maximum size of a part of the kernel: 8, or 4 if the decomposition register selects it. */
enum { PART = 8, SMALL_PART = 4 };

/* Maximum kernel positions: 64 by 64 with weights, 256 by 256 in pools. */
enum { MOST_WEIGHTED = 64 * 64, MOST_POOLED = 256 * 256 };

static void read_kernel(const dtn_ethosu_t *m, dtn_ethosu_geometry_t *g)
{
    g->stride_w =
        1 + (int32_t)(dtn_ethosu_field(m, REG_KERNEL_STRIDE, 0, 1) | dtn_ethosu_field(m, REG_KERNEL_STRIDE, 6, 1) << 1);
    g->stride_h =
        1 + (int32_t)(dtn_ethosu_field(m, REG_KERNEL_STRIDE, 1, 1) | dtn_ethosu_field(m, REG_KERNEL_STRIDE, 9, 1) << 1);
    g->is_part_kernel = dtn_ethosu_field(m, REG_KERNEL_STRIDE, 2, 1) != 0;
    g->dilation_w = 1 + (int32_t)dtn_ethosu_field(m, REG_KERNEL_STRIDE, 3, 1);
    g->dilation_h = 1 + (int32_t)dtn_ethosu_field(m, REG_KERNEL_STRIDE, 4, 1);
    g->part = dtn_ethosu_field(m, REG_KERNEL_STRIDE, 5, 1) != 0 ? SMALL_PART : PART;
    g->kernel_h = (dtn_ethosu_count(m, REG_KERNEL_HEIGHT_M1) - 1) / g->dilation_h + 1;
    g->kernel_w = (dtn_ethosu_count(m, REG_KERNEL_WIDTH_M1) - 1) / g->dilation_w + 1;
}

dtn_ethosu_fault_t dtn_ethosu_geometry(dtn_ethosu_t *m, bool is_summed, dtn_ethosu_geometry_t *g)
{
    g->is_summed = is_summed;
    dtn_ethosu_fault_t fault = dtn_ethosu_need_shorts(
        m, DTN_ETHOSU_LIST(REG_IFM_PAD_TOP, REG_IFM_PAD_LEFT, REG_IFM_PAD_RIGHT, REG_IFM_PAD_BOTTOM, REG_IFM_DEPTH_M1,
                           REG_IFM_UPSCALE, REG_OFM_WIDTH_M1, REG_OFM_HEIGHT_M1, REG_OFM_DEPTH_M1, REG_KERNEL_WIDTH_M1,
                           REG_KERNEL_HEIGHT_M1, REG_KERNEL_STRIDE));
    if (fault != DTN_ETHOSU_OK) {
        return fault;
    }
    read_kernel(m, g);
    g->out_h = dtn_ethosu_count(m, REG_OFM_HEIGHT_M1);
    g->out_w = dtn_ethosu_count(m, REG_OFM_WIDTH_M1);
    g->out_c = dtn_ethosu_count(m, REG_OFM_DEPTH_M1);
    g->in_c = dtn_ethosu_count(m, REG_IFM_DEPTH_M1);
    g->pad_top = (int32_t)dtn_ethosu_short(m, REG_IFM_PAD_TOP);
    g->pad_left = (int32_t)dtn_ethosu_short(m, REG_IFM_PAD_LEFT);
    int32_t bottom = (int32_t)dtn_ethosu_short(m, REG_IFM_PAD_BOTTOM);
    int32_t right = (int32_t)dtn_ethosu_short(m, REG_IFM_PAD_RIGHT);
    g->has_pads = g->pad_top > 0 || g->pad_left > 0 || bottom > 0 || right > 0;
    uint32_t upscale = dtn_ethosu_short(m, REG_IFM_UPSCALE);
    if (upscale > DTN_ETHOSU_ZEROS) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_IFM_UPSCALE);
    }
    g->upscale = (dtn_ethosu_upscale_t)upscale;
    /* Windows and padding determine the input's size; it has no register. */
    g->in_h = (g->out_h - 1) * g->stride_h + dtn_ethosu_count(m, REG_KERNEL_HEIGHT_M1) - g->pad_top - bottom;
    g->in_w = (g->out_w - 1) * g->stride_w + dtn_ethosu_count(m, REG_KERNEL_WIDTH_M1) - g->pad_left - right;
    if (g->in_h < 1 || g->in_w < 1) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_GEOMETRY, g->in_h < 1 ? REG_OFM_HEIGHT_M1 : REG_OFM_WIDTH_M1);
    }
    uint64_t pixels = (uint64_t)g->out_h * (uint64_t)g->out_w;
    uint64_t positions = (uint64_t)g->kernel_h * (uint64_t)g->kernel_w;
    uint64_t most = m->event.opcode == DTN_ETHOSU_OP_POOL ? MOST_POOLED : MOST_WEIGHTED;
    if (positions > most) {
        return dtn_ethosu_fault(m, DTN_ETHOSU_FIELD, REG_KERNEL_HEIGHT_M1);
    }
    return dtn_ethosu_work(m, pixels * (uint64_t)g->out_c, positions * (g->is_summed ? (uint64_t)g->in_c : 1U));
}

dtn_ethosu_fault_t dtn_ethosu_input(dtn_ethosu_t *m, const dtn_ethosu_geometry_t *g, int32_t depth,
                                    dtn_ethosu_map_t *map)
{
    int32_t factor = g->upscale == DTN_ETHOSU_AS_IS ? 1 : 2;
    return dtn_ethosu_map(m, &dtn_ethosu_ifm_registers, (g->in_h + factor - 1) / factor,
                          (g->in_w + factor - 1) / factor, depth, false, map);
}
