#include "weights.h"

#include <string.h>

/* Codes of the header's fields, and the maximum divisor of each kind. */
enum { NO_ZEROS = 6, PADDING = 7, PLAIN = 7, MOST_ZERO_DIVISOR = 3, MOST_DIVISOR = 5 };

/* Weights have at most 9 bits. */
enum { LARGEST = 511 };

/* The decoder reads a chunk of weights when fewer than this are ahead of the runs. */
enum { AHEAD = 8 };

/* ---- Bits ---- */

static void refill(dtn_ethosu_weights_t *s)
{
    while (s->bit_count <= 56 && s->at < s->length) {
        s->bits |= (uint64_t)s->bytes[s->at++] << s->bit_count;
        s->bit_count += 8;
    }
}

/* The next `count` bits, at most 32; after the end zeros, and the stream is marked as broken. */
static uint32_t read_bits(dtn_ethosu_weights_t *s, uint32_t count)
{
    if (s->bit_count < count) {
        refill(s);
        if (s->bit_count < count) {
            s->is_broken = true;
            s->bit_count = 0;
            s->bits = 0;
            return 0;
        }
    }
    uint32_t value = (uint32_t)(s->bits & ((UINT64_C(1) << count) - 1U));
    s->bits >>= count;
    s->bit_count -= count;
    return value;
}

/* ---- Headers ---- */

static uint32_t bits_for(uint32_t numbers)
{
    uint32_t bits = 0;
    while ((UINT32_C(1) << bits) < numbers) {
        bits++;
    }
    return bits;
}

static void read_palette(dtn_ethosu_weights_t *s)
{
    s->offset = read_bits(s, 5);
    uint32_t size = read_bits(s, 5);
    s->palette_size = size > 0 ? size + 1 : 0;
    s->palette_bits = read_bits(s, 3) + 2;
    for (uint32_t i = 0; i < s->palette_size; i++) {
        s->palette[i] = (uint16_t)read_bits(s, s->palette_bits);
    }
    s->has_palette = true;
}

static void start_numbers(dtn_ethosu_numbers_t *numbers, uint32_t total, uint32_t divisor)
{
    *numbers = (dtn_ethosu_numbers_t){.total = total, .divisor = divisor};
}

/* Reads the header of a slice, after padding; the previous slice is complete. */
static void read_header(dtn_ethosu_weights_t *s)
{
    uint32_t zero_divisor = read_bits(s, 3);
    while (zero_divisor == PADDING && !s->is_broken) {
        (void)read_bits(s, s->bit_count % 8);
        s->has_palette = false;
        zero_divisor = read_bits(s, 3);
    }
    uint32_t count = read_bits(s, 15) + 1;
    uint32_t divisor = read_bits(s, 3);
    s->is_truncated = read_bits(s, 1) != 0;
    bool has_palette = read_bits(s, 1) != 0;
    bool has_zeros = zero_divisor != NO_ZEROS;
    /* A slice without a palette continues with the previous one. */
    bool goes_on = s->has_palette && has_zeros == s->has_zeros;
    if ((has_zeros && zero_divisor > MOST_ZERO_DIVISOR) || (!has_palette && !goes_on) ||
        (divisor > MOST_DIVISOR && divisor != PLAIN)) {
        s->is_broken = true;
        return;
    }
    if (has_palette) {
        read_palette(s);
    }
    s->is_plain = divisor == PLAIN;
    if (s->is_plain) {
        divisor = s->palette_size > 0 ? bits_for(s->palette_size) : s->palette_bits;
    }
    s->has_zeros = has_zeros;
    s->zeros_are_next = has_zeros && has_palette;
    start_numbers(&s->weights, count, divisor);
    start_numbers(&s->runs, has_zeros ? count + (has_palette ? 1U : 0U) : 0U, zero_divisor);
}

/* ---- Chunks ---- */

/* The unary parts of the weights: one bit says whether a second follows, and that one whether it is 2 or more. */
static void start_weights(dtn_ethosu_weights_t *s, uint32_t first)
{
    dtn_ethosu_numbers_t *numbers = &s->weights;
    uint32_t places = s->is_plain && numbers->divisor > 5 ? 8 : DTN_ETHOSU_CHUNK;
    uint32_t ones = 0;
    for (uint32_t i = 0; i < places; i++) {
        ones += first >> i & 1U;
    }
    uint32_t second = read_bits(s, ones);
    numbers->chunk_count = 0;
    for (uint32_t i = 0; i < places; i++) {
        uint32_t code = first >> i & 1U;
        if (code != 0) {
            code += second & 1U;
            second >>= 1;
        }
        numbers->carry += code;
        if (code < 2 || s->is_truncated) {
            numbers->chunk[numbers->chunk_count++] = numbers->carry;
            numbers->carry = 0;
        }
    }
    numbers->started += numbers->chunk_count;
}

