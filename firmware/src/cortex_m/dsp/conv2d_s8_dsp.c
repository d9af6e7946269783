#include "../window_runs.h"
#include "matmul_row_pairs_s8_dsp.h"

/* Bytes of a window that are put together on the stack. */
enum { WINDOW = 256 };

/* Two windows, unpacked to the caller's scratch memory. */
typedef struct {
    const dtn_cm_group_t *group;
    dtn_dsp_block_t block;
    dtn_dsp_quad_t *quads;
    uint32_t offsets;   /* of the inputs */
    uint32_t pad_value; /* the value of positions in the padding */
    bool in_fours;      /* every run starts at a multiple of four elements, and has such a number */
} windows_t;

static bool is_whole(const dtn_cm_windows_t *p, const dtn_cm_place_t *place)
{
    return place->rows.end - place->rows.first == p->kernel_h &&
           place->columns.end - place->columns.first == p->kernel_w;
}

/* The words of the first quad's row x, or y. */
static uint32_t *row_of(dtn_dsp_quad_t *quad, bool is_second)
{
    return is_second ? quad->y : quad->x;
}

/* Unpacks the runs from where they lie on the map. */
static void unpack_runs(const windows_t *to, const dtn_cm_place_t *place, bool is_second)
{
    const dtn_cm_group_t *group = to->group;
    if (!is_whole(group->p, place)) {
        for (size_t i = 0; i < group->patch / 4; i++) {
            uint32_t *words = row_of(&to->quads[i], is_second);
            words[0] = to->pad_value;
            words[1] = to->pad_value;
        }
    }
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            dtn_dsp_unpack(run.input, to->offsets, run.count / 4, row_of(&to->quads[run.at / 4], is_second),
                           DTN_DSP_QUAD);
        }
    }
}

/* A copy of a run, which is short. */
static inline void copy(int8_t *to, const int8_t *from, size_t count)
{
    for (; count >= 4; count -= 4) {
        memcpy(to, from, 4);
        to += 4;
        from += 4;
    }
    for (; count != 0; count--) {
        *to++ = *from++;
    }
}

/* Puts a window together as bytes, whose runs may start anywhere, and unpacks these. */
static void unpack_window(const windows_t *to, const dtn_cm_place_t *place, bool is_second, uint32_t rest[2])
{
    int8_t window[WINDOW];
    const dtn_cm_group_t *group = to->group;
    if (!is_whole(group->p, place)) {
        memset(window, group->pad_value - group->offset, group->patch);
    }
    for (int32_t ky = place->rows.first; ky < place->rows.end; ky++) {
        for (int32_t kx = place->columns.first; kx < place->columns.end; kx = dtn_cm_next_run(group, place, kx)) {
            dtn_cm_run_t run = dtn_cm_run(group, place, ky, kx);
            copy(window + run.at, run.input, run.count);
        }
    }
    dtn_dsp_unpack(window, to->offsets, group->patch / 4, row_of(to->quads, is_second), DTN_DSP_QUAD);
    dtn_dsp_unpack_rest(window + group->patch / 4 * 4, group->offset, group->patch % 4, rest);
}

/* All channels of two output pixels, which may be the same. */
static void two_pixels(const windows_t *windows, const dtn_cm_place_t *x, const dtn_cm_place_t *y)
{
    const dtn_cm_group_t *group = windows->group;
    dtn_dsp_pair_t pair = {.quads = windows->quads, .count = group->patch / 4, .rest_count = group->patch % 4};
    if (windows->in_fours) {
        unpack_runs(windows, x, false);
        unpack_runs(windows, y, true);
    } else {
        unpack_window(windows, x, false, pair.rest.x);
        unpack_window(windows, y, true, pair.rest.y);
    }
    dtn_dsp_multiply_pair(&windows->block, &pair, x->output, y->output);
}

static void all_pixels(const windows_t *windows, int8_t *output)
{
    const dtn_cm_windows_t *p = windows->group->p;
    dtn_cm_place_t place = {.image = windows->group->input, .output = output};
    dtn_cm_place_t waiting;
    bool is_waiting = false;
    for (int32_t b = 0; b < p->batches; b++) {
        for (int32_t oy = 0; oy < p->out_h; oy++) {
            place.rows = dtn_cm_window(oy, p->stride_h, p->pad_h, p->kernel_h, p->dilation_h, p->in_h);
            for (int32_t ox = 0; ox < p->out_w; ox++) {
                place.columns = dtn_cm_window(ox, p->stride_w, p->pad_w, p->kernel_w, p->dilation_w, p->in_w);
                if (is_waiting) {
                    two_pixels(windows, &waiting, &place);
                } else {
                    waiting = place;
                }
                is_waiting = !is_waiting;
                place.output += p->out_c;
            }
        }
        place.image += (size_t)p->in_h * (size_t)p->in_w * (size_t)p->in_c;
    }
    if (is_waiting) {
        two_pixels(windows, &waiting, &waiting);
    }
}

/* Two windows at a time are unpacked, which needs 4 bytes per element. */
bool dtn_cm_convolve(const dtn_cm_group_t *group, void *scratch, size_t bytes)
{
    int32_t pad_value = group->pad_value - group->offset; /* as a byte, to which the offset is added */
    windows_t windows = {
        .group = group,
        .quads = (dtn_dsp_quad_t *)scratch,
        .offsets = dtn_dsp_twice(group->offset),
        .pad_value = dtn_dsp_twice(group->pad_value),
        .in_fours = group->inputs % 4 == 0,
    };
    if (bytes < group->patch / 4 * sizeof(dtn_dsp_quad_t) || (uintptr_t)scratch % sizeof(uint32_t) != 0 ||
        (!windows.in_fours && (group->patch > WINDOW || !dtn_cm_is_s8(pad_value)))) {
        return false;
    }
    for (size_t first = 0; first < group->outputs; first += DTN_DSP_CHANNELS) {
        size_t left = group->outputs - first;
        dtn_dsp_make_block(&windows.block, group->weights, group->patch, group->bias, &group->scale, first,
                           left < DTN_DSP_CHANNELS ? left : DTN_DSP_CHANNELS);
        all_pixels(&windows, group->output + first);
    }
    return true;
}
