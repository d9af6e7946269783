/**
 * @file
 * The DSP instructions of Armv7E-M and Armv8-M that the files of this directory use. Other processors compute the same
 * in C (instructions_emulated.h), so that tests, sanitizers and fuzzers see these files.
 *
 * Assembler, since ACLE's functions have no rotation of the extended number, and GCC adds it as one more instruction.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Four bytes that start anywhere; the first is the lowest. */
static inline uint32_t dtn_dsp_load(const void *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

#if defined(__ARM_FEATURE_DSP)

/** Stores two words with one instruction, which GCC does not generate. */
static inline void dtn_dsp_store_two(uint32_t first, uint32_t second, uint32_t words[2])
{
    struct {
        uint32_t words[2];
    } *const both = (void *)words;
    /* Uv: a register with a small offset, as the instruction requires. */
    __asm__("strd %1, %2, %0" : "=Uv"(*both) : "r"(first), "r"(second));
}

/** Stores two words at once as pair `index`, a constant, of some pairs. */
#define DTN_DSP_STORE_PAIR(pairs, index, first, second)                                                                \
    __asm__ volatile("strd %1, %2, [%0, %3]" : : "r"(pairs), "r"(first), "r"(second), "i"(8 * (index)) : "memory")

/** Bytes 0 and 2, with their signs, as the lower and the upper half. */
static inline uint32_t dtn_dsp_even(uint32_t bytes)
{
    uint32_t halves;
    __asm__("sxtb16 %0, %1" : "=r"(halves) : "r"(bytes));
    return halves;
}

/** Bytes 1 and 3. */
static inline uint32_t dtn_dsp_odd(uint32_t bytes)
{
    uint32_t halves;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(halves) : "r"(bytes));
    return halves;
}

/** Bytes 0 and 2 with two halves added to them. */
static inline uint32_t dtn_dsp_add_even(uint32_t addends, uint32_t bytes)
{
    uint32_t halves;
    __asm__("sxtab16 %0, %1, %2" : "=r"(halves) : "r"(addends), "r"(bytes));
    return halves;
}

/** Bytes 1 and 3. */
static inline uint32_t dtn_dsp_add_odd(uint32_t addends, uint32_t bytes)
{
    uint32_t halves;
    __asm__("sxtab16 %0, %1, %2, ror #8" : "=r"(halves) : "r"(addends), "r"(bytes));
    return halves;
}

/** The sums of both halves, of which each keeps its low 16 bits. */
static inline uint32_t dtn_dsp_add_halves(uint32_t x, uint32_t y)
{
    uint32_t halves;
    __asm__("sadd16 %0, %1, %2" : "=r"(halves) : "r"(x), "r"(y));
    return halves;
}

/** The differences of both halves. */
static inline uint32_t dtn_dsp_subtract_halves(uint32_t x, uint32_t y)
{
    uint32_t halves;
    __asm__("ssub16 %0, %1, %2" : "=r"(halves) : "r"(x), "r"(y));
    return halves;
}

/** The lower half of x, and that of y as the upper half. */
static inline uint32_t dtn_dsp_pack_lower(uint32_t x, uint32_t y)
{
    uint32_t halves;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(halves) : "r"(x), "r"(y));
    return halves;
}

/** The upper half of x as the lower half, and that of y. */
static inline uint32_t dtn_dsp_pack_upper(uint32_t x, uint32_t y)
{
    uint32_t halves;
    __asm__("pkhtb %0, %1, %2, asr #16" : "=r"(halves) : "r"(y), "r"(x));
    return halves;
}

/** A sum and the products of both halves. */
static inline uint32_t dtn_dsp_both(uint32_t x, uint32_t y, uint32_t sum)
{
    __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(y));
    return sum;
}

/** A sum and the product of the lower halves. */
static inline uint32_t dtn_dsp_lower(uint32_t x, uint32_t y, uint32_t sum)
{
    __asm__("smlabb %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(y));
    return sum;
}

/** A sum and the product of the upper halves. */
static inline uint32_t dtn_dsp_upper(uint32_t x, uint32_t y, uint32_t sum)
{
    __asm__("smlatt %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(y));
    return sum;
}

/** A sum and the product of the lower half of x and the upper half of y. */
static inline uint32_t dtn_dsp_lower_upper(uint32_t x, uint32_t y, uint32_t sum)
{
    __asm__("smlabt %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(y));
    return sum;
}

/** Half of a number, rounded down, or the int8 that is closest to it. */
static inline int32_t dtn_dsp_half_s8(int32_t number)
{
    int32_t half;
    __asm__("ssat %0, #8, %1, asr #1" : "=r"(half) : "r"(number));
    return half;
}

/** The int8 that is closest to a number. */
static inline int32_t dtn_dsp_s8(int32_t number)
{
    int32_t closest;
    __asm__("ssat %0, #8, %1" : "=r"(closest) : "r"(number));
    return closest;
}

/** The int16 that is closest to a number. */
static inline int32_t dtn_dsp_s16(int32_t number)
{
    int32_t closest;
    __asm__("ssat %0, #16, %1" : "=r"(closest) : "r"(number));
    return closest;
}

/** The number from 0 to 2^15 - 1 that is closest to a number. */
static inline int32_t dtn_dsp_u15(int32_t number)
{
    int32_t closest;
    __asm__("usat %0, #15, %1" : "=r"(closest) : "r"(number));
    return closest;
}

/** A sum and the distances of four pairs of unsigned bytes. */
static inline uint32_t dtn_dsp_add_distances(uint32_t x, uint32_t y, uint32_t sum)
{
    __asm__("usada8 %0, %1, %2, %0" : "+r"(sum) : "r"(x), "r"(y));
    return sum;
}

/** Adds a product to a number of 64 bits. */
static inline void dtn_dsp_add_long(int32_t x, int32_t y, uint32_t *low, uint32_t *high)
{
    __asm__("smlal %0, %1, %2, %3" : "+r"(*low), "+r"(*high) : "r"(x), "r"(y));
}

/** The next two words, at a multiple of 4. */
static inline void dtn_dsp_next_two(const uint32_t **words, uint32_t *first, uint32_t *second)
{
    __asm__("ldrd %0, %1, [%2], #8" : "=&r"(*first), "=&r"(*second), "+r"(*words) : : "memory");
}

/** A sum and a product, which GCC makes two instructions of where the sum is a constant. */
static inline int32_t dtn_dsp_plus_product(int32_t x, int32_t y, int32_t sum)
{
    int32_t total;
    __asm__("mla %0, %1, %2, %3" : "=r"(total) : "r"(x), "r"(y), "r"(sum));
    return total;
}

/** The upper 32 bits of a product, rounded. */
static inline int32_t dtn_dsp_top(int32_t x, int32_t y)
{
    int32_t top;
    __asm__("smmulr %0, %1, %2" : "=r"(top) : "r"(x), "r"(y));
    return top;
}

#else
#include "instructions_emulated.h"
#endif

/** A number as both halves. */
static inline uint32_t dtn_dsp_twice(int32_t number)
{
    return ((uint32_t)number & 0xFFFFU) | (uint32_t)number << 16;
}