/* The unary parts of the zero runs: ones, terminated by a zero. */
static void start_runs(dtn_ethosu_weights_t *s)
{
    dtn_ethosu_numbers_t *numbers = &s->runs;
    uint32_t places = numbers->divisor < 3 ? DTN_ETHOSU_CHUNK : 8;
    uint32_t unary = read_bits(s, places);
    numbers->chunk_count = 0;
    for (uint32_t i = 0; i < places; i++) {
        if ((unary >> i & 1U) != 0) {
            numbers->carry++;
        } else {
            numbers->chunk[numbers->chunk_count++] = numbers->carry;
            numbers->carry = 0;
        }
    }
    numbers->started += numbers->chunk_count;
}

/* Reads the remainders of a chunk's numbers. */
static void finish(dtn_ethosu_weights_t *s, dtn_ethosu_numbers_t *numbers, const uint32_t *chunk, uint32_t count)
{
    for (uint32_t i = 0; i < count && numbers->read < numbers->total; i++) {
        uint32_t rest = read_bits(s, numbers->divisor);
        numbers->waiting[numbers->read++ % DTN_ETHOSU_WAITING] = (chunk[i] << numbers->divisor) + rest;
    }
}

/* Reads the unary parts of the next chunk and the remainders of the last; false if there is neither. */
static bool read_chunk(dtn_ethosu_weights_t *s)
{
    dtn_ethosu_numbers_t *weights = &s->weights;
    dtn_ethosu_numbers_t *runs = &s->runs;
    uint32_t old_weights[DTN_ETHOSU_CHUNK];
    uint32_t old_runs[DTN_ETHOSU_CHUNK];
    uint32_t weight_count = weights->has_chunk ? weights->chunk_count : 0;
    uint32_t run_count = runs->has_chunk ? runs->chunk_count : 0;
    bool had_chunk = weights->has_chunk || runs->has_chunk;
    memcpy(old_weights, weights->chunk, sizeof old_weights);
    memcpy(old_runs, runs->chunk, sizeof old_runs);
    int32_t balance = s->has_zeros ? (int32_t)weights->started - (int32_t)runs->started : 0;
    weights->has_chunk = balance < AHEAD && weights->started < weights->total;
    runs->has_chunk = s->has_zeros && balance >= 0 && runs->started < runs->total;
    uint32_t first = weights->has_chunk && !s->is_plain ? read_bits(s, DTN_ETHOSU_CHUNK) : 0;
    if (runs->has_chunk) {
        start_runs(s);
    }
    if (weights->has_chunk) {
        start_weights(s, first);
    }
    finish(s, weights, old_weights, weight_count);
    finish(s, runs, old_runs, run_count);
    return had_chunk || weights->has_chunk || runs->has_chunk;
}

/* Returns the next number in `value`; reads chunks until it is available. */
static bool next(dtn_ethosu_weights_t *s, dtn_ethosu_numbers_t *numbers, uint32_t *value)
{
    while (numbers->taken == numbers->read) {
        if (s->is_broken || !read_chunk(s)) {
            s->is_broken = true;
            return false;
        }
    }
    *value = numbers->waiting[numbers->taken++ % DTN_ETHOSU_WAITING];
    return true;
}

/* ---- Weights ---- */

static bool next_slice(dtn_ethosu_weights_t *s)
{
    while (!s->is_broken && (s->weights.has_chunk || s->runs.has_chunk)) {
        (void)read_chunk(s);
    }
    if (!s->is_broken) {
        read_header(s);
    }
    return !s->is_broken;
}

static bool next_weight(dtn_ethosu_weights_t *s, int16_t *weight)
{
    uint32_t number = 0;
    if (!next(s, &s->weights, &number)) {
        return false;
    }
    uint32_t value = number < s->palette_size ? s->palette[number] : number - s->palette_size + s->offset;
    if (value > LARGEST) {
        s->is_broken = true;
        return false;
    }
    int16_t magnitude = (int16_t)(value >> 1);
    *weight = (value & 1U) != 0 ? (int16_t)-magnitude : magnitude;
    s->zeros_are_next = s->has_zeros;
    return true;
}

void dtn_ethosu_weights_start(dtn_ethosu_weights_t *stream, const uint8_t *bytes, size_t length)
{
    *stream = (dtn_ethosu_weights_t){.bytes = bytes, .length = length};
}

bool dtn_ethosu_weights_read(dtn_ethosu_weights_t *s, int16_t *weights, size_t count)
{
    for (size_t i = 0; i < count;) {
        if (s->zeros > 0) {
            size_t zeros = s->zeros < count - i ? s->zeros : count - i;
            memset(weights + i, 0, zeros * sizeof *weights);
            s->zeros -= (uint32_t)zeros;
            i += zeros;
        } else if (s->zeros_are_next) {
            s->zeros_are_next = false;
            if (!next(s, &s->runs, &s->zeros)) {
                return false;
            }
        } else if (s->weights.taken < s->weights.total) {
            if (!next_weight(s, &weights[i])) {
                return false;
            }
            i++;
        } else if (!next_slice(s)) {
            return false;
        }
    }
    return true;
}
