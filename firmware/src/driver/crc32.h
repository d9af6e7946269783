/**
 * @file
 * The checksum of microcode, weights and bundles.
 */
#ifndef DTN_CRC32_H
#define DTN_CRC32_H

#include <stddef.h>
#include <stdint.h>

/** CRC-32 (IEEE 802.3) of `crc`'s data followed by `size` bytes; start with 0. */
uint32_t dtn_crc32(uint32_t crc, const void *data, size_t size);

#endif /* DTN_CRC32_H */
