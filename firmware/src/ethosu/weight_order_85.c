#include "weight_order_85.h"

/* Consecutive output channels of a stream, and the maximum of adjacent input channels. */
enum { IN_TURN = 4, MOST_TOGETHER = 16 };

/* The fast format's header. */
enum { HEADER_BYTES = 32, ADJUSTMENT_AT = 104, TABLE_AT = 112, TABLE_BITS = 9 };

/* The weights of a microblock for a part of the kernel and a block of input channels. */
typedef struct {
    const dtn_ethosu_order_85_t *order;
    dtn_ethosu_source_85_t *source;
    int16_t *rows;
    size_t pitch;
    int32_t depth;  /* output channels of the block */
    int32_t output; /* the first of the microblock */
    int32_t input;  /* the first input channel */
    int32_t y;      /* of the part */
    int32_t x;
    int32_t height;
    int32_t width;
    int32_t left; /* remaining positions, including padding */
} part_t;

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- The fast format ---- */

/* Returns `count` bits from bit `at` on, at most 9. */
static uint32_t bits_at(const uint8_t *bytes, size_t at, uint32_t count)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; i++) {
        value |= ((uint32_t)bytes[(at + i) / 8] >> ((at + i) % 8) & 1U) << i;
    }
    return value;
}

bool dtn_ethosu_fast_start(dtn_ethosu_source_85_t *source, const dtn_ethosu_order_85_t *order, const uint8_t *bytes,
                           size_t length)
{
    if (length < HEADER_BYTES) {
        return false;
    }
    bool is_raw = bits_at(bytes, 0, 1) != 0;
    bool is_small = bits_at(bytes, 1, 1) != 0;
    *source = (dtn_ethosu_source_85_t){.fast = bytes, .fast_bytes = length};
    source->fast_bits = is_raw ? 8 : is_small ? 2 : 4;
    source->adjustment = (int8_t)bits_at(bytes, ADJUSTMENT_AT, 8);
    source->step = (size_t)(order->microblock * order->inner * order->multiple / order->streams);
    for (size_t i = 0; i < DTN_ETHOSU_FAST_ENTRIES; i++) {
        uint32_t entry = bits_at(bytes, TABLE_AT + i * TABLE_BITS, TABLE_BITS);
        int16_t magnitude = (int16_t)(entry >> 1);
        source->table[i] = (entry & 1U) != 0 ? (int16_t)-magnitude : magnitude;
    }
    return !(is_raw && is_small);
}

static bool read_fast(dtn_ethosu_source_85_t *source, size_t stream, size_t streams, int16_t *weights, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t mine = source->taken[stream]++;
        size_t index = (mine / source->step * streams + stream) * source->step + mine % source->step;
        size_t at = HEADER_BYTES * 8 + index * source->fast_bits;
        if (at + source->fast_bits > source->fast_bytes * 8) {
            return false;
        }
        uint32_t value = bits_at(source->fast, at, source->fast_bits);
        weights[i] = source->fast_bits == 8 ? (int16_t)((int8_t)value - source->adjustment) : source->table[value];
    }
    return true;
}

static bool read_weights(const part_t *part, int32_t stream, int16_t *weights, int32_t count)
{
    if (part->source->fast != NULL) {
        return read_fast(part->source, (size_t)stream, (size_t)part->order->streams, weights, (size_t)count);
    }
    return dtn_ethosu_weights_read(&part->source->packed[stream], weights, (size_t)count);
}

/* ---- The order ---- */

static bool skip(const part_t *part, int32_t count)
{
    int16_t nothing[IN_TURN * MOST_TOGETHER];
    for (int32_t stream = 0; stream < part->order->streams; stream++) {
        for (int32_t done = 0; done < count;) {
            int32_t these = min_of(count - done, IN_TURN * MOST_TOGETHER);
            if (!read_weights(part, stream, nothing, these)) {
                return false;
            }
            done += these;
        }
    }
    return true;
}

