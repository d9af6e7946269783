#include "weight_order.h"

/* Input channels of a small block, and the maximum weights of one. */
enum { SMALL_INPUTS = 8, MOST = 64 };

/* Consecutive weights: small blocks for one part of the kernel and one block of input channels. */
typedef struct {
    const dtn_ethosu_order_t *order;
    dtn_ethosu_weights_t *stream;
    int16_t *rows;
    size_t pitch;
    int32_t depth; /* output channels */
    int32_t input; /* the first input channel of the block */
    int32_t part_y;
    int32_t part_x;
    int32_t height; /* of the part of the kernel */
    int32_t width;
    int32_t positions; /* height * width, rounded up as on the NPU */
} part_t;

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t round_up(int32_t value, int32_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Reads one small block: output channels from `output` on, input channels from `input` on, at a position of the part.
 */
static bool read_small(const part_t *part, int32_t position, int32_t input, int32_t output)
{
    const dtn_ethosu_order_t *order = part->order;
    int16_t weights[MOST];
    int32_t inputs = order->traversal == DTN_ETHOSU_DEPTHWISE ? 1 : SMALL_INPUTS;
    if (!dtn_ethosu_weights_read(part->stream, weights, (size_t)(inputs * order->small))) {
        return false;
    }
    int32_t y = position / part->width;
    if (y >= part->height) {
        return true;
    }
    int32_t place = (part->part_y + y) * order->kernel_w + part->part_x + position % part->width;
    int32_t outputs = min_of(order->small, part->depth - output);
    for (int32_t o = 0; o < outputs; o++) {
        int16_t *row = part->rows + (size_t)(output + o) * part->pitch + (size_t)place * (size_t)order->inputs;
        for (int32_t i = 0; i < inputs && input + i < order->inputs; i++) {
            row[input + i] = weights[o * inputs + i];
        }
    }
    return true;
}

/* Reads all small blocks of a part of the kernel for `inputs` input channels. */
static bool read_part(const part_t *part, int32_t inputs)
{
    bool positions_first = part->order->traversal == DTN_ETHOSU_PART_KERNEL;
    int32_t outer = positions_first ? inputs : 1;
    int32_t inner = positions_first ? 1 : inputs;
    for (int32_t i = 0; i < outer; i += SMALL_INPUTS) {
        for (int32_t output = 0; output < part->depth; output += part->order->small) {
            for (int32_t position = 0; position < part->positions; position++) {
                for (int32_t j = 0; j < inner; j += SMALL_INPUTS) {
                    if (!read_small(part, position, part->input + i + j, output)) {
                        return false;
                    }
                }
            }
        }
    }
    return true;
}

bool dtn_ethosu_read_rows(const dtn_ethosu_order_t *order, dtn_ethosu_weights_t *stream, int32_t depth, int16_t *rows,
                          size_t pitch)
{
    bool is_depthwise = order->traversal == DTN_ETHOSU_DEPTHWISE;
    bool is_part_kernel = order->traversal == DTN_ETHOSU_PART_KERNEL;
    int32_t block = is_part_kernel || order->is_short ? 16 : 32;
    /* Positions of a part that are read at once. */
    int32_t multiple = is_depthwise ? 4 : !is_part_kernel ? 1 : order->is_short ? 2 : 4;
    part_t part = {.order = order, .stream = stream, .rows = rows, .pitch = pitch, .depth = depth};
    for (part.input = 0; part.input < order->inputs; part.input += block) {
        int32_t inputs = is_depthwise     ? SMALL_INPUTS
                         : is_part_kernel ? min_of(block, order->inputs - part.input)
                                          : block;
        for (part.part_y = 0; part.part_y < order->kernel_h; part.part_y += order->part_h) {
            part.height = min_of(order->kernel_h - part.part_y, order->part_h);
            for (part.part_x = 0; part.part_x < order->kernel_w; part.part_x += order->part_w) {
                part.width = min_of(order->kernel_w - part.part_x, order->part_w);
                part.positions = round_up(part.height * part.width, multiple);
                if (!read_part(&part, inputs)) {
                    return false;
                }
            }
        }
    }
    return true;
}
