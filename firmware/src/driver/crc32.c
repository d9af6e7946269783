#include "crc32.h"

/* Half a byte per step: 64 bytes of table, against 1 KiB for a whole one. */
static const uint32_t remainders[16] = {
    0x00000000U, 0x1DB71064U, 0x3B6E20C8U, 0x26D930ACU, 0x76DC4190U, 0x6B6B51F4U, 0x4DB26158U, 0x5005713CU,
    0xEDB88320U, 0xF00F9344U, 0xD6D6A3E8U, 0xCB61B38CU, 0x9B64C2B0U, 0x86D3D2D4U, 0xA00AE278U, 0xBDBDF21CU,
};

uint32_t dtn_crc32(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = remainders[crc & 0xFU] ^ (crc >> 4);
        crc = remainders[crc & 0xFU] ^ (crc >> 4);
    }
    return ~crc;
}
