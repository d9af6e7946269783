/* Random copies of an Ethos-U85 against what they move, written plainly, and what is refused; arguments: how many, the
 * seed. */
#include <string.h>

#include "ethosu_85.h"
#include "test.h"

enum { IN_AT = 0x100, INDICES_AT = 0x3000 };

/* Planes of rows, one of whose sides may be found by indices of 32 bits with gaps between those of the planes. */
static void test_copy(uint64_t *state)
{
    stream_t stream;
    stream_new(&stream, u85_any_config(state), state);
    uint32_t way = (uint32_t)test_between(state, 0, 2), length = (uint32_t)test_between(state, 1, 20);
    uint32_t rows = (uint32_t)test_between(state, 1, 5), planes = (uint32_t)test_between(state, 1, 3), most = 6;
    uint32_t skip = 4U * (uint32_t)test_between(state, 0, 1), dimensions = planes > 1 ? 2 : rows > 1 ? 1 : 0;
    uint8_t *memory = stream.memory.regions[1].data;
    uint32_t pitches[2], layers[2], indices[3][5];
    for (uint32_t i = 0; i < 2; i++) {
        pitches[i] = length + (uint32_t)test_between(state, 0, 9);
        layers[i] = (most + 1) * pitches[i] + (uint32_t)test_between(state, 0, 9);
        stream_long(&stream, i == 0 ? REG_DMA0_SRC_STRIDE0 : REG_DMA0_DST_STRIDE0, pitches[i]);
        stream_long(&stream, i == 0 ? REG_DMA0_SRC_STRIDE1 : REG_DMA0_DST_STRIDE1, layers[i]);
    }
    for (uint32_t p = 0; p < planes; p++) {
        for (uint32_t r = 0; r < rows; r++) {
            indices[p][r] = way == 0 ? r : (r + (uint32_t)test_between(state, 0, 1) + p) % (most + 1);
            memcpy(memory + INDICES_AT + p * (rows * 4 + skip) + r * 4, &indices[p][r], 4);
        }
    }
    stream_short(&stream, REG_DMA0_SRC_REGION, 1U | dimensions << 9 | (way == 1 ? 1U << 11 : 0U));
    stream_short(&stream, REG_DMA0_DST_REGION, 1U | (way == 2 ? 1U << 11 : 0U));
    stream_short(&stream, REG_DMA0_IDX_REGION, 1);
    stream_short(&stream, REG_DMA0_SIZE0, rows);
    stream_short(&stream, REG_DMA0_SIZE1, planes);
    stream_long(&stream, REG_DMA0_SRC, IN_AT);
    stream_long(&stream, REG_DMA0_DST, U85_OUT_AT);
    stream_long(&stream, REG_DMA0_LEN, length);
    stream_long(&stream, REG_DMA0_IDX, INDICES_AT);
    stream_long(&stream, REG_DMA0_IDX_MAX, most);
    stream_long(&stream, REG_DMA0_IDX_SKIP1, skip);
    stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
    dtn_ethosu_event_t event;
    CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_OK);
    for (uint32_t p = 0; p < planes; p++) {
        /* If rows have one destination, the last one remains. */
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t last = r;
            for (uint32_t later = r; way == 2 && later < rows; later++) {
                last = indices[p][later] == indices[p][r] ? later : last;
            }
            const uint8_t *from = memory + IN_AT + p * layers[0] + (way == 1 ? indices[p][r] : last) * pitches[0];
            const uint8_t *to = memory + U85_OUT_AT + p * layers[1] + (way == 2 ? indices[p][r] : r) * pitches[1];
            CHECK(memcmp(from, to, length) == 0, "plane %u, row %u, way %u", p, r, way);
        }
    }
    stream_free(&stream);
}

