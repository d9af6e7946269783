/**
 * @file
 * The checksum of microcode, weights, constants, bundles and profile packets.
 */
#ifndef DEUTERON_CRC32_H
#define DEUTERON_CRC32_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Table of the default `dtn_crc32`. 0 (default): 64 bytes, two steps per byte. 1: 1 KiB, one step per byte. */
#ifndef DTN_CRC_TABLE
#define DTN_CRC_TABLE 0
#endif

/**
 * CRC-32 of IEEE 802.3, as in zlib and PNG: polynomial 0x04C11DB7, input and output reflected, initial value and
 * final XOR 0xFFFFFFFF.
 *
 * The default is weak: a port whose chip has a CRC unit may define its own. It must be linked as an object, or from an
 * archive before this library with `-Wl,-u,dtn_crc32` before that; otherwise a linker silently keeps the weak default
 * (`deuteron kernels show app.elf --check-override dtn_crc32`). Several threads may call it at once.
 *
 * @param crc 0, or the CRC of the bytes before these.
 * @return the CRC of all bytes so far; `crc` for a size of 0.
 */
uint32_t dtn_crc32(uint32_t crc, const void *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* DEUTERON_CRC32_H */
