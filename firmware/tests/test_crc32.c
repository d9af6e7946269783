/* The CRC of either table, or of a port's own unit, is that of IEEE 802.3. */
#include <string.h>

#include "deuteron/crc32.h"
#include "test.h"

/* Bit by bit, as the polynomial says. */
static uint32_t slow(const uint8_t *bytes, size_t size)
{
    uint32_t crc = 0xFFFFFFFFU;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0);
        }
    }
    return ~crc;
}

int main(void)
{
    uint8_t bytes[600];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i < 256 ? i : i * i + 7 * i); /* each byte at least once */
    }
    CHECK_EQUAL(dtn_crc32(0, "123456789", 9), 0xCBF43926);
    CHECK_EQUAL(dtn_crc32(0, NULL, 0), 0);
    for (size_t size = 0; size <= sizeof bytes; size += 37) {
        CHECK_EQUAL(dtn_crc32(0, bytes, size), slow(bytes, size));
        CHECK_EQUAL(dtn_crc32(dtn_crc32(0, bytes, size), bytes + size, sizeof bytes - size), slow(bytes, sizeof bytes));
    }
    return test_result();
}
