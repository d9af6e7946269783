/**
 * @file
 * Helpers of the tests of an Ethos-U85: maps, rounding, and transposed or reversed outputs.
 */
#pragma once

#include "../src/ethosu/chain_buffers.h"
#include "ethosu_stream.h"

/** Where outputs are. */
enum { U85_OUT_AT = 0x8000 };

/** How an output of rows, columns and channels is turned or reversed: which axes it has, and fields of its precision.
 */
typedef struct {
    int32_t axes[3];
    int32_t reversed; /**< an axis; 3 for none */
    uint32_t fields;
} u85_turn_t;

/** The name of one of the configurations. */
const char *u85_any_config(uint64_t *state);

/** A map of these sizes, whose type, zero point and format are drawn. */
test_map_t u85_any_map(uint64_t *state, uint32_t base, int32_t height, int32_t width, int32_t depth, uint32_t bytes);

/** value * scale / 2^shift, rounded as an Ethos-U85's register says; shifts of 0 to 46, products below 2^62. */
int64_t u85_scaled(int64_t value, int64_t scale, uint32_t shift, uint32_t rounding);

/** With the zero point, held within the output's type. */
int32_t u85_finished(const test_map_t *out, int64_t value);

/** One of the ways in which outputs are turned or reversed; half of them are not. */
u85_turn_t u85_any_turn(uint64_t *state);

/** The output as it stands in memory, of what has these sizes before it is turned. */
test_map_t u85_turned_map(uint64_t *state, const u85_turn_t *turn, const int32_t *sizes, uint32_t bytes);

/** An element of it, by its place before it was turned. */
int64_t u85_turned_value(const stream_t *stream, const u85_turn_t *turn, const test_map_t *out, int32_t y, int32_t x,
                         int32_t c);

/** Appends the registers of an output and of an activation that does nothing. */
void u85_put_output(stream_t *stream, const u85_turn_t *turn, const int32_t *sizes, const test_map_t *out,
                    bool is_global);

/** Appends a scale. */
void u85_put_scale(stream_t *stream, uint32_t opcode, uint32_t scale, uint32_t shift, uint32_t rounding);

/** Appends the registers of a kernel without padding, of stride 1, over an input of this depth. */
void u85_put_window(stream_t *stream, int32_t depth, int32_t kernel_h, int32_t kernel_w);
