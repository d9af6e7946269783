#include "deuteron/crc32.h"

/* This file has no other definition: an override must not pull in a second one. */

#if DTN_CRC_TABLE
/* The remainder of a byte is the XOR of the remainders of its bits. */
#define BIT(byte, bit, remainder) (((byte) >> (bit) & 1U) != 0 ? UINT32_C(remainder) : 0)
#define BYTE(byte)                                                                                                     \
    (BIT(byte, 0, 0x77073096) ^ BIT(byte, 1, 0xEE0E612C) ^ BIT(byte, 2, 0x076DC419) ^ BIT(byte, 3, 0x0EDB8832) ^       \
     BIT(byte, 4, 0x1DB71064) ^ BIT(byte, 5, 0x3B6E20C8) ^ BIT(byte, 6, 0x76DC4190) ^ BIT(byte, 7, 0xEDB88320))
#define BYTES4(byte) BYTE(byte), BYTE((byte) + 1), BYTE((byte) + 2), BYTE((byte) + 3)
#define BYTES16(byte) BYTES4(byte), BYTES4((byte) + 4), BYTES4((byte) + 8), BYTES4((byte) + 12)
#define BYTES64(byte) BYTES16(byte), BYTES16((byte) + 16), BYTES16((byte) + 32), BYTES16((byte) + 48)

static const uint32_t remainders[256] = {BYTES64(0U), BYTES64(64U), BYTES64(128U), BYTES64(192U)};

static uint32_t next(uint32_t crc, uint8_t byte)
{
    return remainders[(crc ^ byte) & 0xFFU] ^ (crc >> 8);
}
#else
/* Half a byte per step. */
static const uint32_t remainders[16] = {
    0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U, 0x4DB26158U, 0x5005713CU,
    0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU, 0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU,
};

static uint32_t next(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    crc = remainders[crc & 0xFU] ^ (crc >> 4);
    return remainders[crc & 0xFU] ^ (crc >> 4);
}
#endif

__attribute__((weak)) uint32_t dtn_crc32(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc = next(crc, bytes[i]);
    }
    return ~crc;
}
