#include "frame.h"

#include <string.h>

#include "deuteron/crc32.h"

/* Longest block of COBS: its code, 255, says that no zero follows. */
#define LONGEST 254U

void dtn_frame_clear(dtn_frame_t *frame)
{
    frame->count = 0;
    frame->left = 0;
    frame->adds_zero = false;
    frame->has_bytes = false;
}

/* Counts also the bytes that do not fit. */
static void append(dtn_frame_t *frame, uint8_t byte)
{
    if (frame->count < sizeof frame->bytes) {
        frame->bytes[frame->count] = byte;
    }
    if (frame->count <= sizeof frame->bytes) {
        frame->count++;
    }
}

/* At the end of a frame: checks its length and its CRC, which it removes. */
static bool is_whole(dtn_frame_t *frame)
{
    if (frame->left != 0 || frame->count > sizeof frame->bytes ||
        frame->count < DTN_HARNESS_HEADER_BYTES + DTN_HARNESS_CRC_BYTES) {
        return false;
    }
    uint32_t sent;
    frame->count -= DTN_HARNESS_CRC_BYTES;
    memcpy(&sent, frame->bytes + frame->count, sizeof sent);
    return sent == dtn_crc32(0, frame->bytes, frame->count);
}

dtn_frame_state_t dtn_frame_put(dtn_frame_t *frame, uint8_t byte)
{
    if (byte == 0) {
        if (!frame->has_bytes) {
            return DTN_FRAME_OPEN; /* the zero before a frame */
        }
        if (is_whole(frame)) {
            return DTN_FRAME_COMPLETE;
        }
        dtn_frame_clear(frame);
        return DTN_FRAME_DAMAGED;
    }
    if (frame->left != 0) {
        frame->left--;
        append(frame, byte);
        return DTN_FRAME_OPEN;
    }
    if (frame->adds_zero) {
        append(frame, 0);
    }
    frame->has_bytes = true;
    frame->left = (uint8_t)(byte - 1);
    frame->adds_zero = byte != LONGEST + 1;
    return DTN_FRAME_OPEN;
}

static bool send_encoded(const uint8_t *bytes, uint32_t count)
{
    uint32_t at = 0;
    bool is_last = false;
    while (!is_last) {
        uint32_t length = 0;
        while (length < LONGEST && at + length < count && bytes[at + length] != 0) {
            length++;
        }
        if (!dtn_port_putc((uint8_t)(length + 1))) {
            return false;
        }
        for (uint32_t i = 0; i < length; i++) {
            if (!dtn_port_putc(bytes[at + i])) {
                return false;
            }
        }
        at += length;
        is_last = at == count;
        if (!is_last && length < LONGEST) {
            at++; /* the zero that the block stands for */
        }
    }
    return true;
}

void dtn_frame_send(dtn_frame_t *frame)
{
    uint32_t crc = dtn_crc32(0, frame->bytes, frame->count);
    memcpy(frame->bytes + frame->count, &crc, sizeof crc);
    if (dtn_port_putc(0) && send_encoded(frame->bytes, frame->count + DTN_HARNESS_CRC_BYTES)) {
        (void)dtn_port_putc(0);
    }
    dtn_frame_clear(frame);
}
