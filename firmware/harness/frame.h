/**
 * @file
 * Frames of the serial line, spec/harness.md: COBS, ended by a zero byte, with a CRC-32 in their last 4 bytes.
 */
#ifndef DTN_HARNESS_FRAME_H
#define DTN_HARNESS_FRAME_H

#include "deuteron/harness.h"

/** Result of a byte. */
typedef enum { DTN_FRAME_OPEN, DTN_FRAME_COMPLETE, DTN_FRAME_DAMAGED } dtn_frame_state_t;

/** Decodes a byte that has arrived. After DTN_FRAME_COMPLETE, `bytes` has `count` bytes without the CRC until
 * `dtn_frame_clear`; after both other results the frame is ready for the next byte. */
dtn_frame_state_t dtn_frame_put(dtn_frame_t *frame, uint8_t byte);

/** Makes the frame ready for the next one. */
void dtn_frame_clear(dtn_frame_t *frame);

/** Appends the CRC to the frame's `count` bytes, at most header and block, and sends them; the rest is dropped when the
 * port takes no more. Clears the frame. */
void dtn_frame_send(dtn_frame_t *frame);

#endif /* DTN_HARNESS_FRAME_H */