/* Writes four output channels from `output` on, input channels from `input` on, to the rows at a kernel position. */
static void put(const part_t *part, int32_t output, int32_t input, size_t place, const int16_t *weights)
{
    const dtn_ethosu_order_85_t *order = part->order;
    int32_t outputs = min_of(IN_TURN, part->depth - output);
    int32_t inputs = min_of(order->together, order->inputs - input);
    for (int32_t o = 0; o < outputs; o++) {
        int16_t *row = part->rows + (size_t)(output + o) * part->pitch + place * (size_t)order->inputs;
        for (int32_t i = 0; i < inputs; i++) {
            row[input + i] = weights[o * order->together + i];
        }
    }
}

/* Reads all weights of a kernel position. */
static bool read_position(const part_t *part, int32_t y, int32_t x)
{
    const dtn_ethosu_order_85_t *order = part->order;
    size_t place = (size_t)(part->y + y) * (size_t)order->kernel_w + (size_t)(part->x + x);
    int16_t weights[IN_TURN * MOST_TOGETHER];
    for (int32_t input = 0; input < order->inner; input += order->together) {
        for (int32_t stream = 0; stream < order->streams; stream++) {
            for (int32_t z = stream * IN_TURN; z < order->microblock; z += IN_TURN * order->streams) {
                if (!read_weights(part, stream, weights, IN_TURN * order->together)) {
                    return false;
                }
                put(part, part->output + z, part->input + input, place, weights);
            }
        }
    }
    return true;
}

/* Reads the positions of one phase of the stride. */
static bool read_phase(part_t *part, int32_t phase_y, int32_t phase_x)
{
    const dtn_ethosu_order_85_t *order = part->order;
    int32_t rows = (part->height + order->stride_h - 1 - phase_y) / order->stride_h;
    int32_t columns = (part->width + order->stride_w - 1 - phase_x) / order->stride_w;
    for (int32_t y = 0; y < rows; y++) {
        for (int32_t i = 0; i < columns; i++) {
            int32_t x = y % 2 == 0 ? i : columns - 1 - i;
            if (!read_position(part, phase_y + y * order->stride_h, phase_x + x * order->stride_w)) {
                return false;
            }
            part->left--;
            if (part->left % order->multiple == 0 && !skip(part, order->extra * order->microblock / order->streams)) {
                return false;
            }
        }
    }
    return true;
}

static bool read_microblock(part_t *part)
{
    const dtn_ethosu_order_85_t *order = part->order;
    int32_t positions = part->height * part->width;
    part->left = (positions + order->multiple - 1) / order->multiple * order->multiple;
    for (int32_t y = 0; y < order->stride_h; y++) {
        for (int32_t x = 0; x < order->stride_w; x++) {
            if (!read_phase(part, y, x)) {
                return false;
            }
        }
    }
    int32_t padding = part->left > 0 ? part->left + order->extra : 0;
    return skip(part, padding * order->inner * order->microblock / order->streams);
}

/* Reads the weights of a block of input channels from `first` on, for one part of the kernel. */
static bool read_part(part_t *part, int32_t first)
{
    const dtn_ethosu_order_85_t *order = part->order;
    int32_t inputs = min_of(order->block, order->inputs - first);
    for (int32_t input = 0; input < inputs; input += order->inner) {
        part->input = first + input;
        for (part->output = 0; part->output < part->depth; part->output += order->microblock) {
            if (!read_microblock(part)) {
                return false;
            }
        }
    }
    return true;
}

bool dtn_ethosu_read_rows_85(const dtn_ethosu_order_85_t *order, dtn_ethosu_source_85_t *source, bool is_back,
                             int32_t depth, int16_t *rows, size_t pitch)
{
    part_t part = {.order = order, .source = source, .rows = rows, .pitch = pitch, .depth = depth};
    int32_t blocks = (order->inputs + order->block - 1) / order->block;
    for (int32_t i = 0; i < blocks; i++) {
        int32_t first = (is_back ? blocks - 1 - i : i) * order->block;
        for (part.x = 0; part.x < order->kernel_w; part.x += order->part_w) {
            part.width = min_of(order->kernel_w - part.x, order->part_w);
            for (part.y = 0; part.y < order->kernel_h; part.y += order->part_h) {
                part.height = min_of(order->kernel_h - part.y, order->part_h);
                if (!read_part(&part, first)) {
                    return false;
                }
            }
        }
    }
    return true;
}
