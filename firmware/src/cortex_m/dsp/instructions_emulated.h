/**
 * @file
 * The instructions of instructions_dsp.h in portable C.
 */
#pragma once

#include <stdint.h>

static inline uint32_t dtn_dsp_pack(int32_t lower, int32_t upper)
{
    return ((uint32_t)lower & 0xFFFFU) | (uint32_t)upper << 16;
}

static inline int32_t dtn_dsp_low(uint32_t halves)
{
    return (int16_t)(uint16_t)halves;
}

static inline int32_t dtn_dsp_high(uint32_t halves)
{
    return (int16_t)(uint16_t)(halves >> 16);
}

static inline void dtn_dsp_store_two(uint32_t first, uint32_t second, uint32_t words[2])
{
    words[0] = first;
    words[1] = second;
}

#define DTN_DSP_STORE_PAIR(pairs, index, first, second) dtn_dsp_store_two(first, second, (pairs)[index])

static inline uint32_t dtn_dsp_even(uint32_t bytes)
{
    return dtn_dsp_pack((int8_t)(uint8_t)bytes, (int8_t)(uint8_t)(bytes >> 16));
}

static inline uint32_t dtn_dsp_odd(uint32_t bytes)
{
    return dtn_dsp_even(bytes >> 8);
}

static inline uint32_t dtn_dsp_add_even(uint32_t addends, uint32_t bytes)
{
    uint32_t halves = dtn_dsp_even(bytes);
    return dtn_dsp_pack(dtn_dsp_low(addends) + dtn_dsp_low(halves), dtn_dsp_high(addends) + dtn_dsp_high(halves));
}

static inline uint32_t dtn_dsp_add_odd(uint32_t addends, uint32_t bytes)
{
    return dtn_dsp_add_even(addends, bytes >> 8);
}

static inline uint32_t dtn_dsp_add_halves(uint32_t x, uint32_t y)
{
    return dtn_dsp_pack(dtn_dsp_low(x) + dtn_dsp_low(y), dtn_dsp_high(x) + dtn_dsp_high(y));
}

static inline uint32_t dtn_dsp_subtract_halves(uint32_t x, uint32_t y)
{
    return dtn_dsp_pack(dtn_dsp_low(x) - dtn_dsp_low(y), dtn_dsp_high(x) - dtn_dsp_high(y));
}

static inline uint32_t dtn_dsp_pack_lower(uint32_t x, uint32_t y)
{
    return (x & 0xFFFFU) | y << 16;
}

static inline uint32_t dtn_dsp_pack_upper(uint32_t x, uint32_t y)
{
    return x >> 16 | (y & UINT32_C(0xFFFF0000));
}

static inline uint32_t dtn_dsp_lower(uint32_t x, uint32_t y, uint32_t sum)
{
    return sum + (uint32_t)(dtn_dsp_low(x) * dtn_dsp_low(y));
}

static inline uint32_t dtn_dsp_upper(uint32_t x, uint32_t y, uint32_t sum)
{
    return sum + (uint32_t)(dtn_dsp_high(x) * dtn_dsp_high(y));
}

static inline uint32_t dtn_dsp_lower_upper(uint32_t x, uint32_t y, uint32_t sum)
{
    return sum + (uint32_t)(dtn_dsp_low(x) * dtn_dsp_high(y));
}

static inline uint32_t dtn_dsp_both(uint32_t x, uint32_t y, uint32_t sum)
{
    return dtn_dsp_upper(x, y, dtn_dsp_lower(x, y, sum));
}

static inline int32_t dtn_dsp_half_s8(int32_t number)
{
    int32_t half = number >> 1; /* all compilers that we know shift the sign in */
    return half < INT8_MIN ? INT8_MIN : half > INT8_MAX ? INT8_MAX : half;
}

static inline int32_t dtn_dsp_s8(int32_t number)
{
    return number < INT8_MIN ? INT8_MIN : number > INT8_MAX ? INT8_MAX : number;
}

static inline int32_t dtn_dsp_s16(int32_t number)
{
    return number < INT16_MIN ? INT16_MIN : number > INT16_MAX ? INT16_MAX : number;
}

static inline int32_t dtn_dsp_u15(int32_t number)
{
    return number < 0 ? 0 : number > INT16_MAX ? INT16_MAX : number;
}

static inline uint32_t dtn_dsp_add_distances(uint32_t x, uint32_t y, uint32_t sum)
{
    for (uint32_t i = 0; i < 32; i += 8) {
        uint32_t a = x >> i & 0xFFU;
        uint32_t b = y >> i & 0xFFU;
        sum += a < b ? b - a : a - b;
    }
    return sum;
}

static inline void dtn_dsp_add_long(int32_t x, int32_t y, uint32_t *low, uint32_t *high)
{
    uint64_t sum = ((uint64_t)*high << 32 | *low) + (uint64_t)((int64_t)x * y);
    *low = (uint32_t)sum;
    *high = (uint32_t)(sum >> 32);
}

static inline void dtn_dsp_next_two(const uint32_t **words, uint32_t *first, uint32_t *second)
{
    *first = (*words)[0];
    *second = (*words)[1];
    *words += 2;
}

static inline int32_t dtn_dsp_plus_product(int32_t x, int32_t y, int32_t sum)
{
    return x * y + sum;
}

static inline int32_t dtn_dsp_top(int32_t x, int32_t y)
{
    return (int32_t)(((int64_t)x * y + (INT64_C(1) << 31)) >> 32);
}
