/**
 * @file
 * Command streams for tests: a driver's header, registers and operations, written one after the other.
 */
#pragma once

#include "../src/ethosu/feature_map.h"
#include "deuteron/ethosu.h"

enum { STREAM_WORDS = 1024, STREAM_MEMORY = 1 << 16, STREAM_SHRAM = 48 * 1024 };

/** A stream, the memory that it works on, and what it works with. */
typedef struct {
    const dtn_ethosu_config_t *config;
    uint32_t *words; /**< aligned to 16 */
    size_t count;
    dtn_ethosu_memory_t memory; /**< region 0 read only, region 1 not; each of STREAM_MEMORY bytes */
    void *blocks[5];
} stream_t;

/** A feature map as tests describe it: one tile. */
typedef struct {
    uint32_t region;
    uint32_t base;
    int32_t height, width, depth;
    uint32_t bytes;
    bool is_signed;
    bool is_bricks;
    int32_t zero_point;
} test_map_t;

/** An empty stream for a configuration, its memory filled with random bytes. */
void stream_new(stream_t *stream, const char *config, uint64_t *state);

/** Frees what stream_new allocated. */
void stream_free(stream_t *stream);

/** Appends a register of 16 bits, a register with a payload, or an operation. */
void stream_short(stream_t *stream, uint32_t opcode, uint32_t value);
void stream_long(stream_t *stream, uint32_t opcode, uint64_t value);
void stream_op(stream_t *stream, uint32_t opcode, uint32_t param);

/** Appends the registers of a map; `extra` are bits of the precision register besides type, size and format. */
void stream_map(stream_t *stream, const dtn_ethosu_map_registers_t *registers, const test_map_t *map, uint32_t extra);

/** Packed bits, the lowest first. */
typedef struct {
    uint8_t *bytes;
    size_t at;
} bits_t;

/** Appends `count` bits. */
void put_bits(bits_t *bits, uint32_t value, uint32_t count);

/** Ends the stream; the bytes of its command data. */
size_t stream_end(stream_t *stream);

/** Ends the stream and executes it, in a workspace of just the size that it needs; `event` is the last. */
dtn_ethosu_fault_t stream_run(stream_t *stream, dtn_ethosu_event_t *event);

/** The offset of an element in its region. */
size_t map_offset(const test_map_t *map, int32_t y, int32_t x, int32_t c);

/** Bytes of the region that a map ends at. */
size_t map_end(const test_map_t *map);

/** An element of a map of at most 32 bits, less its zero point. */
int32_t map_value(const stream_t *stream, const test_map_t *map, int32_t y, int32_t x, int32_t c);

/** An element of a map as it is stored. */
int64_t map_stored(const stream_t *stream, const test_map_t *map, int32_t y, int32_t x, int32_t c);

/** Calls `run` with a random state for each seed: `arguments` are how many, by default 200, and the first. It prints
 * the first seed that fails, and ends there. */
void each_seed(int count, char **arguments, void (*run)(uint64_t *state));
