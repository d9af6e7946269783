/**
 * @file
 * Weights whose rows are interleaved in pairs, as the inner loops of cores with DSP instructions read them.
 *
 * The rows v and w of two channels are words of four bytes v[a], w[a], v[b], w[b], one for each two elements a and b.
 * One instruction unpacks the two weights of v, and another those of w. The words of each four elements have 0 and 2,
 * then 1 and 3, as one instruction unpacks two of four inputs. The words of the last three have 0 and 2, then 1 and a
 * zero. The word of the last two has 0 and 1; that of the last one has it and a zero. Each row of a convolution's
 * kernel is such a row of elements.
 *
 * Weights of 16 bits need no unpacking. They have the same elements in the same order, but the four of such a word are
 * v[a], v[b], w[a], w[b].
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Words of a pair of rows. */
static inline size_t dtn_cm_interleaved_words(size_t elements)
{
    return (elements + 1) / 2;
}

/** The weight of element k of a pair's first row, `which` being 0, or of its second, 1. */
static inline int8_t dtn_cm_interleaved_weight(const int8_t *pair, size_t elements, size_t which, size_t k)
{
    const size_t four = k / 4 * 4;
    const size_t words = elements - four < 3 ? 1 : 2;
    return pair[2 * four + k % 4 % words * 4 + k % 4 / words * 2 + which];
}

/** The same of weights of 16 bits. */
static inline int16_t dtn_cm_interleaved_weight_s16(const int16_t *pair, size_t elements, size_t which, size_t k)
{
    const size_t four = k / 4 * 4;
    const size_t words = elements - four < 3 ? 1 : 2;
    return pair[2 * four + k % 4 % words * 4 + which * 2 + k % 4 / words];
}
