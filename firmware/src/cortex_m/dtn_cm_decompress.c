#include "cortex_m.h"

/*
 * The forms are described at `dtn_cm_decompress` in deuteron/cortex_m.h. A Huffman code is canonical: codes of one
 * length count up in the order of their bytes, and continue the shorter ones. A table has the byte and the length of
 * each code of at most FAST bits, for all values of the next FAST bits. Longer codes, which are rare, are found by the
 * first code of each length.
 */

enum { STREAM, SCRATCH, OUTPUT };
enum { PALETTE_FORM = 0, HUFFMAN_FORM = 1 };
enum { PALETTE = 16, SYMBOLS = 256, LENGTHS = SYMBOLS / 2, LONGEST = 15, FAST = 8 };

typedef struct {
    uint16_t fast[1 << FAST]; /* byte << 4 | length of its code; 0 where the code is longer */
    uint8_t sorted[SYMBOLS];  /* bytes in the order of their codes */
} tables_t;

/* The codes of each length: how many there are, the first, and its place in `sorted`. */
typedef struct {
    uint16_t count[LONGEST + 1];
    uint16_t first[LONGEST + 1];
    uint16_t place[LONGEST + 1];
} codes_t;

static uint32_t length_of(const uint8_t *lengths, uint32_t symbol)
{
    return (uint32_t)lengths[symbol / 2] >> (symbol % 2 * 4) & 15U;
}

/* Counts the codes of each length; false unless every sequence of bits begins with one code. */
static bool count_codes(const uint8_t *lengths, codes_t *codes)
{
    for (uint32_t length = 0; length <= LONGEST; length++) {
        codes->count[length] = 0;
    }
    for (uint32_t symbol = 0; symbol < SYMBOLS; symbol++) {
        codes->count[length_of(lengths, symbol)]++;
    }
    codes->count[0] = 0;
    uint32_t code = 0, place = 0;
    for (uint32_t length = 1; length <= LONGEST; length++) {
        code *= 2;
        codes->first[length] = (uint16_t)code;
        codes->place[length] = (uint16_t)place;
        code += codes->count[length];
        place += codes->count[length];
        if (code > UINT32_C(1) << length) {
            return false;
        }
    }
    return code == UINT32_C(1) << LONGEST;
}

static void fill_tables(const uint8_t *lengths, const codes_t *codes, tables_t *tables)
{
    uint16_t next[LONGEST + 1];
    for (uint32_t length = 0; length <= LONGEST; length++) {
        next[length] = 0;
    }
    for (uint32_t i = 0; i < 1 << FAST; i++) {
        tables->fast[i] = 0;
    }
    for (uint32_t symbol = 0; symbol < SYMBOLS; symbol++) {
        const uint32_t length = length_of(lengths, symbol);
        if (length == 0) {
            continue;
        }
        const uint32_t at = next[length]++;
        tables->sorted[codes->place[length] + at] = (uint8_t)symbol;
        if (length <= FAST) {
            const uint32_t same = UINT32_C(1) << (FAST - length);
            const uint32_t start = (codes->first[length] + at) * same;
            for (uint32_t i = 0; i < same; i++) {
                tables->fast[start + i] = (uint16_t)(symbol << 4 | length);
            }
        }
    }
}

/* Returns the entry of a code of more than FAST bits. Every sequence of bits begins with a code. */
static uint32_t find_long(const codes_t *codes, const tables_t *tables, uint32_t word)
{
    uint32_t length = FAST, at;
    do {
        length++;
        at = (word >> (32 - length)) - codes->first[length];
    } while (length < LONGEST && at >= codes->count[length]);
    return (uint32_t)tables->sorted[codes->place[length] + at] << 4 | length;
}

/*
 * Writes `count` bytes; false if the stream does not end with their codes. The next `bits` bits are at the top of
 * `word`, with zeros behind them: at least as many as the longest code has, or all that there are.
 */
static bool decode(const uint8_t *next, const uint8_t *end, const codes_t *codes, const tables_t *tables, uint8_t *out,
                   uint32_t count)
{
    uint32_t word = 0, bits = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (bits <= 16) {
            if (end - next >= 2) {
                word |= ((uint32_t)next[0] << 8 | next[1]) << (16 - bits);
                next += 2;
                bits += 16;
            } else if (next != end) {
                word |= (uint32_t)*next++ << (24 - bits);
                bits += 8;
            }
        }
        uint32_t entry = tables->fast[word >> (32 - FAST)];
        if (entry == 0) {
            entry = find_long(codes, tables, word);
        }
        const uint32_t length = entry & 15U;
        if (length > bits) {
            return false;
        }
        word <<= length;
        bits -= length;
        out[i] = (uint8_t)(entry >> 4);
    }
    return next == end && bits < 8;
}

static bool decompress_huffman(const dtn_tensor_t *stream, void *scratch, const dtn_tensor_t *output)
{
    const uint8_t *data = stream->data;
    tables_t *tables = scratch;
    codes_t codes;
    if ((uintptr_t)scratch % sizeof(uint16_t) != 0 || !count_codes(data, &codes)) {
        return false;
    }
    fill_tables(data, &codes, tables);
    return decode(data + LENGTHS, data + stream->bytes, &codes, tables, output->data, output->bytes);
}

static void decompress_palette(const dtn_tensor_t *stream, const dtn_tensor_t *output)
{
    const uint8_t *palette = stream->data, *indices = palette + PALETTE;
    uint8_t *out = output->data;
    for (uint32_t i = 0; i < output->bytes / 2; i++) {
        out[2 * i] = palette[indices[i] & 15U];
        out[2 * i + 1] = palette[indices[i] >> 4];
    }
    if (output->bytes % 2 != 0) {
        out[output->bytes - 1] = palette[indices[output->bytes / 2] & 15U];
    }
}

static bool is_valid(const dtn_operator_call_t *call)
{
    if (!DTN_CM_IS_CALL(call, 1, 2, dtn_cm_decompress_params_t) || !dtn_cm_are(call->values, 2, DTN_TYPE_U8)) {
        return false;
    }
    const int32_t form = DTN_CM_PARAMS(call, dtn_cm_decompress_params_t)->form;
    const uint32_t bytes = call->values[STREAM].bytes, count = call->values[OUTPUT].bytes;
    if (form == PALETTE_FORM) {
        return bytes == PALETTE + count / 2 + count % 2;
    }
    return form == HUFFMAN_FORM && bytes >= LENGTHS && call->values[SCRATCH].bytes >= sizeof(tables_t);
}

int32_t dtn_cm_decompress(const dtn_operator_call_t *call, dtn_phase_t phase)
{
    if (phase == DTN_PHASE_CHECK) {
        return is_valid(call) ? DTN_OK : DTN_REASON_OPERATOR;
    }
    const dtn_tensor_t *stream = &call->values[STREAM], *output = &call->values[OUTPUT];
    if (DTN_CM_PARAMS(call, dtn_cm_decompress_params_t)->form == PALETTE_FORM) {
        decompress_palette(stream, output);
        return DTN_OK;
    }
    return decompress_huffman(stream, call->values[SCRATCH].data, output) ? DTN_OK : DTN_REASON_OPERATOR;
}
