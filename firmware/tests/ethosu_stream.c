#include "ethosu_stream.h"
#include "../src/ethosu/feature_map.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

/* Words of a driver's header: magic, configuration, its two words, two of padding until the commands start aligned, and
 * the length of the commands. */
enum { HEADER_WORDS = 8, LENGTH_AT = 7, PRODUCT_AT = 2 };

static void *block(stream_t *stream, size_t index, size_t bytes)
{
    stream->blocks[index] = malloc(bytes + 15);
    if (stream->blocks[index] == NULL) {
        abort();
    }
    uintptr_t at = (uintptr_t)stream->blocks[index];
    /* The end is where the allocation ends, for tools that watch over it: sizes are multiples of 16. */
    return (uint8_t *)stream->blocks[index] + (16 - at % 16) % 16;
}

void stream_new(stream_t *stream, const char *config, uint64_t *state)
{
    memset(stream, 0, sizeof *stream);
    stream->config = dtn_ethosu_config(config);
    stream->words = (uint32_t *)block(stream, 0, STREAM_WORDS * sizeof(uint32_t));
    for (size_t i = 0; i < 2; i++) {
        dtn_ethosu_region_t *region = &stream->memory.regions[i];
        *region = (dtn_ethosu_region_t){(uint8_t *)block(stream, 1 + i, STREAM_MEMORY), STREAM_MEMORY, i == 0};
        for (size_t at = 0; at < STREAM_MEMORY; at++) {
            region->data[at] = (uint8_t)test_random(state);
        }
    }
    stream->memory.shram = (uint8_t *)block(stream, 3, STREAM_SHRAM);
    stream->memory.shram_bytes = STREAM_SHRAM;
    memset(stream->memory.shram, 0, STREAM_SHRAM);
    const uint32_t header[HEADER_WORDS] = {0x31504F43, 1, stream->config->word, 0, 5, 5, 5, 2};
    memcpy(stream->words, header, sizeof header);
    stream->count = HEADER_WORDS;
}

void stream_free(stream_t *stream)
{
    for (size_t i = 0; i < sizeof stream->blocks / sizeof stream->blocks[0]; i++) {
        free(stream->blocks[i]);
    }
}

static void append(stream_t *stream, uint32_t word)
{
    if (stream->count == STREAM_WORDS) {
        abort();
    }
    stream->words[stream->count++] = word;
}

void stream_short(stream_t *stream, uint32_t opcode, uint32_t value)
{
    append(stream, opcode | (value & 0xFFFFU) << 16);
}

void stream_long(stream_t *stream, uint32_t opcode, uint64_t value)
{
    append(stream, opcode | 1U << 14 | (uint32_t)(value >> 32 & 0xFFFFU) << 16);
    append(stream, (uint32_t)value);
}

void stream_op(stream_t *stream, uint32_t opcode, uint32_t param)
{
    stream_short(stream, opcode, param);
}

static int64_t row_bytes(const test_map_t *map)
{
    int64_t bricks = (map->depth + 15) / 16;
    return map->width * (map->is_bricks ? 16 * bricks : map->depth) * (int64_t)map->bytes;
}

void stream_map(stream_t *stream, const dtn_ethosu_map_registers_t *registers, const test_map_t *map, uint32_t extra)
{
    uint32_t size = map->bytes == 8 ? 3 : map->bytes == 4 ? 2 : map->bytes - 1;
    uint32_t size_at = registers->precision == REG_OFM_PRECISION ? 1 : 2;
    int64_t element = (int64_t)map->bytes;
    for (uint16_t i = 0; i < 4; i++) {
        stream_long(stream, (uint32_t)registers->base + i, i == 0 ? map->base : 0);
    }
    stream_long(stream, registers->stride, (uint64_t)((map->is_bricks ? 16 : map->depth) * element));
    stream_long(stream, (uint32_t)registers->stride + 1, (uint64_t)row_bytes(map));
    stream_long(stream, (uint32_t)registers->stride + 2,
                (uint64_t)(map->is_bricks ? 16 * map->width * element : element));
    stream_short(stream, registers->region, map->region);
    stream_short(stream, registers->width0, (uint32_t)map->width - 1);
    stream_short(stream, registers->height0, (uint32_t)map->height - 1);
    stream_short(stream, registers->height1, (uint32_t)map->height - 1);
    stream_short(stream, registers->zero_point, (uint32_t)map->zero_point);
    stream_short(stream, registers->precision,
                 (map->is_signed ? 1U : 0U) | size << size_at | (map->is_bricks ? 1U << 6 : 0U) | extra);
}

size_t stream_end(stream_t *stream)
{
    stream_op(stream, DTN_ETHOSU_OP_STOP, 0xFFFF);
    stream->words[LENGTH_AT] = 2U | (uint32_t)(stream->count - HEADER_WORDS) << 16;
    return stream->count * sizeof(uint32_t);
}

dtn_ethosu_fault_t stream_run(stream_t *stream, dtn_ethosu_event_t *event)
{
    dtn_ethosu_t machine;
    size_t bytes = stream_end(stream);
    dtn_ethosu_fault_t fault = dtn_ethosu_check(&machine, stream->config, stream->words, bytes, &stream->memory, event);
    free(stream->blocks[4]);
    stream->memory.workspace = (uint8_t *)block(stream, 4, stream->memory.workspace_bytes);
    if (fault == DTN_ETHOSU_OK) {
        fault = dtn_ethosu_start(&machine, stream->config, stream->words, bytes, &stream->memory);
    }
    return fault == DTN_ETHOSU_OK ? dtn_ethosu_run(&machine, event) : fault;
}

size_t map_offset(const test_map_t *map, int32_t y, int32_t x, int32_t c)
{
    int64_t bytes = (int64_t)map->bytes;
    int64_t at = y * row_bytes(map);
    at += map->is_bricks ? (c / 16 * map->width * 16 + x * 16 + c % 16) * bytes : (x * map->depth + c) * bytes;
    return map->base + (size_t)at;
}

size_t map_end(const test_map_t *map)
{
    return map_offset(map, map->height - 1, map->width - 1, map->depth - 1) + map->bytes;
}

int64_t map_stored(const stream_t *stream, const test_map_t *map, int32_t y, int32_t x, int32_t c)
{
    const uint8_t *at = stream->memory.regions[map->region].data + map_offset(map, y, x, c);
    uint64_t value = 0;
    for (uint32_t i = 0; i < map->bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    bool is_signed = map->is_signed || map->bytes >= 4;
    uint64_t sign = is_signed ? UINT64_C(1) << (8 * map->bytes - 1) : 0;
    return (int64_t)((value ^ sign) - sign);
}

int32_t map_value(const stream_t *stream, const test_map_t *map, int32_t y, int32_t x, int32_t c)
{
    return (int32_t)map_stored(stream, map, y, x, c) - map->zero_point;
}

void put_bits(bits_t *bits, uint32_t value, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++, bits->at++) {
        if (bits->at % 8 == 0) {
            bits->bytes[bits->at / 8] = 0;
        }
        bits->bytes[bits->at / 8] |= (uint8_t)((value >> i & 1U) << (bits->at % 8));
    }
}

void each_seed(int count, char **arguments, void (*run)(uint64_t *state))
{
    const uint64_t calls = count > 1 ? strtoull(arguments[1], NULL, 10) : 200;
    const uint64_t first = count > 2 ? strtoull(arguments[2], NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + calls; seed++) {
        uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
        const int before = test_failures;
        run(&state);
        if (test_failures != before) {
            printf("seed %" PRIu64 "\n", seed);
            return;
        }
    }
}
