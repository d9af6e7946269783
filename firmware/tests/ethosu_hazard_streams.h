/**
 * @file
 * Streams for tests of the hazard check: sums and copies, and their expected hazards.
 */
#pragma once

#include "deuteron/ethosu_watch.h"
#include "ethosu_stream.h"

/** Maps of 4 x 2 x 16 bytes, in blocks of a row; tables; and where commands begin in the stream's words. */
enum { MAP_BYTES = 128, ROW = 32, TABLE_BYTES = 256, HEADER_WORDS = 8, OP_DMA_WAIT = 0x011, OP_KERNEL_WAIT = 0x012 };
enum { SOURCE_AT = 0x100, INPUT_AT = 0x1000, SHRAM_SIDE = 1 << 8 };

/** A hazard that a stream must have, and the offset of its command. */
typedef struct {
    uint32_t command;
    dtn_ethosu_hazard_t hazard;
} expected_t;

/** Starts a stream of sums of the input and itself, of 4 x 2 x 16 values; only the input's and the output's base are
 * still to be set. */
void new_sums(stream_t *stream, const char *config, uint64_t *state);

/** Each appends a command and returns its offset. */
uint32_t command(stream_t *stream, uint32_t opcode, uint32_t param);
uint32_t sum(stream_t *stream, uint32_t from, uint32_t to);
uint32_t copy(stream_t *stream, uint32_t from_region, uint32_t from, uint32_t to_region, uint32_t to);

/** Ends the stream, whose input is at INPUT_AT, watches it, and compares all hazards with the `count` that are
 * expected. */
void check_hazards(stream_t *stream, const expected_t *expected, size_t count);

#define NONE(stream) check_hazards(stream, NULL, 0)
#define ONE(stream, at_command, ...)                                                                                   \
    check_hazards(stream, &(expected_t){at_command, (dtn_ethosu_hazard_t){__VA_ARGS__}}, 1)
