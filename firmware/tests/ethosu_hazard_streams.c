#include "ethosu_hazard_streams.h"

#include <stdlib.h>

#include "test.h"

void new_sums(stream_t *stream, const char *config, uint64_t *state)
{
    test_map_t map = {1, 0, 4, 2, 16, 1, true, false, 0};
    stream_new(stream, config, state);
    stream_short(stream, REG_OFM_HEIGHT_M1, 3);
    stream_short(stream, REG_OFM_WIDTH_M1, 1);
    stream_short(stream, REG_OFM_DEPTH_M1, 15);
    stream_short(stream, REG_OFM_BLK_HEIGHT_M1, 0);
    stream_short(stream, REG_OFM_BLK_WIDTH_M1, 1);
    stream_short(stream, REG_OFM_BLK_DEPTH_M1, 15);
    stream_short(stream, REG_IFM_UPSCALE, 0);
    stream_map(stream, &dtn_ethosu_ifm_registers, &map, 0);
    stream_map(stream, &dtn_ethosu_ofm_registers, &map, 1U << 8);
    stream_short(stream, REG_IFM2_PRECISION, 1);
    stream_short(stream, REG_IFM2_ZERO_POINT, 0);
    stream_short(stream, REG_IFM2_BROADCAST, 1U << 7);
    stream_short(stream, REG_IFM2_SCALAR, 1);
    stream_short(stream, REG_ACTIVATION, 0);
    stream_short(stream, REG_ACTIVATION_MIN, 0xFF80);
    stream_short(stream, REG_ACTIVATION_MAX, 0x7F);
    stream_long(stream, REG_OFM_SCALE, 1);
    stream_long(stream, REG_OPA_SCALE, 1);
    stream_long(stream, REG_OPB_SCALE, 1);
    stream_short(stream, REG_BLOCKDEP, 3);
    stream_short(stream, REG_IFM_IB_END, (uint32_t)stream->config->shram_bytes / 1024 - 2);
    stream_short(stream, REG_AB_START, (uint32_t)stream->config->shram_bytes / 1024 - 2);
    stream_short(stream, REG_ACC_FORMAT, 0);
    stream_long(stream, REG_DMA0_LEN, MAP_BYTES);
}

uint32_t command(stream_t *stream, uint32_t opcode, uint32_t param)
{
    stream_op(stream, opcode, param);
    return (uint32_t)(stream->count - 1 - HEADER_WORDS) * 4;
}

uint32_t sum(stream_t *stream, uint32_t from, uint32_t to)
{
    stream_long(stream, REG_IFM_BASE0, from);
    stream_long(stream, REG_OFM_BASE0, to);
    return command(stream, DTN_ETHOSU_OP_ELEMENTWISE, 1);
}

uint32_t copy(stream_t *stream, uint32_t from_region, uint32_t from, uint32_t to_region, uint32_t to)
{
    stream_short(stream, REG_DMA0_SRC_REGION, from_region);
    stream_long(stream, REG_DMA0_SRC, from);
    stream_short(stream, REG_DMA0_DST_REGION, to_region);
    stream_long(stream, REG_DMA0_DST, to);
    return command(stream, DTN_ETHOSU_OP_DMA_START, 0);
}

void check_hazards(stream_t *stream, const expected_t *expected, size_t count)
{
    stream_op(stream, DTN_ETHOSU_OP_STOP, 0xFFFF);
    stream->words[HEADER_WORDS - 1] = 2U | (uint32_t)(stream->count - HEADER_WORDS) << 16;
    size_t bytes = dtn_ethosu_watch_bytes(stream->config, &stream->memory);
    void *place = malloc(bytes);
    dtn_ethosu_seen_t seen = {.count = 0};
    size_t found = 0;
    if (place == NULL) {
        abort();
    }
    CHECK_EQUAL(dtn_ethosu_watch_start(place, bytes, stream->config, stream->words, stream->count * sizeof(uint32_t),
                                       &stream->memory),
                DTN_ETHOSU_OK);
    CHECK(dtn_ethosu_watch_input((dtn_ethosu_watch_t *)place, 1, INPUT_AT, MAP_BYTES), "no place for the input");
    dtn_ethosu_fault_t fault = DTN_ETHOSU_OK;
    do {
        fault = dtn_ethosu_watch_step((dtn_ethosu_watch_t *)place, &seen);
        for (uint32_t i = 0; i < seen.count; i++, found++) {
            const dtn_ethosu_hazard_t *is = &seen.hazards[i];
            const dtn_ethosu_hazard_t *must = found < count ? &expected[found].hazard : is;
            CHECK(found < count, "`%s` at 0x%x, part %u, byte 0x%x, is one too many",
                  dtn_ethosu_hazard_message((dtn_ethosu_hazard_kind_t)is->kind), seen.event.offset, is->part,
                  (unsigned)is->at);
            CHECK(found >= count || expected[found].command == seen.event.offset, "hazard %zu is at 0x%x", found,
                  seen.event.offset);
            CHECK_EQUAL(is->kind, must->kind);
            CHECK_EQUAL(is->part, must->part);
            CHECK_EQUAL(is->fault, must->fault);
            CHECK_EQUAL(is->region, must->region);
            CHECK_EQUAL(is->other, must->other);
            CHECK_EQUAL(is->other_writes, must->other_writes);
            CHECK_EQUAL(is->at, must->at);
        }
    } while (fault == DTN_ETHOSU_OK && seen.event.opcode != DTN_ETHOSU_OP_STOP);
    CHECK_EQUAL(found, count);
    free(place);
    stream_free(stream);
}
