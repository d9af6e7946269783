/**
 * @file
 * Weights of four bits, two in a byte.
 *
 * Rows of weights are in pairs. A byte of a pair of rows w and v, taken as an int8, is w[k] + 16 * v[k]. Behind the
 * last of an odd number of rows is a row of zeros. So a packed row is a row of int8 weights itself. The inner loops
 * multiply it as it is, for the sum b. They multiply w, shifted to the upper half of the byte, for the sum a:
 *
 *   a = 16 * sum(x * w),    b = sum(x * w) + 16 * sum(x * v)
 *
 * Any byte is valid: w is from -8 to 7, v from -8 to 8. With DTN_CM_MAX_PRODUCTS products of numbers below 256, both
 * sums fit 32 bits.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Rows in a packed row. */
enum { DTN_CM_PACKED = 2 };

/** Packed rows of so many rows. */
static inline size_t dtn_cm_packed_rows(size_t rows)
{
    return (rows + 1) / DTN_CM_PACKED;
}

/** The weight of the second row in a byte. */
static inline int32_t dtn_cm_second_weight(int8_t byte)
{
    return (byte + 8) >> 4;
}

/** The weight of the first row in a byte. */
static inline int32_t dtn_cm_first_weight(int8_t byte)
{
    return byte - 16 * dtn_cm_second_weight(byte);
}

/** The sum of the first row, of the sum a. */
static inline uint32_t dtn_cm_first_sum(uint32_t a)
{
    return (uint32_t)((int32_t)a >> 4);
}

/** The sum of the second row, of both sums. */
static inline uint32_t dtn_cm_second_sum(uint32_t a, uint32_t b)
{
    return dtn_cm_first_sum(b - dtn_cm_first_sum(a));
}

/** Unpacks `count` bytes of a packed row to its two rows. Four bytes at a time, without carries between them. */
static inline void dtn_cm_unpack_weights(const int8_t *packed, size_t count, int8_t *first, int8_t *second)
{
    size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        uint32_t bytes;
        memcpy(&bytes, packed + i, sizeof bytes);
        /* Weights plus 8 lie in half bytes. Added to 120, they are weights plus 128, whose top bit is then flipped. */
        uint32_t low = (bytes & UINT32_C(0x0F0F0F0F)) ^ UINT32_C(0x08080808);
        uint32_t high =
            ((bytes ^ UINT32_C(0x80808080)) >> 4 & UINT32_C(0x0F0F0F0F)) + (bytes >> 3 & UINT32_C(0x01010101));
        low = (low + UINT32_C(0x78787878)) ^ UINT32_C(0x80808080);
        high = (high + UINT32_C(0x78787878)) ^ UINT32_C(0x80808080);
        memcpy(first + i, &low, sizeof low);
        memcpy(second + i, &high, sizeof high);
    }
    for (; i < count; i++) {
        first[i] = (int8_t)dtn_cm_first_weight(packed[i]);
        second[i] = (int8_t)dtn_cm_second_weight(packed[i]);
    }
}