/* An index beyond the largest is found when the copy runs; all rows up to the largest are in the region. */
static void test_index(uint64_t *state)
{
    for (uint32_t most = 6; most <= 7; most++) {
        const uint32_t index = 7;
        stream_t stream;
        stream_new(&stream, "ethos-u85-256", state);
        memcpy(stream.memory.regions[1].data + INDICES_AT, &index, sizeof index);
        stream_short(&stream, REG_DMA0_SRC_REGION, 1U | 1U << 11);
        stream_short(&stream, REG_DMA0_DST_REGION, 1);
        stream_short(&stream, REG_DMA0_IDX_REGION, 1);
        stream_short(&stream, REG_DMA0_SIZE0, 1);
        stream_long(&stream, REG_DMA0_SRC, STREAM_MEMORY - 7 * 16 - 8);
        stream_long(&stream, REG_DMA0_DST, 0);
        stream_long(&stream, REG_DMA0_LEN, 16);
        stream_long(&stream, REG_DMA0_SRC_STRIDE0, 16);
        stream_long(&stream, REG_DMA0_IDX, INDICES_AT);
        stream_long(&stream, REG_DMA0_IDX_MAX, most);
        stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
        dtn_ethosu_event_t event;
        CHECK_EQUAL(stream_run(&stream, &event), most == 6 ? DTN_ETHOSU_INDEX : DTN_ETHOSU_BOUNDS);
        CHECK_EQUAL(event.detail, most == 6 ? 7 : STREAM_MEMORY - 7 * 16 - 8);
        stream_free(&stream);
    }
}

/* A copy of one row, which has no use for a number of rows: none is set, as by older releases of Vela, or any is. Rows
 * by indices and rows of two dimensions have to have one. */
static void test_one_row(uint64_t *state)
{
    static const struct {
        bool is_set;
        uint32_t rows, extra;
        dtn_ethosu_fault_t fault;
    } cases[] = {{false, 0, 0, DTN_ETHOSU_OK},
                 {true, 0, 0, DTN_ETHOSU_OK},
                 {true, 9, 0, DTN_ETHOSU_OK},
                 {false, 0, 1U << 9, DTN_ETHOSU_UNSET},
                 {false, 0, 1U << 11, DTN_ETHOSU_UNSET}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stream_t stream;
        stream_new(&stream, "ethos-u85-256", state);
        stream_short(&stream, REG_DMA0_SRC_REGION, cases[i].extra);
        stream_short(&stream, REG_DMA0_DST_REGION, 1);
        if (cases[i].is_set) {
            stream_short(&stream, REG_DMA0_SIZE0, cases[i].rows);
        }
        stream_long(&stream, REG_DMA0_SRC, IN_AT);
        stream_long(&stream, REG_DMA0_DST, U85_OUT_AT);
        stream_long(&stream, REG_DMA0_LEN, 100);
        stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
        dtn_ethosu_event_t event;
        CHECK_EQUAL(stream_run(&stream, &event), cases[i].fault);
        CHECK_EQUAL(event.detail, cases[i].fault == DTN_ETHOSU_OK ? 0 : REG_DMA0_SIZE0);
        const uint8_t *from = stream.memory.regions[0].data + IN_AT, *to = stream.memory.regions[1].data + U85_OUT_AT;
        CHECK((memcmp(from, to, 100) == 0) == (cases[i].fault == DTN_ETHOSU_OK), "case %u", (unsigned)i);
        stream_free(&stream);
    }
}

/* Rows of no bytes: each would take its time, and none would count. And targets with dimensions of their own. */
static void test_refused_copies(uint64_t *state)
{
    for (uint32_t length = 0; length <= 1; length++) {
        stream_t stream;
        stream_new(&stream, "ethos-u85-256", state);
        for (uint32_t opcode = REG_DMA0_SRC; opcode <= REG_DMA0_DST_STRIDE1; opcode++) {
            stream_long(&stream, opcode, 0);
        }
        stream_short(&stream, REG_DMA0_SRC_REGION, 1U | 1U << 9);
        stream_short(&stream, REG_DMA0_DST_REGION, 1U | length << 10);
        stream_short(&stream, REG_DMA0_SIZE0, 0xFFFF);
        stream_long(&stream, REG_DMA0_LEN, length);
        stream_op(&stream, DTN_ETHOSU_OP_DMA_START, 0);
        dtn_ethosu_event_t event;
        CHECK_EQUAL(stream_run(&stream, &event), DTN_ETHOSU_FIELD);
        CHECK_EQUAL(event.detail, length == 0 ? (uint32_t)REG_DMA0_LEN : (uint32_t)REG_DMA0_DST_REGION);
        stream_free(&stream);
    }
}

/* One random call of each. */
static void test_seed(uint64_t *state)
{
    test_copy(state);
}

int main(int count, char **arguments)
{
    uint64_t any = 1;
    test_index(&any);
    test_one_row(&any);
    test_refused_copies(&any);
    each_seed(count, arguments, test_seed);
    return test_result();
}
